/* bench_kinds.c - what an ID of each kind and its text cost in process, beside libuuid and uuidd in the
 * same run.  Medians, with the smallest and the largest, of ROUNDS rounds; every round runs each candidate once,
 * in turn, and a ratio is that of one round.
 *
 * The kinds come from where a worker takes them, each ID by a call of its own; "of 1000" is what a batch of
 * the API takes.  Values of a sequence come out of blocks of 1000 and more, granted by an etcd in memory,
 * whose share is in the figure; no lock is.  The uuidd is one of our own, on a socket in a temporary folder, asked as libuuid asks: one
 * connection for each request. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/decimal.h"
#include "common/id128_source.h"
#include "common/public_id.h"
#include "common/random.h"
#include "common/records.h"
#include "common/snowflake.h"
#include "common/ulid.h"
#include "common/uuid.h"
#include "tests/support/fake_etcd.h"
#include "worker/dispenser.h"

#define ROUNDS 7
#define START_MS                                                                                   \
    UINT64_C(1767225600000) /* of the clock of the sequence; it goes on by what is granted */
#define ERA "0123456789abcdef0123456789abcdef"
#define IDS 400000 /* of a kind in a round */
#define ASKED 1000 /* of uuidd */
#define BATCH 1000
#define UUIDD "/usr/sbin/uuidd"
#define WAIT_S 20

/* uuidd's protocol: one byte says what is wanted, with BULK an int how many; the answer begins with its
 * length as an int, with BULK their number as one more. */
#define UUIDD_OP_RANDOM_UUID 3
#define UUIDD_OP_BULK_RANDOM_UUID 5
#define UUIDD_BULK 60

/* Of libuuid, whose header cannot stand beside ours: both have a uuid_parse(). */
typedef unsigned char uuid_t[16];
void uuid_generate_random(uuid_t out);
void uuid_generate_time(uuid_t out);
void uuid_unparse(const uuid_t id, char *out);

static struct id128_source *source;
static struct public_codec *codec;
static struct snowflake gen;
static struct fake_world world;
static struct fake_etcd *etcd;
static struct keys keys;
static struct dispenser_cluster cluster;
static struct dispenser *dispenser;
static struct instant sequence_now = {.wall_ms = START_MS, .boot_ms = 1000};
static uint64_t now_ms = SNOWFLAKE_EPOCH_MS + 1;
static char folder[] = "/tmp/bench_kinds.XXXXXX";
static struct sockaddr_un address = {.sun_family = AF_UNIX};
static pid_t uuidd;

static void stop_uuidd(void) {
    if (uuidd > 0) {
        kill(uuidd, SIGTERM);
        waitpid(uuidd, NULL, 0);
    }
    unlink(address.sun_path);
    rmdir(folder);
}

