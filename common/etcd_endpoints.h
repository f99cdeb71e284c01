/* etcd_endpoints.h - the list that --etcd-endpoints takes.  [pure] */
#ifndef SNOWFLEET_COMMON_ETCD_ENDPOINTS_H
#define SNOWFLEET_COMMON_ETCD_ENDPOINTS_H

#include <stddef.h>

#include "common/status.h"

#define ETCD_ENDPOINTS_MAX 16
#define ETCD_ENDPOINT_MAX 300 /* characters of one */

struct etcd_endpoints {
    char *urls[ETCD_ENDPOINTS_MAX]; /* "http://10.0.0.5:2379", no slash at the end */
    size_t n;                       /* 1.. */
};

/* Reads "http://a:2379,https://b:2379".  Without a port it is the scheme's, 80 or 443, as in any
 * URL.  STATUS_INVALID names the item that is wrong.  *endpoints is to be released. */
enum status etcd_endpoints_parse(const char *text, struct etcd_endpoints *endpoints,
                                 struct error *err);
void etcd_endpoints_release(struct etcd_endpoints *endpoints);

#endif
