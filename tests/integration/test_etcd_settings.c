/* test_etcd_settings.c - the etcd client against etcds that are set up in other ways: TLS with
 * client certificates, no space, no gateway, users. */
#include "common/etcd_http.h"

#include <signal.h>
#include <unistd.h>

#include "tests/support/check.h"
#include "tests/support/etcd_process.h"
#include "tests/support/etcd_wait.h"
#include "tests/support/loop_wait.h"

static struct etcd_process etcd;
static uv_loop_t loop;
static struct etcd_http *client;
static struct etcd_wait wait;
static struct watch_view view;
static bool closed;
static char certs[] = "/tmp/snowfleet-certs-XXXXXX";
static char ca[64], other_ca[64], server_cert[64], server_key[64], client_cert[64], client_key[64];

static void given_etcd(const char *const *settings, bool tls) {
    CU_ASSERT_TRUE_FATAL(etcd_process_start(&etcd, settings, tls));
    uv_loop_init(&loop);
    watch_view_init(&view);
}

static void use(const struct etcd_http_config *settings) {
    struct etcd_http_config config = *settings;
    struct error err;

    config.timeout_ms = 20000; /* sanitizers on a busy machine */
    CU_ASSERT_EQUAL_FATAL(etcd_http_new(&loop, &config, &client, &err), STATUS_OK);
    memset(&wait, 0, sizeof wait);
    wait.loop = &loop;
    wait.etcd = etcd_http_interface(client);
}

static void on_closed(void *arg) {
    (void)arg;
    closed = true;
}

static bool is_closed(void) {
    return closed;
}

static void close_client(void) {
    closed = false;
    etcd_http_close(client, on_closed, NULL);
    CU_ASSERT_TRUE(loop_wait(&loop, is_closed, 20000));
}

static void then_all_is_closed(void) {
    close_client();
    CU_ASSERT_EQUAL(uv_run(&loop, UV_RUN_DEFAULT), 0);
    CU_ASSERT_EQUAL(uv_loop_close(&loop), 0);
    etcd_process_done(&etcd);
}

static bool reset_came(void) {
    return view.n_resets > 0;
}

static bool a_watch_fails(void) {
    return etcd_http_stats(client)->watch_failures > 0;
}

static struct etcd_watch *start_watch(void) {
    return wait.etcd.watch(wait.etcd.self, &(struct etcd_key_range){"/t/", "/t0"}, 1,
                           watch_view_on_events, &view);
}

static enum status put(void) {
    return etcd_wait_put(&wait, "/t/a", "1", 0);
}

/* --- TLS --- */

static int make_certificates(void) {
    static const char script[] =
        "cd %s && exec >/dev/null 2>&1\n"
        "printf 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth,clientAuth\\n' >ext\n"
        "for c in ca other; do openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
        " -days 2 -subj /CN=$c -keyout $c.key -out $c.pem || exit 1; done\n"
        "for c in server client; do openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
        " -subj /O=$c -keyout $c.key -out $c.csr && openssl x509 -req -in $c.csr -CA ca.pem"
        " -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out $c.pem || exit 1; done\n";
    char command[sizeof script + 64];

    if (!mkdtemp(certs))
        return 1;
    snprintf(command, sizeof command, script, certs);
    snprintf(ca, sizeof ca, "%s/ca.pem", certs);
    snprintf(other_ca, sizeof other_ca, "%s/other.pem", certs);
    snprintf(server_cert, sizeof server_cert, "%s/server.pem", certs);
    snprintf(server_key, sizeof server_key, "%s/server.key", certs);
    snprintf(client_cert, sizeof client_cert, "%s/client.pem", certs);
    snprintf(client_key, sizeof client_key, "%s/client.key", certs);
    return system(command) == 0 ? 0 : 1;
}

static int remove_certificates(void) {
    char command[64];

    snprintf(command, sizeof command, "rm -r %s", certs);
    return system(command);
}

static void tls_proves_both_sides(void) {
    const char *const settings[] = {
        "--cert-file",       server_cert, "--key-file",         server_key,
        "--trusted-ca-file", ca,          "--client-cert-auth", NULL};
    const struct etcd_http_config config = {.endpoints = etcd.url,
                                            .ca_file = ca,
                                            .cert_file = client_cert,
                                            .key_file = client_key,
                                            .timeout_ms = 5000};
    struct etcd_http_config changed = config;

    given_etcd(settings, true);
    use(&config);
    CU_ASSERT_EQUAL(put(), STATUS_OK);
    start_watch();
    CU_ASSERT_TRUE(loop_wait(&loop, reset_came, 30000));
    close_client();

    changed.ca_file = other_ca; /* somebody else's etcd: nothing is sent to it */
    use(&changed);
    CU_ASSERT_EQUAL(put(), STATUS_UNAVAILABLE);
    CU_ASSERT_PTR_NOT_NULL(strstr(wait.message, "certificate"));
    close_client();

    changed = config; /* TLS 1.3 tells a client so only after its request: it may have arrived */
    changed.cert_file = changed.key_file = NULL;
    use(&changed);
    CU_ASSERT_NOT_EQUAL(put(), STATUS_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(wait.message, etcd.url));
    then_all_is_closed();
}

/* --- no space --- */

