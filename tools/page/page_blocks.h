/* SPDX-License-Identifier: MIT */
/*
 * page_blocks.h - the blocks that the page's timeline draws one by one.
 *
 * Of a run with more than PAGE_BLOCKS these are the largest ones, and those with most bytes in most
 * leaves (page_leaves.h); the columns have all others. Blocks that live at no leaf's moment are not
 * drawn.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_PAGE_BLOCKS_H
#define KEDGE_TOOLS_PAGE_BLOCKS_H

#include "tools/page/page_leaves.h"

#define PAGE_BLOCKS       6000u
#define PAGE_BLOCK_STACKS 600u /* stacks of their own; beyond them a block has its site's */
#define PAGE_BLOCK_NAMES  4000u

struct page_block {
    uint64_t size, area; /* bytes; times leaves */
    uint32_t block;
    uint32_t first, behind; /* the leaves at whose moments it is live */
};

struct page_blocks {
    struct page_block *list; /* by first leaf */
    size_t count, room;
    size_t left_out;
};

/* page_blocks_done frees them. */
struct page_blocks page_blocks_find(const struct page *page, const struct page_leaves *leaves);
void page_blocks_done(struct page_blocks *blocks);

/*
 * "blocks": size, life, stack, class, device, anchor and name of each; an anchor is its number in
 * `anchors` of the timeline, from 1.
 */
void page_blocks_json(struct page *page, const struct page_leaves *leaves,
        const struct page_blocks *blocks, uint32_t (*anchor_number)(void *context, uint32_t anchor),
        void *context);

#endif
