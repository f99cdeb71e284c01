#include "common/decimal.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/quote.h"

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Reads text[len] as a plain number; false when it is none, or above UINT64_MAX. */
static bool read_plain(const char *text, size_t len, uint64_t *value) {
    uint64_t sum = 0;
    size_t i;

    if (len == 0 || (len > 1 && text[0] == '0'))
        return false;
    for (i = 0; i < len; i++) {
        if (!is_digit(text[i]) || __builtin_mul_overflow(sum, UINT64_C(10), &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(text[i] - '0'), &sum))
            return false;
    }
    *value = sum;
    return true;
}

enum status decimal_parse(const char *text, size_t len, uint64_t min, uint64_t max, uint64_t *value,
                          struct error *err) {
    char quoted[QUOTE_SIZE];
    uint64_t read;

    if (!read_plain(text, len, &read) || read < min || read > max)
        return error_set(err, STATUS_INVALID, "must be %ju..%ju, got %s", (uintmax_t)min,
                         (uintmax_t)max, quote(text, len, quoted));
    *value = read;
    return STATUS_OK;
}

static size_t count_digits(uint64_t value) {
    static const uint64_t powers[DECIMAL_U64_MAX_CHARS] = {
        0, /* so that the number 0 has a digit */
        UINT64_C(10),
        UINT64_C(100),
        UINT64_C(1000),
        UINT64_C(10000),
        UINT64_C(100000),
        UINT64_C(1000000),
        UINT64_C(10000000),
        UINT64_C(100000000),
        UINT64_C(1000000000),
        UINT64_C(10000000000),
        UINT64_C(100000000000),
        UINT64_C(1000000000000),
        UINT64_C(10000000000000),
        UINT64_C(100000000000000),
        UINT64_C(1000000000000000),
        UINT64_C(10000000000000000),
        UINT64_C(100000000000000000),
        UINT64_C(1000000000000000000),
        UINT64_C(10000000000000000000),
    };
    /* Its bits times log10(2), which is 1233 / 4096: the number of digits, or one less. */
    size_t at_least = (size_t)(64 - __builtin_clzll(value | 1)) * 1233 >> 12;

    return at_least + (value >= powers[at_least]);
}

size_t decimal_format(uint64_t value, char out[static DECIMAL_U64_MAX_CHARS]) {
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    size_t len = count_digits(value);
    char *at = out + len;

    while (value >= 100) {
        at -= 2;
        memcpy(at, pairs + 2 * (value % 100), 2);
        value /= 100;
    }
    if (value >= 10)
        memcpy(out, pairs + 2 * value, 2);
    else
        out[0] = (char)('0' + value);
    return len;
}

void decimal_increment(char *text, size_t *len) {
    char *at = text + *len;

    assert(*len > 0);
    while (at > text && at[-1] == '9')
        *--at = '0';
    if (at > text) {
        at[-1]++;
        return;
    }
    /* It was all nines, so all zeros now: one more, behind a one. */
    text[(*len)++] = '0';
    text[0] = '1';
}

struct unit {
    const char *name;
    uint64_t ms;
};
static const struct unit units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
#define UNIT_S (&units[2])
#define UNIT_MS (&units[3])
#define UNITS_END (units + sizeof units / sizeof units[0])
#define READABLE_MAX 9999u

/* The largest unit that says value_ms exactly; 0 is in seconds. */
static const struct unit *largest_exact(uint64_t value_ms) {
    const struct unit *unit = units;

    if (value_ms == 0)
        return UNIT_S;
    while (value_ms % unit->ms != 0)
        unit++;
    return unit;
}

static void print_duration(uint64_t value_ms, const struct unit *unit, char out[static 24]) {
    size_t len = decimal_format(value_ms / unit->ms, out);

    strcpy(out + len, unit->name);
}

void duration_format(uint64_t value_ms, char out[static 24]) {
    print_duration(value_ms, largest_exact(value_ms), out);
}

void duration_format_range(uint64_t min_ms, uint64_t max_ms, char out[static 52]) {
    const struct unit *min_unit = largest_exact(min_ms), *max_unit = largest_exact(max_ms);
    const struct unit *common = min_unit > max_unit ? min_unit : max_unit;
    char min[24], max[24];

    if (min_ms == 0)
        common = max_unit;
    if (max_ms / common->ms <= READABLE_MAX)
        min_unit = max_unit = common;
    print_duration(min_ms, min_unit, min);
    print_duration(max_ms, max_unit, max);
    snprintf(out, 52, "%s..%s", min, max);
}

