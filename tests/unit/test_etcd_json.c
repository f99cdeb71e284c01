#include "common/etcd_json.h"

#include <pthread.h>

#include "tests/support/check.h"

/* Keys as etcd sends them: "L3cvMQ==" is "/w/1", "aGVsbG8=" is "hello". */
#define HEADER "\"header\":{\"cluster_id\":\"14841639068965178418\",\"revision\":\"7\"}"

static const struct etcd_compare one_compare = {.kind = ETCD_ABSENT, .key = "/w/1"};
static const struct etcd_op get_op = {.kind = ETCD_RANGE, .key = "/w/1"};
static const struct etcd_op put_op = {.kind = ETCD_PUT, .key = "/w/1", .value = "hello"};

/* IF ... THEN put, delete, get ELSE get */
static const struct etcd_json_shape shape = {.n_then = 3,
                                             .n_otherwise = 1,
                                             .then = {ETCD_PUT, ETCD_DELETE, ETCD_RANGE},
                                             .otherwise = {ETCD_RANGE}};

/* --- requests --- */

static void a_transaction_is_spelled_as_every_gateway_reads_it(void) {
    const struct etcd_compare compares[] = {
        {.kind = ETCD_VALUE_EQUAL, .key = "/w/1", .value = "hello"},
        {.kind = ETCD_VALUE_GREATER, .key = "/w/1", .value = ""},
        {.kind = ETCD_ABSENT, .key = "/w/1"},
        {.kind = ETCD_ABSENT, .key = "/w/", .range_end = "/w0"},
        {.kind = ETCD_NONE_SINCE, .key = "/w/", .range_end = "/w0", .revision = 7}};
    const struct etcd_op then[] = {
        {.kind = ETCD_PUT, .key = "/w/1", .value = "hello", .lease = INT64_MAX},
        {.kind = ETCD_PUT, .key = "/w/1", .value = ""},
        {.kind = ETCD_DELETE, .key = "/w/", .range_end = "/w0"}};
    const struct etcd_op otherwise[] = {
        {.kind = ETCD_RANGE, .key = "/w/", .range_end = "/w0", .limit = 2, .keys_only = true},
        {.kind = ETCD_RANGE, .key = "/w/1", .revision = INT64_MAX}};
    const struct etcd_txn txn = {compares, 5, then, 3, otherwise, 2};
    struct etcd_json_shape written;
    struct error err;
    char *body = NULL;

    CU_ASSERT_EQUAL_FATAL(etcd_json_write_txn(&txn, &body, &written, &err), STATUS_OK);
    CHECK_TEXT(
        body,
        "{\"compare\":["
        "{\"key\":\"L3cvMQ==\",\"target\":\"VALUE\",\"result\":\"EQUAL\",\"value\":\"aGVsbG8=\"},"
        "{\"key\":\"L3cvMQ==\",\"target\":\"VALUE\",\"result\":\"GREATER\",\"value\":\"\"},"
        "{\"key\":\"L3cvMQ==\",\"target\":\"CREATE\",\"result\":\"EQUAL\","
        "\"create_revision\":\"0\"},"
        "{\"key\":\"L3cv\",\"range_end\":\"L3cw\",\"target\":\"CREATE\",\"result\":\"EQUAL\","
        "\"create_revision\":\"0\"},"
        "{\"key\":\"L3cv\",\"range_end\":\"L3cw\",\"target\":\"CREATE\",\"result\":\"LESS\","
        "\"create_revision\":\"8\"}],"
        "\"success\":["
        "{\"request_put\":{\"key\":\"L3cvMQ==\",\"value\":\"aGVsbG8=\","
        "\"lease\":\"9223372036854775807\"}},"
        "{\"request_put\":{\"key\":\"L3cvMQ==\",\"value\":\"\"}},"
        "{\"request_delete_range\":{\"key\":\"L3cv\",\"range_end\":\"L3cw\"}}],"
        "\"failure\":["
        "{\"request_range\":{\"key\":\"L3cv\",\"range_end\":\"L3cw\",\"limit\":\"2\","
        "\"keys_only\":true}},"
        "{\"request_range\":{\"key\":\"L3cvMQ==\",\"revision\":\"9223372036854775807\"}}]}");
    CU_ASSERT_EQUAL(written.n_then, 3);
    CU_ASSERT_EQUAL(written.n_otherwise, 2);
    CU_ASSERT_EQUAL(written.then[2], ETCD_DELETE);
    CU_ASSERT_EQUAL(written.otherwise[0], ETCD_RANGE);
    CU_ASSERT_FALSE(written.reads_only);
    free(body);
}

