/* quote.h - foreign text in a message.  [pure]
 *
 * What a user, a file or the network sent must not break the line it is shown in, nor fill it. */
#ifndef SNOWFLEET_COMMON_QUOTE_H
#define SNOWFLEET_COMMON_QUOTE_H

#include <stddef.h>

#define QUOTE_SIZE 64

/* Writes text[len] as it may stand in a message and returns out.  Short plain text stays as it is;
 * what is empty, long or holds anything but visible ASCII comes in double quotes, cut to end in
 * "..." and with \xNN for what cannot be shown: "", " 7", "5\x00", "aaaa...". */
const char *quote(const char *text, size_t len, char out[static QUOTE_SIZE]);

#endif
