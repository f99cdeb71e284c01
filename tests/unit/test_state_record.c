#include "common/state_record.h"

#include <zlib.h>

#include "common/snowflake.h"
#include "tests/support/check.h"

#define HOST "machine-id:0123456789abcdef0123456789abcdef"
#define CRC_AT (STATE_RECORD_BYTES - 4)

static unsigned char blocks[STATE_FILE_BYTES];
static unsigned char *const first = blocks, *const second = blocks + STATE_RECORD_BYTES;

static struct state_record standalone(uint64_t sequence, uint64_t horizon_ms) {
    struct state_record record = {.sequence = sequence,
                                  .kind = STATE_STANDALONE,
                                  .host = HOST,
                                  .epoch_ms = SNOWFLAKE_EPOCH_MS,
                                  .machine_id = 7,
                                  .horizon_ms = SNOWFLAKE_EPOCH_MS + horizon_ms};

    return record;
}

static void put(unsigned char *block, uint64_t sequence, uint64_t horizon_ms) {
    struct state_record record = standalone(sequence, horizon_ms);

    state_record_encode(&record, block);
}

/* Makes the checksum right again, as no accident would. */
static void seal(unsigned char *block) {
    uint32_t crc = (uint32_t)crc32(crc32(0, NULL, 0), block, CRC_AT);

    for (size_t i = 0; i < 4; i++)
        block[CRC_AT + i] = (unsigned char)(crc >> 8 * i);
}

static uint64_t chosen_ms(size_t len) {
    struct state_record record;
    struct error err;
    size_t index;

    if (state_record_choose(blocks, len, &record, &index, &err) != STATUS_OK)
        return 0;
    return record.horizon_ms - SNOWFLAKE_EPOCH_MS;
}

static enum status refused(char *message) {
    struct state_record record;
    struct error err = {.message = ""};
    size_t index;
    enum status status = state_record_choose(blocks, sizeof blocks, &record, &index, &err);

    CU_ASSERT_EQUAL(status, err.status);
    strcpy(message, err.message);
    return status;
}

static void given_two_records(void) {
    put(first, 5, 200);
    put(second, 4, 100);
}

/* ---- choosing ---- */

static void flip(unsigned char *block) {
    block[100] ^= 1;
}
static void zero(unsigned char *block) {
    memset(block, 0, STATE_RECORD_BYTES);
}
static void noise(unsigned char *block) {
    memset(block, 0xa5, STATE_RECORD_BYTES);
}
/* The device had written only the first half of record 6 when it stopped. */
static void tear(unsigned char *block) {
    unsigned char newer[STATE_RECORD_BYTES];

    put(newer, 6, 300);
    memcpy(block, newer, 40);
}
static void keep(unsigned char *block) {
    (void)block;
}
static void older_copy(unsigned char *block) {
    put(block, 2, 20);
}
static void newer(unsigned char *block) {
    put(block, 6, 300);
}
static void lower_and_newer(unsigned char *block) {
    put(block, 6, 50); /* handed over */
}

static void of_two_records_the_newest_valid_one_is_believed(void) {
    static const struct {
        const char *row;
        void (*to_first)(unsigned char *), (*to_second)(unsigned char *);
        uint64_t expected_ms; /* 0: refused */
    } rows[] = {
        {"both valid", keep, keep, 200},
        {"the second is newer", keep, newer, 300},
        {"the second is newer and lower", keep, lower_and_newer, 50},
        {"the first torn", tear, keep, 100},
        {"the second torn", keep, tear, 200},
        {"a bit of the first flipped", flip, keep, 100},
        {"a bit of the second flipped", keep, flip, 200},
        {"the first never written", zero, keep, 100},
        {"the second never written", keep, zero, 200},
        {"the first is noise", noise, keep, 100},
        {"the second is noise", keep, noise, 200},
        {"an old copy in the first", older_copy, keep, 100},
        {"an old copy in the second", keep, older_copy, 200},
        {"both torn", tear, tear, 0},
        {"both flipped", flip, flip, 0},
        {"both never written", zero, zero, 0},
        {"one torn, one flipped", tear, flip, 0},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        given_two_records();
        rows[i].to_first(first);
        rows[i].to_second(second);
        CHECK_ROW(rows[i].row, chosen_ms(sizeof blocks) == rows[i].expected_ms);
    }
}

static void a_bit_flipped_anywhere_spoils_that_record_and_no_other(void) {
    for (size_t at = 0; at < STATE_RECORD_BYTES; at++) {
        unsigned char bit = (unsigned char)(1u << at % 8);

        first[at] ^= bit;
        CU_ASSERT_EQUAL_FATAL(chosen_ms(sizeof blocks), 100);
        second[at] ^= bit;
        CU_ASSERT_EQUAL_FATAL(chosen_ms(sizeof blocks), 0);
        first[at] ^= bit;
        CU_ASSERT_EQUAL_FATAL(chosen_ms(sizeof blocks), 200);
        second[at] ^= bit;
    }
}

