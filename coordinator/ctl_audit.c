/* snowfleetctl audit: reads dumps of IDs and looks for what must not be there: an ID twice, and one
 * that nobody may have issued. */
#include "coordinator/ctl_audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/allocate.h"
#include "common/decimal.h"
#include "common/fields.h"
#include "common/quote.h"
#include "common/snowflake.h"
#include "coordinator/ctl_progress.h"
#include "coordinator/ctl_session.h"
#include "coordinator/ctl_windows.h"
#include "coordinator/id_sort.h"
#include "coordinator/report.h"

#define PROGRESS_RECORDS 65536u /* between two looks at the clock */

static const struct option options[] = {
    {.name = "offline",
     .type = OPTION_BOOL,
     .offset = offsetof(struct ctl_values, offline),
     .help = "Does not ask etcd: looks only for bad lines and for IDs that come twice."},
    {.name = "epoch",
     .type = OPTION_TIME,
     .offset = offsetof(struct ctl_values, epoch_ms),
     .given_offset = offsetof(struct ctl_values, epoch_given),
     .argument = "TIME",
     .max = RECORD_WALL_MAX_MS,
     .help = "With --offline: what timestamp 0 stands for, to show times.  Without it: "
             "2024-01-01T00:00:00Z."},
    {.name = "memory",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct ctl_values, memory_mib),
     .argument = "MIB",
     .fallback = "64",
     .min = 4,
     .max = 65536,
     .help =
         "How much memory, in MiB, sorting may take; what does not fit (32 bytes an ID) goes to "
         "a temporary file.  More is hardly faster."},
    {.name = "tmp-dir",
     .type = OPTION_STRING,
     .offset = offsetof(struct ctl_values, tmp_dir),
     .argument = "DIR",
     .help = "Where to put the temporary file, 16 bytes an ID.  Without it: $TMPDIR, or /var/tmp."},
    {.name = "show",
     .type = OPTION_NUMBER,
     .offset = offsetof(struct ctl_values, show),
     .argument = "N",
     .fallback = "20",
     .max = 100000,
     .help = "How many bad lines, repeated IDs and IDs outside are listed, of each kind; all are "
             "counted."},
    {.name = NULL},
};

struct audit {
    const struct ctl_values *values;
    struct audit_findings findings;
    struct audit_reader reader;
    struct id_sort *sort;
    struct progress progress;
    uint64_t floor_ms;
    uint64_t total_bytes, bytes; /* of the files; total 0: not known */
};

/* ---- the dumps ---- */

static enum status file_failed(const char *file, struct error *err) {
    const char *name = audit_file_name(file);
    char quoted[QUOTE_SIZE];

    return error_set(err, STATUS_SYSTEM, "%s: %s", quote(name, strlen(name), quoted),
                     strerror(errno));
}

static enum status open_file(const char *file, int *descriptor, struct stat *about,
                             struct error *err) {
    *descriptor = audit_is_stdin(file) ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
    if (*descriptor < 0)
        return file_failed(file, err);
    if (fstat(*descriptor, about) == 0 && !S_ISDIR(about->st_mode))
        return STATUS_OK;
    if (S_ISDIR(about->st_mode))
        errno = EISDIR;
    file_failed(file, err);
    if (!audit_is_stdin(file))
        close(*descriptor);
    return err->status;
}

static void close_file(const char *file, int descriptor) {
    if (!audit_is_stdin(file))
        close(descriptor);
}

/* All of them, before hours of work on the first; and how much there is.  A pipe can be opened only
 * once, so of what is no regular file only the kind is looked at. */
static enum status check_files(struct audit *audit, struct error *err) {
    char *const *files = audit->findings.files;
    bool known = true;

