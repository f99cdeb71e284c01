#include "common/options.h"

#include "tests/support/check.h"

/* One option of every type, and what goes with it. */
struct settings {
    bool standalone;
    char *identity;
    char *token;
    char *cluster;
    uint64_t machine_id;
    uint64_t count;
    uint64_t lease_ttl_ms;
    int log_format;
    char *http_listen;
    char *advertise;
    char *redis_listen;
    uint64_t floor_ms;
    uint64_t since_ms;
    struct option_range range;
    bool identity_given;
    bool machine_id_given;
};
#define AT(field) .offset = offsetof(struct settings, field)

static const char *const log_formats[] = {"json", "text", NULL};

static const struct option shared[] = {
    {.name = "cluster",
     .type = OPTION_STRING,
     AT(cluster),
     .argument = "NAME",
     .fallback = "default",
     .help = "The cluster's name."},
    {.name = "log-format",
     .type = OPTION_CHOICE,
     AT(log_format),
     .argument = "FORMAT",
     .fallback = "json",
     .choices = log_formats,
     .help = "How log lines look."},
    {.name = NULL},
};
static const struct option own[] = {
    {.name = "standalone", .type = OPTION_BOOL, AT(standalone), .help = "Serve without etcd."},
    {.name = "identity",
     .type = OPTION_STRING,
     AT(identity),
     .argument = "LABEL",
     .help = "A label.",
     .given_offset = offsetof(struct settings, identity_given)},
    {.name = "token",
     .type = OPTION_STRING,
     AT(token),
     .argument = "TOKEN",
     .help = "A secret.",
     .secret = true},
    {.name = "machine-id",
     .type = OPTION_NUMBER,
     AT(machine_id),
     .argument = "N",
     .max = 1023,
     .help = "The machine ID wanted.",
     .given_offset = offsetof(struct settings, machine_id_given)},
    {.name = "count",
     .type = OPTION_NUMBER,
     AT(count),
     .argument = "N",
     .fallback = "1",
     .min = 1,
     .max = 10000,
     .help = "How many."},
    {.name = "lease-ttl",
     .type = OPTION_DURATION,
     AT(lease_ttl_ms),
     .argument = "DURATION",
     .fallback = "15s",
     .min = 2000,
     .max = 600000,
     .help = "How long etcd keeps a worker's claim alive without a keep-alive: short enough that "
             "its machine ID comes back soon, long enough for an election among etcd's members."},
    {.name = "http-listen",
     .type = OPTION_ADDRESS,
     AT(http_listen),
     .argument = "HOST:PORT",
     .fallback = "127.0.0.1:8080",
     .help = "Where HTTP is served."},
    {.name = "advertise",
     .type = OPTION_HOST,
     AT(advertise),
     .argument = "HOST",
     .help = "By which others reach it."},
    {.name = "redis-listen",
     .type = OPTION_ADDRESS,
     AT(redis_listen),
     .argument = "HOST:PORT",
     .fallback = "",
     .may_be_off = true,
     .help = "Where Redis clients are served."},
    {.name = "floor",
     .type = OPTION_TIME,
     AT(floor_ms),
     .argument = "TIME",
     .help = "No ID is dated before it."},
    {.name = "since",
     .type = OPTION_TIME,
     AT(since_ms),
     .argument = "TIME",
     .fallback = "2024-01-01T00:00:00Z",
     .min = UINT64_C(1704067200000),
     .max = UINT64_C(3903090455551),
     .help = "A time within the epoch."},
    {.name = "machine-id-range",
     .type = OPTION_RANGE,
     AT(range),
     .argument = "A-B",
     .fallback = "0-1023",
     .max = 1023,
     .help = "Which machine IDs may be claimed."},
    {.name = NULL},
};
static const struct option *const tables[] = {shared, own, NULL};
static const char *const sister[] = {"SNOWFLEET_PROBE_INTERVAL", NULL};
static const struct option_set set = {
    .program = "snowfleet-test",
    .usage = "[OPTION]...",
    .summary = "Shows every type of option.",
    .tables = tables,
    .extra_environment = sister,
};

