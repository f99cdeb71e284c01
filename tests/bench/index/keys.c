/* keys.c - bench_keys KIND ROWS WORKERS RATE: prints rows for run.py, "KEY<tab>PAYLOAD" each, in the order in
 * which a database would be asked to insert them.
 *
 * The keys are those that WORKERS workers give out on a clock that only this program moves, RATE a second
 * between them; which worker gives out the next is random (always the same), and their clocks are up to 4 ms
 * apart.  A database sees such keys slightly out of order, as from a fleet. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/decimal.h"
#include "common/id128_source.h"
#include "common/public_id.h"
#include "common/random.h"
#include "common/snowflake.h"
#include "common/ulid.h"
#include "common/uuid.h"

#define WORKERS_MAX 64
#define APART_MS 4
#define BEGIN_MS (SNOWFLAKE_EPOCH_MS + UINT64_C(86400000) * 1000)
#define PAYLOAD "a row of forty bytes, as small ones are."

struct worker {
    struct snowflake snowflake;
    struct id128_source *source;
    uint64_t ahead_ms; /* of the slowest clock of all */
};

/* Writes the next key of a worker, with a NUL. */
typedef void key_fn(struct worker *worker, uint64_t now_ms, char *out);

static struct public_codec *codec;

static _Noreturn void die(const char *what) {
    fprintf(stderr, "bench_keys: %s\n", what);
    exit(2);
}

static int64_t snowflake_of(struct worker *worker, uint64_t now_ms) {
    int64_t id;

    if (snowflake_next(&worker->snowflake, now_ms, &id) != STATUS_OK)
        die("RATE is more than these workers can give out");
    return id;
}

static struct id128 id128_of(struct worker *worker, enum id128_kind kind, uint64_t now_ms) {
    struct id128 id;
    struct error err;
    size_t have;

    if (id128_source_take(worker->source, kind, now_ms, &id, 1, &have, &err) != STATUS_OK)
        die("no UUID or ULID to be had");
    return id;
}

static void snowflake(struct worker *worker, uint64_t now_ms, char *out) {
    out[decimal_format((uint64_t)snowflake_of(worker, now_ms), out)] = '\0';
}

static void public_text(struct worker *worker, uint64_t now_ms, char *out) {
    public_id_encode(codec, PUBLIC_OF_SNOWFLAKE, snowflake_of(worker, now_ms), out);
}

static void uuidv4(struct worker *worker, uint64_t now_ms, char *out) {
    struct id128 id = id128_of(worker, ID128_UUIDV4, now_ms);

    uuid_format(&id, out);
}

static void uuidv7(struct worker *worker, uint64_t now_ms, char *out) {
    struct id128 id = id128_of(worker, ID128_UUIDV7, now_ms);

    uuid_format(&id, out);
}

static void ulid_text(struct worker *worker, uint64_t now_ms, char *out) {
    struct id128 id = id128_of(worker, ID128_ULID, now_ms);

    ulid_format(&id, out);
}

/* As hexadecimal digits: run.py makes of them what each database takes for bytes. */
static void ulid_binary(struct worker *worker, uint64_t now_ms, char *out) {
    struct id128 id = id128_of(worker, ID128_ULID, now_ms);

    for (size_t i = 0; i < sizeof id.bytes; i++)
        sprintf(out + 2 * i, "%02x", id.bytes[i]);
}

static const struct {
    const char *name;
    key_fn *key; /* NULL: the database makes it */
} kinds[] = {
    {"autoincrement", NULL}, {"snowflake", snowflake}, {"uuidv4", uuidv4},
    {"uuidv7", uuidv7},      {"ulid-text", ulid_text}, {"ulid-binary", ulid_binary},
    {"public", public_text},
};

static uint64_t number(const char *text, const char *name, uint64_t max) {
    uint64_t value = 0;
    struct error err;

    if (decimal_parse(text, strlen(text), 1, max, &value, &err) != STATUS_OK) {
        fprintf(stderr, "bench_keys: %s: %s\n", name, err.message);
        exit(2);
    }
    return value;
}

static void make_codec(void) {
    struct public_keys keys = {.n = 1, .keys = {{.version = 1}}};
    struct error err;

    if (random_bytes(keys.keys[0].key, sizeof keys.keys[0].key, &err) != STATUS_OK ||
        !(codec = public_codec_new(&keys, &err)))
        die(err.message);
}

static void print_rows(key_fn *key, uint64_t rows, struct worker *workers, uint64_t n,
                       uint64_t rate) {
    uint64_t chance = 0x9e3779b97f4a7c15;

    for (uint64_t row = 0; row < rows; row++) {
        struct worker *worker;
        char text[64];

        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        worker = &workers[chance % n];
        if (key) {
            key(worker, BEGIN_MS + row * 1000 / rate + worker->ahead_ms, text);
            fputs(text, stdout);
            putchar('\t');
        }
        puts(PAYLOAD);
    }
}

int main(int argc, char **argv) {
    static struct worker workers[WORKERS_MAX];
    struct error err;
    uint64_t rows, n, rate;
    size_t kind = 0;

    if (argc != 5)
        die("usage: bench_keys KIND ROWS WORKERS RATE");
    while (kind < sizeof kinds / sizeof kinds[0] && strcmp(kinds[kind].name, argv[1]) != 0)
        kind++;
    if (kind == sizeof kinds / sizeof kinds[0])
        die("KIND: must be autoincrement, snowflake, uuidv4, uuidv7, ulid-text, ulid-binary or "
            "public");
    rows = number(argv[2], "ROWS", UINT64_C(1000000000));
    n = number(argv[3], "WORKERS", WORKERS_MAX);
    rate = number(argv[4], "RATE", UINT64_C(1000000));

    for (uint64_t i = 0; i < n; i++) {
        workers[i].ahead_ms = n > 1 ? i * APART_MS / (n - 1) : 0;
        snowflake_init(&workers[i].snowflake, SNOWFLAKE_EPOCH_MS, (uint16_t)i, BEGIN_MS - 1,
                       UINT64_MAX, SNOWFLAKE_START_SPREAD);
        if (!(workers[i].source = id128_source_new(random_bytes, &err)))
            die(err.message);
    }
    make_codec();
    print_rows(kinds[kind].key, rows, workers, n, rate);
    for (uint64_t i = 0; i < n; i++)
        id128_source_free(workers[i].source);
    public_codec_free(codec);
    if (fflush(stdout) != 0 || ferror(stdout))
        die("the rows could not be written");
    return 0;
}