static void without_space_writes_say_so_and_leases_go_on(void) {
    static const char *const settings[] = {"--quota-backend-bytes", "2097152", NULL};
    const struct etcd_http_config config = {.endpoints = etcd.url};
    char *much = malloc(400001);
    int i;

    memset(much, 'x', 400000);
    much[400000] = '\0';
    given_etcd(settings, false);
    use(&config);
    CU_ASSERT_EQUAL(etcd_wait_grant(&wait, 7, 60), STATUS_OK);
    for (i = 0; i < 20 && etcd_wait_put(&wait, "/t/junk", much, 0) == STATUS_OK; i++)
        ;
    CU_ASSERT_EQUAL(wait.status, STATUS_NO_SPACE);
    CU_ASSERT_PTR_NOT_NULL(strstr(wait.message, "database space exceeded"));
    CU_ASSERT_EQUAL(put(), STATUS_NO_SPACE);
    CU_ASSERT_EQUAL(etcd_wait_grant(&wait, 8, 60), STATUS_NO_SPACE);
    CU_ASSERT_EQUAL(etcd_wait_keepalive(&wait, 7), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_get(&wait, "/t/a", NULL), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_delete(&wait, "/t/junk", NULL), STATUS_OK);
    CU_ASSERT_EQUAL(etcd_wait_revoke(&wait, 7), STATUS_OK);
    then_all_is_closed();
    free(much);
}

static void a_request_that_is_too_large_is_refused(void) {
    const struct etcd_http_config config = {.endpoints = etcd.url};
    const size_t sizes[] = {1800000, 4000000}; /* etcd's limit, and its gRPC server's */
    size_t i;

    given_etcd(NULL, false);
    use(&config);
    for (i = 0; i < 2; i++) {
        char *much = malloc(sizes[i] + 1);

        memset(much, 'x', sizes[i]);
        much[sizes[i]] = '\0';
        CU_ASSERT_EQUAL(etcd_wait_put(&wait, "/t/junk", much, 0), STATUS_INVALID);
        free(much);
    }
    then_all_is_closed();
}

/* --- no gateway, users --- */

static void an_etcd_without_gateway_is_named(void) {
    static const char *const settings[] = {"--enable-grpc-gateway=false", NULL};
    const struct etcd_http_config config = {.endpoints = etcd.url};

    given_etcd(settings, false);
    use(&config);
    CU_ASSERT_EQUAL(put(), STATUS_UNAVAILABLE);
    CU_ASSERT_PTR_NOT_NULL(strstr(wait.message, "no etcd v3 JSON gateway"));
    CU_ASSERT_EQUAL(etcd_wait_get(&wait, "/t/a", NULL), STATUS_UNAVAILABLE);
    CU_ASSERT_EQUAL(etcd_wait_keepalive(&wait, 7), STATUS_UNAVAILABLE);
    then_all_is_closed();
}

static void etcdctl(const char *arguments) {
    char command[256];

    snprintf(command, sizeof command, "ETCDCTL_API=3 etcdctl --endpoints %s %s >/dev/null 2>&1",
             etcd.url, arguments);
    CU_ASSERT_EQUAL(system(command), 0);
}

static void an_etcd_with_users_wants_to_know_who_we_are(void) {
    static const char *const settings[] = {"--bcrypt-cost", "4", NULL};
    const struct etcd_http_config config = {.endpoints = etcd.url};

    given_etcd(settings, false);
    use(&config);
    CU_ASSERT_EQUAL(put(), STATUS_OK);
    start_watch();
    CU_ASSERT_TRUE(loop_wait(&loop, reset_came, 30000));
    etcdctl("user add root:pw");
    etcdctl("auth enable");
    CU_ASSERT_EQUAL(put(), STATUS_AUTH);
    CU_ASSERT_PTR_NOT_NULL(strstr(wait.message, "user name is empty"));
    CU_ASSERT_EQUAL(etcd_wait_get(&wait, "/t/a", NULL), STATUS_AUTH);
    CU_ASSERT_EQUAL(etcd_http_stats(client)->unknown_outcomes, 0);
    close_client();
    use(&config);
    watch_view_init(&view);
    start_watch(); /* cannot even read its keys */
    CU_ASSERT_TRUE(loop_wait(&loop, a_watch_fails, 30000));
    CU_ASSERT_EQUAL(etcd_http_stats(client)->last_error.status, STATUS_AUTH);
    CU_ASSERT_EQUAL(view.n_batches, 0);
    then_all_is_closed();
}

static CU_TestInfo rules[] = {CHECK_TEST(tls_proves_both_sides),
                              CHECK_TEST(without_space_writes_say_so_and_leases_go_on),
                              CHECK_TEST(a_request_that_is_too_large_is_refused),
                              CHECK_TEST(an_etcd_without_gateway_is_named),
                              CHECK_TEST(an_etcd_with_users_wants_to_know_who_we_are),
                              CU_TEST_INFO_NULL};

int main(void) {
    CU_SuiteInfo suites[] = {
        {"etcd client, settings", make_certificates, remove_certificates, NULL, NULL, rules},
        CU_SUITE_INFO_NULL};

    signal(SIGPIPE, SIG_IGN);
    return check_run(suites);
}