static void a_transaction_that_only_reads_is_known_as_such(void) {
    const struct etcd_txn read = {&one_compare, 1, &get_op, 1, &get_op, 1};
    const struct etcd_txn plain = {NULL, 0, &get_op, 1, NULL, 0};
    const struct etcd_txn put_otherwise = {&one_compare, 1, &get_op, 1, &put_op, 1};
    struct etcd_json_shape written;
    struct error err;
    char *body;

    CU_ASSERT_EQUAL(etcd_json_write_txn(&read, &body, &written, &err), STATUS_OK);
    CU_ASSERT_TRUE(written.reads_only);
    free(body);
    CU_ASSERT_EQUAL(etcd_json_write_txn(&plain, &body, &written, &err), STATUS_OK);
    CU_ASSERT_TRUE(written.reads_only);
    free(body);
    CU_ASSERT_EQUAL(etcd_json_write_txn(&put_otherwise, &body, &written, &err), STATUS_OK);
    CU_ASSERT_FALSE(written.reads_only);
    free(body);
}

static void a_transaction_etcd_would_refuse_or_answer_from_stale_state_is_refused(void) {
    static struct etcd_op many[ETCD_TXN_MAX_OPS + 1];
    const struct {
        const char *row;
        struct etcd_txn txn;
        enum status expected;
    } rows[] = {
        {"128 operations", {NULL, 0, many, ETCD_TXN_MAX_OPS, NULL, 0}, STATUS_OK},
        {"129 operations", {NULL, 0, many, ETCD_TXN_MAX_OPS + 1, NULL, 0}, STATUS_INVALID},
        {"129 otherwise", {&one_compare, 1, many, 1, many, ETCD_TXN_MAX_OPS + 1}, STATUS_INVALID},
        {"nothing to do", {NULL, 0, NULL, 0, NULL, 0}, STATUS_INVALID},
        {"empty then", {&one_compare, 1, NULL, 0, &get_op, 1}, STATUS_INVALID},
        {"empty otherwise", {&one_compare, 1, &put_op, 1, NULL, 0}, STATUS_INVALID},
    };
    size_t i;

    for (i = 0; i < sizeof many / sizeof *many; i++)
        many[i] = get_op;
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct etcd_json_shape written;
        struct error err;
        char *body = NULL;

        CHECK_ROW(rows[i].row,
                  etcd_json_write_txn(&rows[i].txn, &body, &written, &err) == rows[i].expected);
        free(body);
    }
}

static void leases_and_watches_are_spelled_in_etcds_own_capitals(void) {
    const struct etcd_key_range ranges[] = {{"/w/", "/w0"}, {"/w/1", NULL}};
    const int64_t starts[] = {17, INT64_MAX};
    char body[ETCD_JSON_LEASE_BYTES];
    char *watch;

    etcd_json_write_grant(INT64_MAX, INT64_MAX, body);
    CHECK_TEXT(body, "{\"ID\":\"9223372036854775807\",\"TTL\":\"9223372036854775807\"}");
    etcd_json_write_lease(7001, body);
    CHECK_TEXT(body, "{\"ID\":\"7001\"}");
    watch = etcd_json_write_watch(ranges, 2, starts);
    CHECK_TEXT(watch, "{\"create_request\":{\"key\":\"L3cv\",\"range_end\":\"L3cw\","
                      "\"start_revision\":\"17\",\"watch_id\":\"1\"}}"
                      "{\"create_request\":{\"key\":\"L3cvMQ==\","
                      "\"start_revision\":\"9223372036854775807\",\"watch_id\":\"2\"}}");
    free(watch);
}

