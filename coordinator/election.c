#include "coordinator/election.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/allocate.h"
#include "common/random.h"

#define RETRY_MS 500u        /* after a request that failed */
#define STILL_PERIODS 3u     /* of the ceiling, before a leader is suspect */
#define SILENT_ASKS 3u       /* unanswered, before it is removed */
#define CAMPAIGN_MIN_MS 100u /* after the key is seen gone: the last leader is to notice it too, */
#define CAMPAIGN_MAX_MS 400u /* and of several candidates one comes first */

struct election {
    struct election_config config;
    char *
        value; /* what the key holds when it is ours: config.self, spelt, and what was added to it */
    enum election_state state;

    /* The lease: at most one request for it is outstanding. */
    int64_t lease; /* 0: none */
    bool granted;
    bool lease_asked;
    uint64_t lease_sent_boot_ms; /* of the request outstanding */
    uint64_t deadline_boot_ms;   /* the lease lives at least until then */
    uint64_t next_lease_boot_ms; /* of the next request */

    /* The key: at most one transaction is outstanding. */
    bool key_asked;
    bool key_known;       /* it was read since the lease was granted */
    char *key_value;      /* as last read; NULL: absent */
    int64_t key_revision; /* events before it are old news */
    uint64_t next_look_boot_ms;
    uint64_t campaign_boot_ms; /* not before; counts while key_value is NULL */

    /* Signs of life of another leader. */
    char *ceil_value;
    uint64_t moved_boot_ms; /* `leader` or `ceil` last changed */
    bool livez_asked;
    uint64_t next_livez_boot_ms;
    unsigned silent;

    void (*resigned)(void *arg);
    void *resigned_arg;
};

static uint64_t boot_now(const struct election *election) {
    return clock_now(&election->config.clock).boot_ms;
}

const char *election_state_name(enum election_state state) {
    static const char *const names[] = {"no-lease", "candidate", "leader", "resigned"};

    return names[state];
}

struct election *election_new(const struct election_config *config) {
    struct election *election = allocate(1, sizeof *election);

    election->config = *config;
    election->value = leader_format(&config->self);
    election->moved_boot_ms = boot_now(election);
    return election;
}

void election_free(struct election *election) {
    if (!election)
        return;
    assert(!election->lease_asked && !election->key_asked);
    free(election->key_value);
    free(election->ceil_value);
    free(election->value);
    free(election);
}

static void move(struct election *election, enum election_state to, const char *reason) {
    enum election_state from = election->state;

    if (from == to || from == ELECTION_RESIGNED)
        return;
    election->state = to;
    election->config.moved(election->config.arg, from, to, reason);
}

static void step_down(struct election *election, const char *reason) {
    if (election->state == ELECTION_LEADING)
        move(election, ELECTION_CANDIDATE, reason);
}

enum election_state election_state(const struct election *election) {
    return election->state;
}

bool election_leads(const struct election *election) {
    return election->state == ELECTION_LEADING && boot_now(election) < election->deadline_boot_ms;
}

const char *election_value(const struct election *election) {
    return election->value;
}

/* ---- the lease ---- */

static void on_revoked(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    /* Best effort: it ends by itself. */
    (void)arg, (void)err, (void)lease_id, (void)ttl_s;
}

/* The lease is of no more use.  Unless it is known to be gone it is revoked, so that no key can
 * appear later that belongs to nobody. */
static void drop_lease(struct election *election, bool gone, const char *reason) {
    const struct etcd *etcd = &election->config.etcd;
    int64_t lease = election->lease;

    step_down(election, reason);
    move(election, ELECTION_NO_LEASE, reason);
    election->lease = 0;
    election->granted = false;
    election->key_known = false;
    if (!gone)
        etcd->lease_revoke(etcd->self, lease, on_revoked, NULL);
}

static void lease_lives(struct election *election, int64_t ttl_s) {
    uint64_t ttl_ms = (uint64_t)(ttl_s < 1 ? 1 : ttl_s) * 1000;

    election->deadline_boot_ms = election->lease_sent_boot_ms + ttl_ms;
    election->next_lease_boot_ms = election->lease_sent_boot_ms + ttl_ms / 3;
}

