#include "coordinator/track.h"

#include <assert.h>
#include <string.h>

#define BOUND_MAX_NS (INT64_MAX / 2) /* offsets are within the same, so that sums below fit */
#define PPB INT64_C(1000000000)
#define DRIFT_MIN_NS PPB

struct interval {
    int64_t low_ns, high_ns;
};

/* How far the clocks may have drifted apart in that time. */
static int64_t drifted_ns(int64_t elapsed_ns, int64_t rate_ppb) {
    __int128 most = ((__int128)elapsed_ns * rate_ppb + PPB - 1) / PPB;

    assert(elapsed_ns >= 0 && rate_ppb >= 0);
    return most > BOUND_MAX_NS ? BOUND_MAX_NS : (int64_t)most;
}

static struct interval interval_at(const struct track_sample *sample, int64_t boot_ns,
                                   int64_t rate_ppb) {
    int64_t grown_ns = drifted_ns(boot_ns - sample->boot_ns, rate_ppb);
    int64_t bound_ns = sample->skew.bound_ns < BOUND_MAX_NS - grown_ns
                           ? sample->skew.bound_ns + grown_ns
                           : BOUND_MAX_NS;

    return (struct interval){sample->skew.offset_ns - bound_ns, sample->skew.offset_ns + bound_ns};
}

static struct interval shared_at(const struct track *track, int64_t boot_ns, int64_t rate_ppb) {
    struct interval shared = {-INT64_MAX, INT64_MAX};

    for (size_t i = 0; i < track->n_recent; i++) {
        struct interval each = interval_at(&track->recent[i], boot_ns, rate_ppb);

        if (each.low_ns > shared.low_ns)
            shared.low_ns = each.low_ns;
        if (each.high_ns < shared.high_ns)
            shared.high_ns = each.high_ns;
    }
    return shared;
}

void track_reset(struct track *track) {
    *track = (struct track){.n_recent = 0};
}

/* Appends; when the list is full, the one at index gives way. */
static void append(struct track_sample *list, size_t *n, size_t max, size_t index,
                   const struct track_sample *sample) {
    if (*n == max) {
        memmove(&list[index], &list[index + 1], (max - 1 - index) * sizeof *list);
        (*n)--;
    }
    list[(*n)++] = *sample;
}

bool track_add(struct track *track, const struct track_sample *sample, int64_t rate_ppb) {
    struct interval before, new = interval_at(sample, sample->boot_ns, rate_ppb);
    bool agrees = true;

    if (track->n_recent > 0) {
        assert(sample->boot_ns >= track->recent[track->n_recent - 1].boot_ns);
        before = shared_at(track, sample->boot_ns, rate_ppb);
        agrees = before.low_ns <= new.high_ns &&new.low_ns <= before.high_ns;
        if (!agrees)
            track_reset(track);
    }
    append(track->recent, &track->n_recent, TRACK_RECENT, 0, sample);
    if (track->n_anchors == 0 ||
        sample->boot_ns - track->anchors[track->n_anchors - 1].boot_ns >= TRACK_ANCHOR_NS)
        append(track->anchors, &track->n_anchors, TRACK_ANCHORS, 0, sample);
    return agrees;
}

bool track_at(const struct track *track, int64_t boot_ns, int64_t rate_ppb, struct skew *skew) {
    struct interval shared;
    int64_t width_ns;

    if (track->n_recent == 0)
        return false;
    shared = shared_at(track, boot_ns, rate_ppb);
    /* Never empty: each was added only when it met those before, and ageing widens all alike. */
    assert(shared.low_ns <= shared.high_ns);
    /* Of the one sample whose low end it is, the width is at most twice BOUND_MAX_NS. */
    width_ns = shared.high_ns - shared.low_ns;
    skew->offset_ns = shared.low_ns + width_ns / 2;
    skew->bound_ns = width_ns / 2 + width_ns % 2;
    return true;
}

bool track_drift(const struct track *track, struct drift *drift) {
    const struct track_sample *newest;
    bool found = false;

    if (track->n_recent == 0)
        return false;
    newest = &track->recent[track->n_recent - 1];
    for (size_t i = 0; i < track->n_anchors; i++) {
        const struct track_sample *anchor = &track->anchors[i];
        int64_t elapsed_ns = newest->boot_ns - anchor->boot_ns;
        double moved_ns = (double)newest->skew.offset_ns - (double)anchor->skew.offset_ns;
        double bound_ns = (double)newest->skew.bound_ns + (double)anchor->skew.bound_ns;
        double bound_ppm;

        if (elapsed_ns < DRIFT_MIN_NS)
            continue;
        bound_ppm = bound_ns / (double)elapsed_ns * 1e6;
        if (!found || bound_ppm < drift->bound_ppm)
            *drift = (struct drift){moved_ns / (double)elapsed_ns * 1e6, bound_ppm};
        found = true;
    }
    return found;
}