/* --- transactions --- */

static enum status read_txn(const char *body, struct etcd_txn_result *result) {
    struct error err;

    return etcd_json_read_txn(body, strlen(body), &shape, result, &err);
}

static void a_failed_compare_comes_with_what_otherwise_read(void) {
    struct etcd_txn_result result;
    const struct etcd_kv *kv;

    CU_ASSERT_EQUAL_FATAL(
        read_txn("{" HEADER ",\"responses\":[{\"response_range\":{\"header\":{\"revision\":\"7\"},"
                 "\"kvs\":[{\"key\":\"L3cvMQ==\",\"create_revision\":\"2\",\"mod_revision\":\"3\","
                 "\"version\":\"2\",\"value\":\"aGVsbG8=\",\"lease\":\"9223372036854775807\"}],"
                 "\"count\":\"1\"}}]}",
                 &result),
        STATUS_OK);
    CU_ASSERT_FALSE(result.succeeded);
    CU_ASSERT_EQUAL(result.revision, 7);
    CU_ASSERT_EQUAL_FATAL(result.n_results, 1);
    CU_ASSERT_EQUAL_FATAL(result.results[0].n_kvs, 1);
    CU_ASSERT_EQUAL(result.results[0].count, 1);
    kv = &result.results[0].kvs[0];
    CHECK_TEXT(kv->key, "/w/1");
    CHECK_TEXT(kv->value, "hello");
    CU_ASSERT_EQUAL(kv->value_len, 5);
    CU_ASSERT_EQUAL(kv->create_revision, 2);
    CU_ASSERT_EQUAL(kv->mod_revision, 3);
    CU_ASSERT_EQUAL(kv->lease, INT64_MAX);
    etcd_json_free_txn(&result);
    CU_ASSERT_PTR_NULL(result.results);
}

static void absent_fields_are_zero_and_numbers_may_be_numbers(void) {
    struct etcd_txn_result result;

    /* No kvs and no count: nobody.  No value: empty.  No lease: none.  v2 puts blanks in. */
    CU_ASSERT_EQUAL_FATAL(
        read_txn(
            "{\"header\": {\"member_id\":\"10276657743932975437\", \"revision\":9007199254740993},"
            " \"succeeded\": true, \"responses\": [{\"response_put\": {\"header\": "
            "{\"revision\":\"8\"}}}, {\"response_delete_range\":{\"header\":{}}}, "
            "{\"response_range\":{\"kvs\":[{\"key\":\"L3cvMQ==\",\"create_revision\":2,"
            "\"mod_revision\":\"3\",\"lease\":null}]}}]}",
            &result),
        STATUS_OK);
    CU_ASSERT_TRUE(result.succeeded);
    CU_ASSERT_EQUAL(result.revision, INT64_C(9007199254740993)); /* not a double */
    CU_ASSERT_EQUAL(result.n_results, 3);
    CU_ASSERT_EQUAL(result.results[0].n_kvs, 0);
    CU_ASSERT_EQUAL(result.results[1].count, 0);
    CU_ASSERT_EQUAL(result.results[2].n_kvs, 1);
    CHECK_TEXT(result.results[2].kvs[0].value, "");
    CU_ASSERT_EQUAL(result.results[2].kvs[0].value_len, 0);
    CU_ASSERT_EQUAL(result.results[2].kvs[0].lease, 0);
    etcd_json_free_txn(&result);
}

