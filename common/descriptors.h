/* descriptors.h - a process's file descriptors, and how many of them clients may take. */
#ifndef SNOWFLEET_COMMON_DESCRIPTORS_H
#define SNOWFLEET_COMMON_DESCRIPTORS_H

#include <stdint.h>

/* Where descriptors are too few for own of them and *connections for each of n users, fewer clients are
 * taken, since the link to etcd must not go without: *connections falls, to 1 at least, and a warning
 * tells.  daemon_main() has taken as many as the system gives. */
void descriptors_fit(uint64_t own, uint64_t n, unsigned *connections);

#endif
