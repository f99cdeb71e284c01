#include "common/snowflake.h"

#include <assert.h>

#define MACHINE_ID_SHIFT 12
#define TIMESTAMP_SHIFT 22

static int64_t compose(uint64_t timestamp, uint16_t machine_id, uint16_t sequence) {
    assert(timestamp <= SNOWFLAKE_TIMESTAMP_MAX);
    return (int64_t)(timestamp << TIMESTAMP_SHIFT | (uint64_t)machine_id << MACHINE_ID_SHIFT |
                     sequence);
}

void snowflake_init(struct snowflake *gen, uint64_t epoch_ms, uint16_t machine_id,
                    uint64_t used_up_ms, uint64_t limit_ms, enum snowflake_start start) {
    assert(epoch_ms <= UINT64_MAX - SNOWFLAKE_TIMESTAMP_MAX);
    assert(machine_id <= SNOWFLAKE_MACHINE_ID_MAX);
    assert(used_up_ms < UINT64_MAX && used_up_ms + 1 >= epoch_ms);
    assert(used_up_ms <= limit_ms);
    *gen = (struct snowflake){
        .epoch_ms = epoch_ms,
        .last_wall_ms = used_up_ms,
        .limit_ms = limit_ms,
        .machine_id = machine_id,
        .sequence = SNOWFLAKE_SEQUENCE_MAX,
        .start = start,
    };
}

/* The first sequence number of the fresh millisecond now_ms. */
static uint16_t first_sequence(struct snowflake *gen, uint64_t now_ms) {
    /* Whoever used up the last millisecond wants all of this one too. */
    int under_load = gen->sequence == SNOWFLAKE_SEQUENCE_MAX && now_ms - gen->last_wall_ms == 1;

    if (gen->start == SNOWFLAKE_START_ZERO || under_load)
        return 0;
    return gen->next_start++;
}

enum status snowflake_take(struct snowflake *gen, uint64_t now_ms, uint32_t want,
                           struct snowflake_run *run) {
    uint32_t first, left;

    assert(want >= 1);
    /* The clock is judged before anything changes: a step back must leave the sequence alone, or
     * the same numbers come again once the clock is back where it was. */
    if (now_ms < gen->epoch_ms || now_ms > snowflake_end_ms(gen->epoch_ms))
        return STATUS_CLOCK_RANGE;
    if (now_ms < gen->last_wall_ms)
        return STATUS_CLOCK_BACK;
    if (now_ms > gen->limit_ms)
        return STATUS_STARVED;
    if (now_ms > gen->last_wall_ms) {
        first = first_sequence(gen, now_ms);
    } else {
        if (gen->sequence >= SNOWFLAKE_SEQUENCE_MAX)
            return STATUS_BUSY;
        first = gen->sequence + 1u;
    }
    left = SNOWFLAKE_SEQUENCE_MAX - first + 1;
    if (want > left)
        want = left;
    assert(now_ms > gen->last_wall_ms || first > gen->sequence);
    assert(now_ms <= gen->limit_ms && gen->machine_id <= SNOWFLAKE_MACHINE_ID_MAX);
    gen->last_wall_ms = now_ms;
    gen->sequence = (uint16_t)(first + want - 1);
    assert(gen->sequence <= SNOWFLAKE_SEQUENCE_MAX);
    run->first = compose(now_ms - gen->epoch_ms, gen->machine_id, (uint16_t)first);
    run->count = want;
    return STATUS_OK;
}

enum status snowflake_next(struct snowflake *gen, uint64_t now_ms, int64_t *id) {
    struct snowflake_run run;
    enum status status = snowflake_take(gen, now_ms, 1, &run);

    if (status == STATUS_OK)
        *id = run.first;
    return status;
}

struct snowflake_parts snowflake_decode(int64_t id, uint64_t epoch_ms) {
    assert(id >= 0);
    return (struct snowflake_parts){
        .timestamp_ms = epoch_ms + ((uint64_t)id >> TIMESTAMP_SHIFT),
        .machine_id = (uint16_t)((uint64_t)id >> MACHINE_ID_SHIFT & SNOWFLAKE_MACHINE_ID_MAX),
        .sequence = (uint16_t)((uint64_t)id & SNOWFLAKE_SEQUENCE_MAX),
    };
}

enum status snowflake_range(uint64_t wall_ms, uint64_t epoch_ms, int64_t *smallest,
                            int64_t *largest) {
    if (wall_ms < epoch_ms || wall_ms > snowflake_end_ms(epoch_ms))
        return STATUS_CLOCK_RANGE;
    *smallest = compose(wall_ms - epoch_ms, 0, 0);
    *largest = compose(wall_ms - epoch_ms, SNOWFLAKE_MACHINE_ID_MAX, SNOWFLAKE_SEQUENCE_MAX);
    return STATUS_OK;
}