#define ARGUMENTS_MAX 16

static struct settings settings;
static struct options_result result;
static struct error err;
static const char *environment[ARGUMENTS_MAX];
static struct options_file file;
static char *argv[ARGUMENTS_MAX];
static int argc;

static void given_nothing(void) {
    memset(&settings, 0, sizeof settings);
    memset(environment, 0, sizeof environment);
    file = (struct options_file){0};
}

static void given_file(const char *text) {
    file = (struct options_file){"worker.conf", text, strlen(text)};
}

static void forget(void) {
    options_free(&set, &settings);
}

/* Parses the arguments named, NULL for none, with the environment and file given. */
#define parse(...) parse_arguments((const char *const[]){__VA_ARGS__, NULL})

static enum status parse_arguments(const char *const *arguments) {
    static char program[] = "snowfleet-test";

    forget();
    memset(&settings, 0, sizeof settings);
    memset(argv, 0, sizeof argv);
    argv[0] = program;
    for (argc = 1; arguments[argc - 1]; argc++)
        argv[argc] = (char *)arguments[argc - 1];
    return options_parse(&set, argc, argv, (char *const *)environment, file.name ? &file : NULL,
                         &settings, &result, &err);
}

static void check_refused(enum status status, const char *message) {
    CU_ASSERT_EQUAL(status, STATUS_INVALID);
    CHECK_TEXT(err.message, message);
    CU_ASSERT_PTR_NULL(settings.cluster);
    CU_ASSERT_PTR_NULL(settings.http_listen);
}

/* --- values --- */

static void what_is_not_given_has_its_default(void) {
    CU_ASSERT_EQUAL(parse(NULL), STATUS_OK);
    CHECK_TEXT(settings.cluster, "default");
    CHECK_TEXT(settings.http_listen, "127.0.0.1:8080");
    CHECK_TEXT(settings.redis_listen, "");
    CU_ASSERT_EQUAL(settings.log_format, 0);
    CU_ASSERT_EQUAL(settings.lease_ttl_ms, 15000);
    CU_ASSERT_EQUAL(settings.count, 1);
    CU_ASSERT_EQUAL(settings.since_ms, 1704067200000);
    CU_ASSERT(settings.range.first == 0 && settings.range.last == 1023);
    CU_ASSERT_FALSE(settings.standalone);
    CU_ASSERT_PTR_NULL(settings.identity);
    CU_ASSERT_FALSE(settings.identity_given);
    CU_ASSERT_FALSE(settings.machine_id_given);
    CU_ASSERT_EQUAL(result.first_operand, argc);
    CU_ASSERT_PTR_NULL(result.config);
}

static void every_type_is_read(void) {
    CU_ASSERT_EQUAL(parse("--standalone", "--identity", "node-1", "--machine-id=7", "--lease-ttl",
                          "1m", "--log-format=text", "--http-listen", "[::1]:0",
                          "--floor=2025-06-01T00:00:00Z", "--since=1748736000000",
                          "--machine-id-range=5-9", "--count=10000"),
                    STATUS_OK);
    CU_ASSERT_TRUE(settings.standalone);
    CHECK_TEXT(settings.identity, "node-1");
    CU_ASSERT_TRUE(settings.identity_given);
    CU_ASSERT_EQUAL(settings.machine_id, 7);
    CU_ASSERT_TRUE(settings.machine_id_given);
    CU_ASSERT_EQUAL(settings.lease_ttl_ms, 60000);
    CU_ASSERT_EQUAL(settings.log_format, 1);
    CHECK_TEXT(settings.http_listen, "[::1]:0");
    CU_ASSERT_EQUAL(settings.floor_ms, 1748736000000);
    CU_ASSERT_EQUAL(settings.since_ms, 1748736000000);
    CU_ASSERT(settings.range.first == 5 && settings.range.last == 9);
    CU_ASSERT_EQUAL(settings.count, 10000);
}

