/* SPDX-License-Identifier: MIT */
/* buildid.h - the build-id of a module as text. Threads: any. Memory: the caller's. */
#ifndef KEDGE_TOOLS_BUILDID_H
#define KEDGE_TOOLS_BUILDID_H

#include <stddef.h>
#include <stdint.h>

#include "tools/trace/trace.h"

#define BUILDID_TEXT_MAX (2 * sizeof(((struct trace_module *)0)->build_id) + 1)

/* As readelf prints it, in hexadecimal; `count` is at most the size of trace_module.build_id. */
void buildid_text(const uint8_t *bytes, size_t count, char ret_text[static BUILDID_TEXT_MAX]);

#endif
