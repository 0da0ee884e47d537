/* SPDX-License-Identifier: MIT */
/*
 * page_leaves.h - the page's timeline: the run cut into leaves of a few events each.
 *
 * A leaf has as many events as the leaf beside it, however long they take: where much happens there
 * are many leaves, so that a reader can zoom in. A run of at most PAGE_LEAVES events that change
 * memory has one for each, and the page is exact. Of a longer run half of the leaves are in the
 * step that has the peak. A step begins with a leaf of its own. What an allocation made the pool get
 * from the driver is in the allocation's leaf.
 *
 *     events   a a f a a a f f | a f a | ...          of leaf 0 the moment is behind the 6th: most
 *     leaves   0                 1       ...          is live there, and its parts add up to it
 *
 * What is live at the moments of all leaves is known by key (a call site, a library ...): a column.
 * The browser takes for each pixel the leaf with most live of those that it covers.
 *
 * Threads: none. Memory: vec.h.
 * Prefixes: page_columns_.
 */
#ifndef KEDGE_TOOLS_PAGE_LEAVES_H
#define KEDGE_TOOLS_PAGE_LEAVES_H

#include "tools/page/page_pack.h"
#include "tools/page/page_parts.h"
#include "tools/trace/timeline.h"

#define PAGE_LEAVES 16384u /* and one more for each step */

struct page_leaf {
    uint32_t first, behind; /* its events */
    uint32_t moment;        /* as many events came before the moment with most live bytes */
    uint64_t position;      /* on the axis */
    uint64_t live, reserved;
    struct trace_sum allocated, freed; /* by its events */
};

struct page_leaves {
    struct timeline whole; /* in one bin: the axis and the two peaks */
    struct page_leaf *list;
    size_t count, room;
};

/* page_leaves_done frees them. */
struct page_leaves page_leaves_find(const struct page *page);
void page_leaves_done(struct page_leaves *leaves);

/* The first leaf whose moment comes behind an event; `count`: none. */
size_t page_leaves_behind(const struct page_leaves *leaves, uint32_t event);

/* The first leaf that begins at an event or behind it; `count`: none. */
size_t page_leaves_from(const struct page_leaves *leaves, uint32_t event);

/* An event's position on the axis; the end for one that never occurs. */
uint64_t page_leaves_position(
        const struct page *page, const struct page_leaves *leaves, uint32_t event);

/*
 * Live bytes by key at the moments of leaves. A column's numbers are pairs: leaves since the last
 * change (the first: since leaf 0), and the difference.
 */
struct page_columns {
    struct page_column {
        struct page_pack pack;
        uint64_t most; /* at a moment */
    } * list;
    size_t count;
};

/* `keys`: per block; count or more: in no column. page_columns_done frees them. */
struct page_columns page_columns_find(const struct page *page, const struct page_leaves *leaves,
        const uint32_t *keys, size_t count);
void page_columns_done(struct page_columns *columns);

#endif
