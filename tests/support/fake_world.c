#include "tests/support/fake_world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void fake_world_init(struct fake_world *world, uint64_t seed) {
    *world = (struct fake_world){.random = seed};
}

void fake_world_done(struct fake_world *world) {
    free(world->heap);
    *world = (struct fake_world){0};
}

static bool earlier(const struct fake_event *a, const struct fake_event *b) {
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void swap(struct fake_event *a, struct fake_event *b) {
    struct fake_event kept = *a;

    *a = *b;
    *b = kept;
}

void fake_world_at(struct fake_world *world, uint64_t at_us, fake_event_fn *fn, void *arg,
                   uint64_t tag) {
    size_t at = world->n;

    if (world->n == world->room) {
        world->room = world->room ? world->room * 2 : 64;
        world->heap = realloc(world->heap, world->room * sizeof(*world->heap));
        assert(world->heap);
    }
    world->heap[world->n++] = (struct fake_event){
        .at_us = at_us > world->now_us ? at_us : world->now_us,
        .order = fake_random(world),
        .fn = fn,
        .arg = arg,
        .tag = tag,
    };
    while (at > 0 && earlier(&world->heap[at], &world->heap[(at - 1) / 2])) {
        swap(&world->heap[at], &world->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static struct fake_event take_earliest(struct fake_world *world) {
    struct fake_event event = world->heap[0];
    size_t at = 0;

    world->heap[0] = world->heap[--world->n];
    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < world->n && earlier(&world->heap[child + 1], &world->heap[child]))
            child++;
        if (child >= world->n || !earlier(&world->heap[child], &world->heap[at]))
            return event;
        swap(&world->heap[at], &world->heap[child]);
        at = child;
    }
}

bool fake_world_step(struct fake_world *world, uint64_t until_us) {
    struct fake_event event;

    if (!world->n || world->heap[0].at_us > until_us) {
        if (world->now_us < until_us)
            world->now_us = until_us;
        return false;
    }
    event = take_earliest(world);
    world->now_us = event.at_us;
    world->events_total++;
    event.fn(event.arg, event.tag);
    return true;
}

/* SplitMix64: any seed is as good as another. */
uint64_t fake_random(struct fake_world *world) {
    uint64_t z = world->random += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void fake_random_bytes(struct fake_world *world, void *bytes, size_t n) {
    unsigned char *out = bytes;

    while (n > 0) {
        uint64_t word = fake_random(world);
        size_t part = n < sizeof(word) ? n : sizeof(word);

        memcpy(out, &word, part);
        out += part;
        n -= part;
    }
}

uint64_t fake_below(struct fake_world *world, uint64_t n) {
    assert(n > 0);
    return fake_random(world) % n;
}

uint64_t fake_between(struct fake_world *world, uint64_t least, uint64_t most) {
    assert(least <= most);
    return least + fake_below(world, most - least + 1);
}

bool fake_chance(struct fake_world *world, unsigned per_mille) {
    return fake_below(world, 1000) < per_mille;
}
