/* SPDX-License-Identifier: MIT */
/*
 * import_capture.h - the tensors in a capture of a run under PyTorch's own allocator.
 *
 * The library puts PyTorch's own record into the capture (area F of tracker/FORMAT.md): what such a
 * capture shows by itself are segments. The record becomes a capture of its own, of tensors.
 *
 * Threads: none.
 */
#ifndef KEDGE_TOOLS_IMPORT_CAPTURE_H
#define KEDGE_TOOLS_IMPORT_CAPTURE_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/import/import.h"
#include "tools/trace/trace.h"
#include "tracker/reader/read.h"

/*
 * The record, to be read as a file, while the capture is open. NULL after one line on stderr: it
 * has none.
 */
FILE *import_capture_record(const char *path, const struct read_capture *capture);

/*
 * The edges of the run's anchors, in the order of time and by the record's clock. `trace` is the
 * run's, and outlives them; the caller frees the list.
 */
struct import_edge *import_capture_edges(
        const struct read_capture *capture, const struct trace *trace, size_t *ret_count);

/*
 * The tensors of a run that has a record, with its anchors; `path` is the run's capture. NULL after
 * one line on stderr. read_close frees it.
 */
struct read_capture *import_capture_tensors(
        const char *path, const struct read_capture *capture, const struct trace *trace);

#endif