static void a_value_may_hold_nul_bytes_and_a_key_that_does_is_none_of_ours(void) {
    struct etcd_txn_result result;

    CU_ASSERT_EQUAL_FATAL(
        read_txn("{" HEADER ",\"responses\":[{\"response_range\":{\"count\":\"2\",\"kvs\":["
                 "{\"key\":\"L3cvMQA=\",\"create_revision\":\"2\",\"mod_revision\":\"3\"},"
                 "{\"key\":\"L3cvMQ==\",\"create_revision\":\"2\",\"mod_revision\":\"3\","
                 "\"value\":\"YQBi\"}]}}]}",
                 &result),
        STATUS_OK);
    CU_ASSERT_EQUAL_FATAL(result.results[0].n_kvs, 1);
    CHECK_TEXT(result.results[0].kvs[0].key, "/w/1");
    CU_ASSERT_EQUAL(result.results[0].kvs[0].value_len, 3);
    CU_ASSERT_EQUAL(memcmp(result.results[0].kvs[0].value, "a\0b", 4), 0);
    etcd_json_free_txn(&result);
}

#define RANGE_ANSWER(kv) "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[" kv "]}}]}"

static const char *const senseless_txns[] = {
    "",
    " ",
    "{",
    "[]",
    "null",
    "7",
    "\"\"",
    "not json",
    "{}",
    "{}{}",
    "<html>504</html>",
    "{\"header\":7,\"responses\":[{\"response_range\":{}}]}",
    "{\"header\":{},\"responses\":[{\"response_range\":{}}]}",
    "{\"header\":{\"revision\":\"9223372036854775807\"},\"responses\":[{\"response_range\":{}}]}",
    "{\"header\":{\"revision\":\"-1\"},\"responses\":[{\"response_range\":{}}]}",
    "{\"header\":{\"revision\":\"9223372036854775808\"},\"responses\":[{\"response_range\":{}}]}",
    "{\"header\":{\"revision\":9223372036854775808},\"responses\":[{\"response_range\":{}}]}",
    "{\"header\":{\"revision\":\" 7\"},\"responses\":[{\"response_range\":{}}]}",
    "{\"header\":{\"revision\":\"+7\"},\"responses\":[{\"response_range\":{}}]}",
    "{\"header\":{\"revision\":\"7x\"},\"responses\":[{\"response_range\":{}}]}",
    "{\"header\":{\"revision\":\"\"},\"responses\":[{\"response_range\":{}}]}",
    "{\"header\":{\"revision\":\"-\"},\"responses\":[{\"response_range\":{}}]}",
    "{\"header\":{\"revision\":7.0},\"responses\":[{\"response_range\":{}}]}",
    "{\"header\":{\"revision\":[7]},\"responses\":[{\"response_range\":{}}]}",
    "{" HEADER ",\"succeeded\":\"true\",\"responses\":[{\"response_range\":{}}]}",
    "{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_range\":{}}]}", /* 1 for 3 */
    "{" HEADER "}",
    "{" HEADER ",\"responses\":{}}",
    "{" HEADER ",\"responses\":[]}",
    "{" HEADER ",\"responses\":[{}]}",
    "{" HEADER ",\"responses\":[7]}",
    "{" HEADER ",\"responses\":[{\"response_put\":{}}]}", /* a get was asked for */
    "{" HEADER ",\"responses\":[{\"response_range\":[]}]}",
    "{" HEADER ",\"responses\":[{\"response_range\":{}},{\"response_range\":{}}]}",
    "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":{}}}]}",
    "{" HEADER ",\"responses\":[{\"response_range\":{\"count\":\"x\"}}]}",
    RANGE_ANSWER("7"),
    RANGE_ANSWER("{}"),
    RANGE_ANSWER("{\"key\":\"L3cvMQ==\"}"),
    RANGE_ANSWER("{\"key\":\"L3cvMQ==\",\"mod_revision\":\"3\"}"),
    RANGE_ANSWER("{\"key\":\"L3cvMQ==\",\"create_revision\":\"3\"}"),
    RANGE_ANSWER("{\"key\":\"L3cvMQ\",\"create_revision\":\"3\",\"mod_revision\":\"3\"}"),
    RANGE_ANSWER("{\"key\":7,\"create_revision\":\"3\",\"mod_revision\":\"3\"}"),
    RANGE_ANSWER("{\"key\":\"\",\"create_revision\":\"3\",\"mod_revision\":\"3\"}"),
    RANGE_ANSWER("{\"key\":\"L3cvMQ==\",\"create_revision\":\"3\",\"mod_revision\":\"3\","
                 "\"value\":\"a-_b\"}"),
    RANGE_ANSWER("{\"key\":\"L3cvMQ==\",\"create_revision\":\"3\",\"mod_revision\":\"3\"},{}"),
    "{\"error\":\"x\",\"code\":5}",
};

