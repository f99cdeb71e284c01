/* The fleet at a glance: every machine ID is told of once, and what is wrong is said in words. */
#include "coordinator/fleet.h"
#include "tests/support/check.h"

#define NOW_MS UINT64_C(1764547200000)
#define BOOT_MS 100000u
#define ALICE "a11ce000000000000000000000000000"
#define BOB "b0b00000000000000000000000000000"

static struct keys keys;
static struct cluster *cluster;
static struct fleet_view view;
static json_t *shown; /* the last report */

static void apply(const char *key, const char *value) {
    cluster_apply(cluster, key, value, value ? strlen(value) : 0, 1, 1);
}

static void set_offset(struct member *member, int64_t offset_ns, int64_t bound_ns) {
    const struct track_sample sample = {.skew = {offset_ns, bound_ns},
                                        .boot_ns = BOOT_MS * INT64_C(1000000)};

    track_reset(&member->track);
    track_add(&member->track, &sample, 0);
}

static struct member *a_worker(const char *instance, const char *identity, const char *own,
                               const char *hor, const char *horizon) {
    char key[128], value[512];
    struct member *member = NULL;

    snprintf(key, sizeof key, "/snowfleet/default/node/%s", instance);
    snprintf(value, sizeof value,
             "{\"identity\":\"%s\",\"addresses\":{\"http\":\"10.0.0.5:8080\",\"grpc\":\"\"},"
             "\"version\":\"1\",\"attempt\":\"1\",\"missing\":0,\"wanted\":[],\"held\":[],"
             "\"refused\":[],\"synchronized\":true,\"max_error_ns\":\"1000\"}",
             identity);
    apply(key, value);
    snprintf(value, sizeof value,
             "{\"claim\":\"abababababababababababababababab\",\"instance\":\"%s\",\"identity\":"
             "\"%s\",\"addresses\":{\"http\":\"10.0.0.5:8080\",\"grpc\":\"\"}}",
             instance, identity);
    apply(own, value);
    snprintf(value, sizeof value, "%020llu:abababababababababababababababab:3",
             strtoull(horizon, NULL, 10));
    apply(hor, value);
    for (size_t i = 0; i < cluster->n_members; i++) {
        if (strcmp(cluster->members[i]->instance, instance) == 0)
            member = cluster->members[i];
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(member);
    CU_ASSERT_FATAL(member->node_read);
    member->reading = (struct clock_reading){.heard = true,
                                             .synchronized = true,
                                             .knows_error = true,
                                             .max_error_ns = 1000000,
                                             .boot_ms = BOOT_MS - 1000};
    set_offset(member, 0, 100000);
    member->pulse = (struct pulse_reading){.heard = true,
                                           .said = {.state = "SERVING", .issued_total = 70},
                                           .has_rate = true,
                                           .rate_per_s = 7,
                                           .boot_ms = BOOT_MS - 500};
    return member;
}

static struct member *alice, *bob;

static void given_two_workers_that_are_well(void) {
    struct meta meta = {.format = RECORD_FORMAT,
                        .serial = 1,
                        .epoch_ms = 1704067200000,
                        .floor_ms = 1704067200000,
                        .first_machine_id = 1,
                        .last_machine_id = 9,
                        .max_window_ms = 60000,
                        .quiet_time_ms = 90000,
                        .max_offset_ms = 500};
    struct error err;
    char *text, key[64];

    CU_ASSERT_EQUAL_FATAL(keys_init(&keys, "default", &err), STATUS_OK);
    cluster = cluster_new(&keys);
    cluster->complete = true;
    memset(meta.era, 'e', HEX128_CHARS);
    text = meta_format(&meta, NULL);
    apply(keys.meta, text);
    free(text);
    CU_ASSERT_FATAL(cluster->has_meta);
    apply(keys.ceil, "00000001764633600000");
    apply(keys.leader,
          "{\"instance\":\"" ALICE "\",\"addresses\":{\"http\":\"10.0.0.9:8090\",\"grpc\":"
          "\"\"}}");
    CU_ASSERT_FATAL(cluster->has_leader);
    for (unsigned id = 1; id <= 9; id++) {
        snprintf(key, sizeof key, "/snowfleet/default/hor/%04u", id);
        apply(key, "00000001704067200000:00000000000000000000000000000000:0");
    }
    alice = a_worker(ALICE, "pod-1", "/snowfleet/default/own/0001", "/snowfleet/default/hor/0001",
                     "1764547250000");
    bob = a_worker(BOB, "pod-2", "/snowfleet/default/own/0002", "/snowfleet/default/hor/0002",
                   "1764547240000");
    view = (struct fleet_view){
        .cluster = cluster,
        .cluster_name = "default",
        .now = {.wall_ms = NOW_MS, .boot_ms = BOOT_MS},
        .boot_ns = BOOT_MS * INT64_C(1000000),
        .consensus = {.found = true, .majority = true, .firm = true, .used = 3, .agree = 3},
        .instance = ALICE,
        .leads = true,
        .state = "leader",
        .trouble = "",
        .ceiling_alarm = "",
        .etcd_endpoint = "http://127.0.0.1:2379",
        .etcd_error = ""};
    shown = NULL;
}

static void and_they_are_freed(void) {
    json_decref(shown);
    cluster_free(cluster);
}

static json_t *show(const char *name) {
    json_decref(shown);
    shown = fleet_report(&view);
    return json_object_get(shown, name);
}

static const char *alarm_text(size_t i, const char *severity) {
    json_t *alarm = json_array_get(show("alarms"), i);
    const char *said = json_string_value(json_object_get(alarm, "severity"));

    if (!said || strcmp(said, severity) != 0)
        return said ? "another severity" : "none";
    return json_string_value(json_object_get(alarm, "text"));
}

static void nothing_is_wrong_with_a_fleet_that_is_well(void) {
    CU_ASSERT_EQUAL(json_array_size(show("alarms")), 0);
    CU_ASSERT_EQUAL(json_array_size(show("workers")), 2);
    CU_ASSERT_EQUAL(json_integer_value(show("ceiling_lead_s")), 86400);
}

static void check_compact(json_t *value, const char *expected) {
    char *text = json_dumps(value, JSON_COMPACT);

    CHECK_TEXT(text, expected);
    free(text);
}

static void machine_ids_are_told_of_in_runs_that_cover_all_of_them(void) {
    json_t *machines = show("machines");

    check_compact(json_array_get(machines, 0),
                  "{\"first\":0,\"last\":0,\"state\":\"OUT_OF_RANGE\"}");
    check_compact(json_array_get(machines, 1),
                  "{\"first\":1,\"last\":1,\"state\":\"HELD\",\"identity\":\"pod-1\",\"instance\":"
                  "\"" ALICE "\",\"runway_ms\":50000}");
    check_compact(json_array_get(machines, 3), "{\"first\":3,\"last\":9,\"state\":\"FREE\"}");
    check_compact(json_array_get(machines, 4),
                  "{\"first\":10,\"last\":1023,\"state\":\"OUT_OF_RANGE\"}");
    CU_ASSERT_EQUAL(json_array_size(machines), 5);
}

static void a_worker_is_shown_with_what_is_known_and_null_for_the_rest(void) {
    json_t *worker = json_array_get(show("workers"), 0);

    CHECK_TEXT(json_string_value(json_object_get(worker, "identity")), "pod-1");
    CHECK_TEXT(json_string_value(json_object_get(worker, "verdict")), "OK");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(worker, "runway_ms")), 50000);
    CU_ASSERT_EQUAL(json_real_value(json_object_get(worker, "rate_per_s")), 7.0);
    alice->reading.heard = false;
    worker = json_array_get(show("workers"), 0); /* now the worst */
    CHECK_TEXT(json_string_value(json_object_get(worker, "identity")), "pod-1");
    CHECK_TEXT(json_string_value(json_object_get(worker, "verdict")), "UNKNOWN");
    CU_ASSERT(json_is_null(json_object_get(worker, "offset_ms")));
    CU_ASSERT(json_is_null(json_object_get(worker, "rate_per_s")));
    CU_ASSERT(json_is_null(json_object_get(worker, "state")));
}

