#include "worker/rpc_args.h"

#include "common/grpc_message.h"
#include "snowfleet/v1/ids.pb-c.h"
#include "tests/support/check.h"

static struct rpc_ids_args args;
static struct service_error err;

/* A request as a client packs it. */
static uint8_t packed[256];

static size_t pack(const ProtobufCMessage *message) {
    CU_ASSERT_FATAL(protobuf_c_message_get_packed_size(message) <= sizeof packed);
    return protobuf_c_message_pack(message, packed);
}

static void an_empty_request_is_for_one_snowflake(void) {
    CU_ASSERT(rpc_next_args(packed, 0, &args, &err));
    CU_ASSERT_EQUAL(args.ids.count, 1);
    CU_ASSERT(!args.ids.claim);
}

static void a_batch_needs_a_count_in_range(void) {
    static const struct {
        uint32_t count;
        bool ok;
    } rows[] = {{0, false},    {1, true},      {4096, true},
                {10000, true}, {10001, false}, {UINT32_MAX, false}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        Snowfleet__V1__NextBatchRequest request = SNOWFLEET__V1__NEXT_BATCH_REQUEST__INIT;
        char expected[64];

        request.count = rows[i].count;
        CU_ASSERT_EQUAL(rpc_batch_args(packed, pack(&request.base), &args, &err), rows[i].ok);
        if (rows[i].ok) {
            CU_ASSERT_EQUAL(args.ids.count, rows[i].count);
            continue;
        }
        snprintf(expected, sizeof expected, "count must be 1..10000, got %" PRIu32, rows[i].count);
        CHECK_TEXT(err.message, expected);
        CHECK_TEXT(err.code, "INVALID_ARGUMENT");
        CHECK_TEXT(err.field, "count");
    }
}

static void a_stream_without_a_count_has_no_end(void) {
    Snowfleet__V1__StreamRequest request = SNOWFLEET__V1__STREAM_REQUEST__INIT;

    CU_ASSERT(rpc_stream_args(packed, pack(&request.base), &args, &err));
    CU_ASSERT(args.endless);
    CU_ASSERT_EQUAL(args.ids.count, 1000);
    request.count = UINT64_MAX;
    request.batch_count = 7;
    CU_ASSERT(rpc_stream_args(packed, pack(&request.base), &args, &err));
    CU_ASSERT(!args.endless);
    CU_ASSERT_EQUAL(args.left, UINT64_MAX);
    CU_ASSERT_EQUAL(args.ids.count, 7);
}

static void kinds_of_128_bits_come_as_text_only(void) {
    Snowfleet__V1__NextBatchRequest request = SNOWFLEET__V1__NEXT_BATCH_REQUEST__INIT;

    request.kind = (char *)(uintptr_t) "uuidv7";
    request.count = 5;
    CU_ASSERT(rpc_batch_args(packed, pack(&request.base), &args, &err));
    CU_ASSERT(args.ids.kind == ID_UUIDV7 && args.form == RPC_TEXT);
    request.form = SNOWFLEET__V1__FORM__FORM_TEXT;
    CU_ASSERT(rpc_batch_args(packed, pack(&request.base), &args, &err));
    request.form = SNOWFLEET__V1__FORM__FORM_RANGES;
    CU_ASSERT(!rpc_batch_args(packed, pack(&request.base), &args, &err));
    CHECK_TEXT(err.message, "form must be FORM_TEXT for kind uuidv7, got 2");
    request.form = SNOWFLEET__V1__FORM__FORM_TEXT;
    request.claim = true;
    CU_ASSERT(!rpc_batch_args(packed, pack(&request.base), &args, &err));
    CHECK_TEXT(err.field, "claim");
}

