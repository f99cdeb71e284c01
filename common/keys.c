#include "common/keys.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/decimal.h"
#include "common/etcd.h"
#include "common/quote.h"
#include "common/sequence.h"

#define MACHINE_ID_DIGITS 4
#define WALL_DIGITS 20 /* as many as a uint64_t can have: then texts sort as numbers do */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_cluster_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '.' ||
           c == '_' || c == '-';
}

/* Our keys are made of parts with known lengths, so that none is ever cut. */
static void join(char out[static KEY_MAX], const char *start, const char *end) {
    int len = snprintf(out, KEY_MAX, "%s%s", start, end);

    assert(len > 0 && len < KEY_MAX);
    (void)len;
}

static void join_range(const char *prefix, const char *name, char start[static KEY_MAX],
                       char end[static KEY_MAX]) {
    join(start, prefix, name);
    etcd_prefix_end(start, end, KEY_MAX);
}

enum status keys_init(struct keys *keys, const char *cluster, struct error *err) {
    size_t len = strlen(cluster), valid = 0;
    char quoted[QUOTE_SIZE];

    while (valid < len && is_cluster_char(cluster[valid]))
        valid++;
    if (len == 0 || len > KEYS_CLUSTER_MAX || valid < len)
        return error_set(err, STATUS_INVALID,
                         "must be 1..%d characters of a-z A-Z 0-9 . _ -, got %s", KEYS_CLUSTER_MAX,
                         quote(cluster, len, quoted));
    snprintf(keys->prefix, sizeof keys->prefix, "/snowfleet/%s/", cluster);
    join(keys->meta, keys->prefix, "meta");
    join(keys->ceil, keys->prefix, "ceil");
    join(keys->leader, keys->prefix, "leader");
    join_range(keys->prefix, "hor/", keys->hor, keys->hor_end);
    join_range(keys->prefix, "own/", keys->own, keys->own_end);
    join_range(keys->prefix, "node/", keys->node, keys->node_end);
    join_range(keys->prefix, "assign/", keys->assign, keys->assign_end);
    join_range(keys->prefix, "seq/", keys->seq, keys->seq_end);
    return STATUS_OK;
}

static void join_machine_id(const char *start, uint16_t machine_id, char out[static KEY_MAX]) {
    char digits[8];

    assert(machine_id < MACHINE_IDS);
    snprintf(digits, sizeof digits, "%04u", (unsigned)machine_id);
    join(out, start, digits);
}

void keys_hor(const struct keys *keys, uint16_t machine_id, char out[static KEY_MAX]) {
    join_machine_id(keys->hor, machine_id, out);
}

void keys_own(const struct keys *keys, uint16_t machine_id, char out[static KEY_MAX]) {
    join_machine_id(keys->own, machine_id, out);
}

void keys_node(const struct keys *keys, const char *instance, char out[static KEY_MAX]) {
    assert(hex128_valid(instance));
    join(out, keys->node, instance);
}

void keys_assign(const struct keys *keys, const char *instance, char out[static KEY_MAX]) {
    assert(hex128_valid(instance));
    join(out, keys->assign, instance);
}

void keys_absent(const struct keys *keys, char out[static KEY_MAX]) {
    char nobody[HEX128_CHARS + 1];

    memset(nobody, '0', HEX128_CHARS);
    nobody[HEX128_CHARS] = '\0';
    keys_assign(keys, nobody, out);
}

void keys_seq(const struct keys *keys, const char *name, char out[static KEY_MAX]) {
    struct error err;

    assert(sequence_name_check(name, strlen(name), &err) == STATUS_OK);
    (void)err;
    join(out, keys->seq, name);
}

/* Reads exactly count digits; false also when the number is above UINT64_MAX. */
static bool read_digits(const char *text, size_t count, uint64_t *value) {
    uint64_t sum = 0;
    size_t i;

    for (i = 0; i < count; i++) {
        if (!is_digit(text[i]) || __builtin_mul_overflow(sum, UINT64_C(10), &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(text[i] - '0'), &sum))
            return false;
    }
    *value = sum;
    return true;
}

/* What comes after start in key; NULL when key does not begin with it. */
static const char *after(const char *start, const char *key) {
    size_t len = strlen(start);

    return strncmp(key, start, len) == 0 ? key + len : NULL;
}

bool keys_machine_id(const char *range_start, const char *key, uint16_t *machine_id) {
    const char *digits = after(range_start, key);
    uint64_t value;

    if (!digits || strlen(digits) != MACHINE_ID_DIGITS ||
        !read_digits(digits, MACHINE_ID_DIGITS, &value) || value >= MACHINE_IDS)
        return false;
    *machine_id = (uint16_t)value;
    return true;
}

const char *keys_instance(const char *range_start, const char *key) {
    const char *instance = after(range_start, key);

    return instance && hex128_valid(instance) ? instance : NULL;
}

const char *keys_seq_name(const struct keys *keys, const char *key) {
    const char *name = after(keys->seq, key);
    struct error unused;

    return name && sequence_name_check(name, strlen(name), &unused) == STATUS_OK ? name : NULL;
}

static bool is_hex_digit(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

/* text has at least HEX128_CHARS characters, or ends before with a NUL. */
static bool begins_with_hex128(const char *text) {
    size_t i;

    for (i = 0; i < HEX128_CHARS; i++) {
        if (!is_hex_digit(text[i]))
            return false;
    }
    return true;
}

bool hex128_valid(const char *text) {
    return begins_with_hex128(text) && text[HEX128_CHARS] == '\0';
}

void hex128_format(const unsigned char bytes[static 16], char out[static HEX128_CHARS + 1]) {
    static const char digits[] = "0123456789abcdef";
    size_t i;

    for (i = 0; i < HEX128_CHARS / 2; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[HEX128_CHARS] = '\0';
}

void horizon_format(const struct horizon *horizon, char out[static HORIZON_TEXT_MAX]) {
    assert(hex128_valid(horizon->claim));
    snprintf(out, HORIZON_TEXT_MAX, "%0*ju:%s:%ju", WALL_DIGITS, (uintmax_t)horizon->horizon_ms,
             horizon->claim, (uintmax_t)horizon->n);
}

bool horizon_parse(const char *text, size_t len, struct horizon *horizon) {
    const size_t claim_at = WALL_DIGITS + 1, n_at = claim_at + HEX128_CHARS + 1;
    struct error unused; /* who reads a value that is none says so in words of its own */
    struct horizon read;

    if (len <= n_at || text[claim_at - 1] != ':' || text[n_at - 1] != ':' ||
        !read_digits(text, WALL_DIGITS, &read.horizon_ms) || !begins_with_hex128(text + claim_at) ||
        decimal_parse(text + n_at, len - n_at, 0, UINT64_MAX, &read.n, &unused) != STATUS_OK)
        return false;
    memcpy(read.claim, text + claim_at, HEX128_CHARS);
    read.claim[HEX128_CHARS] = '\0';
    *horizon = read;
    return true;
}

bool horizon_equal(const struct horizon *a, const struct horizon *b) {
    return a->horizon_ms == b->horizon_ms && a->n == b->n && strcmp(a->claim, b->claim) == 0;
}

void ceiling_format(uint64_t ceiling_ms, char out[static CEILING_TEXT_MAX]) {
    snprintf(out, CEILING_TEXT_MAX, "%0*ju", WALL_DIGITS, (uintmax_t)ceiling_ms);
}

bool ceiling_parse(const char *text, size_t len, uint64_t *ceiling_ms) {
    return len == WALL_DIGITS && read_digits(text, WALL_DIGITS, ceiling_ms);
}
