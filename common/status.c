#include "common/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *status_name(enum status status) {
    switch (status) {
    case STATUS_OK: return "ok";
    case STATUS_INVALID: return "invalid";
    case STATUS_NOT_FOUND: return "not found";
    case STATUS_EXISTS: return "exists";
    case STATUS_REFUSED: return "refused";
    case STATUS_UNAVAILABLE: return "unavailable";
    case STATUS_UNKNOWN: return "unknown outcome";
    case STATUS_NO_SPACE: return "no space";
    case STATUS_AUTH: return "not authenticated";
    case STATUS_PROTOCOL: return "protocol";
    case STATUS_CANCELLED: return "cancelled";
    case STATUS_SYSTEM: return "system";
    case STATUS_STARVED: return "starved";
    case STATUS_CLOCK_BACK: return "clock back";
    case STATUS_CLOCK_RANGE: return "clock out of range";
    case STATUS_BUSY: return "busy";
    }
    return "?";
}

/* Cuts before a UTF-8 character that does not fit whole, and says so. */
static void mark_cut(char *text, size_t size) {
    size_t end = size - sizeof "...";

    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    memcpy(text + end, "...", sizeof "...");
}

enum status error_set(struct error *err, enum status status, const char *format, ...) {
    va_list args;
    int len;

    err->status = status;
    va_start(args, format);
    len = vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    if (len >= (int)sizeof err->message)
        mark_cut(err->message, sizeof err->message);
    return status;
}

enum status error_context(struct error *err, const char *format, ...) {
    char old[sizeof err->message];
    va_list args;
    int len;

    memcpy(old, err->message, sizeof old);
    va_start(args, format);
    len = vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    if (len >= 0 && len < (int)sizeof err->message)
        len += snprintf(err->message + len, sizeof err->message - (size_t)len, ": %s", old);
    if (len >= (int)sizeof err->message)
        mark_cut(err->message, sizeof err->message);
    return err->status;
}
