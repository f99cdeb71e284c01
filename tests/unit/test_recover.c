/* What is still known after etcd lost its history, and the meta that follows from it. */
#include "coordinator/recover.h"
#include "tests/support/check.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define EPOCH_MS UINT64_C(1704067200000)
#define NOW_MS UINT64_C(1764547200000)
#define WINDOW_MS 60000u
#define OFFSET_MS 500u
#define ERA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ERA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define ERA_C "cccccccccccccccccccccccccccccccc"
#define CLAIM "c1a1c1a1c1a1c1a1c1a1c1a1c1a1c1a1"
#define INSTANCE "0123456789abcdef0123456789abcdef"

static struct recover_evidence evidence;
static struct recover_orders orders;
static struct meta found;
static struct error err;

/* The meta of a restored etcd: of era B, which followed A. */
static void given_a_meta(void) {
    found = (struct meta){.format = RECORD_FORMAT,
                          .serial = 4,
                          .era = ERA_B,
                          .earlier_eras = {ERA_A},
                          .n_earlier_eras = 1,
                          .floor_ms = EPOCH_MS,
                          .epoch_ms = EPOCH_MS,
                          .last_machine_id = 9,
                          .max_window_ms = WINDOW_MS,
                          .quiet_time_ms = 90000,
                          .max_offset_ms = OFFSET_MS};
    orders = (struct recover_orders){.has_epoch = false};
    err = (struct error){.status = STATUS_OK};
}

static struct recover_source source_like_it(const char *name) {
    struct recover_source source = {.cluster = "default", .knows_meta = true, .meta = found};

    snprintf(source.name, sizeof source.name, "%s", name);
    return source;
}

static enum status begin(const struct meta *meta) {
    return recover_begin(&evidence, &orders, meta, &err);
}

static enum status add(const struct recover_source *source) {
    return recover_add(&evidence, source, "default", &err);
}

/* ---- what a worker says ---- */

#define STATUS(machines)                                                                           \
    "{\"state\":\"SERVING\",\"instance\":\"" INSTANCE                                              \
    "\",\"cluster\":\"default\",\"machines\":[" machines "],\"era\":\"" ERA_B                      \
    "\",\"earlier_eras\":[\"" ERA_A                                                                \
    "\"],\"epoch_ms\":\"1704067200000\",\"machine_id_range\":\"0-9\",\"reserved\":[],"             \
    "\"window_ms\":60000,\"clock\":{\"wall_ms\":\"1764547200000\"}}"
#define MACHINE(horizon, limit, last, pending)                                                     \
    "{\"machine_id\":7,\"claim\":\"" CLAIM "\",\"horizon_ms\":\"" horizon                          \
    "\",\"limit_ms\":\"" limit "\",\"last_issued_ms\":\"" last "\",\"pending\":" pending "}"
#define SHOWN(horizon, limit, highest, pending)                                                    \
    "{\"machine_id\":7,\"claim\":\"" CLAIM "\",\"horizon_ms\":\"" horizon                          \
    "\",\"limit_ms\":\"" limit "\",\"last_issued_ms\":\"0\",\"pending\":" pending                  \
    ",\"pending_horizon_ms\":\"" highest "\"}"

static const struct {
    const char *row, *text;
    uint64_t until_ms;
} answers[] = {
    {"its limit", STATUS(MACHINE("1764547200050", "1764547200070", "1764547200001", "0")),
     NOW_MS + 70},
    {"a horizon above it", STATUS(MACHINE("1764547200090", "1764547200070", "0", "0")),
     NOW_MS + 90},
    {"a last ID above both", STATUS(MACHINE("0", "0", "1764547200099", "0")), NOW_MS + 99},
    {"a pending value: a window from its clock",
     STATUS(MACHINE("1764547200050", "1764547200070", "0", "1")), NOW_MS + WINDOW_MS},
    {"a pending value that is shown",
     STATUS(SHOWN("1764547200050", "1764547200070", "1764547200080", "1")), NOW_MS + 80},
    {"one that is shown and lower than its limit",
     STATUS(SHOWN("1764547200050", "1764547200070", "1764547200060", "2")), NOW_MS + 70},
    {"none is shown", STATUS(SHOWN("1764547200050", "1764547200070", "0", "0")), NOW_MS + 70},
    {"looks for one", STATUS("{\"machine_id\":null,\"claim\":\"\"}"), 0},
    {"holds none", STATUS(""), 0},
};

