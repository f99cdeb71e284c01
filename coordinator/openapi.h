/* openapi.h - the coordinator's HTTP interface as an OpenAPI document: coordinator/openapi.json, built into the
 * program. */
#ifndef SNOWFLEET_COORDINATOR_OPENAPI_H
#define SNOWFLEET_COORDINATOR_OPENAPI_H

#include <stddef.h>

extern const char coordinator_openapi[]; /* ends in NUL */
extern const size_t coordinator_openapi_len;

#endif
