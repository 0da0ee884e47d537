/* SPDX-License-Identifier: MIT */
/*
 * sections.h - lifetimes in as few moments as say everything about overlap.
 *
 * Every set of blocks that live together is part of what lives at a moment at which allocations turn into frees. These moments
 * are numbered 0, 1, ... and called sections; a block lives from section `first` to section `last`, both included.
 *
 *     time      a a a f a f f a f          a = allocation, f = free
 *     section   0 0 0 0 1 1 1 2 2
 *
 * Does not place anything. Threads: none. Memory: vec.h. Pure apart from memory.
 */
#ifndef KEDGE_TOOLS_SECTIONS_H
#define KEDGE_TOOLS_SECTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct span {
    uint64_t size; /* not 0 */
    uint64_t begin,
            end;     /* any clock; dead at `end`, so that a block born then may take its place */
    uint64_t offset; /* what planning is about */
    uint32_t first, last;
};

struct sections {
    struct span *spans; /* the caller's */
    uint32_t span_count;
    uint32_t count;    /* of sections */
    uint64_t *live;    /* bytes that live in each */
    uint64_t max_live; /* the largest of them: no placement needs less */
};

/*
 * Fills first and last of each span. 0, or -EINVAL with *ret_bad the span that has no size or does not end after it begins, or
 * -EOVERFLOW if sizes add up to more than 63 bits hold. `sections` keeps the pointer.
 */
int sections_make(
        struct span *spans, uint32_t count, struct sections *ret_sections, uint32_t *ret_bad);
void sections_done(struct sections *sections);

/*
 * Is every offset such that no two blocks that live at the same time share a byte? Looks at begin, end, size and offset only, by a
 * sweep of its own, so that it may judge what was planned with sections. *ret_peak: the highest byte used.
 */
bool sections_check(const struct span *spans, uint32_t count, uint64_t *ret_peak);

#endif
