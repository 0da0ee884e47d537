/* SPDX-License-Identifier: MIT */
/*
 * readbuild.h - is a file still the build that a capture saw?
 *
 * For objects without a build-id, which are identified by a fingerprint of their loaded content
 * (fingerprint.h). With a build-id, libdw decides. Reads any bytes; trusts none.
 * Threads: any.
 */
#ifndef KEDGE_TRACKER_READBUILD_H
#define KEDGE_TRACKER_READBUILD_H

#include <stdbool.h>
#include <stdint.h>

/* `captured_path` and `identity` from the capture (struct read_module), `file` the present path. */
bool readbuild_is_same(const char *file, const char *captured_path, uint64_t identity);

#endif
