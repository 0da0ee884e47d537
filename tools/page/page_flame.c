/* SPDX-License-Identifier: MIT */
#include "tools/page/page_parts.h"

#include <stdlib.h>

#include "tools/base/vec.h"

/*
 * A call on the way from the outermost frame to an allocation. Parents come before their children;
 * 0 is the root.
 */
struct node {
    uint32_t parent, frame;
    struct trace_sum at[PAGE_MOMENTS];
};

struct tree {
    struct node *nodes;
    size_t count, room;
    struct keytable index; /* (parent, frame) -> node */
};

static void weigh_node(struct node *node, const struct page_sums *sums)
{
    for (unsigned i = 0; i < PAGE_MOMENTS; i++)
        trace_sum_join(&node->at[i], sums->at[i]);
}

static uint32_t page_flame_child_of(struct tree *tree, uint32_t parent, uint32_t frame)
{
    uint32_t at = keytable_number(&tree->index, (struct key){parent, frame, 0}) + 1;

    if (at == tree->count)
        VEC_PUSH(tree->nodes, tree->count, tree->room) =
                (struct node){.parent = parent, .frame = frame};
    return at;
}

static void page_flame_add_stack(struct page *page, struct tree *tree, uint32_t stack)
{
    static const struct symbols_line no_stack = {.function = "(no stack)", .module = ""};
    size_t count;
    const struct symbols_line *lines = symbols_stack(page->report->symbols, stack, &count);
    uint32_t at = 0;

    if (count == 0) {
        lines = &no_stack;
        count = 1;
    }
    weigh_node(&tree->nodes[0], &page->stacks[stack]);
    for (size_t i = count; i > 0; i--) {
        at = page_flame_child_of(tree, at, frames_number(&page->frames, &lines[i - 1]));
        weigh_node(&tree->nodes[at], &page->stacks[stack]);
    }
}

static bool page_flame_is_live(const struct page_sums *sums)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < PAGE_MOMENTS; i++)
        count += sums->at[i].count;
    return count > 0;
}

static struct tree make_tree(struct page *page)
{
    struct tree tree = {0};

    VEC_PUSH(tree.nodes, tree.count, tree.room) = (struct node){.frame = TRACE_NONE};
    for (size_t i = 0; i < page->report->load.trace->stack_count; i++)
        if (page_flame_is_live(&page->stacks[i]))
            page_flame_add_stack(page, &tree, (uint32_t)i);
    return tree;
}

/* Whether it has this share of the total at any of the moments. A parent includes its children. */
static bool page_flame_is_wide(const struct tree *tree, size_t at, uint64_t parts)
{
    for (unsigned i = 0; i < PAGE_MOMENTS; i++) {
        uint64_t bytes = tree->nodes[at].at[i].bytes;

        if (bytes > 0 && bytes >= tree->nodes[0].at[i].bytes / parts)
            return true;
    }
    return false;
}

/* The largest number of parts that leaves no more nodes than a page may have. */
static uint64_t find_parts(const struct tree *tree)
{
    uint64_t parts = UINT64_C(1) << 16;
    size_t wide;

    do {
        parts /= 2;
        wide = 0;
        for (size_t i = 0; i < tree->count; i++)
            wide += page_flame_is_wide(tree, i, parts);
    } while (wide > PAGE_NODES && parts > 1);
    return parts;
}

static void json_node(struct page *page, const struct node *node, uint32_t parent)
{
    struct json *json = &page->json;

    json_begin(json, NULL, '[');
    json_known(json, NULL, parent == TRACE_NONE ? UINT64_MAX : parent);
    json_known(json, NULL, node->frame == TRACE_NONE ? UINT64_MAX : node->frame);
    for (unsigned i = 0; i < PAGE_MOMENTS; i++) {
        json_uint(json, NULL, node->at[i].bytes);
        json_uint(json, NULL, node->at[i].count);
    }
    json_end(json, ']');
}

/* Per node: its parent's index in the list, its frame, bytes and count at each of the moments. */
void page_flame_json(struct page *page)
{
    struct tree tree = make_tree(page);
    uint64_t parts = find_parts(&tree);
    uint32_t *place = vec_new(tree.count, sizeof(*place));
    uint32_t next = 0;

    json_begin(&page->json, "flame", '[');
    for (size_t i = 0; i < tree.count && next < PAGE_NODES; i++) {
        if (i > 0 && !page_flame_is_wide(&tree, i, parts))
            continue;
        place[i] = next++;
        json_node(page, &tree.nodes[i], i ? place[tree.nodes[i].parent] : TRACE_NONE);
    }
    json_end(&page->json, ']');
    free(place);
    free(tree.nodes);
    keytable_done(&tree.index);
}
