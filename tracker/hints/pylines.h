/* SPDX-License-Identifier: MIT */
/*
 * pylines.h - the line of an instruction in a Python code object.
 *
 * A capture holds the bytes of a code object's line table as the interpreter had them. Each of CPython's two formats is read here: by
 * the tools, and inside the watched program only once per place in the code, where hints ask (pycode_frame_at).
 *
 *     linetable, 3.10         pairs of (bytes of code, lines), ranges without a line among them
 *     locations, 3.11 on      entries of one head byte and a few more, numbers in groups of six bits
 *
 * Pure. Takes any bytes: a table that ends early has said all that it says.
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

/* The line at `lasti` (bytes from the first instruction; below 0: before it), 0 = the table knows none. */
unsigned pylines_find(const struct pylines *lines, int32_t lasti);

#endif
