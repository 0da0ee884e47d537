/* SPDX-License-Identifier: MIT */
/*
 * patterns.h - what the uses of blocks say: memory that is held for nothing, by pattern and call site.
 *
 *     born ──early──► first use ── ... ──idle──► ... last use ──late──► freed
 *                                                          └──leak────► the end of what was recorded
 *     unused       no use at all
 *     redundant    the memory of another block could have been used again (reusable.h)
 *     dead write   a copy or set replaced all of it, and nothing had used what the one before it wrote
 *
 * Early counts where something was freed meanwhile, late and idle where something was allocated: else nobody could have had the
 * memory. What a finding saves is Max minus the Max that would be left if its blocks were mended: the unused not allocated, the
 * late and leaked freed after their last use, the early allocated before their first, the idle gone between the two uses that are
 * furthest apart, the redundant put where the other one is. What two findings save does not add up. A dead write costs time, not memory.
 *
 * A block that may have been used unseen (FORMAT_USE_UNSEEN, _SHOWN, _LOST), or whose uses were not recorded, is not judged, and
 * counted by the reason. A kernel's argument counts as a use whether the kernel touches the memory or not, so what is found is at most
 * what could be had.
 *
 * Pure apart from memory. Threads: none.
 */
#ifndef KEDGE_TOOLS_PATTERNS_H
#define KEDGE_TOOLS_PATTERNS_H

#include "tools/trace/model.h"

enum patterns_kind {
    PATTERNS_UNUSED,
    PATTERNS_LEAK,
    PATTERNS_LATE,
    PATTERNS_EARLY,
    PATTERNS_IDLE,
    PATTERNS_REDUNDANT,
    PATTERNS_DEAD_WRITE,
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
    enum patterns_kind pattern;
    uint32_t stack;
    uint32_t other;  /* redundant: the stack of those whose memory it could use, else TRACE_NONE */
    uint32_t anchor; /* of the block that is in that state for longest */
    uint64_t count, bytes;
    /* bytes of them that were live, and in that state, when live memory was at its maximum */
    uint64_t at_max;
    uint64_t longest_ns; /* of one block */
    uint64_t saves;      /* of Max */
    double cost;         /* bytes x seconds */
};

struct patterns_found {
    struct patterns_row *row; /* what saves most first, then the most expensive */
    size_t count, room;
    uint64_t saves; /* of Max, if all of them were mended */
};

struct patterns_figures {
    struct patterns_found of[PATTERNS_COUNT];
    uint64_t judged, judged_bytes;
    uint64_t doubts[PATTERNS_DOUBTS], doubtful_bytes;
    uint64_t peak; /* Max of the window */
    /* Max, if each judged block had been freed right after its last use, the unused right after their birth */
    uint64_t peak_then;
};

/* What saves most first, then the most expensive, then the largest: for VEC_SORT. */
int patterns_by_saving(const void *left, const void *right);

/*
 * What is live at the end has its state until the latest moment that the trace knows of. Blocks born in the window count, whenever
 * they are freed. patterns_free gives the rows back.
 */
void patterns_figure(const struct trace *trace, struct model_window window,
        struct patterns_figures *ret_figures);
void patterns_free(struct patterns_figures *figures);

/* Why it is not to be judged; PATTERNS_DOUBTS: it is. */
enum patterns_doubt patterns_doubt_of(const struct trace_block *block);

#endif