static void a_worker_tells_how_far_its_machine_ids_may_be_used(void) {
    for (size_t i = 0; i < COUNT(answers); i++) {
        struct recover_source source;

        CHECK_ROW(answers[i].row, recover_from_status(answers[i].text, strlen(answers[i].text),
                                                      "worker a", &source, &err) == STATUS_OK);
        CHECK_ROW(answers[i].row, begin(&found) == STATUS_OK && add(&source) == STATUS_OK);
        CHECK_ROW(answers[i].row, evidence.until_ms[7] == answers[i].until_ms);
    }
}

static const struct {
    const char *row, *text;
} senseless[] = {
    {"no JSON", "<html>"},
    {"empty", ""},
    {"no status", "{\"live\":true}"},
    {"a machine ID out of range",
     STATUS("{\"machine_id\":1024,\"claim\":\"\",\"horizon_ms\":\"1\",\"limit_ms\":\"1\","
            "\"last_issued_ms\":\"1\",\"pending\":0}")},
    {"a limit that is a number",
     STATUS("{\"machine_id\":1,\"claim\":\"\",\"horizon_ms\":\"1\",\"limit_ms\":1,"
            "\"last_issued_ms\":\"1\",\"pending\":0}")},
    {"a pending horizon that is a number",
     STATUS("{\"machine_id\":1,\"claim\":\"\",\"horizon_ms\":\"1\",\"limit_ms\":\"1\","
            "\"last_issued_ms\":\"1\",\"pending\":1,\"pending_horizon_ms\":7}")},
    {"a limit is missing", STATUS("{\"machine_id\":1,\"claim\":\"\",\"horizon_ms\":\"1\","
                                  "\"last_issued_ms\":\"1\",\"pending\":0}")},
    {"an era that is none",
     "{\"instance\":\"" INSTANCE "\",\"cluster\":\"default\",\"machines\":[],\"era\":\"x\","
     "\"earlier_eras\":[],\"epoch_ms\":\"1\",\"machine_id_range\":\"0-9\",\"reserved\":[],"
     "\"window_ms\":60000,\"clock\":{\"wall_ms\":\"1\"}}"},
    {"an era without the range",
     "{\"instance\":\"" INSTANCE "\",\"cluster\":\"default\",\"machines\":[],\"era\":\"" ERA_A
     "\",\"earlier_eras\":[],\"epoch_ms\":\"1\",\"reserved\":[],\"window_ms\":60000,"
     "\"clock\":{\"wall_ms\":\"1\"}}"},
    {"an era without the epoch",
     "{\"instance\":\"" INSTANCE "\",\"cluster\":\"default\",\"machines\":[],\"era\":\"" ERA_A
     "\",\"earlier_eras\":[],\"machine_id_range\":\"0-9\",\"reserved\":[],\"window_ms\":60000,"
     "\"clock\":{\"wall_ms\":\"1\"}}"},
};

static void an_answer_that_makes_no_sense_is_no_evidence(void) {
    for (size_t i = 0; i < COUNT(senseless); i++) {
        struct recover_source source;

        err.message[0] = '\0';
        CHECK_ROW(senseless[i].row,
                  recover_from_status(senseless[i].text, strlen(senseless[i].text), "worker a",
                                      &source, &err) == STATUS_PROTOCOL);
        CHECK_ROW(senseless[i].row, err.message[0] != '\0');
    }
}

static void a_worker_that_never_read_meta_tells_what_it_holds_and_no_more(void) {
    const char *text = "{\"instance\":\"" INSTANCE "\",\"cluster\":\"default\",\"machines\":[],"
                       "\"window_ms\":60000,\"clock\":{\"wall_ms\":\"1764547200000\"}}";
    struct recover_source source;

    CU_ASSERT_EQUAL_FATAL(recover_from_status(text, strlen(text), "worker a", &source, &err),
                          STATUS_OK);
    CU_ASSERT_FALSE(source.knows_meta);
    CHECK_TEXT(source.instance, INSTANCE);
    CU_ASSERT_EQUAL(begin(NULL), STATUS_OK);
    CU_ASSERT_EQUAL(add(&source), STATUS_OK);
    CU_ASSERT_EQUAL(recover_complete(&evidence, &err), STATUS_REFUSED);
}

/* ---- what a file says ---- */