static void one_number_is_a_range_too(void) {
    CU_ASSERT_EQUAL(parse("--machine-id-range=7"), STATUS_OK);
    CU_ASSERT(settings.range.first == 7 && settings.range.last == 7);
}

static void an_empty_address_is_off(void) {
    CU_ASSERT_EQUAL(parse("--redis-listen="), STATUS_OK);
    CHECK_TEXT(settings.redis_listen, "");
    CU_ASSERT_EQUAL(parse("--redis-listen=-1"), STATUS_INVALID);
    CHECK_TEXT(err.message, "--redis-listen=-1: must be HOST:PORT or [IPV6]:PORT with port "
                            "0..65535, or empty for off");
    CU_ASSERT_EQUAL(parse("--http-listen="), STATUS_INVALID); /* which cannot be off */
    CHECK_TEXT(err.message,
               "--http-listen=\"\": must be HOST:PORT or [IPV6]:PORT with port 0..65535");
}

static void a_value_may_hold_equals_signs(void) {
    CU_ASSERT_EQUAL(parse("--identity=a=b=c"), STATUS_OK);
    CHECK_TEXT(settings.identity, "a=b=c");
}

static const struct {
    const char *flag, *message;
} refused[] = {
    {"--machine-id=1024", "--machine-id=1024: must be 0..1023"},
    {"--machine-id=1025", "--machine-id=1025: must be 0..1023"},
    {"--machine-id=65536", "--machine-id=65536: must be 0..1023"},
    {"--machine-id=-1", "--machine-id=-1: must be 0..1023"},
    {"--machine-id=1.5", "--machine-id=1.5: must be 0..1023"},
    {"--machine-id=", "--machine-id=\"\": must be 0..1023"},
    {"--machine-id=abc", "--machine-id=abc: must be 0..1023"},
    {"--machine-id=0x3", "--machine-id=0x3: must be 0..1023"},
    {"--machine-id= 7", "--machine-id=\" 7\": must be 0..1023"},
    {"--machine-id=7 ", "--machine-id=\"7 \": must be 0..1023"},
    {"--machine-id=+7", "--machine-id=+7: must be 0..1023"},
    {"--machine-id=007", "--machine-id=007: must be 0..1023"},
    {"--machine-id=18446744073709551617", "--machine-id=18446744073709551617: must be 0..1023"},
    {"--count=0", "--count=0: must be 1..10000"},
    {"--lease-ttl=1s", "--lease-ttl=1s: must be 2s..600s"},
    {"--lease-ttl=15", "--lease-ttl=15: must be 2s..600s, with its unit: ms, s, m or h"},
    {"--lease-ttl=", "--lease-ttl=\"\": must be 2s..600s"},
    {"--log-format=xml", "--log-format=xml: must be json|text"},
    {"--log-format=", "--log-format=\"\": must be json|text"},
    {"--log-format=JSON", "--log-format=JSON: must be json|text"},
    {"--standalone=yes", "--standalone=yes: must be true or false"},
    {"--standalone=", "--standalone=\"\": must be true or false"},
    {"--identity=", "--identity=\"\": must not be empty"},
    {"--machine-id-range=9-5", "--machine-id-range=9-5: must be A-B or A within 0..1023"},
    {"--machine-id-range=0-1024", "--machine-id-range=0-1024: must be A-B or A within 0..1023"},
    {"--machine-id-range=-5", "--machine-id-range=-5: must be A-B or A within 0..1023"},
    {"--machine-id-range=5-", "--machine-id-range=5-: must be A-B or A within 0..1023"},
    {"--machine-id-range=1-2-3", "--machine-id-range=1-2-3: must be A-B or A within 0..1023"},
    {"--machine-id-range=", "--machine-id-range=\"\": must be A-B or A within 0..1023"},
    {"--floor=yesterday", "--floor=yesterday: must be a time such as 2024-01-01T00:00:00Z, or ms "
                          "since 1970"},
    {"--since=1704067199999",
     "--since=1704067199999: must be a time such as 2024-01-01T00:00:00Z, or ms since 1970, of "
     "2024-01-01T00:00:00.000Z..2093-09-06T15:47:35.551Z"},
    {"--since=2093-09-06T15:47:35.552Z",
     "--since=2093-09-06T15:47:35.552Z: must be a time such as 2024-01-01T00:00:00Z, or ms since "
     "1970, of 2024-01-01T00:00:00.000Z..2093-09-06T15:47:35.551Z"},
};

