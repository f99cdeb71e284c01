#include "common/chrony.h"

#include <math.h>
#include <string.h>

#define VERSION 6
#define PACKET_QUESTION 1
#define PACKET_ANSWER 2
#define COMMAND_TRACKING 33
#define REPLY_TRACKING 5
#define STATUS_SUCCESS 0

/* Where things stand in the answer; all numbers are big-endian. */
#define AT_COMMAND 4
#define AT_REPLY 6
#define AT_STATUS 8
#define AT_SEQUENCE 16
#define AT_REFERENCE 28 /* an IPv4 address, or four letters */
#define AT_LEAP 54
#define AT_CORRECTION 68 /* floats, each of 4 bytes */
#define AT_FREQUENCY 80
#define AT_ROOT_DELAY 92
#define AT_ROOT_DISPERSION 96

#define REFERENCE_LOCAL UINT32_C(0x7f7f0101) /* 127.127.1.1 */
#define LEAP_UNSYNCHRONIZED 3
#define ERROR_MAX_S 1e6 /* more makes no sense, and less than that fits */

static uint16_t read_u16(const unsigned char *at) {
    return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t read_u32(const unsigned char *at) {
    return (uint32_t)read_u16(at) << 16 | read_u16(at + 2);
}

static void write_u32(unsigned char *at, uint32_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* 7 bits of exponent, 25 of coefficient, both in two's complement: coefficient * 2^(exponent - 25). */
static double read_float(const unsigned char *at) {
    uint32_t bits = read_u32(at);
    int32_t exponent = (int32_t)(bits >> 25), coefficient = (int32_t)(bits & 0x1ffffff);

    if (exponent >= 64)
        exponent -= 128;
    if (coefficient >= 1 << 24)
        coefficient -= 1 << 25;
    return ldexp(coefficient, exponent - 25);
}

void chrony_question(uint32_t sequence, unsigned char question[static CHRONY_BYTES]) {
    memset(question, 0, CHRONY_BYTES);
    question[0] = VERSION;
    question[1] = PACKET_QUESTION;
    question[5] = COMMAND_TRACKING;
    write_u32(question + 8, sequence);
}

static enum status check_head(const unsigned char *bytes, size_t len, uint32_t sequence,
                              struct error *err) {
    /* A refusal is shorter: its status is the first thing to look at. */
    if (len < AT_SEQUENCE + 4 || bytes[0] != VERSION || bytes[1] != PACKET_ANSWER)
        return error_set(err, STATUS_PROTOCOL, "chronyd: no answer of protocol version %d",
                         VERSION);
    if (read_u32(bytes + AT_SEQUENCE) != sequence ||
        read_u16(bytes + AT_COMMAND) != COMMAND_TRACKING)
        return error_set(err, STATUS_PROTOCOL, "chronyd: an answer to another question");
    if (read_u16(bytes + AT_STATUS) != STATUS_SUCCESS)
        return error_set(err, STATUS_PROTOCOL, "chronyd: refused with status %u",
                         read_u16(bytes + AT_STATUS));
    if (len < CHRONY_BYTES || read_u16(bytes + AT_REPLY) != REPLY_TRACKING)
        return error_set(err, STATUS_PROTOCOL, "chronyd: not an answer to \"tracking\"");
    return STATUS_OK;
}

enum status chrony_parse(const unsigned char *bytes, size_t len, uint32_t sequence,
                         struct chrony_tracking *tracking, struct error *err) {
    double correction_s, delay_s, dispersion_s, error_s, frequency_ppm;

    if (check_head(bytes, len, sequence, err) != STATUS_OK)
        return err->status;
    correction_s = fabs(read_float(bytes + AT_CORRECTION));
    delay_s = read_float(bytes + AT_ROOT_DELAY);
    dispersion_s = read_float(bytes + AT_ROOT_DISPERSION);
    frequency_ppm = read_float(bytes + AT_FREQUENCY);
    error_s = correction_s + dispersion_s + delay_s / 2;
    if (delay_s < 0 || dispersion_s < 0 || error_s > ERROR_MAX_S ||
        fabs(frequency_ppm) > ERROR_MAX_S)
        return error_set(err, STATUS_PROTOCOL, "chronyd: an error of %g s makes no sense", error_s);
    *tracking = (struct chrony_tracking){
        .synchronized = read_u16(bytes + AT_LEAP) != LEAP_UNSYNCHRONIZED,
        .local = read_u32(bytes + AT_REFERENCE) == REFERENCE_LOCAL,
        .max_error_ns = (int64_t)ceil(error_s * 1e9),
        .frequency_ppb = (int64_t)(frequency_ppm * 1e3),
    };
    return STATUS_OK;
}
