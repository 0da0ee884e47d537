/* SPDX-License-Identifier: MIT */
#include "tools/patterns/reusable.h"

#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"

/* A block among the blocks of its device and size. */
struct candidate {
    uint64_t time; /* of its first use, or of its last */
    uint32_t block;
    uint32_t died; /* event */
};

/* Blocks after their last use, as a binary heap: the block freed last is on top. */
struct done {
    struct candidate *at;
    size_t count;
};

static void reusable_swap(struct candidate *a, struct candidate *b)
{
    struct candidate held = *a;

    *a = *b;
    *b = held;
}

static void reusable_push(struct done *done, struct candidate candidate)
{
    size_t i = done->count++;

    done->at[i] = candidate;
    for (; i > 0 && done->at[i].died > done->at[(i - 1) / 2].died; i = (i - 1) / 2)
        reusable_swap(&done->at[i], &done->at[(i - 1) / 2]);
}

static void reusable_pop(struct done *done)
{
    size_t i = 0;

    done->at[0] = done->at[--done->count];
    for (;;) {
        size_t top = i;

        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < done->count; child++)
            if (done->at[child].died > done->at[top].died)
                top = child;
        if (top == i)
            return;
        reusable_swap(&done->at[i], &done->at[top]);
        i = top;
    }
}

static int by_use_time(const void *left, const void *right)
{
    const struct candidate *a = left;
    const struct candidate *b = right;

    return vec_order(a->time, b->time, vec_order(a->block, b->block, 0));
}

/* Insertion sort: candidates of a run are mostly in this order already. */
static void sort_by_time(struct candidate *candidates, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (by_use_time(&candidates[i - 1], &candidates[i]) > 0) {
            VEC_SORT(candidates, count, by_use_time);
            return;
        }
    }
}

struct pairs {
    struct reusable_pair *at;
    size_t count, room;
};

/* Pairs blocks of one device and size. */
static void pair_kind(
        const struct trace *trace, const uint32_t *blocks, size_t count, struct pairs *pairs)
{
    struct candidate *seconds = vec_new(count + 1, sizeof(*seconds));
    struct candidate *firsts = vec_new(count + 1, sizeof(*firsts));
    struct done done = {.at = vec_new(count + 1, sizeof(*done.at))};
    size_t next = 0;

    for (size_t i = 0; i < count; i++) {
        const struct trace_block *block = &trace->blocks[blocks[i]];
        const struct trace_uses uses = trace_uses(trace, block);

        seconds[i] = (struct candidate){uses.first, blocks[i], block->died};
        firsts[i] = (struct candidate){uses.last, blocks[i], block->died};
    }
    sort_by_time(seconds, count);
    sort_by_time(firsts, count);
    for (size_t i = 0; i < count; i++) {
        while (next < count && firsts[next].time < seconds[i].time)
            reusable_push(&done, firsts[next++]);
        /* the block freed last was freed too early: so were all others */
        if (done.count == 0 || done.at[0].died <= trace->blocks[seconds[i].block].born)
            continue;
        VEC_PUSH(pairs->at, pairs->count, pairs->room) =
                (struct reusable_pair){done.at[0].block, seconds[i].block};
        reusable_pop(&done);
    }
    free(seconds);
    free(firsts);
    free(done.at);
}

/* Blocks of one device and size. */
struct kind {
    int16_t device;
    uint32_t number; /* in the order of first appearance */
    uint64_t size;   /* rounded to 512 */
};

struct kinds {
    struct keytable numbers; /* (device, size) -> index in `at` */
    struct kind *at;
    size_t count, room;
};

static uint32_t reusable_kind_of(struct kinds *kinds, const struct trace_block *block)
{
    struct kind kind = {.device = block->device, .size = (block->size + 511) & ~UINT64_C(511)};

    kind.number =
            keytable_number(&kinds->numbers, (struct key){kind.size, (uint64_t)kind.device, 0});
    if (kind.number == kinds->count)
        VEC_PUSH(kinds->at, kinds->count, kinds->room) = kind;
    return kind.number;
}

static int by_kind(const void *left, const void *right)
{
    const struct kind *a = left;
    const struct kind *b = right;

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return (a->size > b->size) - (a->size < b->size);
}

/* Lists the blocks of each kind, kinds by device and size. */
static struct vec_lists list_kinds(
        const struct trace *trace, const uint32_t *blocks, size_t count, size_t *ret_kinds)
{
    struct kinds kinds = {.count = 0};
    uint32_t *of = vec_new(count, sizeof(*of)); /* by block */

    for (size_t i = 0; i < count; i++)
        of[i] = reusable_kind_of(&kinds, &trace->blocks[blocks[i]]);
    uint32_t *place_of = vec_new(kinds.count, sizeof(*place_of)); /* by number of the kind */
    VEC_SORT(kinds.at, kinds.count, by_kind);
    for (uint32_t i = 0; i < kinds.count; i++)
        place_of[kinds.at[i].number] = i;
    for (size_t i = 0; i < count; i++)
        of[i] = place_of[of[i]];
    struct vec_lists lists = vec_lists_new(of, count, kinds.count);
    for (size_t i = 0; i < count; i++)
        lists.at[i] = blocks[lists.at[i]];
    *ret_kinds = kinds.count;
    free(of);
    free(place_of);
    free(kinds.at);
    keytable_done(&kinds.numbers);
    return lists;
}

struct reusable_pair *reusable_find(
        const struct trace *trace, const uint32_t *blocks, size_t count, size_t *ret_count)
{
    struct pairs pairs = {NULL, 0, 0};
    size_t kinds;
    struct vec_lists lists = list_kinds(trace, blocks, count, &kinds);

    for (size_t k = 0; k < kinds; k++)
        pair_kind(trace, lists.at + lists.first[k], lists.first[k + 1] - lists.first[k], &pairs);
    vec_lists_done(&lists);
    *ret_count = pairs.count;
    return pairs.at;
}
