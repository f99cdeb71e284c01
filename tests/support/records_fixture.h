/* records_fixture.h - one text of each kind of record, and what reads them. */
#ifndef SNOWFLEET_TESTS_SUPPORT_RECORDS_FIXTURE_H
#define SNOWFLEET_TESTS_SUPPORT_RECORDS_FIXTURE_H

#include "common/records.h"
#include "tests/support/check.h"

#define ROWS(table) (sizeof(table) / sizeof(table)[0])

#define ERA "e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0"
#define OLD_ERA "0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d"
#define CLAIM "c1a1c1a1c1a1c1a1c1a1c1a1c1a1c1a1"
#define INSTANCE "0123456789abcdef0123456789abcdef"

static const char meta_text[] =
    "{\"format\":1,\"serial\":\"9007199254740993\",\"era\":\"" ERA "\",\"earlier_eras\":[\"" OLD_ERA
    "\"],\"floor_ms\":\"1748736000000\",\"epoch_ms\":\"1704067200000\","
    "\"machine_id_range\":\"0-1023\",\"reserved\":[0,\"10-12\",1023],\"max_window_ms\":60000,"
    "\"quiet_time_ms\":90000,\"max_offset_ms\":500,\"mode\":\"FROZEN\","
    "\"reason\":\"restored from backup\",\"if_needed\":true}";
static const char own_text[] =
    "{\"claim\":\"" CLAIM "\",\"instance\":\"" INSTANCE "\",\"identity\":\"prod/ids-0\","
    "\"addresses\":{\"http\":\"10.0.0.1:8080\",\"grpc\":\"[fd00::1]:50051\"}}";
static const char node_text[] =
    "{\"identity\":\"prod/ids-0\",\"addresses\":{\"http\":\"ids-0.ids:8080\",\"grpc\":\"\"},"
    "\"version\":\"0.1.0\",\"attempt\":\"3\",\"missing\":2,\"wanted\":[7],\"held\":[],"
    "\"refused\":[1,2],\"synchronized\":true,\"max_error_ns\":\"18446744073709551615\","
    "\"clock_unconfirmed\":true,\"public_key_fingerprint\":\"0123456789abcdef\","
    "\"public_key_version\":31}";
static const char assign_text[] =
    "{\"attempt\":\"3\",\"machine_ids\":[7,8],\"refused\":\"\",\"retry_after_ms\":1500,"
    "\"give_up\":[{\"machine_id\":5,\"claim\":\"" CLAIM "\"}],\"drain\":true,"
    "\"clock_ok_until_ms\":\"1748736060000\"}";
static const char leader_text[] = "{\"instance\":\"" INSTANCE
                                  "\",\"addresses\":{\"http\":\"10.0.0.9:8090\",\"grpc\":\"\"}}";

#define CHARS_127                                                                                  \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"                             \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
#define CHARS_254 CHARS_127 CHARS_127

static struct error err;

/* text with the first from replaced by to, the caller's to free(). */
static inline char *with(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    size_t size = strlen(text) + strlen(to) + 1;
    char *changed = malloc(size);

    if (!at || !changed)
        abort(); /* the table is wrong */
    snprintf(changed, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return changed;
}

/* What was read last. */
static union {
    struct meta meta;
    struct own own;
    struct node node;
    struct assign assign;
    struct leader leader;
} record;

static inline enum status parse_meta(const char *text, size_t len) {
    return meta_parse(text, len, &record.meta, &err);
}

static inline enum status parse_own(const char *text, size_t len) {
    return own_parse(text, len, &record.own, &err);
}

static inline enum status parse_node(const char *text, size_t len) {
    return node_parse(text, len, &record.node, &err);
}

static inline enum status parse_assign(const char *text, size_t len) {
    return assign_parse(text, len, &record.assign, &err);
}

static inline enum status parse_leader(const char *text, size_t len) {
    return leader_parse(text, len, &record.leader, &err);
}

static inline char *format_meta(const char *before) {
    return meta_format(&record.meta, before);
}

#endif
