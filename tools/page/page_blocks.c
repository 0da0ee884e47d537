/* SPDX-License-Identifier: MIT */
#include "tools/page/page_blocks.h"

#include <stdlib.h>

#include "tools/base/vec.h"

/* ---- which are drawn ---- */

/* The first blocks by one order; twice as many are kept meanwhile. */
struct page_blocks_best {
    struct page_block *list;
    size_t count, most;
    const struct vec_key *order;
};

static const struct vec_key page_blocks_by_area[] = {
        VEC_DOWN(struct page_block, area), VEC_UP(struct page_block, block)};
static const struct vec_key page_blocks_by_size[] = {
        VEC_DOWN(struct page_block, size), VEC_UP(struct page_block, block)};
static const struct vec_key page_blocks_by_number[] = {VEC_UP(struct page_block, block)};
static const struct vec_key page_blocks_by_leaf[] = {
        VEC_UP(struct page_block, first), VEC_UP(struct page_block, block)};

static void page_blocks_cut(struct page_blocks_best *best)
{
    vec_sort_by(best->list, best->count, sizeof(*best->list), best->order, 2);
    if (best->count > best->most)
        best->count = best->most;
}

static void page_blocks_offer(struct page_blocks_best *best, const struct page_block *block)
{
    best->list[best->count++] = *block;
    if (best->count == 2 * best->most)
        page_blocks_cut(best);
}

static struct page_block page_blocks_of(
        const struct page *page, const struct page_leaves *leaves, uint32_t number)
{
    const struct trace_block *block = &page->report->load.trace->blocks[number];
    struct page_block of = {.size = block->size, .block = number};

    of.first = (uint32_t)page_leaves_behind(leaves, block->born);
    of.behind = (uint32_t)(block->died == TRACE_NEVER ? leaves->count
                                                      : page_leaves_behind(leaves, block->died));
    of.area = of.size * (of.behind - of.first);
    return of;
}

/* Those of both orders, each once. */
static void page_blocks_join(struct page_blocks *blocks, struct page_blocks_best *of_area,
        struct page_blocks_best *of_size)
{
    struct page_block *all = vec_new(of_area->count + of_size->count + 1, sizeof(*all));
    size_t count = 0;

    for (size_t i = 0; i < of_area->count; i++)
        all[count++] = of_area->list[i];
    for (size_t i = 0; i < of_size->count; i++)
        all[count++] = of_size->list[i];
    VEC_SORT_BY(all, count, page_blocks_by_number);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || all[i].block != all[i - 1].block)
            VEC_PUSH(blocks->list, blocks->count, blocks->room) = all[i];
    VEC_SORT_BY(blocks->list, blocks->count, page_blocks_by_leaf);
    free(all);
}

struct page_blocks page_blocks_find(const struct page *page, const struct page_leaves *leaves)
{
    struct page_blocks_best of_area = {.list = vec_new((size_t)PAGE_BLOCKS, sizeof(*of_area.list)),
            .most = PAGE_BLOCKS / 2,
            .order = page_blocks_by_area};
    struct page_blocks_best of_size = {.list = vec_new((size_t)PAGE_BLOCKS, sizeof(*of_size.list)),
            .most = PAGE_BLOCKS / 2,
            .order = page_blocks_by_size};
    struct page_blocks blocks = {0};
    size_t count = 0;

    for (size_t i = 0; leaves->count && i < page->report->load.trace->block_count; i++) {
        struct page_block block = page_blocks_of(page, leaves, (uint32_t)i);

        if (block.first >= block.behind)
            continue;
        count++;
        page_blocks_offer(&of_area, &block);
        page_blocks_offer(&of_size, &block);
    }
    page_blocks_cut(&of_area);
    page_blocks_cut(&of_size);
    page_blocks_join(&blocks, &of_area, &of_size);
    blocks.left_out = count - blocks.count;
    free(of_area.list);
    free(of_size.list);
    return blocks;
}

void page_blocks_done(struct page_blocks *blocks)
{
    free(blocks->list);
}

/* ---- JSON ---- */

/* Lists of numbers, one for each block. */
enum page_blocks_list {
    LIST_FIRST,  /* leaf; since that of the block before */
    LIST_LEAVES, /* how many */
    LIST_SIZE,
    LIST_BORN, /* position; as a difference to the block before */
    LIST_LIFE, /* how long it lives after that, and 1; 0: to the end */
    LIST_SITE,
    LIST_STACK, /* in `stacks`, from 1; 0: its site's */
    LIST_CLASS,
    LIST_DEVICE, /* from 1; 0: not known */
    LIST_ANCHOR,
    LIST_NAME, /* in `names`, from 1; 0: it has none, or the list is full */
    LISTS,
};

static void page_blocks_json_stacks(struct page *page, const uint32_t *stacks, size_t count)
{
    json_begin(&page->json, "stacks", '[');
    for (size_t i = 0; i < count; i++)
        figures_json_stack(&page->json, page->report->symbols, stacks[i], NULL);
    json_end(&page->json, ']');
}