static void of_a_file_cut_short_only_whole_records_count(void) {
    put(first, 4, 100);
    put(second, 5, 200);
    for (size_t len = 0; len <= STATE_FILE_BYTES; len++) {
        uint64_t expected_ms = len < STATE_RECORD_BYTES ? 0 : len < STATE_FILE_BYTES ? 100 : 200;

        CU_ASSERT_EQUAL_FATAL(chosen_ms(len), expected_ms);
    }
}

static void the_reason_names_what_is_wrong_with_each(void) {
    char message[256];

    flip(first);
    zero(second);
    CU_ASSERT_EQUAL(refused(message), STATUS_PROTOCOL);
    CHECK_TEXT(message, "neither record is valid (the first: damaged; the second: never written)");
}

static void two_records_of_one_sequence_must_be_equal(void) {
    char message[256];

    put(second, 5, 200);
    CU_ASSERT_EQUAL(chosen_ms(sizeof blocks), 200);
    put(second, 5, 201);
    CU_ASSERT_EQUAL(refused(message), STATUS_PROTOCOL);
    CHECK_TEXT(message, "the two records contradict one another");
}

static void a_record_of_a_newer_program_is_refused_even_beside_a_valid_one(void) {
    char message[256];

    second[16] = 2;
    seal(second);
    CU_ASSERT_EQUAL(refused(message), STATUS_REFUSED);
    CHECK_TEXT(message, "record 2 is of format 2, and this program knows 1");
}

static void what_no_writer_of_ours_would_write_is_not_valid(void) {
    static const struct {
        const char *row;
        size_t at;
        unsigned char value;
    } rows[] = {
        {"another magic", 0, 'S'},
        {"format 0", 16, 0},
        {"no kind", 20, 0},
        {"an unknown kind", 20, 3},
        {"sequence 0", 24, 0},
        {"a sequence so high that the next might wrap", 31, 0x80},
        {"a host name too long", 32, 81},
        {"a host name with a zero byte", 33, 0},
        {"a host name that is not ASCII", 34, 0xc3},
        {"an epoch past the year 9999", 32 + 44 + 7, 1},
        {"machine ID 1031", 32 + 44 + 8 + 1, 4},
        {"a horizon before the epoch", 32 + 44 + 10 + 5, 0},
        {"a horizon past the end of the epoch", 32 + 44 + 10 + 6, 1},
        {"something behind the fields", 4000, 1},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct state_record record;
        struct error err;

        put(first, 5, 200);
        CU_ASSERT_NOT_EQUAL(first[rows[i].at], rows[i].value);
        first[rows[i].at] = rows[i].value;
        seal(first);
        CHECK_ROW(rows[i].row,
                  state_record_decode(first, STATE_RECORD_BYTES, &record, &err) == STATUS_PROTOCOL);
    }
}

/* ---- the fields ---- */

static struct state_record largest(void) {
    struct state_record record = {.sequence = STATE_SEQUENCE_MAX,
                                  .kind = STATE_CLUSTER,
                                  .epoch_ms = RECORD_WALL_MAX_MS,
                                  .n_earlier_eras = RECORD_EARLIER_ERAS_MAX,
                                  .last_machine_id = 1023,
                                  .revision = INT64_MAX,
                                  .n_machines = RECORD_MACHINES_MAX};

    memset(record.host, 'h', STATE_HOST_MAX);
    memset(record.cluster, 'c', KEYS_CLUSTER_MAX);
    memset(record.era, 'e', HEX128_CHARS);
    for (size_t i = 0; i < RECORD_EARLIER_ERAS_MAX; i++)
        snprintf(record.earlier_eras[i], sizeof record.earlier_eras[i], "%032zx", i + 1);
    for (size_t i = 0; i < MACHINE_IDS; i++)
        record.reserved[i] = i % 3 == 0;
    for (size_t i = 0; i < RECORD_MACHINES_MAX; i++) {
        record.machines[i] = (struct state_machine){
            .machine_id = (uint16_t)(1023 - i), .granted_ms = UINT64_MAX - i, .pending_ms = i};
        snprintf(record.machines[i].claim, sizeof record.machines[i].claim, "%032zx", i);
    }
    record.machines[0].claim[0] = '\0'; /* still being claimed */
    return record;
}