static void a_wrong_value_is_named_with_its_range(void) {
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        check_refused(parse(refused[i].flag), refused[i].message);
}

static void a_negative_number_is_a_value_not_a_flag(void) {
    check_refused(parse("--machine-id", "-1"), "--machine-id=-1: must be 0..1023");
}

static const char *const addresses[] = {
    "127.0.0.1:8080", "0.0.0.0:0",       "localhost:65535",      "node_1.example-2.com:80",
    "[::]:8080",      "[2001:db8::1]:1", "[::ffff:10.0.0.1]:80", "[fe80::1%eth0]:80"};
static const char *const no_addresses[] = {
    "8080",
    ":8080",
    "127.0.0.1",
    "127.0.0.1:",
    "host:65536",
    "host:-1",
    "host:+1",
    "host:08",
    "host: 80",
    "host:80 ",
    "host:http",
    "::1:8080",
    "[::1]",
    "[::1]8080",
    "[]:80",
    "[::1:80",
    "::1]:80",
    "[::g]:80",
    "[10.0.0.1]:80",
    "[fe80::1%]:80",
    "ho st:80",
    "http://host:80",
    "*:80",
    "host/path:80",
    "[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc]:80"};

static void an_address_is_host_and_port(void) {
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        CHECK_ROW(addresses[i], parse("--http-listen", addresses[i]) == STATUS_OK);
        CHECK_TEXT(settings.http_listen, addresses[i]);
    }
    for (size_t i = 0; i < sizeof no_addresses / sizeof no_addresses[0]; i++) {
        CHECK_ROW(no_addresses[i], parse("--http-listen", no_addresses[i]) == STATUS_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "must be HOST:PORT or [IPV6]:PORT"));
    }
}

static void a_host_has_no_port(void) {
    static const char *const hosts[] = {"ids-0.ids", "10.0.0.1", "fd00::1", "[fd00::1]",
                                        "fe80::1%eth0"};
    static const char *const no_hosts[] = {
        "", "127.0.0.1:8080", "ids:1", "[fd00::1]:8080", "-1", "a b", "[a]", "fe80::1%e]h", "[::1"};

    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        CHECK_ROW(hosts[i], parse("--advertise", hosts[i]) == STATUS_OK);
        CHECK_TEXT(settings.advertise, hosts[i]);
    }
    for (size_t i = 0; i < sizeof no_hosts / sizeof no_hosts[0]; i++) {
        CHECK_ROW(no_hosts[i], parse("--advertise", no_hosts[i]) == STATUS_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.message, ": must be a host name or an IP address, "
                                                   "without a port"));
    }
}

/* --- precedence --- */

static void a_flag_goes_before_the_environment_before_the_file_before_the_default(void) {
    CU_ASSERT_EQUAL(parse(NULL), STATUS_OK);
    CHECK_TEXT(settings.cluster, "default");
    given_file("cluster = from-file\nmachine-id = 3\n");
    CU_ASSERT_EQUAL(parse(NULL), STATUS_OK);
    CHECK_TEXT(settings.cluster, "from-file");
    CU_ASSERT_TRUE(settings.machine_id_given);
    environment[0] = "SNOWFLEET_CLUSTER=from-environment";
    CU_ASSERT_EQUAL(parse(NULL), STATUS_OK);
    CHECK_TEXT(settings.cluster, "from-environment");
    CU_ASSERT_EQUAL(settings.machine_id, 3);
    CU_ASSERT_EQUAL(parse("--cluster", "from-flag"), STATUS_OK);
    CHECK_TEXT(settings.cluster, "from-flag");
}