static void an_answer_without_sense_stores_nothing(void) {
    size_t i;

    for (i = 0; i < sizeof senseless_txns / sizeof *senseless_txns; i++) {
        struct etcd_txn_result result = {.revision = 77};
        struct error err = {STATUS_OK, ""};

        CHECK_ROW(senseless_txns[i],
                  etcd_json_read_txn(senseless_txns[i], strlen(senseless_txns[i]), &shape, &result,
                                     &err) == STATUS_PROTOCOL);
        CHECK_ROW(senseless_txns[i], result.revision == 77 && err.status == STATUS_PROTOCOL);
        CHECK_ROW(senseless_txns[i], err.message[0] != '\0');
    }
}

/* --- leases --- */

static const struct {
    const char *row, *body;
    enum status expected;
    int64_t ttl_s;
} keepalives[] = {
    {"alive", "{\"result\":{" HEADER ",\"ID\":\"7001\",\"TTL\":\"10\"}}\n", STATUS_OK, 10},
    {"alive, numbers", "{\"result\":{" HEADER ",\"ID\":7001,\"TTL\":10}}", STATUS_OK, 10},
    {"gone: no TTL", "{\"result\":{" HEADER ",\"ID\":\"7001\"}}\n", STATUS_NOT_FOUND, 0},
    {"gone: TTL 0", "{\"result\":{\"ID\":\"7001\",\"TTL\":\"0\"}}\n", STATUS_NOT_FOUND, 0},
    {"gone: TTL -1", "{\"result\":{\"ID\":\"7001\",\"TTL\":\"-1\"}}\n", STATUS_NOT_FOUND, 0},
    {"empty body", "", STATUS_PROTOCOL, 0},
    {"only a newline", "\n", STATUS_PROTOCOL, 0},
    {"another lease", "{\"result\":{\"ID\":\"7002\",\"TTL\":\"10\"}}", STATUS_PROTOCOL, 0},
    {"no lease", "{\"result\":{\"TTL\":\"10\"}}", STATUS_PROTOCOL, 0},
    {"no result", "{\"ID\":\"7001\",\"TTL\":\"10\"}", STATUS_PROTOCOL, 0},
    {"misspelt", "{\"result\":{\"id\":\"7001\",\"ttl\":\"10\"}}", STATUS_PROTOCOL, 0},
    {"negative lease", "{\"result\":{\"ID\":\"-7001\",\"TTL\":\"10\"}}", STATUS_PROTOCOL, 0},
    {"TTL of 2^63", "{\"result\":{\"ID\":\"7001\",\"TTL\":\"9223372036854775808\"}}",
     STATUS_PROTOCOL, 0},
    {"cut", "{\"result\":{\"ID\":\"7001\",\"TTL\":\"10\"", STATUS_PROTOCOL, 0},
    {"v1 error in a 200",
     "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"etcdserver: no leader\","
     "\"http_status\":\"Service Unavailable\"}}",
     STATUS_UNAVAILABLE, 0},
    {"v2 error in a 200",
     "{\"error\":{\"code\":16,\"message\":\"etcdserver: invalid auth token\"}}", STATUS_AUTH, 0},
};

static void a_keepalive_is_good_only_with_our_lease_and_a_ttl(void) {
    size_t i;

    for (i = 0; i < sizeof keepalives / sizeof *keepalives; i++) {
        struct error err = {STATUS_OK, ""};
        int64_t ttl_s = 0;

        CHECK_ROW(keepalives[i].row,
                  etcd_json_read_keepalive(keepalives[i].body, strlen(keepalives[i].body), 7001,
                                           &ttl_s, &err) == keepalives[i].expected);
        CHECK_ROW(keepalives[i].row, ttl_s == keepalives[i].ttl_s);
        CHECK_ROW(keepalives[i].row, err.status == keepalives[i].expected);
    }
}