/* Names of blocks: "exp_avg of head.weight, and 2 more". */
struct page_blocks_names {
    struct keytable index;
    uint32_t blocks[PAGE_BLOCK_NAMES]; /* that have the names */
    size_t count;
};

/* From 1; 0: it has none, or the list is full. */
static uint32_t page_blocks_name(
        const struct datakinds *kinds, uint32_t block, struct page_blocks_names *names)
{
    uint32_t number;

    if (!kinds->of || kinds->name[block] == TRACE_NONE)
        return 0;
    number =
            keytable_number(&names->index, (struct key){kinds->name[block], kinds->more[block], 0});
    if (number >= PAGE_BLOCK_NAMES)
        return 0;
    if (number == names->count)
        names->blocks[names->count++] = block;
    return number + 1;
}

static void page_blocks_json_names(struct page *page, struct page_blocks_names *names)
{
    json_begin(&page->json, "names", '[');
    for (size_t i = 0; i < names->count; i++) {
        char *name = datakind_new_text(&page->report->kinds, names->blocks[i]);

        json_text(&page->json, NULL, name);
        free(name);
    }
    json_end(&page->json, ']');
    keytable_done(&names->index);
}

static void page_blocks_pack(struct page *page, const struct page_leaves *leaves,
        const struct page_block *row, struct page_pack lists[LISTS])
{
    const struct trace_block *block = &page->report->load.trace->blocks[row->block];
    uint64_t born = page_leaves_position(page, leaves, block->born);
    uint64_t died = page_leaves_position(page, leaves, block->died);

    page_pack_uint(&lists[LIST_LEAVES], row->behind - row->first);
    page_pack_uint(&lists[LIST_SIZE], row->size);
    page_pack_uint(&lists[LIST_LIFE],
            block->died == TRACE_NEVER ? 0 : (died > born ? died - born : 0) + 1);
    page_pack_uint(&lists[LIST_SITE], page->sites.of_stack[block->stack]);
    page_pack_uint(&lists[LIST_CLASS],
            (unsigned)block->memclass < MEMCLASS_COUNT ? (unsigned)block->memclass : 0);
    page_pack_uint(&lists[LIST_DEVICE], block->device < 0 ? 0 : (uint64_t)block->device + 1);
}

void page_blocks_json(struct page *page, const struct page_leaves *leaves,
        const struct page_blocks *blocks, uint32_t (*anchor_number)(void *context, uint32_t anchor),
        void *context)
{
    static const char *const keys[LISTS] = {"first", "leaves", "size", "born", "life", "site",
            "stack", "class", "device", "anchor", "name"};
    const struct trace *trace = page->report->load.trace;
    struct page_pack lists[LISTS] = {0};
    struct page_blocks_names names = {0};
    struct keytable index = {0};
    uint32_t stacks[PAGE_BLOCK_STACKS];
    size_t stack_count = 0;
    uint64_t born = leaves->whole.begin;
    uint32_t first = 0;

    for (size_t i = 0; i < blocks->count; i++) {
        const struct page_block *row = &blocks->list[i];
        const struct trace_block *block = &trace->blocks[row->block];
        uint64_t position = page_leaves_position(page, leaves, block->born);
        uint32_t stack = keytable_number(&index, (struct key){block->stack, 0, 0});

        if (stack == stack_count && stack < PAGE_BLOCK_STACKS)
            stacks[stack_count++] = block->stack;
        page_blocks_pack(page, leaves, row, lists);
        page_pack_uint(&lists[LIST_FIRST], row->first - first);
        page_pack_difference(&lists[LIST_BORN], position, born);
        page_pack_uint(&lists[LIST_STACK], stack < PAGE_BLOCK_STACKS ? stack + 1 : 0);
        page_pack_uint(
                &lists[LIST_ANCHOR], block->anchor ? anchor_number(context, block->anchor) : 0);
        page_pack_uint(
                &lists[LIST_NAME], page_blocks_name(&page->report->kinds, row->block, &names));
        first = row->first;
        born = position;
    }
    json_begin(&page->json, "blocks", '{');
    json_uint(&page->json, "count", blocks->count);
    json_uint(&page->json, "left_out", blocks->left_out);
    for (unsigned i = 0; i < LISTS; i++) {
        page_pack_json(&page->json, keys[i], &lists[i]);
        page_pack_done(&lists[i]);
    }
    json_begin(&page->json, "classes", '[');
    for (unsigned i = 0; i < MEMCLASS_COUNT; i++)
        json_text(&page->json, NULL, sources_class_name((enum memclass)i));
    json_end(&page->json, ']');
    page_blocks_json_stacks(page, stacks, stack_count);
    page_blocks_json_names(page, &names);
    json_end(&page->json, '}');
    keytable_done(&index);
}