static void a_flag_can_switch_off_what_the_environment_switched_on(void) {
    environment[0] = "SNOWFLEET_STANDALONE=true";
    CU_ASSERT_EQUAL(parse(NULL), STATUS_OK);
    CU_ASSERT_TRUE(settings.standalone);
    CU_ASSERT_EQUAL(parse("--standalone=false"), STATUS_OK);
    CU_ASSERT_FALSE(settings.standalone);
}

static void a_wrong_value_is_refused_even_where_it_is_overruled(void) {
    environment[0] = "SNOWFLEET_MACHINE_ID=1024";
    check_refused(parse("--machine-id=1"), "SNOWFLEET_MACHINE_ID=1024: must be 0..1023");
}

/* --- names --- */

static void an_unknown_name_is_fatal_wherever_it_stands(void) {
    check_refused(parse("--lease-tl=5s"), "--lease-tl: unknown option");
    check_refused(parse("--no-standalone"), "--no-standalone: unknown option");
    check_refused(parse("--lease", "5s"), "--lease: unknown option");
    check_refused(parse("-v"), "-v: unknown option");
    check_refused(parse("-machine-id=5"), "-machine-id: unknown option");
    check_refused(parse("--=5"), "--: unknown option");
    environment[0] = "SNOWFLEET_LEASE_TL=5s";
    check_refused(parse(NULL), "SNOWFLEET_LEASE_TL: unknown option");
    environment[0] = "SNOWFLEET_lease_ttl=5s";
    check_refused(parse(NULL), "SNOWFLEET_lease_ttl: unknown option");
    environment[0] = NULL;
    given_file("\n# a comment\nlease_ttl = 5s\n");
    check_refused(parse(NULL), "worker.conf:3: lease_ttl: unknown option");
    given_file("config = other.conf\n");
    check_refused(parse(NULL), "worker.conf:1: config: unknown option");
}

static void a_value_of_an_unknown_name_is_not_shown(void) {
    check_refused(parse("--tokn=s3cret"), "--tokn: unknown option");
    environment[0] = "SNOWFLEET_TOKN=s3cret";
    check_refused(parse(NULL), "SNOWFLEET_TOKN: unknown option");
    environment[0] = NULL;
    given_file("tokn = s3cret");
    check_refused(parse(NULL), "worker.conf:1: tokn: unknown option");
    given_file("token s3cret");
    check_refused(parse(NULL), "worker.conf:1: must be NAME = VALUE");
}

static void variables_of_others_are_let_pass(void) {
    environment[0] = "PATH=/bin";
    environment[1] = "SNOWFLEETX=1";
    environment[2] = "SNOWFLEET_PROBE_INTERVAL=anything";
    environment[3] = "no equals sign";
    CU_ASSERT_EQUAL(parse(NULL), STATUS_OK);
}

static void what_kubernetes_sets_for_a_service_is_let_pass(void) {
    static const char *const links[] = {
        "SNOWFLEET_SERVICE_HOST=10.0.0.1",
        "SNOWFLEET_SERVICE_PORT=8080",
        "SNOWFLEET_PORT=tcp://10.0.0.1:8080",
        "SNOWFLEET_PORT_8080_TCP=tcp://10.0.0.1:8080",
        "SNOWFLEET_WORKER_SERVICE_HOST=10.0.0.1",
        "SNOWFLEET_WORKER_SERVICE_PORT_GRPC=50051",
        "SNOWFLEET_WORKER_PORT=tcp://10.0.0.1:8080",
        "SNOWFLEET_WORKER_PORT_50051_TCP_ADDR=10.0.0.1",
        "SNOWFLEET_WORKER_PORT_50051_TCP_PROTO=tcp",
    };

    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        environment[0] = links[i];
        CHECK_ROW(links[i], parse(NULL) == STATUS_OK);
    }
    environment[0] = "SNOWFLEET_PORT=8080";
    check_refused(parse(NULL), "SNOWFLEET_PORT: unknown option");
    environment[0] = "SNOWFLEET_PORT_NAME=8080";
    check_refused(parse(NULL), "SNOWFLEET_PORT_NAME: unknown option");
}

