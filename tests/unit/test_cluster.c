/* What etcd holds of a cluster, as watched: resets, garbage, members that come and go. */
#include "coordinator/cluster.h"
#include "tests/support/check.h"

#define ALICE "a11ce000000000000000000000000000"

static struct keys keys;
static struct cluster *cluster;
static char node_key[KEY_MAX], assign_key[KEY_MAX], own_key[KEY_MAX], hor_key[KEY_MAX];

static void given_an_empty_cluster(void) {
    struct error err;

    CU_ASSERT_EQUAL_FATAL(keys_init(&keys, "default", &err), STATUS_OK);
    keys_node(&keys, ALICE, node_key);
    keys_assign(&keys, ALICE, assign_key);
    keys_own(&keys, 7, own_key);
    keys_hor(&keys, 7, hor_key);
    cluster = cluster_new(&keys);
}

static void and_it_is_freed(void) {
    cluster_free(cluster);
}

static void put(const char *key, const char *value) {
    const struct etcd_event event = {
        .kind = ETCD_EVENT_PUT, .key = key, .value = value, .value_len = strlen(value), .lease = 9};

    cluster_events(cluster, &event, 1, 1000);
}

static void gone(const char *key) {
    cluster_events(cluster, &(struct etcd_event){.kind = ETCD_EVENT_DELETE, .key = key}, 1, 1000);
}

/* Everything is gone but what these events say. */
static void reset(const char *key, const char *value) {
    const struct etcd_event events[] = {
        {.kind = ETCD_EVENT_RESET},
        {.kind = ETCD_EVENT_PUT, .key = key, .value = value, .value_len = key ? strlen(value) : 0},
    };

    cluster_events(cluster, events, key ? 2 : 1, 1000);
}

static void put_node(uint64_t attempt) {
    struct node node = {.attempt = attempt, .missing = 1, .identity = "pod-1"};
    char *text = node_format(&node);

    put(node_key, text);
    free(text);
}

static void before_the_first_reset_nothing_is_known(void) {
    CU_ASSERT_FALSE(cluster->complete);
    reset(NULL, NULL);
    CU_ASSERT_TRUE(cluster->complete);
    CU_ASSERT_FALSE(cluster->has_meta);
    CHECK_TEXT(cluster->meta_error.message, "meta is missing");
}

static void a_meta_that_cannot_be_read_is_there_all_the_same(void) {
    put(keys.meta, "{}");
    CU_ASSERT_FALSE(cluster->has_meta);
    CHECK_TEXT(cluster->meta_value, "{}");
    CU_ASSERT_STRING_NOT_EQUAL(cluster->meta_error.message, "");
}

static void a_ceiling_is_read_strictly(void) {
    put(keys.ceil, "00000001764547200000");
    CU_ASSERT_TRUE(cluster->has_ceil);
    CU_ASSERT_EQUAL(cluster->ceil_ms, 1764547200000);
    put(keys.ceil, "1764547200000");
    CU_ASSERT_FALSE(cluster->has_ceil);
    gone(keys.ceil);
    CU_ASSERT_PTR_NULL(cluster->ceil_value);
}

static void a_member_is_there_while_one_of_its_keys_is(void) {
    put_node(1);
    CU_ASSERT_EQUAL_FATAL(cluster->n_members, 1);
    CHECK_TEXT(cluster->members[0]->instance, ALICE);
    CHECK_TEXT(cluster->members[0]->node.identity, "pod-1");
    CU_ASSERT_EQUAL(cluster->members[0]->lease, 9);
    put(assign_key, "{\"attempt\":\"1\"}");
    gone(node_key);
    CU_ASSERT_EQUAL_FATAL(cluster->n_members, 1);
    CU_ASSERT_FALSE(cluster->members[0]->has_node);
    gone(assign_key);
    CU_ASSERT_EQUAL(cluster->n_members, 0);
}

static void a_busy_member_stays_until_it_is_released(void) {
    struct member *member;

    put_node(1);
    member = cluster->members[0];
    member->busy++;
    gone(node_key);
    CU_ASSERT_EQUAL_FATAL(cluster->n_members, 1);
    reset(NULL, NULL);
    CU_ASSERT_EQUAL_FATAL(cluster->n_members, 1);
    member->busy--;
    cluster_release(cluster, member);
    CU_ASSERT_EQUAL(cluster->n_members, 0);
}

static void a_node_that_cannot_be_read_asks_for_nothing(void) {
    put_node(5);
    put(node_key, "[1,2");
    CU_ASSERT_EQUAL_FATAL(cluster->n_members, 1);
    CU_ASSERT_TRUE(cluster->members[0]->has_node);
    CU_ASSERT_FALSE(cluster->members[0]->node_read);
    CU_ASSERT_EQUAL(cluster->members[0]->node.missing, 0);
}

static void what_a_reset_does_not_show_is_gone(void) {
    put_node(1);
    put(keys.ceil, "00000001764547200000");
    put(keys.leader, "{}");
    put(own_key, "{}");
    CU_ASSERT_TRUE(cluster->registry.slots[7].held);
    reset(hor_key, "00000001704067200000:00000000000000000000000000000000:0");
    CU_ASSERT_EQUAL(cluster->n_members, 0);
    CU_ASSERT_FALSE(cluster->has_ceil);
    CU_ASSERT_PTR_NULL(cluster->leader_value);
    CU_ASSERT_FALSE(cluster->registry.slots[7].held);
    CU_ASSERT_TRUE(cluster->registry.slots[7].has_horizon);
}

static void keys_of_no_interest_are_ignored(void) {
    put("/snowfleet/default/seq/orders", "5");
    put("/snowfleet/default/node/short", "{}");
    put("/snowfleet/default/frobnicate", "");
    put("/elsewhere", "x");
    CU_ASSERT_EQUAL(cluster->n_members, 0);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(before_the_first_reset_nothing_is_known),
    CHECK_TEST(a_meta_that_cannot_be_read_is_there_all_the_same),
    CHECK_TEST(a_ceiling_is_read_strictly),
    CHECK_TEST(a_member_is_there_while_one_of_its_keys_is),
    CHECK_TEST(a_busy_member_stays_until_it_is_released),
    CHECK_TEST(a_node_that_cannot_be_read_asks_for_nothing),
    CHECK_TEST(what_a_reset_does_not_show_is_gone),
    CHECK_TEST(keys_of_no_interest_are_ignored),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"cluster", NULL, NULL, given_an_empty_cluster, and_it_is_freed, rules})
