/* snowfleetctl encode: the public form of an ID.  It needs the keys, and neither etcd nor a worker. */
#include <string.h>

#include "common/id_decode.h"
#include "common/public_key_file.h"
#include "coordinator/ctl.h"
#include "coordinator/ctl_output.h"

enum { KIND_SNOWFLAKE, KIND_SEQUENCE };
static const char *const kinds[] = {"snowflake", "sequence", NULL};

static const struct option options[] = {
    {.name = "kind",
     .type = OPTION_CHOICE,
     .offset = offsetof(struct ctl_values, kind),
     .argument = "snowflake|sequence",
     .fallback = "snowflake",
     .choices = kinds,
     .help = "What the ID is."},
    CTL_PUBLIC_KEY_FILE("Required"),
    {.name = NULL},
};

enum status ctl_open_public_keys(const struct ctl_values *values, struct public_codec **codec,
                                 struct error *err) {
    struct public_key_file *file;

    if (!values->public_key_file)
        return error_set(err, STATUS_INVALID, "public IDs need --public-key-file=FILE");
    if (public_key_file_open(values->public_key_file, &file, err) != STATUS_OK)
        return error_context(err, "--public-key-file");
    *codec = public_codec_new(public_key_file_keys(file), err);
    public_key_file_close(file);
    return *codec ? STATUS_OK : err->status;
}

static int run(const struct ctl_values *values, char *const *operands, struct error *err) {
    bool sequence = values->kind == KIND_SEQUENCE;
    struct public_codec *codec;
    struct id_facts facts;
    struct id_value id;

    if (id_read(sequence ? ID_READ_SEQUENCE : ID_READ_SNOWFLAKE, operands[0], strlen(operands[0]),
                &id, err) != STATUS_OK) {
        error_context(err, "ID");
        return CTL_USAGE;
    }
    if (ctl_open_public_keys(values, &codec, err) != STATUS_OK)
        return CTL_USAGE;
    id_encoded(codec, sequence ? PUBLIC_OF_SEQUENCE : PUBLIC_OF_SNOWFLAKE, id.number, &facts);
    public_codec_free(codec);
    output_object(id_facts_json(&facts, NULL), values->output == CTL_JSON);
    return CTL_DONE;
}

const struct ctl_command ctl_encode = {
    .name = "encode",
    .operands = "ID",
    .n_operands = 1,
    .summary = "Gives the public form of a Snowflake or of a value of a sequence.",
    .options = options,
    .run = run,
};