static void a_name_given_twice_in_one_place_is_refused(void) {
    check_refused(parse("--cluster=a", "--cluster=a"), "--cluster: given twice");
    check_refused(parse("--standalone", "--standalone=false"), "--standalone: given twice");
    check_refused(parse("--config=a", "--config", "b"), "--config: given twice");
    environment[0] = "SNOWFLEET_CLUSTER=a";
    environment[1] = "SNOWFLEET_CLUSTER=b";
    check_refused(parse(NULL), "SNOWFLEET_CLUSTER: given twice");
    environment[0] = environment[1] = NULL;
    given_file("cluster = a\n\ncluster = b\n");
    check_refused(parse(NULL), "worker.conf:3: cluster: given twice");
}

/* --- the command line --- */

static void a_flag_without_its_value_is_refused(void) {
    check_refused(parse("--identity"), "--identity: needs a value");
    check_refused(parse("--identity", "--standalone"), "--identity: needs a value");
    check_refused(parse("--identity", "--", "x"), "--identity: needs a value");
    check_refused(parse("--config"), "--config: needs a value");
    CU_ASSERT_EQUAL(parse("--identity=--standalone"), STATUS_OK);
    CHECK_TEXT(settings.identity, "--standalone");
}

static void operands_come_last_in_their_order(void) {
    CU_ASSERT_EQUAL(parse("decode", "--cluster", "c", "123", "--standalone", "-"), STATUS_OK);
    CU_ASSERT_EQUAL(argc - result.first_operand, 3);
    CHECK_TEXT(argv[result.first_operand], "decode");
    CHECK_TEXT(argv[result.first_operand + 1], "123");
    CHECK_TEXT(argv[result.first_operand + 2], "-");
    CHECK_TEXT(settings.cluster, "c");
    CU_ASSERT_TRUE(settings.standalone);
}

static void two_dashes_end_the_flags(void) {
    CU_ASSERT_EQUAL(parse("a", "--standalone", "--", "--cluster", "--help"), STATUS_OK);
    CU_ASSERT_EQUAL(argc - result.first_operand, 3);
    CHECK_TEXT(argv[result.first_operand], "a");
    CHECK_TEXT(argv[result.first_operand + 1], "--cluster");
    CHECK_TEXT(argv[result.first_operand + 2], "--help");
    CU_ASSERT_FALSE(result.help);
    CHECK_TEXT(settings.cluster, "default");
}

static void help_and_version_go_before_every_mistake(void) {
    environment[0] = "SNOWFLEET_NONSENSE=1";
    CU_ASSERT_EQUAL(parse("--nonsense", "--help"), STATUS_OK);
    CU_ASSERT(result.help && !result.version);
    CU_ASSERT_EQUAL(parse("--version", "--machine-id=1024"), STATUS_OK);
    CU_ASSERT(result.version && !result.help);
}

/* --- the file --- */

static void a_file_holds_names_values_comments_and_blank_lines(void) {
    given_file("# worker\n"
               "\n"
               "cluster = blue\r\n"
               "  lease-ttl=30s  \n"
               "\t# indented comment\n"
               "identity = with blanks and = signs\n"
               "token = a#b\n"
               "redis-listen =\n"
               "standalone = true");
    CU_ASSERT_EQUAL(parse(NULL), STATUS_OK);
    CHECK_TEXT(settings.cluster, "blue");
    CU_ASSERT_EQUAL(settings.lease_ttl_ms, 30000);
    CHECK_TEXT(settings.identity, "with blanks and = signs");
    CHECK_TEXT(settings.token, "a#b");
    CHECK_TEXT(settings.redis_listen, "");
    CU_ASSERT_TRUE(settings.standalone);
}