static const struct {
    const char *row, *body;
    enum status expected;
    int64_t ttl_s;
} grants[] = {
    {"as asked", "{" HEADER ",\"ID\":\"7001\",\"TTL\":\"15\"}", STATUS_OK, 15},
    {"no TTL", "{" HEADER ",\"ID\":\"7001\"}", STATUS_PROTOCOL, 0},
    {"another ID", "{" HEADER ",\"ID\":\"9041999016383330610\",\"TTL\":\"15\"}", STATUS_PROTOCOL,
     0},
    {"no ID", "{" HEADER ",\"TTL\":\"15\"}", STATUS_PROTOCOL, 0},
    {"empty", "", STATUS_PROTOCOL, 0},
    {"empty object", "{}", STATUS_PROTOCOL, 0},
};

static void a_grant_is_good_only_with_our_lease_and_a_ttl(void) {
    size_t i;

    for (i = 0; i < sizeof grants / sizeof *grants; i++) {
        struct error err = {STATUS_OK, ""};
        int64_t ttl_s = 0;

        CHECK_ROW(grants[i].row, etcd_json_read_grant(grants[i].body, strlen(grants[i].body), 7001,
                                                      &ttl_s, &err) == grants[i].expected);
        CHECK_ROW(grants[i].row, ttl_s == grants[i].ttl_s);
    }
}

static void a_revocation_is_good_with_a_header(void) {
    struct error err;

    CU_ASSERT_EQUAL(etcd_json_read_revoke("{" HEADER "}", strlen("{" HEADER "}"), &err), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_json_read_revoke("{}", 2, &err), STATUS_PROTOCOL);
    CU_ASSERT_EQUAL(etcd_json_read_revoke("", 0, &err), STATUS_PROTOCOL);
}

/* --- watches --- */

static struct etcd_json_watch_line line;

static enum status read_line(const char *text) {
    struct error err;

    return etcd_json_read_watch_line(text, strlen(text), &line, &err);
}

static void events_come_with_kind_key_value_and_revision(void) {
    CU_ASSERT_EQUAL_FATAL(
        read_line(
            "{\"result\":{" HEADER ",\"watch_id\":\"2\",\"events\":["
            "{\"kv\":{\"key\":\"L3cvMQ==\",\"create_revision\":\"19\",\"mod_revision\":\"19\","
            "\"version\":\"1\",\"value\":\"aGVsbG8=\",\"lease\":\"5001\"}},"
            "{\"type\":\"DELETE\",\"kv\":{\"key\":\"L3cvMQ==\",\"mod_revision\":\"21\"},"
            "\"prev_kv\":{}},"
            "{\"type\":\"PUT\",\"kv\":{\"key\":\"L3cvMQ==\",\"create_revision\":\"22\","
            "\"mod_revision\":\"22\"}},"
            "{\"type\":1,\"kv\":{\"key\":\"L3cvMQA=\",\"mod_revision\":\"23\"}}]}}"),
        STATUS_OK);
    CU_ASSERT_EQUAL(line.watch_id, 2);
    CU_ASSERT_EQUAL(line.revision, 7);
    CU_ASSERT_FALSE(line.created || line.canceled || line.failed);
    CU_ASSERT_EQUAL_FATAL(line.n_events, 3); /* the key with a NUL byte is left out */
    CU_ASSERT_EQUAL(line.last_mod_revision, 23);
    CU_ASSERT_EQUAL(line.events[0].kind, ETCD_EVENT_PUT);
    CHECK_TEXT(line.events[0].key, "/w/1");
    CHECK_TEXT(line.events[0].value, "hello");
    CU_ASSERT_EQUAL(line.events[0].lease, 5001);
    CU_ASSERT_EQUAL(line.events[1].kind, ETCD_EVENT_DELETE);
    CU_ASSERT_EQUAL(line.events[1].mod_revision, 21);
    CU_ASSERT_PTR_NULL(line.events[1].value);
    CU_ASSERT_EQUAL(line.events[2].kind, ETCD_EVENT_PUT);
    CU_ASSERT_EQUAL(line.events[2].value_len, 0);
    etcd_json_free_watch_line(&line);
}

