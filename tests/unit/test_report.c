/* The JSON that scripts rely on: names, and strings where a number may need 64 bits. */
#include "coordinator/report.h"
#include "tests/support/check.h"

#define NOW_MS UINT64_C(1764547200000)
#define ALICE "a11ce000000000000000000000000000"

static struct keys keys;
static struct cluster *cluster;

static void apply(const char *key, const char *value) {
    cluster_apply(cluster, key, value, strlen(value), 1, 1);
}

static void given_a_cluster_of_two_machine_ids(void) {
    struct meta meta = {.format = RECORD_FORMAT,
                        .serial = 1,
                        .epoch_ms = 1704067200000,
                        .floor_ms = 1704067200000,
                        .last_machine_id = 1,
                        .max_window_ms = 60000,
                        .quiet_time_ms = 90000,
                        .max_offset_ms = 500};
    struct error err;
    char *text;

    CU_ASSERT_EQUAL_FATAL(keys_init(&keys, "default", &err), STATUS_OK);
    cluster = cluster_new(&keys);
    memset(meta.era, 'e', HEX128_CHARS);
    text = meta_format(&meta, NULL);
    apply(keys.meta, text);
    free(text);
    apply(keys.ceil, "00000001764633600000");
    apply("/snowfleet/default/hor/0000", "00000001764547260000:abababababababababababababababab:3");
    apply("/snowfleet/default/hor/0001", "00000001704067200000:00000000000000000000000000000000:0");
    apply("/snowfleet/default/own/0000",
          "{\"claim\":\"abababababababababababababababab\",\"instance\":\"" ALICE
          "\",\"identity\":\"pod-1\",\"addresses\":{\"http\":\"10.0.0.5:8080\",\"grpc\":\"\"}}");
}

static void and_it_is_freed(void) {
    cluster_free(cluster);
}

static void check_json(json_t *actual, const char *expected) {
    char *text = json_dumps(actual, JSON_COMPACT);

    CHECK_TEXT(text, expected);
    free(text);
    json_decref(actual);
}

static void machines_are_listed_with_state_holder_and_horizon(void) {
    check_json(report_machines(cluster, NOW_MS),
               "[{\"machine_id\":0,\"state\":\"HELD\",\"identity\":\"pod-1\",\"instance\":\"" ALICE
               "\",\"horizon_ms\":\"1764547260000\",\"usable_in_ms\":150001,\"stuck\":false},"
               "{\"machine_id\":1,\"state\":\"FREE\",\"identity\":null,\"instance\":null,"
               "\"horizon_ms\":\"1704067200000\",\"usable_in_ms\":0,\"stuck\":false}]");
}

static void status_has_the_names_of_the_contract(void) {
    static const char *const names[] = {"cluster",      "era",     "mode",  "leader",
                                        "coordinators", "workers", "slots", "ceiling_lead_s"};
    json_t *status = report_status(cluster, "default", NOW_MS);
    json_t *slots = json_object_get(status, "slots");

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK_ROW(names[i], json_object_get(status, names[i]) != NULL);
    CHECK_TEXT(json_string_value(json_object_get(status, "mode")), "OPEN");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(status, "ceiling_lead_s")), 86400);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(slots, "held")), 1);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(slots, "free")), 1);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(slots, "reserved")), 1022);
    CHECK_TEXT(json_string_value(json_object_get(status, "machine_id_range")), "0-1");
    CU_ASSERT(json_is_array(json_object_get(status, "reserved")));
    json_decref(status);
}

static void without_meta_the_mode_is_null_and_a_reason_stands(void) {
    json_t *status;

    cluster_apply(cluster, keys.meta, NULL, 0, 0, 1);
    status = report_status(cluster, "default", NOW_MS);
    CU_ASSERT(json_is_null(json_object_get(status, "mode")));
    CU_ASSERT(json_is_null(json_object_get(status, "machine_id_range")));
    CHECK_TEXT(json_string_value(json_object_get(status, "reason")), "meta is missing");
    json_decref(status);
}

static void a_ceiling_that_is_past_has_a_negative_lead_and_no_ceiling_none(void) {
    json_t *status;

    CU_ASSERT_EQUAL(report_ceiling_lead_s(cluster, 1764633600000 + 5500), -5);
    apply(keys.ceil, "09223372036854775807");
    status = report_status(cluster, "default", NOW_MS);
    CU_ASSERT(json_is_null(json_object_get(status, "ceiling_lead_s")));
    json_decref(status);
}

static void given_a_worker(const char *instance, const char *fingerprint) {
    struct node node = {.identity = "pod", .public_key_version = fingerprint[0] ? 1 : 0};
    char key[KEY_MAX], *text;

    strcpy(node.public_key_fingerprint, fingerprint);
    keys_node(&keys, instance, key);
    text = node_format(&node);
    apply(key, text);
    free(text);
}

/* As many letters as there are workers: their keys, '-' for none; and who of them is named. */
static void check_keys(const char *keys_of, const char *named) {
    json_t *status, *workers;
    size_t n = strlen(keys_of);

    for (size_t i = 0; i < n; i++) {
        char instance[HEX128_CHARS + 1], fingerprint[PUBLIC_FINGERPRINT_CHARS + 1] = "";

        snprintf(instance, sizeof instance, "%032zx", i);
        if (keys_of[i] != '-')
            memset(fingerprint, keys_of[i], PUBLIC_FINGERPRINT_CHARS);
        given_a_worker(instance, fingerprint);
    }
    status = report_status(cluster, "default", NOW_MS);
    workers = json_object_get(status, "workers");
    CU_ASSERT_EQUAL_FATAL(json_array_size(workers), n);
    for (size_t i = 0; i < n; i++) {
        const json_t *worker = json_array_get(workers, i);
        const char *instance = json_string_value(json_object_get(worker, "instance"));
        size_t which = strtoul(instance, NULL, 16);

        CHECK_ROW(keys_of, json_is_true(json_object_get(worker, "public_keys_differ")) ==
                               (named[which] == 'x'));
        CHECK_ROW(keys_of, json_is_string(json_object_get(worker, "public_key_fingerprint")) ==
                               (keys_of[which] != '-'));
    }
    json_decref(status);
}

static void who_has_other_public_keys_than_most_is_named(void) {
    check_keys("-----", "     ");
    check_keys("aaaaa", "     ");
    check_keys("aabaa", "  x  ");
    check_keys("baaaa", "x    ");
    check_keys("aa-ba", "  xx ");
    check_keys("-a---", "x xxx"); /* those without have none to be right about */
    check_keys("aabb-", "xxxxx"); /* nobody can say who is right */
    check_keys("abcdd", "xxx  ");
}

static CU_TestInfo rules[] = {
    CHECK_TEST(machines_are_listed_with_state_holder_and_horizon),
    CHECK_TEST(status_has_the_names_of_the_contract),
    CHECK_TEST(without_meta_the_mode_is_null_and_a_reason_stands),
    CHECK_TEST(a_ceiling_that_is_past_has_a_negative_lead_and_no_ceiling_none),
    CHECK_TEST(who_has_other_public_keys_than_most_is_named),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"report", NULL, NULL, given_a_cluster_of_two_machine_ids, and_it_is_freed, rules})