static _Noreturn void die(const char *what) {
    fprintf(stderr, "bench_kinds: %s\n", what);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* What was made, so that the compiler cannot leave it out. */
static void keep(const void *made) {
    __asm__ volatile("" : : "r"(made) : "memory");
}

/* --- the kinds --- */

static int64_t next_snowflake(void) {
    int64_t id;

    while (snowflake_next(&gen, now_ms, &id) == STATUS_BUSY)
        now_ms++;
    return id;
}

static void take(enum id128_kind kind, struct id128 *ids, size_t n) {
    struct error err;
    size_t have;

    if (id128_source_take(source, kind, now_ms, ids, n, &have, &err) != STATUS_OK)
        die(err.message);
}

static void snowflake_id(void) {
    int64_t id = next_snowflake();

    keep(&id);
}

static void snowflake_text(void) {
    char text[DECIMAL_U64_MAX_CHARS];

    decimal_format((uint64_t)next_snowflake(), text);
    keep(text);
}

static void public_text(void) {
    char text[PUBLIC_ID_CHARS + 1];

    public_id_encode(codec, PUBLIC_OF_SNOWFLAKE, next_snowflake(), text);
    keep(text);
}

static void id_of(enum id128_kind kind) {
    struct id128 id;

    take(kind, &id, 1);
    keep(&id);
}

static void text_of(enum id128_kind kind) {
    struct id128 id;
    char text[UUID_TEXT_LEN + 1];

    take(kind, &id, 1);
    if (kind == ID128_ULID)
        ulid_format(&id, text);
    else
        uuid_format(&id, text);
    keep(text);
}

static void batch_of(enum id128_kind kind) {
    static struct id128 ids[BATCH];

    take(kind, ids, BATCH);
    keep(ids);
}

static void uuidv4_id(void) {
    id_of(ID128_UUIDV4);
}

static void uuidv4_batch(void) {
    batch_of(ID128_UUIDV4);
}

static void uuidv4_text(void) {
    text_of(ID128_UUIDV4);
}

static void uuidv7_id(void) {
    id_of(ID128_UUIDV7);
}

static void uuidv7_batch(void) {
    batch_of(ID128_UUIDV7);
}

static void uuidv7_text(void) {
    text_of(ID128_UUIDV7);
}

static void ulid_id(void) {
    id_of(ID128_ULID);
}

static void ulid_batch(void) {
    batch_of(ID128_ULID);
}

static void ulid_text(void) {
    text_of(ID128_ULID);
}

/* What the control thread does: asks etcd, and tells what it said. */
static void grant(void) {
    const struct etcd_txn *txn;
    uint64_t wake_boot_ms;

    sequence_now.wall_ms++, sequence_now.boot_ms++;
    while ((txn = dispenser_next(dispenser, &cluster, sequence_now, &wake_boot_ms))) {
        struct etcd_txn_result *result;

        if (fake_etcd_execute(etcd, txn, false, &result) != STATUS_OK)
            die("the sequence's etcd does not answer");
        dispenser_answered(dispenser, &cluster, sequence_now, NULL, result);
        fake_etcd_result_free(result);
    }
}

static uint64_t next_value(void) {
    struct service_ids ids = {.kind = ID_SEQUENCE, .want = 1};
    struct service_error err;
    enum service_outcome outcome;
    uint64_t first;

    while ((outcome = dispenser_take(dispenser, &cluster, &ids, &err)) == SERVICE_WAIT)
        grant();
    if (outcome != SERVICE_DONE)
        die(err.message);
    if (dispenser_wants(dispenser))
        grant();
    first = service_run_id(&ids, 0, 0);
    service_ids_free(&ids);
    return first;
}

static void sequence_value(void) {
    uint64_t value = next_value();

    keep(&value);
}

static void sequence_text(void) {
    char text[DECIMAL_U64_MAX_CHARS];

    decimal_format(next_value(), text);
    keep(text);
}

/* --- the others --- */

static void libuuid_v4_id(void) {
    uuid_t id;

    uuid_generate_random(id);
    keep(id);
}

static void libuuid_v4_text(void) {
    uuid_t id;
    char text[UUID_TEXT_LEN + 1];

    uuid_generate_random(id);
    uuid_unparse(id, text);
    keep(text);
}

static void libuuid_v1_id(void) {
    uuid_t id;

    uuid_generate_time(id);
    keep(id);
}

static int connected(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void read_all(int fd, void *buf, size_t len) {
    for (size_t have = 0; have < len;) {
        ssize_t n = read(fd, (char *)buf + have, len - have);

        if (n <= 0)
            die("uuidd's answer ends early");
        have += (size_t)n;
    }
}

/* On a connection that is closed then: it serves one at a time, and one request on each. */
static void ask_uuidd(int fd, const void *request, size_t len, void *answer, size_t expected) {
    int32_t answer_len;

    if (fd < 0 || write(fd, request, len) != (ssize_t)len)
        die("uuidd does not listen");
    read_all(fd, &answer_len, sizeof answer_len);
    if (answer_len < 0 || (size_t)answer_len != expected)
        die("uuidd's answer has another length");
    read_all(fd, answer, expected);
    close(fd);
}

static void uuidd_v4_on(int fd) {
    const char request = UUIDD_OP_RANDOM_UUID;
    uuid_t id;

    ask_uuidd(fd, &request, sizeof request, id, sizeof id);
    keep(id);
}

static void uuidd_v4_id(void) {
    uuidd_v4_on(connected());
}

static void uuidd_v4_bulk(void) {
    char request[1 + sizeof(int32_t)] = {UUIDD_OP_BULK_RANDOM_UUID};
    char answer[sizeof(int32_t) + UUIDD_BULK * sizeof(uuid_t)];
    const int32_t n = UUIDD_BULK;

    memcpy(request + 1, &n, sizeof n);
    ask_uuidd(connected(), request, sizeof request, answer, sizeof answer);
    keep(answer);
}

static void start_uuidd(void) {
    int64_t deadline = now_ns() + WAIT_S * INT64_C(1000000000);
    int fd;

    if (!mkdtemp(folder))
        die(strerror(errno));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
    atexit(stop_uuidd);
    uuidd = fork();
    if (uuidd < 0)
        die(strerror(errno));
    if (uuidd == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* should this program be killed */
        execl(UUIDD, "uuidd", "--no-fork", "--no-pid", "--socket", address.sun_path, NULL);
        _exit(127);
    }
    while ((fd = connected()) < 0) {
        if (waitpid(uuidd, NULL, WNOHANG) != 0) {
            uuidd = 0;
            die(UUIDD " does not start: deploy/install-packages.sh bench");
        }
        if (now_ns() > deadline)
            die(UUIDD " does not listen");
        usleep(10000);
    }
    uuidd_v4_on(fd);
}

/* --- the run --- */

/* Every candidate has one of these to be compared with, in the same round. */
enum { NOTHING = -1, LIBUUID_ID = 0, LIBUUID_TEXT = 1 };

static const struct {
    const char *name;
    void (*run)(void);
    int calls, ids_of_call, beside;
} candidates[] = {
    [LIBUUID_ID] = {"libuuid v4: uuid_generate_random", libuuid_v4_id, IDS / 40, 1, NOTHING},
    [LIBUUID_TEXT] = {"libuuid v4, text: uuid_unparse", libuuid_v4_text, IDS / 40, 1, NOTHING},
    {"libuuid v1: uuid_generate_time", libuuid_v1_id, IDS / 400, 1, LIBUUID_ID},
    {"uuidd v4", uuidd_v4_id, ASKED, 1, LIBUUID_ID},
    {"uuidd v4, 60 in bulk", uuidd_v4_bulk, ASKED / 4, UUIDD_BULK, LIBUUID_ID},
    {"snowflake", snowflake_id, IDS * 8, 1, LIBUUID_ID},
    {"uuidv4", uuidv4_id, IDS, 1, LIBUUID_ID},
    {"uuidv4, of 1000", uuidv4_batch, IDS / BATCH, BATCH, LIBUUID_ID},
    {"uuidv7", uuidv7_id, IDS, 1, LIBUUID_ID},
    {"uuidv7, of 1000", uuidv7_batch, IDS / BATCH, BATCH, LIBUUID_ID},
    {"ulid", ulid_id, IDS, 1, LIBUUID_ID},
    {"ulid, of 1000", ulid_batch, IDS / BATCH, BATCH, LIBUUID_ID},
    {"sequence", sequence_value, IDS, 1, LIBUUID_ID},
    {"snowflake, text", snowflake_text, IDS, 1, LIBUUID_TEXT},
    {"uuidv4, text", uuidv4_text, IDS, 1, LIBUUID_TEXT},
    {"uuidv7, text", uuidv7_text, IDS, 1, LIBUUID_TEXT},
    {"ulid, text", ulid_text, IDS, 1, LIBUUID_TEXT},
    {"sequence, text", sequence_text, IDS, 1, LIBUUID_TEXT},
    {"public of snowflake, text", public_text, IDS, 1, LIBUUID_TEXT},
};
enum { CANDIDATES = sizeof candidates / sizeof candidates[0] };

static double measure(int i) {
    int64_t start_ns = now_ns();

    now_ms++;
    for (int call = 0; call < candidates[i].calls; call++)
        candidates[i].run();
    return (double)(now_ns() - start_ns) / candidates[i].calls / candidates[i].ids_of_call;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void report(int i, double ns[CANDIDATES][ROUNDS]) {
    double sorted[ROUNDS], ratio[ROUNDS];
    int beside = candidates[i].beside;

    memcpy(sorted, ns[i], sizeof sorted);
    qsort(sorted, ROUNDS, sizeof *sorted, by_size);
    printf("%-34s %9.1f  (%.1f..%.1f)", candidates[i].name, sorted[ROUNDS / 2], sorted[0],
           sorted[ROUNDS - 1]);
    if (beside != NOTHING) {
        for (int round = 0; round < ROUNDS; round++)
            ratio[round] = ns[beside][round] / ns[i][round];
        qsort(ratio, ROUNDS, sizeof *ratio, by_size);
        printf("  %.2f times (%.2f..%.2f)", ratio[ROUNDS / 2], ratio[0], ratio[ROUNDS - 1]);
    }
    putchar('\n');
}

static void make_sources(void) {
    struct public_keys public_keys = {.n = 1, .keys = {{.version = 1}}};
    struct error err;

    if (random_bytes(public_keys.keys[0].key, sizeof public_keys.keys[0].key, &err) != STATUS_OK ||
        !(codec = public_codec_new(&public_keys, &err)) ||
        !(source = id128_source_new(random_bytes, &err)))
        die(err.message);
    snowflake_init(&gen, SNOWFLAKE_EPOCH_MS, 7, SNOWFLAKE_EPOCH_MS, UINT64_MAX,
                   SNOWFLAKE_START_SPREAD);
}

static void make_sequence(void) {
    struct meta meta = {.format = RECORD_FORMAT,
                        .serial = 1,
                        .floor_ms = START_MS,
                        .epoch_ms = START_MS,
                        .last_machine_id = 1023,
                        .max_window_ms = 60000,
                        .mode = META_OPEN,
                        .era = ERA};
    struct sequence record = {.serial = 1,
                              .layout = 1,
                              .block = SEQUENCE_BLOCK_DEFAULT,
                              .max_rate = SEQUENCE_RATE_MAX,
                              .n_shards = 1,
                              .next = {1}};
    char *meta_text = meta_format(&meta, NULL), *text = sequence_format(&record, NULL);
    char key[KEY_MAX], ceiling[CEILING_TEXT_MAX];
    struct error err;

    fake_world_init(&world, 1);
    etcd = fake_etcd_new(&world);
    if (keys_init(&keys, "default", &err) != STATUS_OK)
        die(err.message);
    keys_seq(&keys, "orders", key);
    ceiling_format(CEILING_NONE, ceiling);
    fake_etcd_put(etcd, keys.meta, meta_text, 0);
    fake_etcd_put(etcd, key, text, 0);
    fake_etcd_put(etcd, keys.ceil, ceiling, 0);
    dispenser_cluster_init(&cluster);
    dispenser_cluster_meta(&cluster, meta_text, strlen(meta_text));
    dispenser_cluster_judge(&cluster, "");
    dispenser = dispenser_new(&(struct dispenser_config){
        .keys = &keys, .name = "orders", .retry_min_ms = 100, .retry_max_ms = 2000});
    free(text);
    free(meta_text);
}

static void free_sequence(void) {
    dispenser_free(dispenser);
    dispenser_cluster_done(&cluster);
    fake_etcd_free(etcd);
    fake_world_done(&world);
}

int main(void) {
    static double ns[CANDIDATES][ROUNDS];

    make_sources();
    make_sequence();
    start_uuidd();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CANDIDATES; i++)
            ns[i][round] = measure(i);
    }
    printf(
        "ns an ID, median of %d rounds (smallest..largest), and how many times as fast as libuuid's v4\n",
        ROUNDS);
    for (int i = 0; i < CANDIDATES; i++)
        report(i, ns);
    free_sequence();
    id128_source_free(source);
    public_codec_free(codec);
    return 0;
}
