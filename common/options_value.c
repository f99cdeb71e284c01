#include "common/options_value.h"

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

#include "common/allocate.h"
#include "common/decimal.h"

void option_environment_name(const char *name, char out[static OPTION_TEXT_SIZE]) {
    const size_t prefix_len = strlen(OPTION_ENVIRONMENT_PREFIX);
    char *at = out + prefix_len;

    assert(prefix_len + strlen(name) < OPTION_TEXT_SIZE);
    memcpy(out, OPTION_ENVIRONMENT_PREFIX, prefix_len);
    for (; *name; name++) {
        if (*name >= 'a' && *name <= 'z') /* toupper() follows the locale, names do not */
            *at++ = (char)(*name - 'a' + 'A');
        else
            *at++ = *name == '-' ? '_' : *name;
    }
    *at = '\0';
}

static void *place(const struct option *option, void *values) {
    return (char *)values + option->offset;
}

static const void *place_const(const struct option *option, const void *values) {
    return (const char *)values + option->offset;
}

static bool read_bool(const char *text, size_t len, bool *value) {
    bool is_true = len == 4 && memcmp(text, "true", 4) == 0;

    if (!is_true && !(len == 5 && memcmp(text, "false", 5) == 0))
        return false;
    *value = is_true;
    return true;
}

static bool read_number(const char *text, size_t len, uint64_t min, uint64_t max, uint64_t *value) {
    struct error ignored; /* option_value_rule() words it */

    return decimal_parse(text, len, min, max, value, &ignored) == STATUS_OK;
}

static bool read_choice(const struct option *option, const char *text, size_t len, int *value) {
    int i;

    for (i = 0; option->choices[i]; i++) {
        if (strlen(option->choices[i]) == len && memcmp(option->choices[i], text, len) == 0) {
            *value = i;
            return true;
        }
    }
    return false;
}

static bool is_host_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

/* Of a host, or of the zone of an IPv6 address. */
static bool is_name(const char *text, size_t len) {
    if (len == 0 || text[0] == '-')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_host_char(text[i]))
            return false;
    }
    return true;
}

static bool is_ipv6(const char *text, size_t len) {
    const char *zone = memchr(text, '%', len);
    char address[INET6_ADDRSTRLEN];
    struct in6_addr parsed;

    if (zone) {
        if (!is_name(zone + 1, len - (size_t)(zone + 1 - text)))
            return false;
        len = (size_t)(zone - text);
    }
    if (len >= sizeof address)
        return false;
    memcpy(address, text, len);
    address[len] = '\0';
    return inet_pton(AF_INET6, address, &parsed) == 1;
}

/* As it stands before a port. */
static bool is_host(const char *text, size_t len) {
    if (len > 2 && text[0] == '[' && text[len - 1] == ']')
        return is_ipv6(text + 1, len - 2);
    return is_name(text, len);
}

static bool is_address(const char *text, size_t len) {
    const char *colon = memrchr(text, ':', len);
    size_t host_len;
    uint64_t port;

    if (!colon)
        return false;
    host_len = (size_t)(colon - text);
    return is_host(text, host_len) && read_number(colon + 1, len - host_len - 1, 0, 65535, &port);
}

static bool read_time(const struct option *option, const char *text, size_t len, uint64_t *value) {
    uint64_t max = option->max ? option->max : UINT64_MAX;
    struct error ignored;
    uint64_t wall_ms;

    if (read_number(text, len, option->min, max, value))
        return true;
    if (time_parse(text, len, &wall_ms, &ignored) != STATUS_OK || wall_ms < option->min ||
        wall_ms > max)
        return false;
    *value = wall_ms;
    return true;
}

static bool read_range(const struct option *option, const char *text, size_t len,
                       struct option_range *value) {
    const char *dash = memchr(text, '-', len);
    size_t first_len = dash ? (size_t)(dash - text) : len;
    struct option_range range;

    if (!read_number(text, first_len, option->min, option->max, &range.first))
        return false;
    range.last = range.first;
    if (dash && !read_number(dash + 1, len - first_len - 1, range.first, option->max, &range.last))
        return false;
    *value = range;
    return true;
}

static void replace_string(const struct option *option, const char *text, size_t len,
                           void *values) {
    option_value_release(option, values);
    *(char **)place(option, values) = allocate_copy(text, len);
}

