#include "common/lines.h"

#include <string.h>

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

bool lines_next(struct lines *lines, const char **text, size_t *len) {
    while (lines->at < lines->end) {
        const char *begin = lines->at;
        const char *end = memchr(begin, '\n', (size_t)(lines->end - begin));

        lines->at = end ? end + 1 : lines->end;
        end = end ? end : lines->end;
        lines->number++;
        while (begin < end && is_blank(*begin))
            begin++;
        while (end > begin && is_blank(end[-1]))
            end--;
        if (begin < end && *begin != '#') {
            *text = begin;
            *len = (size_t)(end - begin);
            return true;
        }
    }
    return false;
}
