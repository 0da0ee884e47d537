/* SPDX-License-Identifier: MIT */
#include "alloc/index/bestfit.h"

#include <errno.h>

#include <string.h>

#define EXACT    64u /* classes of exactly one size */
#define SUB_BITS 5u  /* 32 classes per power of two above */
#define ALIGN_LOOK \
    8 /* candidates that an aligned search examines before it takes a surely large enough one */

static struct bestfit_node *node_at(const struct bestfit *fit, uint32_t index)
{
    return slab_at(fit->slab, index);
}

/* Priority of a block in its treap: a bijection, so that no two are equal, and scattered, so that
 * the treap stays shallow for any order of sizes. */
static uint32_t priority(uint32_t index)
{
    index ^= index >> 16;
    index *= 0x7feb352du;
    index ^= index >> 15;
    index *= 0x846ca68bu;
    return index ^ index >> 16;
}

static bool bestfit_is_before(const struct bestfit_node *a, uint64_t size, devptr_t base)
{
    return a->size != size ? a->size < size : a->base < base;
}

void bestfit_init(struct bestfit *fit, const struct slab *slab)
{
    memset(fit, 0, sizeof(*fit));
    fit->slab = slab;
}

uint32_t bestfit_class(uint64_t size)
{
    uint64_t units = size / BESTFIT_QUANTUM;
    uint32_t log, class;

    if (units < EXACT)
        return (uint32_t)units;
    log = 63 - (uint32_t)__builtin_clzll(units);
    class = EXACT + ((log - 6) << SUB_BITS)
            + (uint32_t)(units >> (log - SUB_BITS) & ((1u << SUB_BITS) - 1));
    return class < BESTFIT_CLASSES ? class : BESTFIT_CLASSES - 1;
}

static void bestfit_mark(struct bestfit *fit, uint32_t class)
{
    fit->map[class / 64] |= UINT64_C(1) << class % 64;
    fit->summary |= UINT64_C(1) << class / 64;
}

static void unmark(struct bestfit *fit, uint32_t class)
{
    fit->map[class / 64] &= ~(UINT64_C(1) << class % 64);
    if (fit->map[class / 64] == 0)
        fit->summary &= ~(UINT64_C(1) << class / 64);
}

/* The first class above `class` that is not empty, BESTFIT_CLASSES if none. */
static uint32_t next_class(const struct bestfit *fit, uint32_t class)
{
    uint64_t word = fit->map[class / 64] & ~(UINT64_MAX >> (63 - class % 64));
    uint64_t words;

    if (word)
        return class / 64 * 64 + (uint32_t)__builtin_ctzll(word);
    words = fit->summary & ~(UINT64_MAX >> (63 - class / 64));
    if (!words)
        return BESTFIT_CLASSES;
    class = (uint32_t)__builtin_ctzll(words);
    return class * 64 + (uint32_t)__builtin_ctzll(fit->map[class]);
}

void bestfit_insert(struct bestfit *fit, uint32_t index)
{
    struct bestfit_node *node = node_at(fit, index);
    uint32_t class = bestfit_class(node->size);
    uint32_t *link = &fit->root[class];
    uint32_t *left = &node->left;
    uint32_t *right = &node->right;
    uint32_t mine = priority(index);
    uint32_t at;

    while (*link && priority(*link) > mine) {
        struct bestfit_node *there = node_at(fit, *link);

        link = bestfit_is_before(there, node->size, node->base) ? &there->right : &there->left;
    }
    /* Splits the subtree at this place: smaller nodes to the left, larger ones to the right. */
    at = *link;
    *link = index;
    while (at) {
        struct bestfit_node *there = node_at(fit, at);

        if (bestfit_is_before(there, node->size, node->base)) {
            *left = at;
            left = &there->right;
            at = there->right;
        } else {
            *right = at;
            right = &there->left;
            at = there->left;
        }
    }
    *left = 0;
    *right = 0;
    bestfit_mark(fit, class);
    fit->count++;
    fit->bytes += node->size;
}