static void the_largest_record_fits_and_reads_as_it_was_written(void) {
    struct state_record written = largest(), read;
    unsigned char again[STATE_RECORD_BYTES];
    struct error err;

    state_record_encode(&written, first);
    CU_ASSERT_EQUAL_FATAL(state_record_decode(first, STATE_RECORD_BYTES, &read, &err), STATUS_OK);
    CHECK_TEXT(read.host, written.host);
    CHECK_TEXT(read.cluster, written.cluster);
    CHECK_TEXT(read.era, written.era);
    CHECK_TEXT(read.earlier_eras[63], written.earlier_eras[63]);
    CHECK_TEXT(read.machines[0].claim, "");
    CHECK_TEXT(read.machines[63].claim, written.machines[63].claim);
    CU_ASSERT_EQUAL(read.sequence, written.sequence);
    CU_ASSERT_EQUAL(read.epoch_ms, written.epoch_ms);
    CU_ASSERT_EQUAL(read.n_earlier_eras, written.n_earlier_eras);
    CU_ASSERT_EQUAL(read.first_machine_id, written.first_machine_id);
    CU_ASSERT_EQUAL(read.last_machine_id, written.last_machine_id);
    CU_ASSERT_EQUAL(read.revision, written.revision);
    CU_ASSERT_EQUAL(read.n_machines, written.n_machines);
    CU_ASSERT_EQUAL(read.machines[63].machine_id, written.machines[63].machine_id);
    CU_ASSERT_EQUAL(read.machines[63].granted_ms, written.machines[63].granted_ms);
    CU_ASSERT_EQUAL(read.machines[63].pending_ms, written.machines[63].pending_ms);
    CU_ASSERT(memcmp(read.reserved, written.reserved, sizeof read.reserved) == 0);
    state_record_encode(&read, again);
    CU_ASSERT(memcmp(first, again, sizeof again) == 0);
}

static void a_standalone_record_reads_as_it_was_written(void) {
    struct state_record read;
    struct error err;

    CU_ASSERT_EQUAL_FATAL(state_record_decode(first, STATE_RECORD_BYTES, &read, &err), STATUS_OK);
    CU_ASSERT_EQUAL(read.kind, STATE_STANDALONE);
    CHECK_TEXT(read.host, HOST);
    CU_ASSERT_EQUAL(read.machine_id, 7);
    CU_ASSERT_EQUAL(read.epoch_ms, SNOWFLAKE_EPOCH_MS);
    CU_ASSERT_EQUAL(read.horizon_ms, SNOWFLAKE_EPOCH_MS + 200);
    CU_ASSERT_EQUAL(read.sequence, 5);
}

/* ---- evidence ---- */

static void a_machine_id_noted_stands_in_front_and_its_grant_never_falls(void) {
    struct state_record record = {.kind = STATE_CLUSTER};

    state_record_note(&record, &(struct state_machine){.machine_id = 1, .granted_ms = 10});
    state_record_note(&record, &(struct state_machine){.machine_id = 2, .granted_ms = 20});
    state_record_note(&record,
                      &(struct state_machine){.machine_id = 1, .granted_ms = 5, .pending_ms = 30});
    CU_ASSERT_EQUAL(record.n_machines, 2);
    CU_ASSERT_EQUAL(record.machines[0].machine_id, 1);
    CU_ASSERT_EQUAL(record.machines[0].granted_ms, 10);
    CU_ASSERT_EQUAL(record.machines[0].pending_ms, 30);
    CU_ASSERT_EQUAL(record.machines[1].machine_id, 2);
    CU_ASSERT_EQUAL(record.machines[1].granted_ms, 20);
}

static void without_room_the_one_noted_longest_ago_goes(void) {
    struct state_record record = {.kind = STATE_CLUSTER};

    for (uint16_t id = 0; id < RECORD_MACHINES_MAX + 1; id++)
        state_record_note(&record, &(struct state_machine){.machine_id = id, .granted_ms = 10});
    CU_ASSERT_EQUAL(record.n_machines, RECORD_MACHINES_MAX);
    CU_ASSERT_EQUAL(record.machines[0].machine_id, RECORD_MACHINES_MAX);
    CU_ASSERT_EQUAL(record.machines[RECORD_MACHINES_MAX - 1].machine_id, 1);
}

static CU_TestInfo choosing[] = {
    CHECK_TEST(of_two_records_the_newest_valid_one_is_believed),
    CHECK_TEST(a_bit_flipped_anywhere_spoils_that_record_and_no_other),
    CHECK_TEST(of_a_file_cut_short_only_whole_records_count),
    CHECK_TEST(the_reason_names_what_is_wrong_with_each),
    CHECK_TEST(two_records_of_one_sequence_must_be_equal),
    CHECK_TEST(a_record_of_a_newer_program_is_refused_even_beside_a_valid_one),
    CHECK_TEST(what_no_writer_of_ours_would_write_is_not_valid),
    CU_TEST_INFO_NULL};
static CU_TestInfo fields[] = {CHECK_TEST(the_largest_record_fits_and_reads_as_it_was_written),
                               CHECK_TEST(a_standalone_record_reads_as_it_was_written),
                               CU_TEST_INFO_NULL};
static CU_TestInfo evidence[] = {
    CHECK_TEST(a_machine_id_noted_stands_in_front_and_its_grant_never_falls),
    CHECK_TEST(without_room_the_one_noted_longest_ago_goes), CU_TEST_INFO_NULL};

CHECK_MAIN({"choosing", NULL, NULL, given_two_records, NULL, choosing},
           {"fields", NULL, NULL, given_two_records, NULL, fields},
           {"evidence", NULL, NULL, NULL, NULL, evidence})
