/* SPDX-License-Identifier: MIT */
/*
 * explain_print.h - prints why the peaks of two runs differ (explain.h).
 *
 *     The peak is 83.75 MiB (81 %) higher in bad:
 *         +80.00 MiB  kept until the end
 *             +80.00 MiB      40  train leak.py:17 < <module> leak.py:30
 *          +3.75 MiB  larger
 *              ...
 *            0.00 B   not explained
 *
 * Causes and rows with the most bytes are first; without --top a cause has at most three rows, and
 * one that is less than a hundredth has none. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EXPLAIN_PRINT_H
#define KEDGE_TOOLS_EXPLAIN_PRINT_H

#include <stdio.h>

#include "tools/base/render.h"
#include "tools/compare/explain.h"
#include "tools/symbols/symbols.h"

/* An explanation with all that is printed of it. */
struct explain_print {
    const struct explain *explain; /* NULL: the peaks are not known */
    const struct trace *good, *bad;
    struct symbols *good_symbols, *bad_symbols;
    uint64_t good_peak; /* peak live of good */
    bool is_exact;      /* both peaks of live bytes are: no run was cut off */
    const char *lacks;  /* why events are missing (load_lacks); NULL: none are */
    bool has_reserved;  /* both peaks of reserved bytes are known */
    int64_t reserved;   /* their difference */
    uint64_t top;       /* rows of a cause; 0: not said */
};

void explain_print_text(FILE *out, const struct explain_print *print);

/* The key "difference". */
void explain_print_json(struct json *json, const struct explain_print *print);

#endif
