#include "common/etcd_error.h"

#include "common/etcd_json.h"
#include "tests/support/check.h"

#define V1(code, message)                                                                          \
    "{\"error\":\"" message "\",\"message\":\"" message "\",\"code\":" #code "}"
#define V2(code, message) "{\"code\":" #code ", \"message\":\"" message "\", \"details\":[]}"
#define V1_STREAM(code, message)                                                                   \
    "{\"error\":{\"grpc_code\":" #code ",\"http_code\":500,\"message\":\"" message "\"}}"
#define V2_STREAM(code, message) "{\"error\":{\"code\":" #code ",\"message\":\"" message "\"}}"

/* Both generations, with the HTTP status that each sends. */
static const struct {
    const char *row;
    long http_status;
    const char *body;
    enum status of_write, of_read;
} errors[] = {
    {"bad request", 400, V1(3, "etcdserver: key is not provided"), STATUS_INVALID, STATUS_INVALID},
    {"bad request v2", 400, V2(3, "etcdserver: duplicate key given in txn request"), STATUS_INVALID,
     STATUS_INVALID},
    {"lease unknown", 404, V1(5, "etcdserver: requested lease not found"), STATUS_NOT_FOUND,
     STATUS_NOT_FOUND},
    {"lease unknown v2", 404, V2(5, "etcdserver: requested lease not found"), STATUS_NOT_FOUND,
     STATUS_NOT_FOUND},
    {"lease in use", 412, V1(9, "etcdserver: lease already exists"), STATUS_EXISTS, STATUS_EXISTS},
    {"lease in use v2", 400, V2(9, "etcdserver: lease already exists"), STATUS_EXISTS,
     STATUS_EXISTS},
    {"compacted", 400, V1(11, "etcdserver: mvcc: required revision has been compacted"),
     STATUS_INVALID, STATUS_INVALID},
    {"TTL too large", 400, V2(11, "etcdserver: too large lease TTL"), STATUS_INVALID,
     STATUS_INVALID},
    {"no space", 429, V1(8, "etcdserver: mvcc: database space exceeded"), STATUS_NO_SPACE,
     STATUS_NO_SPACE},
    {"overload", 429, V2(8, "etcdserver: too many requests"), STATUS_UNAVAILABLE,
     STATUS_UNAVAILABLE},
    {"too large", 429, V1(8, "grpc: received message larger than max (9 vs. 8)"), STATUS_INVALID,
     STATUS_INVALID},
    {"no token", 400, V1(3, "etcdserver: user name is empty"), STATUS_AUTH, STATUS_AUTH},
    {"old token", 400, V2(3, "etcdserver: revision of auth store is old"), STATUS_AUTH,
     STATUS_AUTH},
    {"bad token", 401, V1(16, "etcdserver: invalid auth token"), STATUS_AUTH, STATUS_AUTH},
    {"wrong password", 400, V1(3, "etcdserver: authentication failed, invalid user ID or password"),
     STATUS_AUTH, STATUS_AUTH},
    {"auth is off", 412, V1(9, "etcdserver: authentication is not enabled"), STATUS_AUTH,
     STATUS_AUTH},
    {"no right", 403, V2(7, "etcdserver: permission denied"), STATUS_REFUSED, STATUS_REFUSED},
    {"no leader", 503, V1(14, "etcdserver: no leader"), STATUS_UNKNOWN, STATUS_UNAVAILABLE},
    {"leader changed", 503, V2(14, "etcdserver: leader changed"), STATUS_UNKNOWN,
     STATUS_UNAVAILABLE},
    {"timed out", 503, V1(14, "etcdserver: request timed out"), STATUS_UNKNOWN, STATUS_UNAVAILABLE},
    {"no quorum v1", 500, V1(2, "context deadline exceeded"), STATUS_UNKNOWN, STATUS_UNAVAILABLE},
    {"no quorum v2", 504, V2(4, "context deadline exceeded"), STATUS_UNKNOWN, STATUS_UNAVAILABLE},
    {"own port", 503, V1(14, "connection error: desc = \\\"transport\\\""), STATUS_UNKNOWN,
     STATUS_UNAVAILABLE},
    {"stream v1", 503, V1_STREAM(14, "etcdserver: no leader"), STATUS_UNKNOWN, STATUS_UNAVAILABLE},
    {"stream v2", 401, V2_STREAM(16, "etcdserver: invalid auth token"), STATUS_AUTH, STATUS_AUTH},
    {"a code of tomorrow", 500, V2(99, "etcdserver: new"), STATUS_UNKNOWN, STATUS_UNAVAILABLE},
    {"no gateway, text", 404, "Not Found", STATUS_UNAVAILABLE, STATUS_UNAVAILABLE},
    {"no gateway, Go's text", 404, "404 page not found\n", STATUS_UNAVAILABLE, STATUS_UNAVAILABLE},
    {"no gateway, v2", 404, V2(5, "Not Found"), STATUS_UNAVAILABLE, STATUS_UNAVAILABLE},
    {"unknown service", 501, V2(12, "Method Not Allowed"), STATUS_UNAVAILABLE, STATUS_UNAVAILABLE},
    {"text 405", 405, "Method Not Allowed", STATUS_UNAVAILABLE, STATUS_UNAVAILABLE},
    {"CN", 400,
     "CommonName of client sending a request against gateway will be ignored and not "
     "used as expected",
     STATUS_AUTH, STATUS_AUTH},
    {"text 400", 400, "Bad Request", STATUS_INVALID, STATUS_INVALID},
    {"text 500", 500, "oops", STATUS_UNKNOWN, STATUS_UNAVAILABLE},
    {"text 502 of a proxy", 502, "<html>Bad Gateway</html>", STATUS_UNKNOWN, STATUS_UNAVAILABLE},
    {"text 408", 408, "", STATUS_UNKNOWN, STATUS_UNAVAILABLE},
    {"redirect", 302, "", STATUS_UNKNOWN, STATUS_UNAVAILABLE},
    {"no content", 204, "", STATUS_UNKNOWN, STATUS_UNAVAILABLE},
    {"JSON of somebody else", 503, "{\"status\":\"down\"}", STATUS_UNKNOWN, STATUS_UNAVAILABLE},
    {"code as text", 503, "{\"code\":\"14\",\"message\":\"x\"}", STATUS_UNKNOWN,
     STATUS_UNAVAILABLE},
};

