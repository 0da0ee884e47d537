/* SPDX-License-Identifier: MIT */
/*
 * page_groupings.h - what the bytes of the page's timeline are split by: call site, kind (parameters,
 * gradients ...; where it is known), module (the anchor that was open), library, class of memory.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_PAGE_GROUPINGS_H
#define KEDGE_TOOLS_PAGE_GROUPINGS_H

#include "tools/page/page_blocks.h"

/* "groupings": of each the keys with most bytes, their columns, and the key of each drawn block. */
void page_groupings_json(
        struct page *page, const struct page_leaves *leaves, const struct page_blocks *blocks);

#endif