enum status duration_parse(const char *text, size_t len, uint64_t min_ms, uint64_t max_ms,
                           uint64_t *value_ms, struct error *err) {
    char range[52], quoted[QUOTE_SIZE];
    const struct unit *unit;
    size_t digits = 0;
    uint64_t read;

    while (digits < len && is_digit(text[digits]))
        digits++;
    for (unit = units; unit < UNITS_END; unit++) {
        size_t name_len = strlen(unit->name);

        if (len - digits == name_len && memcmp(text + digits, unit->name, name_len) == 0)
            break;
    }
    if (unit < UNITS_END && read_plain(text, digits, &read) &&
        !__builtin_mul_overflow(read, unit->ms, &read) && read >= min_ms && read <= max_ms) {
        *value_ms = read;
        return STATUS_OK;
    }
    duration_format_range(min_ms, max_ms, range);
    return error_set(err, STATUS_INVALID, "must be %s, got %s", range, quote(text, len, quoted));
}

#define MS_PER_DAY UINT64_C(86400000)
#define DAYS_PER_ERA 146097u /* 400 years of the Gregorian calendar */
#define DAYS_TO_1970 719468u /* from 1 March of the year 0 */
#define YEAR_MAX_CHARS 9     /* of a year with a sign: what a uint64_t of ms can reach */

struct date {
    uint64_t year;
    uint32_t month, day; /* from 1 */
};

/* Years are counted from March here, so that the leap day is a year's last: then the months' days
 * follow one formula, 30.6 days each.  After Howard Hinnant, "chrono-compatible low-level date
 * algorithms". */
static struct date date_of_day(uint64_t days_since_1970) {
    uint64_t days = days_since_1970 + DAYS_TO_1970;
    uint64_t era = days / DAYS_PER_ERA;
    uint32_t day_of_era = (uint32_t)(days % DAYS_PER_ERA);
    uint32_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 -
                            day_of_era / (DAYS_PER_ERA - 1)) /
                           365;
    uint32_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint32_t month = (5 * day_of_year + 2) / 153; /* 0: March */
    struct date date = {
        .year = era * 400 + year_of_era + (month >= 10 ? 1 : 0),
        .month = month < 10 ? month + 3 : month - 9,
        .day = day_of_year - (153 * month + 2) / 5 + 1,
    };

    return date;
}

/* Days since 1970; the date is not before 1970. */
static uint64_t day_of_date(struct date date) {
    uint64_t year = date.year - (date.month <= 2 ? 1 : 0);
    uint64_t era = year / 400, year_of_era = year % 400;
    uint64_t month = date.month > 2 ? date.month - 3 : date.month + 9;
    uint64_t day_of_year = (153 * month + 2) / 5 + date.day - 1;

    return era * DAYS_PER_ERA + 365 * year_of_era + year_of_era / 4 - year_of_era / 100 +
           day_of_year - DAYS_TO_1970;
}

static uint32_t days_in_month(struct date date) {
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = date.year % 4 == 0 && (date.year % 100 != 0 || date.year % 400 == 0);

    return date.month == 2 && leap ? 29 : days[date.month - 1];
}

/* Writes value with leading zeros and returns the place after it. */
static char *put_padded(char *at, uint64_t value, size_t width) {
    size_t i;

    for (i = width; i > 0; i--) {
        at[i - 1] = (char)('0' + value % 10);
        value /= 10;
    }
    return at + width;
}

void time_format(uint64_t wall_ms, char out[static 32]) {
    struct date date = date_of_day(wall_ms / MS_PER_DAY);
    uint64_t ms = wall_ms % MS_PER_DAY;
    char *at = out;

    if (date.year > 9999) {
        *at++ = '+';
        at += decimal_format(date.year, at);
    } else {
        at = put_padded(at, date.year, 4);
    }
    *at++ = '-';
    at = put_padded(at, date.month, 2);
    *at++ = '-';
    at = put_padded(at, date.day, 2);
    *at++ = 'T';
    at = put_padded(at, ms / 3600000, 2);
    *at++ = ':';
    at = put_padded(at, ms / 60000 % 60, 2);
    *at++ = ':';
    at = put_padded(at, ms / 1000 % 60, 2);
    *at++ = '.';
    at = put_padded(at, ms % 1000, 3);
    *at++ = 'Z';
    *at = '\0';
}