/* B99: the default limit of gRPC's clients is 4 MiB. */
static void the_largest_batch_of_uuids_is_far_below_4_mib(void) {
    struct service_ids ids = {.kind = ID_UUIDV4,
                              .want = SERVICE_COUNT_MAX,
                              .have = SERVICE_COUNT_MAX,
                              .wide = calloc(SERVICE_COUNT_MAX, sizeof(struct id128))};
    const struct rpc_ids_args wanted = {.form = RPC_TEXT, .ids = {.kind = ID_UUIDV4}};
    size_t len;

    free(rpc_batch_message(&ids, &wanted, &len));
    free(ids.wide);
    CU_ASSERT_EQUAL(len, GRPC_PREFIX_BYTES + SERVICE_COUNT_MAX * (36 + 2));
    CU_ASSERT(len < 4194304);
}

static void a_number_to_decode_is_not_negative(void) {
    Snowfleet__V1__DecodeRequest request = SNOWFLEET__V1__DECODE_REQUEST__INIT;
    struct id_value id = {.number = -7};

    CU_ASSERT(!rpc_decode_args(packed, pack(&request.base), &id, &err));
    CHECK_TEXT(err.message, "id is missing: number or text");
    request.id_case = SNOWFLEET__V1__DECODE_REQUEST__ID_NUMBER;
    request.number = INT64_MAX;
    CU_ASSERT(rpc_decode_args(packed, pack(&request.base), &id, &err));
    CU_ASSERT_EQUAL(id.number, INT64_MAX);
    request.number = 0; /* a number all the same */
    CU_ASSERT(rpc_decode_args(packed, pack(&request.base), &id, &err));
    CU_ASSERT_EQUAL(id.number, 0);
    request.number = -1;
    CU_ASSERT(!rpc_decode_args(packed, pack(&request.base), &id, &err));
    CHECK_TEXT(err.message, "number must be 0..9223372036854775807, got -1");
}

static void bytes_that_are_no_message_are_named(void) {
    static const uint8_t wrong[] = {0xff, 0xff, 0xff};
    struct id_value id;

    CU_ASSERT(!rpc_next_args(wrong, sizeof wrong, &args, &err));
    CHECK_TEXT(err.message, "the request is no snowfleet.v1.NextRequest");
    CHECK_TEXT(err.code, "INTERNAL");
    CU_ASSERT(!rpc_batch_args(wrong, sizeof wrong, &args, &err));
    CU_ASSERT(!rpc_stream_args(wrong, sizeof wrong, &args, &err));
    CU_ASSERT(!rpc_decode_args(wrong, sizeof wrong, &id, &err));
}

/* ---- answers ---- */

static struct snowflake_run runs[] = {{1000, 3}, {5000, 1}, {INT64_MAX - 1, 2}};
static const struct service_ids taken = {
    .want = 6, .have = 6, .runs = runs, .n_runs = 3, .claim = "c1a1"};
static const int64_t all[] = {1000, 1001, 1002, 5000, INT64_MAX - 1, INT64_MAX};

static Snowfleet__V1__NextBatchResponse *answer(enum rpc_form form, bool claim) {
    const struct rpc_ids_args wanted = {.form = form, .ids = {.claim = claim}};
    Snowfleet__V1__NextBatchResponse *response;
    size_t len;
    uint8_t *framed = rpc_batch_message(&taken, &wanted, &len);

    response = snowfleet__v1__next_batch_response__unpack(NULL, len - GRPC_PREFIX_BYTES,
                                                          framed + GRPC_PREFIX_BYTES);
    free(framed);
    CU_ASSERT_PTR_NOT_NULL_FATAL(response);
    CHECK_TEXT(response->claim, claim ? "c1a1" : "");
    return response;
}

static void ids_come_in_the_form_asked_for(void) {
    Snowfleet__V1__NextBatchResponse *response = answer(RPC_IDS, true);

    CU_ASSERT_EQUAL_FATAL(response->n_ids, 6);
    CU_ASSERT_EQUAL(memcmp(response->ids, all, sizeof all), 0);
    CU_ASSERT_EQUAL(response->n_ranges + response->n_texts, 0);
    snowfleet__v1__next_batch_response__free_unpacked(response, NULL);

    response = answer(RPC_RANGES, false);
    CU_ASSERT_EQUAL_FATAL(response->n_ranges, 3);
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(response->ranges[i]->first, runs[i].first);
        CU_ASSERT_EQUAL(response->ranges[i]->count, runs[i].count);
    }
    snowfleet__v1__next_batch_response__free_unpacked(response, NULL);

    response = answer(RPC_TEXT, false);
    CU_ASSERT_EQUAL_FATAL(response->n_texts, 6);
    CHECK_TEXT(response->texts[0], "1000");
    CHECK_TEXT(response->texts[5], "9223372036854775807");
    snowfleet__v1__next_batch_response__free_unpacked(response, NULL);
}

