/* SPDX-License-Identifier: MIT */
/*
 * patterns.h - what the uses of blocks say: who is never used, allocated early, freed late, idle for long.
 *
 *     born ──early──► first use ── ... ──idle──► ... last use ──late──► freed, or the run's end
 *
 * Bytes x time is what each costs. Early counts where something was freed meanwhile, late where something was allocated: else
 * nobody could have had the memory. A block that may have been used unseen (FORMAT_USE_UNSEEN, _SHOWN, _LOST), or whose uses
 * were not recorded, is not judged, and counted by the reason. A kernel's argument counts as a use whether the kernel touches
 * the memory or not, so the times are at most what could be had.
 * Dead writes are not among it: whether an argument is read or written is not known.
 *
 * Pure apart from memory. Threads: none.
 */
#ifndef KEDGE_TOOLS_PATTERNS_H
#define KEDGE_TOOLS_PATTERNS_H

#include "tools/model.h"

enum patterns_kind {
    PATTERNS_UNUSED,
    PATTERNS_LATE,
    PATTERNS_EARLY,
    PATTERNS_IDLE,
    PATTERNS_COUNT,
};

/* Why a block is not judged; a block counts at the first that holds. */
enum patterns_doubt {
    PATTERNS_NOT_WATCHED,
    PATTERNS_LOST,
    PATTERNS_SHOWN,
    PATTERNS_UNSEEN,
    PATTERNS_DOUBTS,
};

/* All blocks of one stack that show one pattern. */
struct patterns_row {
    uint32_t stack;
    uint32_t anchor; /* of the block that costs most */
    uint64_t count, bytes;
    /* bytes of them that were live, and in that state, when live memory was at its maximum */
    uint64_t at_peak;
    uint64_t longest_ns; /* of one block */
    double cost;         /* bytes x seconds */
};

struct patterns_found {
    struct patterns_row *row; /* the most expensive first */
    size_t count, room;
};

struct patterns_figures {
    struct patterns_found of[PATTERNS_COUNT];
    uint64_t judged, judged_bytes;
    uint64_t doubts[PATTERNS_DOUBTS], doubtful_bytes;
    uint64_t peak; /* Max of the window */
    /* Max, if each judged block had been freed right after its last use, the unused right after their birth */
    uint64_t peak_then;
};

/* What is live at the end counts as freed at the latest moment that the trace knows of. patterns_free gives the rows back. */
void patterns_figure(const struct trace *trace, struct model_window window,
        struct patterns_figures *ret_figures);
void patterns_free(struct patterns_figures *figures);

/* Why it is not to be judged; PATTERNS_DOUBTS: it is. */
enum patterns_doubt patterns_doubt_of(const struct trace_block *block);

#endif