static void on_granted(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    struct election *election = arg;

    (void)lease_id;
    election->lease_asked = false;
    if (election->state == ELECTION_RESIGNED)
        return;
    if (err) {
        election->config.trouble(election->config.arg, err);
        /* EXISTS: the number is taken, by whom we cannot tell. */
        drop_lease(election, err->status != STATUS_UNKNOWN, "lease not granted");
        election->next_lease_boot_ms = boot_now(election) + RETRY_MS;
        return;
    }
    election->granted = true;
    lease_lives(election, ttl_s);
    election->next_look_boot_ms = 0;
    move(election, ELECTION_CANDIDATE, "lease granted");
}

static void on_kept_alive(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    struct election *election = arg;

    (void)lease_id;
    election->lease_asked = false;
    if (election->state == ELECTION_RESIGNED || !election->granted)
        return; /* it was dropped meanwhile */
    if (!err) {
        lease_lives(election, ttl_s);
    } else if (err->status == STATUS_NOT_FOUND) {
        drop_lease(election, true, "the lease is gone");
        election->next_lease_boot_ms = 0;
    } else {
        election->next_lease_boot_ms = boot_now(election) + RETRY_MS;
    }
}

static int64_t random_lease(void) {
    int64_t lease = (int64_t)(random_u64() >> 1);

    return lease ? lease : 1;
}

static void tend_lease(struct election *election, uint64_t now) {
    const struct etcd *etcd = &election->config.etcd;

    if (election->granted && now >= election->deadline_boot_ms) {
        drop_lease(election, false, "the lease could not be kept alive in time");
        election->next_lease_boot_ms = 0;
    }
    if (election->lease_asked || now < election->next_lease_boot_ms)
        return;
    election->lease_asked = true;
    election->lease_sent_boot_ms = now;
    if (election->granted) {
        etcd->lease_keepalive(etcd->self, election->lease, on_kept_alive, election);
    } else {
        election->lease = random_lease();
        etcd->lease_grant(etcd->self, election->lease, (int64_t)election->config.ttl_s, on_granted,
                          election);
    }
}

/* ---- the key ---- */

static void look_soon(struct election *election) {
    election->next_look_boot_ms = 0;
}

static bool same_key(const struct election *election, const char *value) {
    if (!value || !election->key_value)
        return value == election->key_value;
    return strcmp(value, election->key_value) == 0;
}

/* Does it name us?  Fields that we do not know are somebody's, and no reason to think otherwise. */
static bool names_us(const struct election *election, const char *value, size_t len) {
    struct leader leader;
    struct error unreadable;

    return leader_parse(value, len, &leader, &unreadable) == STATUS_OK &&
           strcmp(leader.instance, election->config.self.instance) == 0;
}

/* The key hangs on our lease: it is ours, or nobody's as long as we live. */
static void learn_own(struct election *election, const struct etcd_kv *kv, uint64_t now) {
    if (!names_us(election, kv->value, kv->value_len)) {
        drop_lease(election, false, "the leader key was overwritten");
        election->next_lease_boot_ms = 0;
        return;
    }
    if (strcmp(kv->value, election->value) != 0) {
        free(election->value);
        election->value = allocate_copy(kv->value, kv->value_len);
    }
    if (now < election->deadline_boot_ms)
        move(election, ELECTION_LEADING, "the leader key is ours");
}

/* kv: the key as etcd holds it; NULL: absent.  revision: of the store. */
static void learn(struct election *election, const struct etcd_kv *kv, int64_t revision) {
    uint64_t now = boot_now(election);
    const char *value = kv ? kv->value : NULL;
    bool known_before = election->key_known;

    election->key_revision = kv ? kv->mod_revision : revision;
    if (!known_before || !same_key(election, value)) {
        free(election->key_value);
        election->key_value = kv ? allocate_copy(kv->value, kv->value_len) : NULL;
        election->key_known = true;
        election->moved_boot_ms = now;
        election->silent = 0;
        election->campaign_boot_ms = now + CAMPAIGN_MIN_MS +
                                     random_u64() % (CAMPAIGN_MAX_MS - CAMPAIGN_MIN_MS + 1);
    }
    if (kv && kv->lease == election->lease)
        learn_own(election, kv, now);
    else
        step_down(election, kv ? "the leader key was overwritten" : "the leader key was deleted");
}

