/* SPDX-License-Identifier: MIT */
/*
 * claim.h - claims of `kedge check`: their syntax, and when one holds.
 *
 *     peak<12GiB        anchor:"SOT_CALL_*".remaining<1GiB        late(good.kcap)==0
 *
 *     [anchor:GLOB.] FIGURE [(FILE)]  < <= == != >= >  LIMIT
 *
 * One table has the figures; --help prints it, and the man page has its sentences. GLOB and FILE
 * are in double quotes, or plain up to the `.` or `)` after them. Blanks between the parts do not
 * matter. LIMIT is in bytes, with K, M, G or KiB, MiB, GiB, or KB, MB, GB for the same, or B;
 * counts have none.
 *
 * A value is a range: if a run was cut off, the recorded peak is the least possible one, and its
 * later frees are unknown. A claim holds if it holds for the whole range, and fails if it holds for
 * no value in it.
 *
 * Does not read captures (measure.h). Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_CLAIM_H
#define KEDGE_TOOLS_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum claim_figure {
    CLAIM_PEAK,
    CLAIM_PEAK_WITH_HINTS,
    CLAIM_PEAK_IF_LIVE,
    CLAIM_RESERVED,
    CLAIM_ALLOCATED,
    CLAIM_ALLOCATIONS,
    CLAIM_FREED,
    CLAIM_FREES,
    CLAIM_REMAINING,
    CLAIM_REMAINING_WITH_HINTS,
    CLAIM_LEAKS,
    CLAIM_GROWTH,
    CLAIM_HINT_RELEASES,
    CLAIM_DRIFTED_HINTS,
    CLAIM_MOVED_IN,
    CLAIM_MOVED_OUT,
    CLAIM_LATE,
    CLAIM_EXTRA,
    CLAIM_MORE_REMAINING,
    CLAIM_FIGURE_COUNT,
};

/* A row of the table. */
struct claim_row {
    const char *name, *what; /* its meaning, one sentence */
    bool is_bytes;           /* else a count */
    bool has_anchors;        /* may be claimed of anchors */
    bool has_file;           /* compares with another run */
    /*
     * a value at the end: a run that was cut off has none yet; other values are at least the
     * recorded one
     */
    bool is_final;
};

enum claim_op {
    CLAIM_LESS,
    CLAIM_LESS_EQUAL,
    CLAIM_EQUAL,
    CLAIM_NOT_EQUAL,
    CLAIM_GREATER_EQUAL,
    CLAIM_GREATER,
    CLAIM_OP_COUNT,
};

enum claim_answer {
    CLAIM_YES,
    CLAIM_NO,
    CLAIM_UNKNOWN, /* cannot be decided */
};

struct claim {
    enum claim_figure figure;
    char *anchor, *file; /* NULL: of the whole run; of no other run */
    enum claim_op op;
    uint64_t limit;
    bool is_bare; /* bytes without a unit, and not 0 */
};

struct claim_error {
    unsigned column; /* from 1, in bytes */
    char text[200];  /* "unknown figure 'peek'; did you mean 'peak'?" */
};

/* The least and the greatest possible value; high UINT64_MAX: no known bound. */
struct claim_range {
    uint64_t low, high;
};

const struct claim_row *claim_row(enum claim_figure figure);

/* "<=" */
const char *claim_op_text(enum claim_op op);

/* False with *ret_error filled if the text is no claim. claim_done frees one. */
bool claim_parse(const char *text, struct claim *ret_claim, struct claim_error *ret_error);
void claim_done(struct claim *claim);

enum claim_answer claim_holds(struct claim_range range, enum claim_op op, uint64_t limit);

/* Both must hold: NO if one is, else UNKNOWN if one is. */
enum claim_answer claim_both(enum claim_answer one, enum claim_answer other);

/* "yes", "no", "unknown" */
const char *claim_answer_text(enum claim_answer answer);

#endif
