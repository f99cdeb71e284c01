#include "worker/facts.h"

#include <stdio.h>
#include <string.h>

#include "worker/args.h"

void facts_add_reason(struct view_board *board, struct service_error *err) {
    struct worker_view view;
    size_t len = strlen(err->message);

    view_read(board, &view);
    if (view.state != WORKER_SERVING && view.reason[0])
        snprintf(err->message + len, sizeof err->message - len, ": %s", view.reason);
}

static bool any_loop_serves(const struct worker_view *view, uint64_t now_ms,
                            uint64_t max_backward_wait_ms) {
    for (size_t i = 0; i < view->n_machines; i++)
        if (view_loop_serves(view->machines[i].gauges, now_ms, max_backward_wait_ms))
            return true;
    return false;
}

bool facts_ready(struct view_board *board, const struct service *service, bool draining,
                 uint64_t now_ms, struct worker_view *view, struct service_error *why) {
    view_read(board, view);
    *why = (struct service_error){.retry_after_ms = 1000};
    if (draining)
        view->state = WORKER_DRAINING; /* the order may be here before the view */
    if (view_state(view, now_ms) != WORKER_SERVING)
        return false;
    if (service_ready(service, now_ms, why))
        return true;
    /* What refuses the clock here refuses it everywhere. */
    return !service->clock.refuses && any_loop_serves(view, now_ms, service->max_backward_wait_ms);
}

bool facts_epoch(const struct service *service, const struct worker_view *view, uint64_t *epoch_ms,
                 struct service_error *err) {
    if (service->serving) {
        *epoch_ms = service->generation.ids.epoch_ms;
    } else if (view->has_meta) {
        *epoch_ms = view->meta.epoch_ms;
    } else if (view->standalone) {
        *epoch_ms = view->standalone_epoch_ms;
    } else {
        *err = (struct service_error){.code = "UNAVAILABLE",
                                      .message = "the epoch is not known before etcd was read",
                                      .retry_after_ms = 1000};
        return false;
    }
    return true;
}

static const char *holder_of(const struct worker_view *view, uint16_t machine_id) {
    for (size_t i = 0; i < view->n_machines; i++) {
        const struct hold_view *hold = &view->machines[i].hold;

        if (hold->has_generation && hold->machine_id == machine_id)
            return view->identity;
    }
    return NULL;
}

bool facts_decode(struct view_board *board, const struct service *service,
                  struct public_codec *codec, struct id_value *id, uint64_t now_ms,
                  struct facts_decoded *decoded, struct service_error *err) {
    uint64_t epoch_ms = 0;
    struct error why;

    if (id->kind == ID_READ_PUBLIC && !public_args_check(codec, err))
        return false;
    if (id_open(codec, id, &why) != STATUS_OK)
        return args_refuse(err, "id", "id %s", why.message);
    view_read(board, &decoded->view);
    if (id_is_snowflake(id) && !facts_epoch(service, &decoded->view, &epoch_ms, err))
        return false;
    id_decode(id, epoch_ms, now_ms, &decoded->facts);
    decoded->holder = decoded->facts.is_snowflake
                          ? holder_of(&decoded->view, decoded->facts.machine_id)
                          : NULL;
    return true;
}

bool facts_encode(struct public_codec *codec, const struct id_value *id, struct id_facts *facts,
                  struct service_error *err) {
    if (!public_args_check(codec, err))
        return false;
    id_encoded(codec, id->kind == ID_READ_SEQUENCE ? PUBLIC_OF_SEQUENCE : PUBLIC_OF_SNOWFLAKE,
               id->number, facts);
    return true;
}
