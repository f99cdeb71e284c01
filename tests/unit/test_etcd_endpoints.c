#include "common/etcd_endpoints.h"

#include "common/etcd.h"
#include "tests/support/check.h"

static const struct {
    const char *text;
    size_t n;
    const char *first, *last;
} good[] = {
    {"http://127.0.0.1:2379", 1, "http://127.0.0.1:2379", "http://127.0.0.1:2379"},
    {"http://a:2379,https://b", 2, "http://a:2379", "https://b"},
    {"http://a:2379/,http://b:1/", 2, "http://a:2379", "http://b:1"},
    {"https://etcd-0.etcd.svc.cluster.local:2379", 1, "https://etcd-0.etcd.svc.cluster.local:2379",
     "https://etcd-0.etcd.svc.cluster.local:2379"},
    {"http://[::1]:2379,http://[fe80::1]", 2, "http://[::1]:2379", "http://[fe80::1]"},
    {"http://under_score:65535", 1, "http://under_score:65535", "http://under_score:65535"},
};

static void a_list_of_urls_is_taken_apart(void) {
    size_t i;

    for (i = 0; i < sizeof good / sizeof *good; i++) {
        struct etcd_endpoints endpoints;
        struct error err;

        CHECK_ROW(good[i].text, etcd_endpoints_parse(good[i].text, &endpoints, &err) == STATUS_OK);
        CHECK_ROW(good[i].text, endpoints.n == good[i].n);
        CHECK_TEXT(endpoints.urls[0], good[i].first);
        CHECK_TEXT(endpoints.urls[endpoints.n - 1], good[i].last);
        etcd_endpoints_release(&endpoints);
    }
}

static const struct {
    const char *text, *message;
} bad[] = {
    {"", "etcd endpoint \"\": must be http://HOST:PORT or https://HOST:PORT"},
    {"127.0.0.1:2379", "etcd endpoint 127.0.0.1:2379: must be"},
    {"http://a:2379,", "etcd endpoint \"\": must be"},
    {",http://a:2379", "etcd endpoint \"\": must be"},
    {"http://a:2379,,http://b:2379", "etcd endpoint \"\": must be"},
    {"http://a:2379, http://b:2379", "etcd endpoint \" http://b:2379\": must be"},
    {"http://", "etcd endpoint http://: must be"},
    {"http:///", "etcd endpoint http:///: must be"},
    {"http://:2379", "etcd endpoint http://:2379: must be"},
    {"http://a:", "etcd endpoint http://a:: must be"},
    {"http://a:0", "etcd endpoint http://a:0: must be"},
    {"http://a:65536", "etcd endpoint http://a:65536: must be"},
    {"http://a:2379/v3", "etcd endpoint http://a:2379/v3: must be"},
    {"http://a:2379?x", "etcd endpoint http://a:2379?x: must be"},
    {"http://user:secret@a:2379", "etcd endpoint http://user:secret@a:2379: must be"},
    {"http://[::1:2379", "etcd endpoint http://[::1:2379: must be"},
    {"http://[]:2379", "etcd endpoint http://[]:2379: must be"},
    {"http://[::1]2379", "etcd endpoint http://[::1]2379: must be"},
    {"ftp://a:2379", "etcd endpoint ftp://a:2379: must be"},
    {"HTTP://a:2379", "etcd endpoint HTTP://a:2379: must be"},
    {"http://a\x01:2379", "etcd endpoint \"http://a\\x01:2379\": must be"},
};

static void what_is_no_url_is_named(void) {
    size_t i;

    for (i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct etcd_endpoints endpoints;
        struct error err = {STATUS_OK, ""};

        CHECK_ROW(bad[i].text,
                  etcd_endpoints_parse(bad[i].text, &endpoints, &err) == STATUS_INVALID);
        if (strncmp(err.message, bad[i].message, strlen(bad[i].message)) != 0)
            CHECK_TEXT(err.message, bad[i].message);
    }
}

static void the_list_and_its_items_are_bounded(void) {
    struct etcd_endpoints endpoints;
    struct error err;
    char text[(ETCD_ENDPOINTS_MAX + 1) * 9 + 400] = "";
    size_t i;

    for (i = 0; i < ETCD_ENDPOINTS_MAX; i++)
        strcat(text, i ? ",http://a" : "http://a");
    CU_ASSERT_EQUAL(etcd_endpoints_parse(text, &endpoints, &err), STATUS_OK);
    etcd_endpoints_release(&endpoints);
    strcat(text, ",http://a");
    CU_ASSERT_EQUAL(etcd_endpoints_parse(text, &endpoints, &err), STATUS_INVALID);
    CHECK_TEXT(err.message, "more than 16 etcd endpoints");
    memset(text, 'a', ETCD_ENDPOINT_MAX + 1);
    memcpy(text, "http://", 7);
    text[ETCD_ENDPOINT_MAX + 1] = '\0';
    CU_ASSERT_EQUAL(etcd_endpoints_parse(text, &endpoints, &err), STATUS_INVALID);
    text[ETCD_ENDPOINT_MAX] = '\0';
    CU_ASSERT_EQUAL(etcd_endpoints_parse(text, &endpoints, &err), STATUS_OK);
    etcd_endpoints_release(&endpoints);
}

static void a_prefix_ends_where_the_next_one_begins(void) {
    char end[16];

    etcd_prefix_end("/w/", end, sizeof end);
    CHECK_TEXT(end, "/w0");
    etcd_prefix_end("a\xff", end, sizeof end);
    CHECK_TEXT(end, "b");
    etcd_prefix_end("a\x7f", end, sizeof end);
    CHECK_TEXT(end, "a\x80");
    etcd_prefix_end("a\xfe\xff\xff", end, 5);
    CHECK_TEXT(end, "a\xff");
}

static CU_TestInfo rules[] = {
    CHECK_TEST(a_list_of_urls_is_taken_apart), CHECK_TEST(what_is_no_url_is_named),
    CHECK_TEST(the_list_and_its_items_are_bounded),
    CHECK_TEST(a_prefix_ends_where_the_next_one_begins), CU_TEST_INFO_NULL};
CHECK_MAIN({"etcd endpoints", NULL, NULL, NULL, NULL, rules})
