/* SPDX-License-Identifier: MIT */
/*
 * suggest_candidates.h - all hints that would be exact, with the late frees that each is for.
 *
 *     call site of a late free  its anchor, and that of the exit    size and turn
 *     p:FILE:FUNCTION           SOT_CALL_*, digits folded           all
 *     p:FILE:FUNCTION:LINE      SOT_CALL_17 as it is, if folding    ranges of sizes
 *     c:NATIVE STACK            matches other blocks                ranges of nth; all sizes or one;
 *                                                                   not if several threads ask in one
 *                                                                   instance of an anchor
 *
 * A candidate is exact if in the bad run each block that it picks is a late free of that very exit,
 * or has no such exit before the run ends, and if in the good run no block that it picks lives past
 * such an exit. A range is as wide as exactness permits.
 *
 * The search is bounded, since a block has two call sites for each Python frame: of call sites with
 * the same allocations only one is tried; each checks its blocks once for each folded name of an
 * anchor, and once more for all literal names if some blocks have no candidate with a complete
 * folded name; and the search ends at SUGGEST_CANDIDATES_LOOKS_MAX blocks, SUGGEST_CANDIDATES_MAX
 * candidates or SUGGEST_CANDIDATES_ITEMS_MAX late frees in them, call sites with few blocks first.
 * Names that differ in letters as well (hashes) are folded by their digits until
 * SUGGEST_CANDIDATES_GLOBS_MAX names were compared with folded ones, then by words. Time: blocks
 * that are looked at, times the logarithm of those of one site.
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
    const struct trace *good;  /* NULL: there is none */
    const uint32_t *late_exit; /* by bad block: event of the exit that it is late by, TRACE_NEVER */
    const uint32_t *late_anchor; /* the anchor of that exit */
    uint64_t min_size;           /* smaller blocks are ignored */
    uint64_t looks_max;          /* SUGGEST_CANDIDATES_LOOKS_MAX; tests use less */
};

struct candidate {
    struct sitekey key;
    uint32_t inside, when; /* indices in globs */
    uint64_t size_lo, size_hi;
    uint32_t nth_lo, nth_hi;
};

struct suggest_candidates {
    struct candidate *list;
    /* of the candidates: the blocks of the bad run that each is for */
    struct suggest_cover_set *sets;
    size_t count, list_room, sets_room;
    uint32_t *items;
    size_t item_count, item_room;
    char (*globs)[RULE_GLOB_MAX];
    size_t glob_count, glob_room;
    bool is_cut; /* a limit was reached: more may exist */
};

struct suggest_candidates suggest_candidates_find(const struct suggest_candidates_job *job);
void suggest_candidates_done(struct suggest_candidates *candidates);

enum suggest_candidates_fold {
    SUGGEST_CANDIDATES_FOLD_NOTHING,
    SUGGEST_CANDIDATES_FOLD_DIGITS, /* each digit becomes a `?` */
    SUGGEST_CANDIDATES_FOLD_RUNS,   /* runs of them become one `*`: SOT_CALL_17 -> SOT_CALL_* */
    /* each byte of a word (letters, digits) that has a digit becomes a `?`: req_5f3a -> req_???? */
    SUGGEST_CANDIDATES_FOLD_LETTERS,
    SUGGEST_CANDIDATES_FOLD_WORDS, /* such words become one `*`: req_5f3a -> req_* */
};

/* A path as a glob, which without folding matches nothing else. Cut, with a final `*`, if long. */
void suggest_candidates_fold(
        const char *path, enum suggest_candidates_fold fold, char ret_glob[static RULE_GLOB_MAX]);

#endif