static void a_silent_worker_is_named_with_the_reason(void) {
    bob->reading = (struct clock_reading){.boot_ms = BOOT_MS, .reason = "connection refused"};
    CHECK_TEXT(alarm_text(0, "warning"),
               "1 worker is registered in etcd and does not answer: pod-2 "
               "(connection refused)");
    bob->reading.boot_ms = 0;
    CHECK_TEXT(alarm_text(0, "warning"), "none"); /* nobody has asked it yet */
}

static void a_reading_older_than_30_s_is_no_reading(void) {
    bob->reading.boot_ms = BOOT_MS - 30001;
    CHECK_TEXT(alarm_text(0, "warning"),
               "1 worker is registered in etcd and does not answer: pod-2 (no answer lately)");
}

static void a_clock_that_is_off_is_named_with_offset_and_bound(void) {
    set_offset(alice, -3000000000, 500000);
    CHECK_TEXT(alarm_text(0, "critical"),
               "1 worker has a clock that is certainly more than 500 ms off: pod-1 (3000.000 ms "
               "behind, ± 0.500 ms)");
    set_offset(alice, 3000000000, 2950000000);
    CHECK_TEXT(alarm_text(0, "critical"), "none"); /* nothing is certain */
    set_offset(alice, 200000000, 50000000);
    CHECK_TEXT(alarm_text(0, "warning"),
               "1 worker has a clock that is certainly more than 100 ms off: pod-1 (200.000 ms "
               "ahead, ± 50.000 ms)");
}

static void too_few_clocks_accuse_nobody_but_their_distance_is_told(void) {
    view.consensus.majority = view.consensus.firm = false;
    set_offset(alice, 60000000000, 1000000);
    CHECK_TEXT(alarm_text(0, "critical"),
               "The clocks differ by at least 59999 ms, and too few agree "
               "to say which is wrong");
}