static void a_file_counts_what_is_pending_too(void) {
    struct state_record record = {.kind = STATE_CLUSTER,
                                  .cluster = "default",
                                  .era = ERA_B,
                                  .epoch_ms = EPOCH_MS,
                                  .last_machine_id = 9,
                                  .n_machines = 2,
                                  .machines = {{5, CLAIM, NOW_MS, NOW_MS + 5}, {6, CLAIM, 9, 0}}};
    struct recover_source source;

    CU_ASSERT_EQUAL_FATAL(recover_from_record(&record, "file", &source, &err), STATUS_OK);
    CU_ASSERT_EQUAL(begin(&found), STATUS_OK);
    CU_ASSERT_EQUAL(add(&source), STATUS_OK);
    CU_ASSERT_EQUAL(evidence.until_ms[5], NOW_MS + 5);
    CU_ASSERT_EQUAL(evidence.until_ms[6], 9);
    record.kind = STATE_STANDALONE;
    CU_ASSERT_EQUAL(recover_from_record(&record, "file", &source, &err), STATUS_REFUSED);
}

/* ---- together ---- */

static void contradict_cluster(struct recover_source *source) {
    strcpy(source->cluster, "other");
}
static void contradict_epoch(struct recover_source *source) {
    source->meta.epoch_ms++;
}
static void contradict_range(struct recover_source *source) {
    source->meta.last_machine_id = 99;
}
static void contradict_reserved(struct recover_source *source) {
    source->meta.reserved[3] = true;
}

static const struct {
    const char *row, *named;
    void (*contradict)(struct recover_source *source);
    bool order_decides;
} contradictions[] = {
    {"cluster", "other", contradict_cluster, false},
    {"epoch", "epoch", contradict_epoch, false},
    {"range", "--machine-id-range", contradict_range, true},
    {"reserved", "--reserved", contradict_reserved, true},
};

static void a_contradiction_is_named_unless_an_order_decides(void) {
    for (size_t i = 0; i < COUNT(contradictions); i++) {
        struct recover_source source = source_like_it("worker b");

        contradictions[i].contradict(&source);
        orders = (struct recover_orders){.has_epoch = false};
        CHECK_ROW(contradictions[i].row, begin(&found) == STATUS_OK);
        CHECK_ROW(contradictions[i].row, add(&source) == STATUS_REFUSED);
        CHECK_ROW(contradictions[i].row, strstr(err.message, contradictions[i].named) != NULL &&
                                             strstr(err.message, "worker b") != NULL);
        orders = (struct recover_orders){.has_range = true, .has_reserved = true, .meta = found};
        CHECK_ROW(contradictions[i].row, begin(&found) == STATUS_OK);
        CHECK_ROW(contradictions[i].row,
                  (add(&source) == STATUS_OK) == contradictions[i].order_decides);
    }
}

static void the_epoch_that_stands_cannot_be_overruled(void) {
    orders.has_epoch = true;
    orders.meta.epoch_ms = EPOCH_MS + 1;
    CU_ASSERT_EQUAL(begin(&found), STATUS_REFUSED);
}

static void without_a_meta_nothing_is_defaulted(void) {
    static const char *const names[] = {"--epoch", "--machine-id-range", "--reserved",
                                        "--earlier-era", "--max-window"};

    for (size_t i = 0; i < COUNT(names); i++) {
        orders = (struct recover_orders){.has_epoch = i != 0,
                                         .has_range = i != 1,
                                         .has_reserved = i != 2,
                                         .has_limits = i != 4,
                                         .meta = found};
        if (i == 3) {
            orders.meta.era[0] = '\0';
            orders.meta.n_earlier_eras = 0;
        }
        CHECK_ROW(names[i], begin(NULL) == STATUS_OK);
        CHECK_ROW(names[i], recover_complete(&evidence, &err) == STATUS_REFUSED);
        for (size_t k = 0; k < COUNT(names); k++)
            CHECK_ROW(names[i], (strstr(err.message, names[k]) != NULL) == (k == i));
    }
}

/* ---- what follows ---- */

static void while_it_works_meta_is_frozen_and_only_recover_ends_that(void) {
    struct meta meta = found;

    begin(&found);
    CU_ASSERT_EQUAL(recover_freeze(&evidence, RECORD_ROLLBACK_REASON " x", &meta, &err), STATUS_OK);
    CU_ASSERT_EQUAL(meta.mode, META_FROZEN);
    CU_ASSERT_EQUAL(meta.serial, 5);
    CHECK_TEXT(meta.era, ERA_B);
    CHECK_TEXT(meta.reason, RECORD_ROLLBACK_REASON " x");
}

