#include "common/id_kind.h"

#include <string.h>

#include "common/ulid.h"
#include "common/uuid.h"

static const char *const names[ID_KINDS] = {"snowflake", "uuidv4",   "uuidv7",
                                            "ulid",      "sequence", "public"};

const char *id_kind_name(enum id_kind kind) {
    return names[kind];
}

bool id_kind_find(const char *text, size_t len, enum id_kind *kind) {
    for (int i = 0; i < ID_KINDS; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], text, len) == 0) {
            *kind = (enum id_kind)i;
            return true;
        }
    }
    return false;
}

size_t id_kind_format(enum id_kind kind, const struct id128 *id, char out[static ID_TEXT_MAX + 1]) {
    if (kind == ID_ULID) {
        ulid_format(id, out);
        return ULID_TEXT_LEN;
    }
    uuid_format(id, out);
    return UUID_TEXT_LEN;
}
