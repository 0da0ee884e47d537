/* SPDX-License-Identifier: MIT */
/*
 * pylines.h - the line of an instruction in a Python code object.
 *
 * A capture holds the bytes of a code object's line table as in the interpreter. This file decodes
 * both of CPython's formats: for the tools, and inside the observed program only once per place in
 * the code, if hints need it (pycode_frame_at).
 *
 *     linetable, 3.10         pairs of (bytes of code, lines), some ranges without a line
 *     locations, 3.11 on      entries of one head byte and a few more, numbers by six bits
 *
 * Pure. Accepts any bytes: a truncated table has only the entries up to its end.
 */
#ifndef KEDGE_TRACKER_PYLINES_H
#define KEDGE_TRACKER_PYLINES_H

#include <stddef.h>
#include <stdint.h>

#include "tracker/format/format.h"

struct pylines {
    enum format_pytable table;
    const unsigned char *bytes;
    size_t length;
    int32_t first_line;
};

/* The line at `lasti` (bytes from the first instruction; negative: before it), 0 = unknown. */
unsigned pylines_find(const struct pylines *lines, int32_t lasti);

#endif