    for (size_t i = 0; files[i]; i++) {
        struct stat about;
        int descriptor;

        if (!audit_is_stdin(files[i]) && stat(files[i], &about) == 0 && S_ISFIFO(about.st_mode)) {
            known = false;
            continue;
        }
        if (open_file(files[i], &descriptor, &about, err) != STATUS_OK)
            return err->status;
        known = known && S_ISREG(about.st_mode);
        audit->total_bytes += (uint64_t)about.st_size;
        close_file(files[i], descriptor);
    }
    if (!known)
        audit->total_bytes = 0;
    return STATUS_OK;
}

static void note_bad_line(struct audit *audit, uint64_t place, const struct audit_line *line) {
    struct audit_findings *findings = &audit->findings;
    uint64_t number;
    struct error err;
    json_t *bad;

    if (findings->bad_lines++ >= audit->values->show)
        return;
    if (line->len == AUDIT_BLOCK)
        error_set(&err, STATUS_INVALID, "longer than %zu bytes", AUDIT_BLOCK);
    else
        decimal_parse(line->text, line->len, 0, INT64_MAX, &number, &err);
    bad = audit_show_place(findings, place);
    fields_put(bad, "reason", fields_from_label(err.message));
    fields_append(findings->bad, bad);
}

static enum status take_lines(struct audit *audit, size_t file, struct error *err) {
    struct audit_line line;

    while (audit_reader_next(&audit->reader, &line)) {
        uint64_t place = audit_place(file, audit->reader.line);

        audit->findings.lines++;
        if (!line.good) {
            note_bad_line(audit, place, &line);
            continue;
        }
        audit_machine_count(
            &audit->findings.machines[snowflake_decode((int64_t)line.id, 0).machine_id], line.id);
        if (id_sort_add(audit->sort, (struct id_record){line.id, place}, err) != STATUS_OK)
            return err->status;
    }
    return STATUS_OK;
}

static enum status read_file(struct audit *audit, size_t i, struct error *err) {
    const char *file = audit->findings.files[i];
    enum status status;
    struct stat about;
    int descriptor;
    ssize_t n;

    if (open_file(file, &descriptor, &about, err) != STATUS_OK)
        return err->status;
    audit_reader_init(&audit->reader);
    do {
        size_t size;
        char *room = audit_reader_room(&audit->reader, &size);

        do
            n = read(descriptor, room, size);
        while (n < 0 && errno == EINTR);
        if (n < 0) {
            status = file_failed(file, err);
            break;
        }
        audit_reader_fill(&audit->reader, (size_t)n);
        status = take_lines(audit, i, err);
        audit->bytes += (uint64_t)n;
        progress_show(&audit->progress, audit->bytes, audit->findings.lines);
    } while (n > 0 && status == STATUS_OK);
    close_file(file, descriptor);
    return status;
}

static enum status read_files(struct audit *audit, struct error *err) {
    enum status status = STATUS_OK;

    progress_begin(&audit->progress, "reading", audit->total_bytes);
    for (size_t i = 0; audit->findings.files[i] && status == STATUS_OK; i++)
        status = read_file(audit, i, err);
    if (status == STATUS_OK)
        status = id_sort_finish(audit->sort, err);
    progress_end(&audit->progress);
    return status;
}

/* ---- etcd ---- */

static enum status read_windows(struct audit *audit, struct ctl_session *session,
                                struct error *err) {
    struct audit_findings *findings = &audit->findings;
    struct ctl_revisions revisions;
    enum status status = STATUS_OK;

    if (ctl_revisions(session, &revisions, err) != STATUS_OK)
        return err->status;
    progress_begin(&audit->progress, "asking etcd", MACHINE_IDS);
    for (uint16_t i = 0; i < MACHINE_IDS && status == STATUS_OK; i++) {
        struct audit_machine *machine = &findings->machines[i];
        uint64_t first_ms =
            snowflake_decode((int64_t)machine->smallest, findings->epoch_ms).timestamp_ms;

        if (machine->lines > 0)
            status = ctl_windows(session, &revisions, i, first_ms, &machine->history, err);
        progress_show(&audit->progress, i + 1u, findings->lines);
    }
    progress_end(&audit->progress);
    return status;
}

