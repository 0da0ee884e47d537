/* SPDX-License-Identifier: MIT */
#include "tools/reusable.h"

#include <stdlib.h>
#include <string.h>

#include "tools/vec.h"

/* A block among those of its device and size. */
struct candidate {
    uint64_t time; /* of its first use, or of its last */
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

static int compare_kinds(const struct trace_block *a, const struct trace_block *b)
{
    uint64_t a_size = (a->size + 511) & ~UINT64_C(511);
    uint64_t b_size = (b->size + 511) & ~UINT64_C(511);

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return (a_size > b_size) - (a_size < b_size);
}

static int by_kind(const void *left, const void *right, void *context)
{
    const struct trace_block *blocks = (*(const struct trace *const *)context)->blocks;
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    int order = compare_kinds(&blocks[a], &blocks[b]);

    return order ? order : (a > b) - (a < b);
}

static int by_use_time(const void *left, const void *right)
{
    const struct candidate *a = left;
    const struct candidate *b = right;

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
        struct trace_uses uses = trace_uses(trace, block);

        sorted[i] = (struct candidate){by_last ? uses.last : uses.first, blocks[i], block->died};
    }
    VEC_SORT(sorted, count, by_use_time);
    return sorted;
}

struct pairs {
    struct reusable_pair *at;
    size_t count, room;
};

/* Of blocks of one device and size. */
static void pair_kind(
        const struct trace *trace, const uint32_t *blocks, size_t count, struct pairs *pairs)
{
    struct candidate *seconds = sort(trace, blocks, count, false);
    struct candidate *firsts = sort(trace, blocks, count, true);
    struct done done = {.at = vec_new(count + 1, sizeof(*done.at))};
    size_t next = 0;

    for (size_t i = 0; i < count; i++) {
        while (next < count && firsts[next].time < seconds[i].time)
            push(&done, firsts[next++]);
        /* whoever is freed last was freed too early: so were all */
        if (done.count == 0 || done.at[0].died <= trace->blocks[seconds[i].block].born)
            continue;
        VEC_PUSH(pairs->at, pairs->count, pairs->room) =
                (struct reusable_pair){done.at[0].block, seconds[i].block};
        pop(&done);
    }
    free(seconds);
    free(firsts);
    free(done.at);
}

struct reusable_pair *reusable_find(
        const struct trace *trace, const uint32_t *blocks, size_t count, size_t *ret_count)
{
    uint32_t *order = vec_new(count + 1, sizeof(*order));
    struct pairs pairs = {NULL, 0, 0};

    memcpy(order, blocks, count * sizeof(*order));
    qsort_r(order, count, sizeof(*order), by_kind, &trace);
    for (size_t i = 0, end; i < count; i = end) {
        const struct trace_block *first = &trace->blocks[order[i]];

        for (end = i + 1; end < count && compare_kinds(first, &trace->blocks[order[end]]) == 0;)
            end++;
        pair_kind(trace, order + i, end - i, &pairs);
    }
    free(order);
    *ret_count = pairs.count;
    return pairs.at;
}