static void a_watch_is_created_cancelled_and_ended(void) {
    CU_ASSERT_EQUAL(read_line("{\"result\":{" HEADER ",\"watch_id\":\"1\",\"created\":true}}"),
                    STATUS_OK);
    CU_ASSERT_TRUE(line.created && !line.canceled && line.n_events == 0);
    etcd_json_free_watch_line(&line);
    /* watch_id 0 and the revision are absent */
    CU_ASSERT_EQUAL(read_line("{\"result\":{\"header\":{\"raft_term\":\"2\"},\"canceled\":true,"
                              "\"compact_revision\":\"10\"}}"),
                    STATUS_OK);
    CU_ASSERT_TRUE(line.canceled && line.compact_revision == 10 && line.watch_id == 0);
    etcd_json_free_watch_line(&line);
    CU_ASSERT_EQUAL(read_line("{\"result\":{" HEADER ",\"watch_id\":\"-1\",\"created\":true,"
                              "\"canceled\":true,\"cancel_reason\":\"rpc error: code = "
                              "PermissionDenied desc = etcdserver: permission denied\"}}"),
                    STATUS_OK);
    CU_ASSERT_TRUE(line.created && line.canceled && line.watch_id == -1);
    CHECK_TEXT(line.reason,
               "rpc error: code = PermissionDenied desc = etcdserver: permission denied");
    etcd_json_free_watch_line(&line);
    CU_ASSERT_EQUAL(read_line("{\"error\":{\"grpc_code\":14,\"http_code\":503,"
                              "\"message\":\"transport is closing\"}}"),
                    STATUS_OK);
    CU_ASSERT_TRUE(line.failed && line.error_code == 14);
    CHECK_TEXT(line.reason, "transport is closing");
    etcd_json_free_watch_line(&line);
    CU_ASSERT_EQUAL(read_line("{\"error\":{\"code\":4,\"message\":\"context deadline exceeded\"}}"),
                    STATUS_OK);
    CU_ASSERT_TRUE(line.failed && line.error_code == 4);
    etcd_json_free_watch_line(&line);
    /* malformed request, v1: HTTP 500 in the unary shape */
    CU_ASSERT_EQUAL(
        read_line("{\"error\":\"json: bad\\n\",\"message\":\"json: bad\\n\",\"code\":2}"),
        STATUS_OK);
    CHECK_TEXT(line.reason, "json: bad?");
    etcd_json_free_watch_line(&line);
    /* progress: no events */
    CU_ASSERT_EQUAL(read_line("{\"result\":{" HEADER ",\"watch_id\":\"1\"}}"), STATUS_OK);
    CU_ASSERT_TRUE(line.n_events == 0 && line.last_mod_revision == 0);
    etcd_json_free_watch_line(&line);
}

#define EVENT_LINE(event) "{\"result\":{" HEADER ",\"events\":[" event "]}}"

