/* ctl_witness.h - who can tell what etcd has forgotten: the workers that its records name, and state
 * files. */
#ifndef SNOWFLEET_COORDINATOR_CTL_WITNESS_H
#define SNOWFLEET_COORDINATOR_CTL_WITNESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "coordinator/ctl_session.h"
#include "coordinator/recover.h"

/* A worker that etcd's records name. */
struct ctl_witness {
    char instance[HEX128_CHARS + 1]; /* this and the next are "" when its record is unreadable */
    char identity[RECORD_IDENTITY_MAX + 1];
    char address[RECORD_ADDRESS_MAX];
    bool heard;    /* itself, or what its state file says of each machine ID that it holds */
    char why[160]; /* it was not */
};

struct ctl_witnesses {
    struct ctl_session *session; /* these two are the caller's */
    struct recover_evidence *evidence;
    struct ctl_witness *list;
    size_t n, n_heard;

    /* While they are asked. */
    size_t n_begun;
    unsigned asking;
    bool asked;
    enum status status; /* of the first answer that contradicts */
    struct error contradiction;
};

/* Asks every worker that session->cluster names, and reads the files of the list (separated by
 * commas; NULL: none); adds what they tell to the evidence.  May be called again when the cluster was
 * read again: who was heard before stays so.  Fails when a file cannot be read, and when what is told
 * contradicts what is known; not because somebody does not answer. */
enum status ctl_witnesses_hear(struct ctl_witnesses *witnesses, const char *state_files,
                               struct error *err);
/* Says on stderr who was not heard, the first of them by name. */
void ctl_witnesses_note(const struct ctl_witnesses *witnesses);
/* The same as a list of objects, all of them; the caller's. */
json_t *ctl_witnesses_unheard(const struct ctl_witnesses *witnesses);
void ctl_witnesses_free(struct ctl_witnesses *witnesses);

#endif
