/* openapi.h - the worker's HTTP interface as an OpenAPI document: worker/openapi.json, built into the
 * program. */
#ifndef SNOWFLEET_WORKER_OPENAPI_H
#define SNOWFLEET_WORKER_OPENAPI_H

#include <stddef.h>

extern const char worker_openapi[]; /* ends in NUL */
extern const size_t worker_openapi_len;

#endif