static const struct {
    const char *row, *text;
    size_t len;
    const char *message;
} files[] = {
    {"a wrong value", "\n\nmachine-id = 1024\n", 0,
     "worker.conf:3: machine-id=1024: must be 0..1023"},
    {"no equals sign", "standalone\n", 0, "worker.conf:1: must be NAME = VALUE"},
    {"a flag", "--cluster = c\n", 0, "worker.conf:1: --cluster: unknown option"},
    {"no name", " = c\n", 0, "worker.conf:1: \"\": unknown option"},
    {"no value", "cluster =\n", 0, "worker.conf:1: cluster=\"\": must not be empty"},
    {"a trailing comment", "cluster = c # mine\n", 0,
     "worker.conf:1: cluster: a comment needs a line of its own"},
    {"a section", "[worker]\n", 0, "worker.conf:1: must be NAME = VALUE"},
    {"a zero byte", "cluster = a\0b\n", 14, "worker.conf: holds a zero byte: not a text file"},
    {"a byte order mark",
     "\xef\xbb\xbf"
     "cluster = a\n",
     0, "worker.conf:1: \"\\xef\\xbb\\xbfcluster\": unknown option"},
};

static void a_mistake_in_the_file_is_named_with_its_line(void) {
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        given_file(files[i].text);
        if (files[i].len)
            file.len = files[i].len;
        CHECK_ROW(files[i].row, parse(NULL) == STATUS_INVALID);
        CHECK_TEXT(err.message, files[i].message);
    }
}

static void an_empty_file_changes_nothing(void) {
    given_file("");
    CU_ASSERT_EQUAL(parse(NULL), STATUS_OK);
    CHECK_TEXT(settings.cluster, "default");
}

static void the_file_s_name_is_found_and_passed_on(void) {
    char *with_flag[] = {"p", "--cluster", "c", "--config", "a.conf", NULL};
    char *with_equals[] = {"p", "--config=b.conf", NULL};
    char *behind_the_end[] = {"p", "--", "--config=b.conf", NULL};
    char *with_help[] = {"p", "--config=b.conf", "--help", NULL};
    char *variables[] = {"A=b", "SNOWFLEET_CONFIG=c.conf", NULL};
    char *none[] = {NULL};
    const char *label = NULL;

    CHECK_TEXT(options_find_config(5, with_flag, variables, &label), "a.conf");
    CHECK_TEXT(label, "--config");
    CHECK_TEXT(options_find_config(2, with_equals, variables, &label), "b.conf");
    CHECK_TEXT(options_find_config(3, behind_the_end, variables, &label), "c.conf");
    CHECK_TEXT(label, "SNOWFLEET_CONFIG");
    CU_ASSERT_PTR_NULL(options_find_config(3, behind_the_end, none, &label));
    CU_ASSERT_PTR_NULL(options_find_config(3, with_help, variables, &label));
    environment[0] = "SNOWFLEET_CONFIG=c.conf";
    CU_ASSERT_EQUAL(parse(NULL), STATUS_OK);
    CHECK_TEXT(result.config, "c.conf");
    CU_ASSERT_EQUAL(parse("--config", "a.conf"), STATUS_OK);
    CHECK_TEXT(result.config, "a.conf");
}

/* --- what is shown --- */

static void a_secret_is_masked_in_messages(void) {
    check_refused(parse("--token="), "--token=***: must not be empty");
}

static void collect(void *arg, const char *name, const char *text) {
    char *all = arg;
    size_t len = strlen(all);

    snprintf(all + len, 1024 - len, "%s=%s\n", name, text);
}

static void effective_values_are_shown_with_secrets_masked(void) {
    char all[1024] = "";

    CU_ASSERT_EQUAL(parse("--token=s3cret", "--lease-ttl=60s", "--standalone"), STATUS_OK);
    options_visit(&set, &settings, collect, all);
    CHECK_TEXT(all, "cluster=default\n"
                    "log-format=json\n"
                    "standalone=true\n"
                    "identity=\n"
                    "token=***\n"
                    "machine-id=\n"
                    "count=1\n"
                    "lease-ttl=1m\n"
                    "http-listen=127.0.0.1:8080\n"
                    "advertise=\n"
                    "redis-listen=\n"
                    "floor=1970-01-01T00:00:00.000Z\n"
                    "since=2024-01-01T00:00:00.000Z\n"
                    "machine-id-range=0-1023\n");
}

