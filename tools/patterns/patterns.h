/* SPDX-License-Identifier: MIT */
/*
 * patterns.h - memory that the program holds without need, by pattern and call site.
 *
 *     born ──early──► first use ── ... ──idle──► ... last use ──late──► freed
 *                                                          └──leak────► the end of the record
 *     unused       no use at all
 *     redundant    the memory of another block could have been used again (reusable.h)
 *     dead write   a copy or set replaced all that the one before it wrote, before any use
 *
 * Early counts if another block was freed meanwhile, late and idle if another was allocated:
 * otherwise no other block could have had the memory. A finding saves Max minus the Max that would
 * be left if its blocks were mended: the unused not allocated, the late and leaked freed after
 * their last use, the early allocated before their first, the idle absent between the two uses that
 * are furthest apart, the redundant given the other block's memory. The savings of two findings do
 * not add up. A dead write costs time, not memory.
 *
 * A block that may have been used unseen (FORMAT_USE_UNSEEN, _SHOWN, _LOST), or whose uses were not
 * recorded, is not judged, but counted by the reason. A kernel's argument counts as a use whether
 * the kernel touches the memory or not, so the findings are a lower bound.
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

/* Why a block is not judged; a block counts under the first reason that holds. */
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
    uint32_t other;  /* redundant: stack of the blocks that it could use, else TRACE_NONE */
    uint32_t anchor; /* of the block that shows the pattern for longest */
    uint64_t count, bytes;
    uint64_t at_max;     /* bytes of them that were live at the peak and showed the pattern then */
    uint64_t longest_ns; /* of one block */
    uint64_t saves;      /* of Max */
    double cost;         /* bytes x seconds */
};

struct patterns_found {
    struct patterns_row *row; /* ordered by patterns_by_saving */
    size_t count, room;
    uint64_t saves; /* of Max, if all of them were mended */
};

struct patterns_figures {
    struct patterns_found of[PATTERNS_COUNT];
    uint64_t judged, judged_bytes;
    uint64_t doubts[PATTERNS_DOUBTS], doubtful_bytes;
    uint64_t peak;      /* Max of the window */
    uint64_t peak_then; /* Max, if each judged block were freed after its last use, or its birth */
};

/* Orders rows by savings, then by cost, then by size; for VEC_SORT. */
int patterns_by_saving(const void *left, const void *right);

/*
 * Figures of the blocks born in the window, whenever they are freed. A block live at the end shows
 * its pattern until the latest moment of the trace. patterns_free frees the rows.
 */
void patterns_figure(const struct trace *trace, struct model_window window,
        struct patterns_figures *ret_figures);
void patterns_free(struct patterns_figures *figures);

/* Why the block is not judged; PATTERNS_DOUBTS: it is judged. */
enum patterns_doubt patterns_doubt_of(const struct trace_block *block);

#endif
