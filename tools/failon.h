/* SPDX-License-Identifier: MIT */
/*
 * failon.h - `kedge diff --fail-on`: is the bad run as good as the other one, for a script?
 *
 *     late>N          frees that come late or never, of blocks that both runs allocate
 *     extra>N         allocations that only the bad run makes and that are live at the end
 *     remaining>SIZE  bytes that the bad run has more at the end than the good one
 *     pairs<PERCENT   of the allocations of either run have a partner in the other, or were looked at for late frees
 *
 * "The end" is the end of what is compared: of the run, or of its window. A condition that is not named keeps its default
 * (late>0, extra>0, remaining>0, pairs<50), because a check for one way of losing memory should not let the others pass.
 * The limit `any` turns a condition off. Each condition has an answer: it holds, it does not hold, or it is unknown.
 *
 *   late        what was found is proven by its partner. If none was found the answer is unknown where events are missing or
 *               too little was looked at (looked.h).
 *   extra       unknown where events are missing, where too few allocations have a partner (then most would count as made by
 *   remaining   one run only), or where a run was cut off, because it would have freed more.
 *   pairs       unknown if there are too few: two runs with nothing in common cannot be compared.
 *
 * Threads: none. Memory: none.
 */
#ifndef KEDGE_TOOLS_FAILON_H
#define KEDGE_TOOLS_FAILON_H

#include "tools/claim.h"
#include "tools/compare.h"
#include "tools/render.h"

enum failon_condition {
    FAILON_LATE,
    FAILON_EXTRA,
    FAILON_REMAINING,
    FAILON_PAIRS,
    FAILON_COUNT,
};

#define FAILON_ANY UINT64_MAX /* a limit that nothing is beyond */

struct failon {
    uint64_t limit[FAILON_COUNT]; /* frees, allocations, bytes, percent */
};

/* What is known of the two runs besides the comparison. */
struct failon_runs {
    const struct compare *compare;
    /* events are missing in what is compared, or are damaged: load_lacks; NULL: none are */
    const char *lacks;
    bool good_ended, bad_ended; /* the end of what is compared is not where the run was cut off */
};

struct failon_result {
    uint64_t value[FAILON_COUNT];           /* of what is on record */
    struct claim_range range[FAILON_COUNT]; /* what is known of it */
    enum claim_answer answer[FAILON_COUNT]; /* is it within the limit? */
};

/* "default", or conditions with commas between them. False: the text is no such thing. */
bool failon_parse(const char *text, struct failon *ret_failon);

void failon_judge(const struct failon *failon, const struct failon_runs *runs,
        struct failon_result *ret_result);

/* NO if one condition says so, else UNKNOWN if one does, else YES. */
enum claim_answer failon_answer(const struct failon_result *result);

/* Why an answer is not known, for a line. */
const char *failon_why(enum failon_condition which, const struct failon *failon,
        const struct failon_runs *runs, const struct failon_result *result);

/* One line for each condition whose answer is not YES. */
void failon_print(FILE *out, const struct failon *failon, const struct failon_runs *runs,
        const struct failon_result *result);

/* The key fail_on: condition, limit (null: any), value and answer (yes, no, unknown) of each; null where `failon` is NULL. */
void failon_json(
        struct json *json, const struct failon *failon, const struct failon_result *result);

#endif
