#include "worker/time_daemon.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/allocate.h"
#include "common/random.h"

#define NS_PER_S INT64_C(1000000000)
#define ASK_EVERY_NS (2 * NS_PER_S)
#define FRESH_NS (10 * NS_PER_S)

struct time_daemon {
    struct clock clock;
    bool asks;
    uv_udp_t socket;
    char room[CHRONY_BYTES + 400]; /* an answer is read into it */
    uint32_t sequence;
    int64_t asked_boot_ns; /* 0: never */
    int64_t answered_boot_ns;
    struct chrony_tracking tracking;
    const char *other;
};

static int64_t boot_now(const struct time_daemon *daemon) {
    return clock_now_ns(&daemon->clock).boot_ns;
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    struct time_daemon *daemon = handle->data;

    (void)suggested;
    *buffer = uv_buf_init(daemon->room, sizeof daemon->room);
}

static void on_answer(uv_udp_t *socket, ssize_t len, const uv_buf_t *buffer,
                      const struct sockaddr *from, unsigned flags) {
    struct time_daemon *daemon = socket->data;
    struct error ignored; /* no chronyd that we understand: the kernel is asked instead */

    (void)from, (void)flags;
    /* The bound is of some moment between question and answer; the earlier one makes it larger. */
    if (len > 0 && chrony_parse((const unsigned char *)buffer->base, (size_t)len, daemon->sequence,
                                &daemon->tracking, &ignored) == STATUS_OK)
        daemon->answered_boot_ns = daemon->asked_boot_ns;
}

enum status time_daemon_new(uv_loop_t *loop, const struct clock *clock, uint16_t port,
                            struct time_daemon **daemon, struct error *err) {
    struct time_daemon *made = allocate(1, sizeof *made);
    struct sockaddr_in address;
    int code;

    made->clock = *clock;
    made->other = "";
    made->asks = port != 0;
    *daemon = made;
    if (!made->asks)
        return STATUS_OK;
    uv_ip4_addr("127.0.0.1", port, &address);
    uv_udp_init(loop, &made->socket);
    made->socket.data = made;
    code = uv_udp_connect(&made->socket, (const struct sockaddr *)&address);
    if (code == 0)
        code = uv_udp_recv_start(&made->socket, on_room, on_answer);
    if (code == 0)
        return STATUS_OK;
    time_daemon_close(made);
    *daemon = NULL;
    return error_set(err, STATUS_SYSTEM, "a socket towards chronyd: %s", uv_strerror(code));
}

static void on_closed(uv_handle_t *handle) {
    free(handle->data);
}

void time_daemon_close(struct time_daemon *daemon) {
    if (!daemon)
        return;
    if (daemon->asks)
        uv_close((uv_handle_t *)&daemon->socket, on_closed);
    else
        free(daemon);
}

static const char *look_for_others(void) {
    if (access("/run/systemd/timesync/synchronized", F_OK) == 0)
        return "systemd-timesyncd";
    return access("/run/ntpd.pid", F_OK) == 0 ? "ntpd" : "";
}

void time_daemon_tick(struct time_daemon *daemon, bool at_once) {
    unsigned char question[CHRONY_BYTES];
    uv_buf_t buffer = uv_buf_init((char *)question, sizeof question);
    int64_t now_ns = boot_now(daemon);

    if (daemon->asked_boot_ns && !at_once && now_ns - daemon->asked_boot_ns < ASK_EVERY_NS)
        return;
    daemon->asked_boot_ns = now_ns;
    daemon->other = look_for_others();
    if (!daemon->asks)
        return;
    daemon->sequence = (uint32_t)random_u64();
    chrony_question(daemon->sequence, question);
    uv_udp_try_send(&daemon->socket, &buffer, 1, NULL); /* nobody there: no answer comes */
}

bool time_daemon_chrony(const struct time_daemon *daemon, struct chrony_tracking *tracking,
                        int64_t *boot_ns) {
    if (!daemon->answered_boot_ns || boot_now(daemon) - daemon->answered_boot_ns > FRESH_NS)
        return false;
    *tracking = daemon->tracking;
    *boot_ns = daemon->answered_boot_ns;
    return true;
}

const char *time_daemon_other(const struct time_daemon *daemon) {
    return daemon->other;
}
