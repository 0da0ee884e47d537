/* SPDX-License-Identifier: MIT */
#include "tools/greedy.h"

#include <stdlib.h>
#include <string.h>

#include "tools/vec.h"

/* A node's part is never shorter than this: below it, looking costs less than keeping. */
#define GREEDY_PART  8
#define GREEDY_DEPTH 10

struct node {
    uint32_t *placed; /* by offset */
    size_t count, room;
};

struct tree {
    const struct sections *sections;
    struct node *nodes;    /* 1 is the root, 2n and 2n + 1 the halves of n */
    uint32_t depth, width; /* of the tree; of the root's part, GREEDY_PART times a power of two */
};

static struct tree *tree_new(const struct sections *sections)
{
    struct tree *tree = vec_new(1, sizeof(*tree));

    tree->sections = sections;
    tree->width = GREEDY_PART;
    while (tree->width < sections->count) {
        tree->width *= 2;
        if (tree->depth < GREEDY_DEPTH)
            tree->depth++;
    }
    tree->nodes = vec_new((size_t)2 << tree->depth, sizeof(*tree->nodes));
    return tree;
}

static void tree_free(struct tree *tree)
{
    for (size_t i = 0; i < (size_t)2 << tree->depth; i++)
        free(tree->nodes[i].placed);
    free(tree->nodes);
    free(tree);
}

static size_t find_place(const struct tree *tree, const struct node *node, uint64_t offset)
{
    size_t low = 0;
    size_t high = node->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (tree->sections->spans[node->placed[middle]].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Into every node whose part the block touches: level by level, each has 2^level parts of one width. */
static void tree_add(struct tree *tree, uint32_t number)
{
    const struct span *span = &tree->sections->spans[number];

    for (uint32_t level = 0; level <= tree->depth; level++) {
        uint32_t part = tree->width >> level;
        for (uint32_t i = span->first / part; i <= span->last / part; i++) {
            struct node *node = &tree->nodes[((size_t)1 << level) + i];
            size_t at = find_place(tree, node, span->offset);
            node->placed =
                    vec_grow(node->placed, node->count + 1, sizeof(*node->placed), &node->room);
            memmove(&node->placed[at + 1], &node->placed[at],
                    (node->count - at) * sizeof(*node->placed));
            node->placed[at] = number;
            node->count++;
        }
    }
}

/* The smallest node whose part holds the whole life of the block. */
static const struct node *tree_node(const struct tree *tree, const struct span *span)
{
    uint32_t level = tree->depth;

    while (span->first / (tree->width >> level) != span->last / (tree->width >> level))
        level--;
    return &tree->nodes[((size_t)1 << level) + span->first / (tree->width >> level)];
}

static uint64_t find_offset(const struct tree *tree, const struct span *span, enum greedy_fit fit)
{
    const struct node *node = tree_node(tree, span);
    uint64_t top = 0; /* of what was met so far */
    uint64_t best = UINT64_MAX;
    uint64_t best_gap = UINT64_MAX;

    for (size_t i = 0; i < node->count; i++) {
        const struct span *other = &tree->sections->spans[node->placed[i]];
        if (!sections_meet(other, span))
            continue;
        uint64_t gap = other->offset > top ? other->offset - top : 0;
        if (gap >= span->size && gap < best_gap) {
            if (fit == GREEDY_LOWEST)
                return top;
            best = top;
            best_gap = gap;
        }
        if (other->offset + other->size > top)
            top = other->offset + other->size;
    }
    return best == UINT64_MAX ? top : best;
}

struct key {
    double value;
    uint64_t size;
    uint32_t span;
};

static int compare_keys(const void *a, const void *b)
{
    const struct key *x = a;
    const struct key *y = b;

    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return (x->span > y->span) - (x->span < y->span);
}

static double key_of(const struct span *span, enum greedy_order order)
{
    double sections = (double)(span->last - span->first) + 1;

    switch (order) {
    case GREEDY_AREA:
        return (double)span->size * sections;
    case GREEDY_LIFETIME:
        return sections;
    case GREEDY_SIZE:
    case GREEDY_ORDER_COUNT:
        break;
    }
    return (double)span->size;
}

uint64_t greedy_place(struct sections *sections, enum greedy_order order, enum greedy_fit fit)
{
    struct key *keys = vec_new(sections->span_count, sizeof(*keys));
    struct tree *tree = tree_new(sections);
    uint64_t peak = 0;

    for (uint32_t i = 0; i < sections->span_count; i++)
        keys[i] = (struct key){key_of(&sections->spans[i], order), sections->spans[i].size, i};
    if (sections->span_count)
        qsort(keys, sections->span_count, sizeof(*keys), compare_keys);
    for (uint32_t i = 0; i < sections->span_count; i++) {
        struct span *span = &sections->spans[keys[i].span];
        span->offset = find_offset(tree, span, fit);
        if (span->offset + span->size > peak)
            peak = span->offset + span->size;
        tree_add(tree, keys[i].span);
    }
    tree_free(tree);
    free(keys);
    return peak;
}

const char *greedy_order_name(enum greedy_order order)
{
    static const char *const names[GREEDY_ORDER_COUNT] = {"size", "area", "lifetime"};

    return order < GREEDY_ORDER_COUNT ? names[order] : "?";
}