static void on_key(struct election *election, const struct error *err,
                   const struct etcd_txn_result *result, size_t range) {
    uint64_t now = boot_now(election);

    election->key_asked = false;
    election->next_look_boot_ms = now + election->config.ttl_s * 1000 / 2;
    if (election->state == ELECTION_RESIGNED)
        return;
    if (!election->granted)
        return; /* of a lease that was dropped meanwhile */
    election->config.trouble(election->config.arg, err);
    if (err) {
        election->next_look_boot_ms = now + (err->status == STATUS_UNKNOWN ? 0 : RETRY_MS);
        return;
    }
    learn(election, result->results[range].n_kvs ? &result->results[range].kvs[0] : NULL,
          result->revision);
}

static void on_looked(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    on_key(arg, err, result, 0);
}

static void on_campaigned(void *arg, const struct error *err,
                          const struct etcd_txn_result *result) {
    /* Its outcome may be unknown, and a compare can fail because of the first copy of this very
     * transaction: what was read decides, never `succeeded`. */
    on_key(arg, err, result, result && result->succeeded ? 1 : 0);
}

static void look(struct election *election) {
    const struct etcd *etcd = &election->config.etcd;
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = election->config.keys->leader};

    election->key_asked = true;
    etcd->txn(etcd->self, &(struct etcd_txn){.then = &read, .n_then = 1}, on_looked, election);
}

static void campaign(struct election *election) {
    const struct etcd *etcd = &election->config.etcd;
    const char *key = election->config.keys->leader;
    const struct etcd_compare absent = {.kind = ETCD_ABSENT, .key = key};
    const struct etcd_op then[] = {
        {.kind = ETCD_PUT, .key = key, .value = election->value, .lease = election->lease},
        {.kind = ETCD_RANGE, .key = key},
    };

    election->key_asked = true;
    etcd->txn(etcd->self,
              &(struct etcd_txn){.compares = &absent,
                                 .n_compares = 1,
                                 .then = then,
                                 .n_then = 2,
                                 .otherwise = &then[1],
                                 .n_otherwise = 1},
              on_campaigned, election);
}

static void learn_ceil(struct election *election, const char *value) {
    if (election->ceil_value && strcmp(election->ceil_value, value) == 0)
        return;
    free(election->ceil_value);
    election->ceil_value = allocate_copy(value, strlen(value));
    election->moved_boot_ms = boot_now(election);
}

void election_event(struct election *election, const struct etcd_event *event) {
    const struct keys *keys = election->config.keys;

    if (event->kind == ETCD_EVENT_RESET) {
        look_soon(election);
        return;
    }
    if (strcmp(event->key, keys->ceil) == 0)
        learn_ceil(election, event->kind == ETCD_EVENT_PUT ? event->value : "");
    if (strcmp(event->key, keys->leader) != 0)
        return;
    look_soon(election);
    if (event->mod_revision <= election->key_revision)
        return;
    if (event->kind == ETCD_EVENT_DELETE)
        step_down(election, "the leader key was deleted");
    else if (strcmp(event->value, election->value) != 0)
        step_down(election, "the leader key was overwritten");
}

void election_doubt(struct election *election) {
    step_down(election, "another one leads");
    look_soon(election);
}

/* ---- a leader that does not lead ---- */

struct removal {
    struct election *election;
    char *value;
};

static void on_removed(void *arg, const struct error *err, const struct etcd_txn_result *result) {
    struct removal *removal = arg;
    struct election *election = removal->election;

    election->key_asked = false;
    look_soon(election);
    if (election->state != ELECTION_RESIGNED && (err || result->succeeded))
        election->config.removed(election->config.arg, removal->value, err);
    free(removal->value);
    free(removal);
}

