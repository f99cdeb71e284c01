#include "worker/evidence.h"

#include <string.h>

#include "common/allocate.h"
#include "common/log.h"

struct evidence {
    uv_loop_t *loop;
    struct clock clock;
    struct state_file *file; /* the pool's while writing */
    uv_work_t work;
    bool writing;
    bool again; /* noted while another record was being written */
    struct state_record noted;
    unsigned char sent[STATE_RECORD_BYTES]; /* the last one sent to disk, as essence() has it */
    struct log_repeat trouble;

    /* The pool's while writing. */
    struct state_record record;
    struct error err;
    enum status status;
};

static void write_noted(struct evidence *evidence);

/* What makes a record worth writing. */
static void essence(const struct state_record *record, unsigned char out[STATE_RECORD_BYTES]) {
    struct state_record same = *record;

    same.sequence = 1;
    same.revision = 0;
    state_record_encode(&same, out);
}

struct evidence *evidence_new(uv_loop_t *loop, const struct clock *clock, struct state_file *file,
                              const struct state_record *record) {
    struct evidence *evidence = allocate(1, sizeof *evidence);

    evidence->loop = loop;
    evidence->clock = *clock;
    evidence->file = file;
    evidence->noted = *record;
    essence(record, evidence->sent);
    return evidence;
}

void evidence_free(struct evidence *evidence) {
    if (!evidence)
        return;
    state_file_close(evidence->file);
    free(evidence);
}

const struct state_record *evidence_record(const struct evidence *evidence) {
    return &evidence->noted;
}

/* On a thread of the pool. */
static void on_work(uv_work_t *work) {
    struct evidence *evidence = work->data;

    evidence->status = state_file_write(evidence->file, &evidence->record, &evidence->err);
}

static void on_written(uv_work_t *work, int code) {
    struct evidence *evidence = work->data;
    uint64_t boot_ms = clock_now(&evidence->clock).boot_ms;

    (void)code; /* nobody cancels it */
    evidence->writing = false;
    if (evidence->status != STATUS_OK)
        log_repeat_failed(&evidence->trouble, boot_ms, "state",
                          "the evidence for recovery cannot be written", evidence->err.message);
    else
        log_repeat_ended(&evidence->trouble, boot_ms, "state",
                         "the evidence for recovery is written again");
    if (evidence->again)
        write_noted(evidence);
}

static void write_noted(struct evidence *evidence) {
    evidence->again = evidence->writing;
    if (evidence->writing)
        return;
    evidence->writing = true;
    evidence->record = evidence->noted;
    evidence->work.data = evidence;
    uv_queue_work(evidence->loop, &evidence->work, on_work, on_written);
}

void evidence_note(struct evidence *evidence, const struct state_record *record) {
    unsigned char wanted[STATE_RECORD_BYTES];

    evidence->noted = *record;
    essence(record, wanted);
    if (memcmp(wanted, evidence->sent, sizeof wanted) == 0)
        return;
    memcpy(evidence->sent, wanted, sizeof wanted);
    write_noted(evidence);
}
