/* SPDX-License-Identifier: MIT */
#include "tools/suggest/suggest_cover.h"

#include <stdbool.h>
#include <stdlib.h>

#include "tools/base/vec.h"

struct choice {
    const struct suggest_cover_set *sets;
    const uint32_t *items;
    size_t count;
    uint32_t *left; /* per set: items that no taken set has */
    uint32_t *held; /* per item: number of taken sets that have it */
    /* the sets of each item: with[of[item]] up to with[of[item + 1]] */
    uint32_t *of, *with;
    /* a heap with the best set on top; `left` may have fallen since an entry was added */
    struct entry {
        uint32_t left, set;
    } * heap;
    size_t heap_count;
};

static bool suggest_cover_is_better(const struct choice *c, struct entry a, struct entry b)
{
    if (a.left != b.left)
        return a.left > b.left;
    if (c->sets[a.set].rank != c->sets[b.set].rank)
        return c->sets[a.set].rank < c->sets[b.set].rank;
    return a.set < b.set;
}

/* Moves the top entry down to its place. */
static void suggest_cover_sink(struct choice *c, size_t at)
{
    struct entry entry = c->heap[at];
    size_t child;

    while ((child = 2 * at + 1) < c->heap_count) {
        if (child + 1 < c->heap_count
                && suggest_cover_is_better(c, c->heap[child + 1], c->heap[child]))
            child++;
        if (!suggest_cover_is_better(c, c->heap[child], entry))
            break;
        c->heap[at] = c->heap[child];
        at = child;
    }
    c->heap[at] = entry;
}

static void list_sets_of_items(struct choice *c, size_t item_count)
{
    size_t total = 0;

    c->of = vec_new(item_count + 2, sizeof(*c->of));
    for (size_t i = 0; i < c->count; i++) {
        total += c->sets[i].count;
        for (uint32_t k = 0; k < c->sets[i].count; k++)
            c->of[c->items[c->sets[i].first + k] + 2]++;
    }
    for (size_t i = 2; i < item_count + 2; i++)
        c->of[i] += c->of[i - 1];
    c->with = vec_new(total, sizeof(*c->with));
    for (size_t i = 0; i < c->count; i++)
        for (uint32_t k = 0; k < c->sets[i].count; k++)
            c->with[c->of[c->items[c->sets[i].first + k] + 1]++] = (uint32_t)i;
}

static void suggest_cover_take(struct choice *c, uint32_t set)
{
    for (uint32_t k = 0; k < c->sets[set].count; k++) {
        uint32_t item = c->items[c->sets[set].first + k];
        if (c->held[item]++ > 0)
            continue;
        for (uint32_t w = c->of[item]; w < c->of[item + 1]; w++)
            c->left[c->with[w]]--;
    }
}

static bool is_spare(const struct choice *c, uint32_t set)
{
    for (uint32_t k = 0; k < c->sets[set].count; k++)
        if (c->held[c->items[c->sets[set].first + k]] == 1)
            return false;
    return true;
}

static size_t drop_spare(struct choice *c, uint32_t *taken, size_t count)
{
    size_t kept = 0;

    for (size_t i = count; i-- > 0;) {
        const struct suggest_cover_set *set = &c->sets[taken[i]];
        if (!is_spare(c, taken[i]))
            continue;
        for (uint32_t k = 0; k < set->count; k++)
            c->held[c->items[set->first + k]]--;
        taken[i] = UINT32_MAX;
    }
    for (size_t i = 0; i < count; i++)
        if (taken[i] != UINT32_MAX)
            taken[kept++] = taken[i];
    return kept;
}

size_t suggest_cover_choose(const struct suggest_cover_set *sets, size_t count,
        const uint32_t *items, size_t item_count, uint32_t *ret_taken)
{
    struct choice c = {.sets = sets, .items = items, .count = count, .heap_count = count};
    size_t taken = 0;

    list_sets_of_items(&c, item_count);
    c.left = vec_new(count, sizeof(*c.left));
    c.held = vec_new(item_count, sizeof(*c.held));
    c.heap = vec_new(count, sizeof(*c.heap));
    for (size_t i = 0; i < count; i++) {
        c.left[i] = sets[i].count;
        c.heap[i] = (struct entry){sets[i].count, (uint32_t)i};
    }
    for (size_t i = count / 2; i-- > 0;)
        suggest_cover_sink(&c, i);
    while (c.heap_count && c.heap[0].left) {
        uint32_t set = c.heap[0].set;
        if (c.heap[0].left == c.left[set]) {
            suggest_cover_take(&c, set);
            ret_taken[taken++] = set;
        }
        c.heap[0].left = c.left[set];
        suggest_cover_sink(&c, 0);
    }
    taken = drop_spare(&c, ret_taken, taken);
    free(c.of);
    free(c.with);
    free(c.left);
    free(c.held);
    free(c.heap);
    return taken;
}