static void a_lost_meta_is_frozen_in_the_newest_era_that_is_known(void) {
    struct recover_source source = source_like_it("worker old");
    struct meta meta = {.era = ""};

    orders = (struct recover_orders){
        .has_limits = true, .meta = {.max_window_ms = WINDOW_MS, .max_offset_ms = OFFSET_MS}};
    CU_ASSERT_EQUAL(begin(NULL), STATUS_OK);
    CU_ASSERT_EQUAL(add(&source), STATUS_OK);
    strcpy(source.meta.era, ERA_C);
    strcpy(source.meta.earlier_eras[source.meta.n_earlier_eras++], ERA_B);
    CU_ASSERT_EQUAL(add(&source), STATUS_OK);
    CU_ASSERT_EQUAL(recover_freeze(&evidence, RECORD_ROLLBACK_REASON, &meta, &err), STATUS_OK);
    CHECK_TEXT(meta.era, ERA_C);
    CU_ASSERT_EQUAL(meta.n_earlier_eras, 2);
    CU_ASSERT(meta_earlier_era(&meta, ERA_A) && meta_earlier_era(&meta, ERA_B));
}

/* That row's evidence is for machine ID 9, which is in range, and 10, which is not. */
static const struct {
    const char *row;
    uint64_t floor_before, order, in_range, out_of_range, floor;
} floors[] = {
    {"the clock", 0, 0, 0, 0, NOW_MS + WINDOW_MS + OFFSET_MS},
    {"never lower than it was", NOW_MS + 99999, 0, 0, 0, NOW_MS + 99999},
    {"as ordered", 0, NOW_MS + 99999, 0, 0, NOW_MS + 99999},
    {"an order below the clock's", 0, NOW_MS, 0, 0, NOW_MS + WINDOW_MS + OFFSET_MS},
    {"what has a slot stays there", 0, 0, NOW_MS + 99999, 0, NOW_MS + WINDOW_MS + OFFSET_MS},
    {"what has none", 0, 0, 0, NOW_MS + 99999, NOW_MS + 99999},
};

static void the_new_era_has_a_floor_above_what_nobody_can_tell(void) {
    for (size_t i = 0; i < COUNT(floors); i++) {
        struct meta meta;

        found.floor_ms = floors[i].floor_before ? floors[i].floor_before : EPOCH_MS;
        meta = found;
        begin(&found);
        evidence.until_ms[9] = floors[i].in_range;
        evidence.until_ms[10] = floors[i].out_of_range;
        CHECK_ROW(floors[i].row, recover_open(&evidence, ERA_C, NOW_MS, floors[i].order, &meta,
                                              &err) == STATUS_OK);
        CHECK_ROW(floors[i].row, meta.floor_ms == floors[i].floor);
        CHECK_ROW(floors[i].row, meta.mode == META_OPEN && strcmp(meta.era, ERA_C) == 0);
        CHECK_ROW(floors[i].row, meta_earlier_era(&meta, ERA_A) && meta_earlier_era(&meta, ERA_B));
        CHECK_ROW(floors[i].row, recover_horizon(&evidence, 9) ==
                                     (floors[i].in_range ? floors[i].in_range : EPOCH_MS));
        CHECK_ROW(floors[i].row, recover_horizon(&evidence, 10) == 0);
    }
}

static void too_many_eras_are_refused_rather_than_forgotten(void) {
    struct recover_source source = source_like_it("worker b");

    CU_ASSERT_EQUAL(begin(&found), STATUS_OK);
    source.meta.n_earlier_eras = RECORD_EARLIER_ERAS_MAX;
    for (unsigned i = 0; i < RECORD_EARLIER_ERAS_MAX; i++)
        snprintf(source.meta.earlier_eras[i], HEX128_CHARS + 1, "%032x", i);
    CU_ASSERT_EQUAL(add(&source), STATUS_REFUSED);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(a_worker_tells_how_far_its_machine_ids_may_be_used),
    CHECK_TEST(an_answer_that_makes_no_sense_is_no_evidence),
    CHECK_TEST(a_worker_that_never_read_meta_tells_what_it_holds_and_no_more),
    CHECK_TEST(a_file_counts_what_is_pending_too),
    CHECK_TEST(a_contradiction_is_named_unless_an_order_decides),
    CHECK_TEST(the_epoch_that_stands_cannot_be_overruled),
    CHECK_TEST(without_a_meta_nothing_is_defaulted),
    CHECK_TEST(while_it_works_meta_is_frozen_and_only_recover_ends_that),
    CHECK_TEST(a_lost_meta_is_frozen_in_the_newest_era_that_is_known),
    CHECK_TEST(the_new_era_has_a_floor_above_what_nobody_can_tell),
    CHECK_TEST(too_many_eras_are_refused_rather_than_forgotten),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"recover", NULL, NULL, given_a_meta, NULL, rules})