/* What is left to read of a text. */
struct reader {
    const char *at, *end;
};

static bool read_char(struct reader *reader, char expected) {
    if (reader->at == reader->end || *reader->at != expected)
        return false;
    reader->at++;
    return true;
}

/* Exactly count digits; leading zeros are part of the format here. */
static bool read_digits(struct reader *reader, size_t count, uint64_t max, uint64_t *value) {
    uint64_t sum = 0;

    for (; count > 0; count--) {
        if (reader->at == reader->end || !is_digit(*reader->at))
            return false;
        sum = sum * 10 + (uint64_t)(*reader->at++ - '0');
    }
    *value = sum;
    return sum <= max;
}

static bool read_year(struct reader *reader, uint64_t *year) {
    size_t count = 0;

    if (!read_char(reader, '+'))
        return read_digits(reader, 4, 9999, year);
    while (count < YEAR_MAX_CHARS && reader->at + count < reader->end &&
           is_digit(reader->at[count]))
        count++;
    return read_digits(reader, count, UINT64_MAX, year) && *year > 9999 &&
           reader->at[-(ptrdiff_t)count] != '0';
}

static bool read_date(struct reader *reader, struct date *date) {
    uint64_t month, day;

    if (!read_year(reader, &date->year) || !read_char(reader, '-') ||
        !read_digits(reader, 2, 12, &month) || !read_char(reader, '-') ||
        !read_digits(reader, 2, 31, &day) || month == 0 || day == 0)
        return false;
    date->month = (uint32_t)month;
    date->day = (uint32_t)day;
    return date->day <= days_in_month(*date);
}

/* "HH:MM:SS", with up to three digits of fraction. */
static bool read_time_of_day(struct reader *reader, uint64_t *ms) {
    uint64_t hours, minutes, seconds, fraction = 0, digit, scale = 100;

    if (!read_digits(reader, 2, 23, &hours) || !read_char(reader, ':') ||
        !read_digits(reader, 2, 59, &minutes) || !read_char(reader, ':') ||
        !read_digits(reader, 2, 59, &seconds))
        return false;
    if (read_char(reader, '.')) {
        if (!read_digits(reader, 1, 9, &digit))
            return false;
        do {
            fraction += digit * scale;
            scale /= 10;
        } while (scale > 0 && read_digits(reader, 1, 9, &digit));
    }
    *ms = ((hours * 60 + minutes) * 60 + seconds) * 1000 + fraction;
    return true;
}

/* "Z", "+HH:MM" or "-HH:MM". */
static bool read_offset(struct reader *reader, bool *east, uint64_t *ms) {
    uint64_t hours, minutes;

    *east = false;
    *ms = 0;
    if (read_char(reader, 'Z'))
        return true;
    *east = read_char(reader, '+');
    if ((!*east && !read_char(reader, '-')) || !read_digits(reader, 2, 23, &hours) ||
        !read_char(reader, ':') || !read_digits(reader, 2, 59, &minutes))
        return false;
    *ms = (hours * 60 + minutes) * 60000;
    return true;
}

enum status time_parse(const char *text, size_t len, uint64_t *wall_ms, struct error *err) {
    struct reader reader = {text, text + len};
    char quoted[QUOTE_SIZE];
    uint64_t ms, offset_ms, sum;
    struct date date;
    bool east;

    if (!read_date(&reader, &date) || !read_char(&reader, 'T') || !read_time_of_day(&reader, &ms) ||
        !read_offset(&reader, &east, &offset_ms) || reader.at != reader.end)
        return error_set(err, STATUS_INVALID,
                         "must be a time such as 2024-01-01T00:00:00.000Z, got %s",
                         quote(text, len, quoted));
    if (date.year < 1970 || __builtin_mul_overflow(day_of_date(date), MS_PER_DAY, &sum) ||
        __builtin_add_overflow(sum, ms, &sum) ||
        (east ? __builtin_sub_overflow(sum, offset_ms, &sum)
              : __builtin_add_overflow(sum, offset_ms, &sum)))
        return error_set(err, STATUS_INVALID, "must be a time since 1970, got %s",
                         quote(text, len, quoted));
    *wall_ms = sum;
    return STATUS_OK;
}
