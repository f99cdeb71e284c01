/* track.h - [pure] one clock as seen over time: what its last few samples say together of now, and
 * how fast it drifts.
 *
 * A sample grows old: the two clocks may have drifted apart since, by at most the rate that the
 * caller names (TRACK_RATE_PPB and what the kernels say they correct).  Aged so, each sample still
 * holds the truth, so their intersection does: on a path whose delay varies it proves more than the
 * newest alone.  Samples that do not meet any more say that a clock moved faster than assumed (a
 * daemon slews it): then only the newest counts.
 *
 * Offsets are from the asker's clock.  After a step of either clock: track_reset(). */
#ifndef SNOWFLEET_COORDINATOR_TRACK_H
#define SNOWFLEET_COORDINATOR_TRACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/skew.h"

#define TRACK_RATE_PPB INT64_C(200000)       /* 200 ppm: twice what a crystal is bad for */
#define TRACK_RECENT 8                       /* samples that are intersected */
#define TRACK_ANCHORS 16                     /* samples that drift is measured from ... */
#define TRACK_ANCHOR_NS INT64_C(20000000000) /* ... at least 20 s apart, hence over five minutes */

struct track_sample {
    struct skew skew;
    int64_t boot_ns; /* by the asker's boot clock, when the question was sent */
};

struct track {
    struct track_sample recent[TRACK_RECENT]; /* the newest last, as below */
    size_t n_recent;
    struct track_sample anchors[TRACK_ANCHORS];
    size_t n_anchors;
};

/* Positive: it gains on the asker's clock.  An average over the time since the anchor. */
struct drift {
    double ppm, bound_ppm;
};

void track_reset(struct track *track);

/* Takes in a sample, not older than those before.  rate_ppb: 0.., by how much the two clocks may
 * drift apart.  Returns false when it contradicts them, which are forgotten then. */
bool track_add(struct track *track, const struct track_sample *sample, int64_t rate_ppb);

/* What is known of the clock at boot_ns, which is not before the newest sample; false without any. */
bool track_at(const struct track *track, int64_t boot_ns, int64_t rate_ppb, struct skew *skew);

/* The narrowest that the anchors give; false when less than a second has been watched. */
bool track_drift(const struct track *track, struct drift *drift);

#endif