bool option_value_read(const struct option *option, const char *text, size_t len, void *values) {
    void *value = place(option, values);
    struct error ignored;

    switch (option->type) {
    case OPTION_BOOL: return read_bool(text, len, value);
    case OPTION_STRING:
        if (len == 0)
            return false;
        replace_string(option, text, len, values);
        return true;
    case OPTION_NUMBER: return read_number(text, len, option->min, option->max, value);
    case OPTION_DURATION:
        return duration_parse(text, len, option->min, option->max, value, &ignored) == STATUS_OK;
    case OPTION_CHOICE: return read_choice(option, text, len, value);
    case OPTION_ADDRESS:
        if (!is_address(text, len) && (len > 0 || !option->may_be_off))
            return false;
        replace_string(option, text, len, values);
        return true;
    case OPTION_HOST:
        if (!is_host(text, len) && !is_ipv6(text, len))
            return false;
        replace_string(option, text, len, values);
        return true;
    case OPTION_TIME: return read_time(option, text, len, value);
    case OPTION_RANGE: return read_range(option, text, len, value);
    }
    return false;
}

void option_value_limits(const struct option *option, char out[static OPTION_TEXT_SIZE]) {
    char min[32], max[32];
    size_t len = 0;
    int i;

    out[0] = '\0';
    switch (option->type) {
    case OPTION_NUMBER:
    case OPTION_RANGE:
        snprintf(out, OPTION_TEXT_SIZE, "%ju..%ju", (uintmax_t)option->min, (uintmax_t)option->max);
        break;
    case OPTION_DURATION: duration_format_range(option->min, option->max, out); break;
    case OPTION_CHOICE:
        for (i = 0; option->choices[i] && len < OPTION_TEXT_SIZE; i++)
            len += (size_t)snprintf(out + len, OPTION_TEXT_SIZE - len, "%s%s", i > 0 ? "|" : "",
                                    option->choices[i]);
        break;
    case OPTION_TIME:
        if (option->max) {
            time_format(option->min, min);
            time_format(option->max, max);
            snprintf(out, OPTION_TEXT_SIZE, "%s..%s", min, max);
        }
        break;
    case OPTION_BOOL:
    case OPTION_STRING:
    case OPTION_ADDRESS:
    case OPTION_HOST: break;
    }
}

void option_value_rule(const struct option *option, char out[static OPTION_RULE_SIZE]) {
    char limits[OPTION_TEXT_SIZE];

    option_value_limits(option, limits);
    switch (option->type) {
    case OPTION_BOOL: strcpy(out, "must be true or false"); break;
    case OPTION_STRING: strcpy(out, "must not be empty"); break;
    case OPTION_ADDRESS:
        snprintf(out, OPTION_RULE_SIZE, "must be HOST:PORT or [IPV6]:PORT with port 0..65535%s",
                 option->may_be_off ? ", or empty for off" : "");
        break;
    case OPTION_HOST: strcpy(out, "must be a host name or an IP address, without a port"); break;
    case OPTION_TIME:
        snprintf(out, OPTION_RULE_SIZE,
                 "must be a time such as 2024-01-01T00:00:00Z, or ms since 1970%s%s",
                 limits[0] ? ", of " : "", limits);
        break;
    case OPTION_RANGE: snprintf(out, OPTION_RULE_SIZE, "must be A-B or A within %s", limits); break;
    case OPTION_NUMBER:
    case OPTION_DURATION:
    case OPTION_CHOICE: snprintf(out, OPTION_RULE_SIZE, "must be %s", limits); break;
    }
}

const char *option_value_show(const struct option *option, const void *values,
                              char buffer[static OPTION_TEXT_SIZE]) {
    const void *value = place_const(option, values);
    const struct option_range *range;
    const char *string;
    size_t len;

    switch (option->type) {
    case OPTION_BOOL: return *(const bool *)value ? "true" : "false";
    case OPTION_STRING:
    case OPTION_ADDRESS:
    case OPTION_HOST: string = *(char *const *)value; return string ? string : "";
    case OPTION_CHOICE: return option->choices[*(const int *)value];
    case OPTION_NUMBER: buffer[decimal_format(*(const uint64_t *)value, buffer)] = '\0'; break;
    case OPTION_DURATION: duration_format(*(const uint64_t *)value, buffer); break;
    case OPTION_TIME: time_format(*(const uint64_t *)value, buffer); break;
    case OPTION_RANGE:
        range = value;
        len = decimal_format(range->first, buffer);
        buffer[len++] = '-';
        len += decimal_format(range->last, buffer + len);
        buffer[len] = '\0';
        break;
    }
    return buffer;
}

void option_value_release(const struct option *option, void *values) {
    char **string;

    if (option->type != OPTION_STRING && option->type != OPTION_ADDRESS &&
        option->type != OPTION_HOST)
        return;
    string = place(option, values);
    free(*string);
    *string = NULL;
}