static void a_secret_that_is_not_set_shows_as_empty(void) {
    char all[1024] = "";

    CU_ASSERT_EQUAL(parse("--machine-id=9", "--machine-id-range=9"), STATUS_OK);
    options_visit(&set, &settings, collect, all);
    CU_ASSERT_PTR_NOT_NULL(strstr(all, "\ntoken=\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(all, "\nmachine-id=9\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(all, "\nmachine-id-range=9-9\n"));
}

static void help_names_unit_range_default_and_variable_of_every_option(void) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    options_help(&set, out);
    fclose(out);
    CU_ASSERT_EQUAL(strncmp(text,
                            "Usage: snowfleet-test [OPTION]...\n"
                            "Shows every type of option.\n\n"
                            "  --cluster NAME\n"
                            "        The cluster's name. (default default; SNOWFLEET_CLUSTER)\n",
                            133),
                    0);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "  --standalone\n        Serve without etcd. "
                                        "(SNOWFLEET_STANDALONE)\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "(0..1023; SNOWFLEET_MACHINE_ID)"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "(json|text; default json; SNOWFLEET_LOG_FORMAT)"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "(default off; SNOWFLEET_REDIS_LISTEN)"));
    CU_ASSERT_PTR_NOT_NULL(strstr(
        text, "  --lease-ttl DURATION\n"
              "        How long etcd keeps a worker's claim alive without a keep-alive: short\n"
              "        enough that its machine ID comes back soon, long enough for an election\n"
              "        among etcd's members. (2s..600s; default 15s; SNOWFLEET_LEASE_TTL)\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "SNOWFLEET_CONFIG"));
    for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
        CU_ASSERT(strcspn(line, "\n") <= 80);
    free(text);
}

static CU_TestInfo rules[] = {
    CHECK_TEST(what_is_not_given_has_its_default),
    CHECK_TEST(every_type_is_read),
    CHECK_TEST(one_number_is_a_range_too),
    CHECK_TEST(an_empty_address_is_off),
    CHECK_TEST(a_value_may_hold_equals_signs),
    CHECK_TEST(a_wrong_value_is_named_with_its_range),
    CHECK_TEST(a_negative_number_is_a_value_not_a_flag),
    CHECK_TEST(an_address_is_host_and_port),
    CHECK_TEST(a_host_has_no_port),
    CHECK_TEST(a_flag_goes_before_the_environment_before_the_file_before_the_default),
    CHECK_TEST(a_flag_can_switch_off_what_the_environment_switched_on),
    CHECK_TEST(a_wrong_value_is_refused_even_where_it_is_overruled),
    CHECK_TEST(an_unknown_name_is_fatal_wherever_it_stands),
    CHECK_TEST(a_value_of_an_unknown_name_is_not_shown),
    CHECK_TEST(variables_of_others_are_let_pass),
    CHECK_TEST(what_kubernetes_sets_for_a_service_is_let_pass),
    CHECK_TEST(a_name_given_twice_in_one_place_is_refused),
    CHECK_TEST(a_flag_without_its_value_is_refused),
    CHECK_TEST(operands_come_last_in_their_order),
    CHECK_TEST(two_dashes_end_the_flags),
    CHECK_TEST(help_and_version_go_before_every_mistake),
    CHECK_TEST(a_file_holds_names_values_comments_and_blank_lines),
    CHECK_TEST(a_mistake_in_the_file_is_named_with_its_line),
    CHECK_TEST(an_empty_file_changes_nothing),
    CHECK_TEST(the_file_s_name_is_found_and_passed_on),
    CHECK_TEST(a_secret_is_masked_in_messages),
    CHECK_TEST(effective_values_are_shown_with_secrets_masked),
    CHECK_TEST(a_secret_that_is_not_set_shows_as_empty),
    CHECK_TEST(help_names_unit_range_default_and_variable_of_every_option),
    CU_TEST_INFO_NULL,
};

CHECK_MAIN({"options", NULL, NULL, given_nothing, forget, rules})