/* Guarded by its exact value: one that came after it stays. */
static void remove_key(struct election *election) {
    const struct etcd *etcd = &election->config.etcd;
    const char *key = election->config.keys->leader;
    struct removal *removal = allocate(1, sizeof *removal);
    const struct etcd_compare same = {
        .kind = ETCD_VALUE_EQUAL, .key = key, .value = election->key_value};
    const struct etcd_op remove = {.kind = ETCD_DELETE, .key = key};
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = key};

    removal->election = election;
    removal->value = allocate_copy(election->key_value, strlen(election->key_value));
    election->key_asked = true;
    etcd->txn(etcd->self,
              &(struct etcd_txn){.compares = &same,
                                 .n_compares = 1,
                                 .then = &remove,
                                 .n_then = 1,
                                 .otherwise = &read,
                                 .n_otherwise = 1},
              on_removed, removal);
}

void election_livez(struct election *election, bool alive) {
    election->livez_asked = false;
    election->silent = alive ? 0 : election->silent + 1;
}

/* Asks a leader whose ceiling stands still whether it lives; true when it is to be removed.  A key
 * that names us without our lease leads nobody: it goes once no lease of ours that was
 * dropped can still hold it. */
static bool suspect(struct election *election, uint64_t now) {
    const struct election_config *config = &election->config;
    struct leader leader = {.instance = ""};
    struct error unreadable;

    if (names_us(election, election->key_value, strlen(election->key_value)))
        return now - election->moved_boot_ms >= 2 * config->ttl_s * 1000;
    if (now - election->moved_boot_ms < STILL_PERIODS * config->ceiling_interval_ms) {
        election->silent = 0;
        return false;
    }
    if (election->silent >= SILENT_ASKS)
        return true;
    if (!election->livez_asked && now >= election->next_livez_boot_ms) {
        election->livez_asked = true;
        election->next_livez_boot_ms = now + config->ceiling_interval_ms / STILL_PERIODS;
        if (leader_parse(election->key_value, strlen(election->key_value), &leader, &unreadable) !=
            STATUS_OK)
            leader.addresses.http[0] = '\0';
        config->ask_livez(config->arg, leader.addresses.http);
    }
    return false;
}

static void tend_key(struct election *election, uint64_t now) {
    if (election->key_asked || !election->granted)
        return;
    if (!election->key_known || now >= election->next_look_boot_ms)
        look(election);
    else if (!election->key_value && now >= election->campaign_boot_ms)
        campaign(election);
    else if (election->key_value && election->state == ELECTION_CANDIDATE && suspect(election, now))
        remove_key(election);
}

void election_tick(struct election *election) {
    uint64_t now = boot_now(election);

    if (election->state == ELECTION_RESIGNED)
        return;
    tend_lease(election, now);
    tend_key(election, now);
}

/* ---- the end ---- */

static void on_lease_resigned(void *arg, const struct error *err, int64_t lease_id, int64_t ttl_s) {
    struct election *election = arg;

    (void)err, (void)lease_id, (void)ttl_s;
    election->resigned(election->resigned_arg);
}

static void on_key_resigned(void *arg, const struct error *err,
                            const struct etcd_txn_result *result) {
    struct election *election = arg;
    const struct etcd *etcd = &election->config.etcd;

    (void)err, (void)result;
    etcd->lease_revoke(etcd->self, election->lease, on_lease_resigned, election);
}

void election_resign(struct election *election, void (*done)(void *arg), void *arg) {
    const struct etcd *etcd = &election->config.etcd;
    const char *key = election->config.keys->leader;
    const struct etcd_compare mine = {
        .kind = ETCD_VALUE_EQUAL, .key = key, .value = election->value};
    const struct etcd_op remove = {.kind = ETCD_DELETE, .key = key};
    const struct etcd_op read = {.kind = ETCD_RANGE, .key = key};

    election->resigned = done;
    election->resigned_arg = arg;
    if (election->lease == 0)
        election->lease = random_lease(); /* none to revoke: etcd says so, and that is all */
    step_down(election, "told to stop");
    move(election, ELECTION_RESIGNED, "told to stop");
    etcd->txn(etcd->self,
              &(struct etcd_txn){.compares = &mine,
                                 .n_compares = 1,
                                 .then = &remove,
                                 .n_then = 1,
                                 .otherwise = &read,
                                 .n_otherwise = 1},
              on_key_resigned, election);
}