/* Before the dumps are read only whether it can be asked; afterwards what it knows, which then
 * includes every grant that an ID in them can have come from. */
static enum status ask_etcd(struct audit *audit, bool windows, struct error *err) {
    struct ctl_session session;
    enum status status;

    if (ctl_open(&session, audit->values, err) != STATUS_OK)
        return err->status;
    status = ctl_read_initialised(&session, err);
    if (status == STATUS_OK) {
        audit->findings.epoch_ms = session.cluster->meta.epoch_ms;
        audit->floor_ms = session.cluster->meta.floor_ms;
        if (windows)
            status = read_windows(audit, &session, err);
    }
    ctl_close(&session);
    return status;
}

/* ---- each ID, in order ---- */

/* One ID, and the lines it stands in. */
struct group {
    uint64_t id, lines;
    uint64_t places[AUDIT_PLACES_MAX];
};

static json_t *show_id(const struct audit *audit, uint64_t id) {
    struct snowflake_parts parts = snowflake_decode((int64_t)id, audit->findings.epoch_ms);
    json_t *object = json_object();
    char time[32];

    time_format(parts.timestamp_ms, time);
    fields_put(object, "id", report_wide(id));
    fields_put(object, "machine_id", fields_from_number(parts.machine_id));
    fields_put(object, "time", json_string(time));
    return object;
}

static void note_repeated(struct audit *audit, const struct group *group,
                          const struct audit_window *window) {
    struct audit_findings *findings = &audit->findings;
    json_t *repeated, *places;

    findings->repeated_lines += group->lines - 1;
    if (findings->repeated_ids++ >= audit->values->show)
        return;
    repeated = show_id(audit, group->id);
    places = json_array();
    for (size_t i = 0; i < group->lines && i < AUDIT_PLACES_MAX; i++)
        fields_append(places, audit_show_place(findings, group->places[i]));
    fields_put(repeated, "count", report_wide(group->lines));
    fields_put(repeated, "identity", window ? report_text(window->identity) : json_null());
    fields_put(repeated, "places", places);
    fields_append(findings->repeated, repeated);
}

static void note_stranger(struct audit *audit, const struct group *group,
                          enum audit_verdict verdict) {
    struct audit_findings *findings = &audit->findings;
    json_t *stranger, *place;

    if (findings->outside++ >= audit->values->show)
        return;
    stranger = show_id(audit, group->id);
    place = audit_show_place(findings, group->places[0]);
    json_object_update(stranger, place);
    json_decref(place);
    fields_put(stranger, "reason", json_string(audit_verdict_text(verdict)));
    fields_append(findings->strangers, stranger);
}

static void judge(struct audit *audit, const struct group *group) {
    struct audit_findings *findings = &audit->findings;
    struct snowflake_parts parts = snowflake_decode((int64_t)group->id, findings->epoch_ms);
    struct audit_machine *machine = &findings->machines[parts.machine_id];
    struct audit_window *window = NULL;

    findings->ids++;
    if (!findings->offline) {
        enum audit_verdict verdict = audit_judge(&machine->history, audit->floor_ms,
                                                 parts.timestamp_ms, &window);

        if (verdict == AUDIT_INSIDE) {
            window->first_ms = window->ids++ ? window->first_ms : parts.timestamp_ms;
            window->last_ms = parts.timestamp_ms;
        } else if (verdict == AUDIT_NOT_COVERED) {
            machine->not_covered++;
            findings->not_covered++;
        } else {
            machine->outside++;
            note_stranger(audit, group, verdict);
        }
    }
    if (group->lines > 1)
        note_repeated(audit, group, window);
}

static enum status judge_all(struct audit *audit, struct error *err) {
    struct group group = {.lines = 0};
    struct id_record record;
    enum status status;
    uint64_t done = 0;

