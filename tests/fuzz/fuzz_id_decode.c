/* The readers of UUIDs, ULIDs, Snowflakes and public IDs as text: what one takes is written in one spelling, which
 * reads as the same, and what is refused has a reason that can be shown. */
#include <stdlib.h>
#include <string.h>

#include "common/id_decode.h"

static void require(int holds) {
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte says which kind is asked for. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct id_value value, again;
    struct id_facts facts;
    struct error err;
    char *text;

    if (size == 0)
        return 0;
    text = malloc(size); /* exactly: what reads past its end is found */
    require(text != NULL);
    memcpy(text, data + 1, size - 1);
    if (id_read(data[0] % ID_READS, text, size - 1, &value, &err) == STATUS_OK) {
        id_decode(&value, 0, 0, &facts); /* a public ID is not opened: what it is of is not known */
        require(id_read(value.kind, facts.text, strlen(facts.text), &again, &err) == STATUS_OK);
        require(again.kind == value.kind && again.number == value.number);
        require(again.key_version == value.key_version);
        require(memcmp(&again.wide, &value.wide, sizeof value.wide) == 0);
        json_decref(id_facts_json(&facts, NULL));
    } else {
        require(strncmp(err.message, "must be ", 8) == 0);
        for (const char *at = err.message; *at; at++)
            require(*at >= ' ' && *at < 0x7f);
    }
    free(text);
    return 0;
}
