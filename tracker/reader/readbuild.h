/* SPDX-License-Identifier: MIT */
/*
 * readbuild.h - is a file still the build that a capture saw?
 *
 * For objects without a build-id, whose identity is a fingerprint of what is loaded from them (fingerprint.h). With one,
 * libdw knows. Reads any bytes; nothing is trusted. Threads: any.
 */
#ifndef KEDGE_TRACKER_READBUILD_H
#define KEDGE_TRACKER_READBUILD_H

#include <stdbool.h>
#include <stdint.h>

/* `captured_path` and `identity` as the capture has them (struct read_module), `file` as it lies here. */
bool readbuild_is_same(const char *file, const char *captured_path, uint64_t identity);

#endif