void bestfit_remove(struct bestfit *fit, uint32_t index)
{
    struct bestfit_node *node = node_at(fit, index);
    uint32_t class = bestfit_class(node->size);
    uint32_t *link = &fit->root[class];
    uint32_t left = node->left;
    uint32_t right = node->right;

    while (*link != index) {
        struct bestfit_node *there = node_at(fit, *link);

        link = bestfit_is_before(there, node->size, node->base) ? &there->right : &there->left;
    }
    while (left && right) {
        if (priority(left) > priority(right)) {
            *link = left;
            link = &node_at(fit, left)->right;
            left = *link;
        } else {
            *link = right;
            link = &node_at(fit, right)->left;
            right = *link;
        }
    }
    *link = left ? left : right;
    if (!fit->root[class])
        unmark(fit, class);
    fit->count--;
    fit->bytes -= node->size;
}

bool bestfit_shrink(struct bestfit *fit, uint32_t index, const struct bestfit_node *rest)
{
    struct bestfit_node *node = node_at(fit, index);
    uint32_t class = bestfit_class(node->size);
    uint32_t at = fit->root[class];

    if (node->left || bestfit_class(rest->size) != class)
        return false;
    while (at && at != index)
        at = node_at(fit, at)->left;
    if (!at)
        return false;
    fit->bytes -= node->size - rest->size;
    node->base = rest->base;
    node->size = rest->size;
    return true;
}

static uint32_t first_of(const struct bestfit *fit, uint32_t class)
{
    uint32_t at = fit->root[class];

    while (node_at(fit, at)->left)
        at = node_at(fit, at)->left;
    return at;
}

uint32_t bestfit_lower_bound(const struct bestfit *fit, uint64_t size, devptr_t base)
{
    uint32_t class = bestfit_class(size);
    uint32_t at = fit->root[class];
    uint32_t found = 0;

    while (at) {
        const struct bestfit_node *there = node_at(fit, at);

        if (bestfit_is_before(there, size, base)) {
            at = there->right;
        } else {
            found = at;
            at = there->left;
        }
    }
    if (found)
        return found;
    class = next_class(fit, class);
    return class < BESTFIT_CLASSES ? first_of(fit, class) : 0;
}

static bool fits(const struct bestfit_node *node, uint64_t size, uint64_t align)
{
    uint64_t skip = -node->base & (align - 1);

    return skip + size <= node->size;
}

uint32_t bestfit_find(const struct bestfit *fit, uint64_t size, uint64_t align)
{
    uint32_t at = bestfit_lower_bound(fit, size, 0);

    if (align <= BESTFIT_QUANTUM)
        return at;
    for (int i = 0; at && i < ALIGN_LOOK; i++) {
        const struct bestfit_node *node = node_at(fit, at);

        if (fits(node, size, align))
            return at;
        at = bestfit_lower_bound(fit, node->size, node->base + 1);
    }
    return at ? bestfit_lower_bound(fit, size + align - BESTFIT_QUANTUM, 0) : 0;
}

/* A walk over all treaps; the slab's fields are copied, for they are read at each block. */
struct visiting {
    bestfit_visit *visit;
    void *self;
    char *base;
    size_t record;
};

/* False: `visit` ends the walk. */
static bool visit_treap(const struct visiting *visiting, uint32_t at)
{
    while (at) {
        const struct bestfit_node *node = (void *)(visiting->base + at * visiting->record);

        if ((node->left && !visit_treap(visiting, node->left))
                || !visiting->visit(visiting->self, at))
            return false;
        at = node->right;
    }
    return true;
}