    progress_begin(&audit->progress, "checking", audit->findings.lines);
    while ((status = id_sort_next(audit->sort, &record, err)) == STATUS_OK) {
        if (group.lines > 0 && group.id != record.id) {
            judge(audit, &group);
            group.lines = 0;
        }
        group.id = record.id;
        if (group.lines < AUDIT_PLACES_MAX)
            group.places[group.lines] = record.place;
        group.lines++;
        if (++done % PROGRESS_RECORDS == 0)
            progress_show(&audit->progress, done, done);
    }
    if (group.lines > 0)
        judge(audit, &group);
    progress_end(&audit->progress);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* ---- the command ---- */

static const char *folder(const struct ctl_values *values) {
    const char *of_system = getenv("TMPDIR");

    if (values->tmp_dir)
        return values->tmp_dir;
    return of_system && of_system[0] ? of_system : "/var/tmp";
}

static enum status work(struct audit *audit, struct error *err) {
    bool offline = audit->findings.offline;

    if (check_files(audit, err) != STATUS_OK ||
        (!offline && ask_etcd(audit, false, err) != STATUS_OK) ||
        id_sort_new((size_t)audit->values->memory_mib << 20, folder(audit->values), &audit->sort,
                    err) != STATUS_OK ||
        read_files(audit, err) != STATUS_OK ||
        (!offline && ask_etcd(audit, true, err) != STATUS_OK))
        return err->status;
    return judge_all(audit, err);
}

static int conclude(const struct audit_findings *findings, struct error *err) {
    if (findings->lines == 0)
        ctl_note("there was not one line to read");
    if (findings->bad_lines == 0 && findings->repeated_ids == 0 && findings->outside == 0)
        return CTL_DONE;
    error_set(err, STATUS_REFUSED,
              "found %" PRIu64 " repeated IDs, %" PRIu64 " outside any window, %" PRIu64
              " bad lines",
              findings->repeated_ids, findings->outside, findings->bad_lines);
    return CTL_FAILED;
}

static void free_audit(struct audit *audit) {
    for (unsigned i = 0; i < MACHINE_IDS; i++)
        free(audit->findings.machines[i].history.windows);
    json_decref(audit->findings.bad);
    json_decref(audit->findings.repeated);
    json_decref(audit->findings.strangers);
    id_sort_free(audit->sort);
    free(audit);
}

static enum status check_usage(const struct ctl_values *values, char *const *files,
                               struct error *err) {
    unsigned from_stdin = 0;

    if (values->epoch_given && !values->offline)
        return error_set(err, STATUS_INVALID, "--epoch: only with --offline; etcd knows it");
    for (size_t i = 0; files[i]; i++)
        from_stdin += audit_is_stdin(files[i]);
    if (from_stdin > 1)
        return error_set(err, STATUS_INVALID, "- (stdin) can be read only once");
    return STATUS_OK;
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    static char only_stdin[] = "-";
    static char *const no_files[] = {only_stdin, NULL};
    char *const *files = operands[0] ? operands : no_files;
    struct audit *audit;
    int code = CTL_FAILED;

    if (check_usage(values, files, err) != STATUS_OK)
        return CTL_USAGE;
    audit = allocate(1, sizeof *audit);
    audit->values = values;
    audit->findings.offline = values->offline;
    audit->findings.files = files;
    audit->findings.epoch_ms = values->epoch_given ? values->epoch_ms : SNOWFLAKE_EPOCH_MS;
    audit->findings.bad = json_array();
    audit->findings.repeated = json_array();
    audit->findings.strangers = json_array();
    progress_init(&audit->progress);
    if (work(audit, err) == STATUS_OK) {
        audit_show(&audit->findings, (enum ctl_output)values->output);
        code = conclude(&audit->findings, err);
    }
    free_audit(audit);
    return code;
}

const struct ctl_command ctl_audit = {
    .name = "audit",
    .operands = "[FILE]...",
    .max_operands = AUDIT_FILES_MAX,
    .summary = "Finds IDs in dumps that come twice, or that nobody may have issued.",
    .options = options,
    .run = run,
};