static void an_error_leaves_a_write_unknown_unless_it_certainly_did_nothing(void) {
    size_t i;

    for (i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct error err = {STATUS_OK, ""};
        size_t len = strlen(errors[i].body);

        CHECK_ROW(errors[i].row, etcd_json_read_error(errors[i].http_status, errors[i].body, len,
                                                      true, &err) == errors[i].of_write);
        CHECK_ROW(errors[i].row, etcd_json_read_error(errors[i].http_status, errors[i].body, len,
                                                      false, &err) == errors[i].of_read);
        CHECK_ROW(errors[i].row, err.status == errors[i].of_read && err.message[0]);
    }
}

static void an_error_is_told_in_etcds_words_made_printable(void) {
    struct error err;
    const char *v1 = V1(14, "etcdserver: no leader");

    etcd_json_read_error(503, v1, strlen(v1), true, &err);
    CHECK_TEXT(err.message, "etcdserver: no leader");
    etcd_json_read_error(404, "Not Found", 9, true, &err);
    CHECK_TEXT(err.message, "HTTP 404: no etcd v3 JSON gateway here (switched off by "
                            "enable-grpc-gateway, another port, or not etcd 3.4 to 3.6)");
    etcd_json_read_error(502, "bad\x1b[31m\xff gateway\nline 2", 24, true, &err);
    CHECK_TEXT(err.message, "HTTP 502: bad?[31m? gateway");
    etcd_json_read_error(500, "", 0, true, &err);
    CHECK_TEXT(err.message, "HTTP 500: no text");
    etcd_error_from_code(3, "a\tb", true, &err);
    CHECK_TEXT(err.message, "a?b");
}

static CU_TestInfo rules[] = {
    CHECK_TEST(an_error_leaves_a_write_unknown_unless_it_certainly_did_nothing),
    CHECK_TEST(an_error_is_told_in_etcds_words_made_printable), CU_TEST_INFO_NULL};
CHECK_MAIN({"errors of etcd", NULL, NULL, NULL, NULL, rules})