void bestfit_each(const struct bestfit *fit, bestfit_visit *visit, void *self)
{
    const struct visiting visiting = {visit, self, fit->slab->span.base, fit->slab->record};

    for (uint64_t words = fit->summary; words; words &= words - 1) {
        uint32_t word = (uint32_t)__builtin_ctzll(words);

        for (uint64_t map = fit->map[word]; map; map &= map - 1) {
            if (!visit_treap(&visiting, fit->root[word * 64 + (uint32_t)__builtin_ctzll(map)]))
                return;
        }
    }
}

#define SWAP(a_, b_)                      \
    do {                                  \
        const __typeof__(a_) was_ = (a_); \
        (a_) = (b_);                      \
        (b_) = was_;                      \
    } while (0)

void bestfit_swap(struct bestfit *a, struct bestfit *b)
{
    for (uint32_t word = 0; word < BESTFIT_CLASSES / 64; word++) {
        for (uint64_t any = a->map[word] | b->map[word]; any; any &= any - 1) {
            uint32_t class = word * 64 + (uint32_t)__builtin_ctzll(any);

            SWAP(a->root[class], b->root[class]);
        }
        SWAP(a->map[word], b->map[word]);
    }
    SWAP(a->summary, b->summary);
    SWAP(a->count, b->count);
    SWAP(a->bytes, b->bytes);
}

uint32_t bestfit_largest(const struct bestfit *fit)
{
    uint32_t word, at;

    if (!fit->summary)
        return 0;
    word = 63 - (uint32_t)__builtin_clzll(fit->summary);
    at = fit->root[word * 64 + 63 - (uint32_t)__builtin_clzll(fit->map[word])];
    while (node_at(fit, at)->right)
        at = node_at(fit, at)->right;
    return at;
}

/* State of a walk over one treap. */
struct walk {
    const struct bestfit *fit;
    uint32_t class;
    uint64_t size;  /* of the last block */
    devptr_t base;  /* of the last block */
    uint32_t count; /* over all treaps */
    uint64_t bytes;
};

static int check_treap(struct walk *walk, uint32_t at)
{
    while (at) {
        const struct bestfit_node *node = node_at(walk->fit, at);

        if (bestfit_class(node->size) != walk->class || walk->count > walk->fit->count)
            return -EINVAL;
        if ((node->left && priority(node->left) > priority(at))
                || (node->right && priority(node->right) > priority(at)))
            return -EINVAL;
        if (check_treap(walk, node->left) != 0)
            return -EINVAL;
        if (walk->size != 0
                && (walk->size != node->size ? walk->size > node->size : walk->base >= node->base))
            return -EINVAL;
        walk->size = node->size;
        walk->base = node->base;
        walk->count++;
        walk->bytes += node->size;
        at = node->right;
    }
    return 0;
}

/* True if every class without a bit in a word of the map has no root. */
static bool has_no_root(const struct bestfit *fit, uint32_t word)
{
    uint32_t roots = 0;

    for (uint32_t i = 0; i < 64; i++)
        roots |= fit->root[word * 64 + i];
    return roots == 0;
}

static int check_word(struct walk *walk, uint32_t word)
{
    const struct bestfit *fit = walk->fit;

    if (fit->map[word] == 0)
        return has_no_root(fit, word) ? 0 : -EINVAL;
    if (!(fit->summary >> word & 1))
        return -EINVAL;
    for (uint32_t bit = 0; bit < 64; bit++) {
        walk->class = word * 64 + bit;
        walk->size = 0;
        if ((fit->map[word] >> bit & 1) != (fit->root[walk->class] != 0)
                || check_treap(walk, fit->root[walk->class]) != 0)
            return -EINVAL;
    }
    return 0;
}

int bestfit_check(const struct bestfit *fit)
{
    struct walk walk = {.fit = fit};

    for (uint32_t word = 0; word < BESTFIT_CLASSES / 64; word++)
        if (check_word(&walk, word) != 0)
            return -EINVAL;
    return walk.count == fit->count && walk.bytes == fit->bytes ? 0 : -EINVAL;
}
