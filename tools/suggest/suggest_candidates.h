/* SPDX-License-Identifier: MIT */
/*
 * suggest_candidates.h - every hint that would be exact, and which late frees it is for.
 *
 *     call site of a late free    its anchor, and the one whose exit it is late by      size and turn
 *     p:FILE:FUNCTION             SOT_CALL_*  digits folded                             all
 *     p:FILE:FUNCTION:LINE        SOT_CALL_17 as they are, where folding                ranges of sizes
 *     c:NATIVE STACK                          catches something else                    ranges of nth, of all sizes or of one; not where
 *                                                                                       several threads ask in one instance of an anchor
 *
 * A candidate is exact if in the bad run all that it picks is a late free of that very exit, or has no such exit before the run
 * ends, and if in the good run nothing that it picks lives past such an exit. A range is as wide as it can be exact.
 *
 * Bounded, since a block has two call sites for each Python frame: of call sites that the same allocations came through one is
 * looked at; each looks at its blocks once for each folded name of an anchor, and once more for all literal ones if some of them
 * have no candidate with all of a folded one; and the search ends at SUGGEST_CANDIDATES_LOOKS_MAX blocks, SUGGEST_CANDIDATES_MAX candidates
 * or SUGGEST_CANDIDATES_ITEMS_MAX late frees in them, call sites with few blocks first. Names that differ in letters as well (hashes) are
 * folded by their digits until SUGGEST_CANDIDATES_GLOBS_MAX names were compared with folded ones, then by words. Time: blocks that are looked at, times the
 * logarithm of those of one site.
 *
 * Does not choose (suggest_cover.h). Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SUGGEST_CANDIDATES_H
#define KEDGE_TOOLS_SUGGEST_CANDIDATES_H

#include "alloc/base/rule.h"
#include "tools/suggest/suggest_cover.h"
#include "tools/symbols/sitekey.h"
#include "tools/trace/trace.h"

#define SUGGEST_CANDIDATES_LOOKS_MAX (UINT64_C(1) << 28)
#define SUGGEST_CANDIDATES_GLOBS_MAX (UINT64_C(1) << 21)
#define SUGGEST_CANDIDATES_MAX       (1u << 18)
#define SUGGEST_CANDIDATES_ITEMS_MAX (1u << 25)

struct suggest_candidates_job {
    const struct trace *bad;
    const struct trace *good; /* NULL: there is none */
    /* per block of the bad run: the event of the exit that it is late by, TRACE_NEVER; and whose exit that is */
    const uint32_t *late_exit;
    const uint32_t *late_anchor;
    uint64_t min_size;  /* smaller blocks are left alone */
    uint64_t looks_max; /* SUGGEST_CANDIDATES_LOOKS_MAX; tests have less */
};

struct candidate {
    struct sitekey key;
    uint32_t inside, when; /* in globs */
    uint64_t size_lo, size_hi;
    uint32_t nth_lo, nth_hi;
};

struct suggest_candidates {
    struct candidate *list;
    struct suggest_cover_set *sets; /* of the candidates: which blocks of the bad run each is for */
    size_t count, list_room, sets_room;
    uint32_t *items;
    size_t item_count, item_room;
    char (*globs)[RULE_GLOB_MAX];
    size_t glob_count, glob_room;
    bool is_cut; /* a limit was reached: there may be more */
};

struct suggest_candidates suggest_candidates_find(const struct suggest_candidates_job *job);
void suggest_candidates_done(struct suggest_candidates *candidates);

enum suggest_candidates_fold {
    SUGGEST_CANDIDATES_FOLD_NOTHING,
    SUGGEST_CANDIDATES_FOLD_DIGITS, /* each digit becomes a `?` */
    SUGGEST_CANDIDATES_FOLD_RUNS,   /* runs of them become one `*`: SOT_CALL_17 -> SOT_CALL_* */
    /* of words of letters and digits that have a digit, each byte becomes a `?`: req_5f3a -> req_???? */
    SUGGEST_CANDIDATES_FOLD_LETTERS,
    SUGGEST_CANDIDATES_FOLD_WORDS, /* such words become one `*`: req_5f3a -> req_* */
};

/* A path as a glob, which without folding matches nothing else. Cut, with a final `*`, if it is too long. */
void suggest_candidates_fold(
        const char *path, enum suggest_candidates_fold fold, char ret_glob[static RULE_GLOB_MAX]);

#endif
