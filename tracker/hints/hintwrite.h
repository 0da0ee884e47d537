/* SPDX-License-Identifier: MIT */
/*
 * hintwrite.h - the text of a hint file. For the tools: the library reads hint files and writes
 * none.
 *
 * Threads: no state.
 */
#ifndef KEDGE_TRACKER_HINTWRITE_H
#define KEDGE_TRACKER_HINTWRITE_H

#include "tracker/hints/hintfile.h"

#include <stddef.h>

/* Writes the text of a file: hintfile_read_bytes turns it into a struct equal to `file` (except
 * hash, lines and comments). *ret_text is malloc'd and NUL-terminated. 0, -ENOMEM, -EINVAL for
 * values that the grammar cannot express (an action that the reader refuses, no hint, a bad id),
 * -E2BIG for more than HINTFILE_HINTS_MAX hints, -EFBIG for more than HINTFILE_BYTES_MAX. Bytes of
 * a glob that are not UTF-8 (utf8_printable) are written as `?`, which matches them. */
int hintwrite_text(const struct hintfile *file, char **ret_text, size_t *ret_length);

#endif