static const char *const senseless_lines[] = {
    "",
    "{",
    "{}",
    "[]",
    "{\"result\":7}",
    "{\"result\":{}}",
    "{\"error\":\"x\"}",
    "{\"error\":{}}",
    "{\"result\":{" HEADER ",\"watch_id\":\"x\"}}",
    "{\"result\":{" HEADER ",\"created\":1}}",
    "{\"result\":{" HEADER ",\"canceled\":\"true\"}}",
    "{\"result\":{" HEADER ",\"events\":{}}}",
    EVENT_LINE("7"),
    EVENT_LINE("{}"),
    "{\"result\":{\"header\":{\"revision\":\"9223372036854775807\"},\"created\":true}}",
    EVENT_LINE("{\"type\":\"DELETE\",\"kv\":{\"key\":\"L3cvMQ==\","
               "\"mod_revision\":\"9223372036854775807\"}}"),
    EVENT_LINE("{\"kv\":{\"key\":\"L3cvMQ==\"}}"),
    EVENT_LINE("{\"type\":\"MOVE\",\"kv\":{\"key\":\"L3cvMQ==\",\"create_revision\":\"2\","
               "\"mod_revision\":\"3\"}}"),
    EVENT_LINE("{\"kv\":{\"key\":\"L3cvMQ==\",\"mod_revision\":\"3\"}}"),
    EVENT_LINE("{\"type\":\"DELETE\",\"kv\":{\"key\":\"L3cvMQ==\",\"mod_revision\":\"3\"}},7"),
};

static void a_line_without_sense_stores_nothing(void) {
    size_t i;

    for (i = 0; i < sizeof senseless_lines / sizeof *senseless_lines; i++) {
        line.watch_id = 77;
        CHECK_ROW(senseless_lines[i], read_line(senseless_lines[i]) == STATUS_PROTOCOL);
        CHECK_ROW(senseless_lines[i], line.watch_id == 77);
    }
}

/* --- hostile answers --- */

static void *read_a_million_levels(void *arg) {
    size_t n = 1000000;
    char *deep = malloc(5 * n);
    struct etcd_txn_result result;
    struct error err;
    size_t i;

    (void)arg;
    memset(deep, '[', n);
    CU_ASSERT_EQUAL(etcd_json_read_txn(deep, n, &shape, &result, &err), STATUS_PROTOCOL);
    for (i = 0; i < n; i++)
        memcpy(deep + 5 * i, "{\"a\":", 5);
    CU_ASSERT_EQUAL(etcd_json_read_watch_line(deep, 5 * n, &line, &err), STATUS_PROTOCOL);
    CU_ASSERT_EQUAL(etcd_json_read_error(500, deep, 5 * n, true, &err), STATUS_UNKNOWN);
    free(deep);
    return NULL;
}

static void deep_nesting_does_not_use_up_the_stack(void) {
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    CU_ASSERT_EQUAL_FATAL(pthread_attr_setstacksize(&attributes, 512 * 1024), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, &attributes, read_a_million_levels, NULL), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

static CU_TestInfo request_rules[] = {
    CHECK_TEST(a_transaction_is_spelled_as_every_gateway_reads_it),
    CHECK_TEST(a_transaction_that_only_reads_is_known_as_such),
    CHECK_TEST(a_transaction_etcd_would_refuse_or_answer_from_stale_state_is_refused),
    CHECK_TEST(leases_and_watches_are_spelled_in_etcds_own_capitals), CU_TEST_INFO_NULL};
static CU_TestInfo answer_rules[] = {
    CHECK_TEST(a_failed_compare_comes_with_what_otherwise_read),
    CHECK_TEST(absent_fields_are_zero_and_numbers_may_be_numbers),
    CHECK_TEST(a_value_may_hold_nul_bytes_and_a_key_that_does_is_none_of_ours),
    CHECK_TEST(an_answer_without_sense_stores_nothing),
    CHECK_TEST(a_keepalive_is_good_only_with_our_lease_and_a_ttl),
    CHECK_TEST(a_grant_is_good_only_with_our_lease_and_a_ttl),
    CHECK_TEST(a_revocation_is_good_with_a_header),
    CHECK_TEST(events_come_with_kind_key_value_and_revision),
    CHECK_TEST(a_watch_is_created_cancelled_and_ended),
    CHECK_TEST(a_line_without_sense_stores_nothing),
    CHECK_TEST(deep_nesting_does_not_use_up_the_stack),
    CU_TEST_INFO_NULL};
CHECK_MAIN({"requests", NULL, NULL, NULL, NULL, request_rules},
           {"answers", NULL, NULL, NULL, NULL, answer_rules})