static void a_worker_that_issues_nothing_is_critical(void) {
    strcpy(alice->pulse.said.state, "STARVED");
    strcpy(alice->pulse.said.reason, "meta is missing");
    CHECK_TEXT(alarm_text(0, "critical"),
               "1 worker issues no Snowflakes: pod-1 (STARVED: meta is missing)");
}

static void three_of_many_are_named(void) {
    char instance[HEX128_CHARS + 1], identity[32], own[64], hor[64];

    for (unsigned id = 3; id <= 7; id++) {
        snprintf(instance, sizeof instance, "%032x", id);
        snprintf(identity, sizeof identity, "pod-%u", id);
        snprintf(own, sizeof own, "/snowfleet/default/own/%04u", id);
        snprintf(hor, sizeof hor, "/snowfleet/default/hor/%04u", id);
        a_worker(instance, identity, own, hor, "1764547250000")->reading.synchronized = false;
    }
    CHECK_TEXT(alarm_text(0, "warning"), "5 workers have clocks that nothing synchronises: pod-3, "
                                         "pod-4, pod-5 and 2 more");
}

static void a_horizon_that_is_past_makes_a_machine_id_stuck(void) {
    apply("/snowfleet/default/hor/0002", "00000001764547199000:abababababababababababababababab:3");
    CHECK_TEXT(alarm_text(0, "warning"),
               "1 machine ID is held although the horizon is past: 2 (pod-2)");
    CHECK_TEXT(json_string_value(json_object_get(json_array_get(show("machines"), 2), "state")),
               "STUCK");
}

static void trouble_of_the_whole_cluster_comes_first(void) {
    view.etcd_error = "connection refused";
    view.trouble = "meta is missing";
    cluster_apply(cluster, keys.leader, NULL, 0, 0, 1);
    apply(keys.ceil, "00000001764547230000"); /* 30 s ahead */
    CHECK_TEXT(alarm_text(0, "critical"),
               "etcd does not answer this coordinator: connection refused");
    CHECK_TEXT(alarm_text(1, "critical"),
               "No machine ID can be claimed or extended: meta is missing");
    CHECK_TEXT(alarm_text(2, "critical"), "The ceiling is only 30.0 s ahead");
    CHECK_TEXT(alarm_text(3, "warning"), "No coordinator leads");
}

static void a_worker_whose_keys_for_public_ids_differ_is_named(void) {
    struct member *carol;

    strcpy(alice->node.public_key_fingerprint, "0123456789abcdef");
    strcpy(bob->node.public_key_fingerprint, "fedcba9876543210");
    CHECK_TEXT(alarm_text(0, "warning"), /* nobody knows which is right */
               "2 workers have other keys for public IDs than the rest: pod-1, pod-2");
    bob->node.public_key_fingerprint[0] = '\0';
    carol = a_worker("ca401000000000000000000000000000", "pod-3", "/snowfleet/default/own/0003",
                     "/snowfleet/default/hor/0003", "1764547250000");
    strcpy(carol->node.public_key_fingerprint, "0123456789abcdef");
    CHECK_TEXT(alarm_text(0, "warning"),
               "1 worker has other keys for public IDs than the rest: pod-2 (none)");
    strcpy(bob->node.public_key_fingerprint, "fedcba9876543210");
    CHECK_TEXT(alarm_text(0, "warning"),
               "1 worker has other keys for public IDs than the rest: pod-2");
    strcpy(bob->node.public_key_fingerprint, "0123456789abcdef");
    CHECK_TEXT(alarm_text(0, "warning"), "none");
}

static void without_meta_free_and_reserved_cannot_be_told_apart(void) {
    cluster_apply(cluster, keys.meta, NULL, 0, 0, 1);
    check_compact(json_array_get(show("machines"), 0),
                  "{\"first\":0,\"last\":0,\"state\":\"UNKNOWN\"}");
    CU_ASSERT(json_is_null(show("mode")));
}

static CU_TestInfo rules[] = {
    CHECK_TEST(nothing_is_wrong_with_a_fleet_that_is_well),
    CHECK_TEST(machine_ids_are_told_of_in_runs_that_cover_all_of_them),
    CHECK_TEST(a_worker_is_shown_with_what_is_known_and_null_for_the_rest),
    CHECK_TEST(a_silent_worker_is_named_with_the_reason),
    CHECK_TEST(a_reading_older_than_30_s_is_no_reading),
    CHECK_TEST(a_clock_that_is_off_is_named_with_offset_and_bound),
    CHECK_TEST(too_few_clocks_accuse_nobody_but_their_distance_is_told),
    CHECK_TEST(a_worker_that_issues_nothing_is_critical),
    CHECK_TEST(three_of_many_are_named),
    CHECK_TEST(a_horizon_that_is_past_makes_a_machine_id_stuck),
    CHECK_TEST(trouble_of_the_whole_cluster_comes_first),
    CHECK_TEST(a_worker_whose_keys_for_public_ids_differ_is_named),
    CHECK_TEST(without_meta_free_and_reserved_cannot_be_told_apart),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"fleet", NULL, NULL, given_two_workers_that_are_well, and_they_are_freed, rules})