static void the_interval_of_true_time_comes_along(void) {
    const struct service_ids bounded = {.want = 3,
                                        .have = 3,
                                        .runs = runs,
                                        .n_runs = 1,
                                        .bounded = true,
                                        .earliest_ms = 1764547200000,
                                        .latest_ms = 1764547200042};
    const struct rpc_ids_args wanted = {.form = RPC_RANGES};
    Snowfleet__V1__NextBatchResponse *response = answer(RPC_IDS, false);
    Snowfleet__V1__NextResponse *next;
    uint8_t *framed;
    size_t len;

    CU_ASSERT_PTR_NULL(response->interval);
    snowfleet__v1__next_batch_response__free_unpacked(response, NULL);
    framed = rpc_batch_message(&bounded, &wanted, &len);
    response = snowfleet__v1__next_batch_response__unpack(NULL, len - GRPC_PREFIX_BYTES,
                                                          framed + GRPC_PREFIX_BYTES);
    free(framed);
    CU_ASSERT_PTR_NOT_NULL_FATAL(response->interval);
    CU_ASSERT_EQUAL(response->interval->earliest_ms, 1764547200000);
    CU_ASSERT_EQUAL(response->interval->latest_ms, 1764547200042);
    snowfleet__v1__next_batch_response__free_unpacked(response, NULL);
    framed = rpc_next_message(&bounded, &wanted, &len);
    next = snowfleet__v1__next_response__unpack(NULL, len - GRPC_PREFIX_BYTES,
                                                framed + GRPC_PREFIX_BYTES);
    free(framed);
    CU_ASSERT_PTR_NOT_NULL_FATAL(next->interval);
    CU_ASSERT_EQUAL(next->interval->earliest_ms, 1764547200000);
    snowfleet__v1__next_response__free_unpacked(next, NULL);
}

static void commit_wait_is_asked_for_like_a_claim(void) {
    Snowfleet__V1__StreamRequest stream = SNOWFLEET__V1__STREAM_REQUEST__INIT;
    Snowfleet__V1__NextRequest next = SNOWFLEET__V1__NEXT_REQUEST__INIT;

    CU_ASSERT(rpc_stream_args(packed, pack(&stream.base), &args, &err) && !args.ids.commit_wait);
    stream.commit_wait = next.commit_wait = true;
    CU_ASSERT(rpc_stream_args(packed, pack(&stream.base), &args, &err) && args.ids.commit_wait);
    CU_ASSERT(rpc_next_args(packed, pack(&next.base), &args, &err) && args.ids.commit_wait);
}

static CU_TestInfo requests[] = {CHECK_TEST(an_empty_request_is_for_one_snowflake),
                                 CHECK_TEST(a_batch_needs_a_count_in_range),
                                 CHECK_TEST(a_stream_without_a_count_has_no_end),
                                 CHECK_TEST(kinds_of_128_bits_come_as_text_only),
                                 CHECK_TEST(the_largest_batch_of_uuids_is_far_below_4_mib),
                                 CHECK_TEST(a_number_to_decode_is_not_negative),
                                 CHECK_TEST(bytes_that_are_no_message_are_named),
                                 CHECK_TEST(ids_come_in_the_form_asked_for),
                                 CHECK_TEST(the_interval_of_true_time_comes_along),
                                 CHECK_TEST(commit_wait_is_asked_for_like_a_claim),
                                 CU_TEST_INFO_NULL};
CHECK_MAIN({"gRPC arguments", NULL, NULL, NULL, NULL, requests})
