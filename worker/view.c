#include "worker/view.h"

#include <string.h>

const char *worker_state_name(enum worker_state state) {
    switch (state) {
    case WORKER_STARTING: return "STARTING";
    case WORKER_CLAIMING: return "CLAIMING";
    case WORKER_SERVING: return "SERVING";
    case WORKER_STARVED: return "STARVED";
    case WORKER_DRAINING: return "DRAINING";
    case WORKER_HALTED: return "HALTED";
    }
    return "?";
}

void view_init(struct worker_view *view) {
    *view = (struct worker_view){0};
    clock_claim_kernel(&view->clock.claim, NULL, "", 0);
}

void view_board_init(struct view_board *board) {
    memset(board, 0, sizeof *board);
    view_init(&board->view);
    pthread_mutex_init(&board->mutex, NULL);
}

void view_board_done(struct view_board *board) {
    pthread_mutex_destroy(&board->mutex);
}

void view_publish(struct view_board *board, const struct worker_view *view, uint64_t boot_ms) {
    pthread_mutex_lock(&board->mutex);
    board->view = *view;
    board->view.published_boot_ms = boot_ms;
    pthread_mutex_unlock(&board->mutex);
}

void view_read(struct view_board *board, struct worker_view *view) {
    pthread_mutex_lock(&board->mutex);
    *view = board->view;
    pthread_mutex_unlock(&board->mutex);
}

bool view_loop_serves(const struct loop_gauges *gauges, uint64_t now_ms,
                      uint64_t max_backward_wait_ms) {
    uint64_t limit_ms = atomic_load_explicit(&gauges->limit_ms, memory_order_acquire);
    uint64_t newest_ms = atomic_load_explicit(&gauges->newest_ms, memory_order_relaxed);
    bool behind = newest_ms > now_ms && newest_ms - now_ms > max_backward_wait_ms;

    return limit_ms != 0 && limit_ms >= now_ms && !behind;
}

enum machine_state { MACHINE_CLAIMING, MACHINE_SERVING, MACHINE_STARVED, MACHINE_CLOSED };

static enum machine_state machine_state(const struct hold_view *hold, uint64_t now_ms) {
    switch (hold->phase) {
    case HOLD_SEEKING:
    case HOLD_CLAIMING:
    case HOLD_HALTED: return MACHINE_CLAIMING;
    case HOLD_CLOSING:
    case HOLD_RELEASING:
    case HOLD_RELEASED: return MACHINE_CLOSED;
    case HOLD_OPEN: break;
    }
    /* Claimed, and the clock has yet to pass what the last holder may have used. */
    if (!hold->has_generation || now_ms <= hold->used_up_ms)
        return MACHINE_CLAIMING;
    return now_ms > hold->limit_ms ? MACHINE_STARVED : MACHINE_SERVING;
}

const char *view_machine_state(const struct view_machine *machine, uint64_t now_ms) {
    static const char *const names[] = {
        [MACHINE_CLAIMING] = "CLAIMING",
        [MACHINE_SERVING] = "SERVING",
        [MACHINE_STARVED] = "STARVED",
        [MACHINE_CLOSED] = "CLOSED",
    };

    return names[machine_state(&machine->hold, now_ms)];
}

enum worker_state view_state(const struct worker_view *view, uint64_t now_ms) {
    bool starved = false;

    if (view->state == WORKER_STARTING || view->state == WORKER_DRAINING ||
        view->state == WORKER_HALTED)
        return view->state;
    for (size_t i = 0; i < view->n_machines; i++) {
        enum machine_state state = machine_state(&view->machines[i].hold, now_ms);

        if (state == MACHINE_SERVING)
            return WORKER_SERVING;
        starved = starved || state == MACHINE_STARVED;
    }
    return starved ? WORKER_STARVED : WORKER_CLAIMING;
}

uint64_t view_runway_ms(const struct worker_view *view, uint64_t now_ms) {
    uint64_t longest_ms = 0;

    for (size_t i = 0; i < view->n_machines; i++) {
        const struct hold_view *hold = &view->machines[i].hold;

        if (machine_state(hold, now_ms) == MACHINE_SERVING && hold->limit_ms - now_ms > longest_ms)
            longest_ms = hold->limit_ms - now_ms;
    }
    return longest_ms;
}
