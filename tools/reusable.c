/* SPDX-License-Identifier: MIT */
#include "tools/reusable.h"

#include <stdlib.h>

#include "tools/vec.h"

/* A block by what it is compared with. */
struct candidate {
    uint64_t size; /* rounded */
    uint64_t time; /* of its first use, or of its last */
    int device;
    uint32_t block;
    uint32_t died; /* event */
};

/* Those that are done with, as a binary heap: the one that is freed last is on top. */
struct done {
    struct candidate *at;
    size_t count;
};

static void swap(struct candidate *a, struct candidate *b)
{
    struct candidate held = *a;

    *a = *b;
    *b = held;
}

static void push(struct done *done, struct candidate candidate)
{
    size_t i = done->count++;

    done->at[i] = candidate;
    for (; i > 0 && done->at[i].died > done->at[(i - 1) / 2].died; i = (i - 1) / 2)
        swap(&done->at[i], &done->at[(i - 1) / 2]);
}

static void pop(struct done *done)
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
        swap(&done->at[i], &done->at[top]);
        i = top;
    }
}

static int compare_kinds(const struct candidate *a, const struct candidate *b)
{
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return (a->size > b->size) - (a->size < b->size);
}

static int by_kind_and_time(const void *left, const void *right)
{
    const struct candidate *a = left;
    const struct candidate *b = right;
    int order = compare_kinds(a, b);

    if (order != 0)
        return order;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return (a->block > b->block) - (a->block < b->block);
}

static struct candidate *sort(
        const struct trace *trace, const uint32_t *blocks, size_t count, bool by_last)
{
    struct candidate *sorted = vec_new(count + 1, sizeof(*sorted));

    for (size_t i = 0; i < count; i++) {
        const struct trace_block *block = &trace->blocks[blocks[i]];

        sorted[i] = (struct candidate){.size = (block->size + 511) & ~UINT64_C(511),
                .time = by_last ? trace_uses(trace, block).last : trace_uses(trace, block).first,
                .device = block->device,
                .block = blocks[i],
                .died = block->died};
    }
    VEC_SORT(sorted, count, by_kind_and_time);
    return sorted;
}

/* Of a kind that has had its turn, or done with before the second is used. */
static bool is_before(const struct candidate *first, const struct candidate *second)
{
    int order = compare_kinds(first, second);

    return order < 0 || (order == 0 && first->time < second->time);
}

struct reusable_pair *reusable_find(
        const struct trace *trace, const uint32_t *blocks, size_t count, size_t *ret_count)
{
    struct candidate *seconds = sort(trace, blocks, count, false);
    struct candidate *firsts = sort(trace, blocks, count, true);
    struct done done = {.at = vec_new(count + 1, sizeof(*done.at))};
    struct reusable_pair *pairs = vec_new(count + 1, sizeof(*pairs));
    size_t next = 0;

    *ret_count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct candidate *second = &seconds[i];

        if (i == 0 || compare_kinds(second, second - 1) != 0)
            done.count = 0;
        for (; next < count && is_before(&firsts[next], second); next++)
            if (compare_kinds(&firsts[next], second) == 0)
                push(&done, firsts[next]);
        /* whoever is freed last was freed too early: so were all */
        if (done.count == 0 || done.at[0].died <= trace->blocks[second->block].born)
            continue;
        pairs[(*ret_count)++] = (struct reusable_pair){done.at[0].block, second->block};
        pop(&done);
    }
    free(seconds);
    free(firsts);
    free(done.at);
    return pairs;
}
