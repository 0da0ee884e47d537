/* SPDX-License-Identifier: MIT */
/*
 * STAlloc's static plan: where each block goes is decided before the run, from the lifetimes of a
 * run before. A bound on what planning gives, not an allocator that a program could run with at
 * once.
 *
 * Source: infinigence/STAlloc at 3a9f97ff, Synthesizer/allocator.py (allocate_group without
 * groups), Synthesizer/ plan_generator.py; arXiv 2507.16274.
 *
 * - Sizes are multiples of 512. Blocks of one size form layers: each block, in order of time, goes
 *   to the layer whose last block ends latest, but not after its beginning; a layer is as high as
 *   its blocks.
 * - Sizes are placed from the largest on. Blocks of a size are tried in the older layers first, in
 *   the order of their own: above all that the layer has during their life, if the layer is high
 *   enough. The others form new layers. The layers stand on top of each other; their heights add
 *   up to the plan.
 * - Blocks of up to 512 bytes are not planned: they get twice the most that they need at once.
 *
 * Time is the order of requests: streams and the device's lag do not matter here, although blocks
 * of two streams may share addresses only in an order that the program makes. Not modelled: groups
 * of a phase (requests do not name phases), weights and optimizer states by themselves (their
 * layers have no other block anyway), the trial that orders blocks of a size anew, layers of
 * experts, requests that are not in the plan.
 *
 * Published: 85.1 % less fragmentation on average than without (abstract); its requests and tables
 * are not public as text, so nothing of it comes out here.
 */
#include "tests/bench/models/models.h"

#include <stdlib.h>

#include "tools/base/vec.h"
#include "tools/replay/peer_heap.h"
#include "tools/replay/workload.h"

#define LEAST UINT64_C(512)

struct span {
    size_t first, behind; /* events */
};

/* What lies in a layer, up to where. */
struct placed {
    struct span life;
    uint64_t top;
};

struct layer {
    uint64_t base, height;
    struct placed *items;
    size_t count, room;
};

struct planned {
    uint32_t block;
    uint64_t size;
    struct span life;
    bool is_placed;
};

struct stalloc {
    struct peer_heap heap; /* its blocks are those in use */
    uint64_t *offsets;     /* per block of the workload */
    uint64_t size;         /* of the plan */
    devptr_t base;         /* 0 = nothing has been asked for */
    /* while the plan is made: */
    struct planned *blocks;
    size_t block_count, block_room;
    struct layer *layers;
    size_t layer_count, layer_room;
};

static void stalloc_close(void *opaque)
{
    struct stalloc *self = opaque;

    free(self->offsets);
    peer_close(self);
}

/* ── the plan ── */

static int by_size(const void *a, const void *b)
{
    const struct planned *one = a, *two = b;

    if (one->size != two->size)
        return one->size < two->size ? 1 : -1;
    return one->life.first < two->life.first ? -1 : 1;
}

static void place(struct stalloc *self, struct layer *layer, struct planned *block, uint64_t at)
{
    self->offsets[block->block] = layer->base + at;
    block->is_placed = true;
    VEC_PUSH(layer->items, layer->count, layer->room) =
            (struct placed){block->life, at + block->size};
}

/* The highest end of what a layer has at any time of a span. */
static uint64_t top_during(const struct layer *layer, struct span life)
{
    uint64_t top = 0;

    for (size_t i = 0; i < layer->count; i++) {
        const struct placed *item = &layer->items[i];
        if (item->life.first < life.behind && life.first < item->life.behind && item->top > top)
            top = item->top;
    }
    return top;
}

/*
 * Blocks of one size in layers of their own: number of the layer per block, from 0. Returns how
 * many layers.
 */
static size_t form_layers(const struct planned *blocks, size_t count, size_t *numbers)
{
    size_t *ends = vec_new(count, sizeof(*ends)), layers = 0;

    for (size_t i = 0; i < count; i++) {
        size_t best = layers;
        for (size_t at = 0; at < layers && !blocks[i].is_placed; at++) {
            if (ends[at] <= blocks[i].life.first && (best == layers || ends[at] > ends[best]))
                best = at;
        }
        if (blocks[i].is_placed)
            continue;
        numbers[i] = best;
        ends[best] = blocks[i].life.behind;
        layers += best == layers;
    }
    free(ends);
    return layers;
}

/* Which of the blocks of a size is placed when: by their layers. */
static size_t *in_order(const struct planned *blocks, size_t count)
{
    size_t *order = vec_new(count, sizeof(*order)), *numbers = vec_new(count, sizeof(*numbers));
    size_t layers = form_layers(blocks, count, numbers), at = 0;

    for (size_t layer = 0; layer < layers; layer++) {
        for (size_t i = 0; i < count; i++) {
            if (numbers[i] == layer)
                order[at++] = i;
        }
    }
    free(numbers);
    return order;
}

static void fill_older(struct stalloc *self, struct planned *blocks, size_t count)
{
    size_t *order = in_order(blocks, count);

    for (size_t older = 0; older < self->layer_count; older++) {
        struct layer *layer = &self->layers[older];
        for (size_t i = 0; i < count; i++) {
            struct planned *block = &blocks[order[i]];
            if (block->is_placed)
                continue;
            uint64_t top = top_during(layer, block->life);
            if (top + block->size <= layer->height)
                place(self, layer, block, top);
        }
    }
    free(order);
}

static void add_layers(struct stalloc *self, struct planned *blocks, size_t count)
{
    size_t *numbers = vec_new(count, sizeof(*numbers));
    size_t layers = form_layers(blocks, count, numbers), before = self->layer_count;

    for (size_t i = 0; i < layers; i++) {
        VEC_PUSH(self->layers, self->layer_count, self->layer_room) =
                (struct layer){.base = self->size, .height = blocks->size};
        self->size += blocks->size;
    }
    for (size_t i = 0; i < count; i++) {
        if (!blocks[i].is_placed)
            place(self, &self->layers[before + numbers[i]], &blocks[i], 0);
    }
    free(numbers);
}

/* Twice the most that the smallest blocks need at once, behind the plan. */
static void add_tiny(struct stalloc *self, const struct workload *workload, int device)
{
    uint64_t now = 0, most = 0;

    for (size_t i = 0; i < workload->event_count; i++) {
        uint32_t number = workload->events[i].block;
        const struct workload_block *block = &workload->blocks[number];
        if (block->device != device || block->size > LEAST)
            continue;
        now += workload->events[i].is_free ? 0 - LEAST : LEAST;
        most = now > most ? now : most;
        self->offsets[number] = self->size;
    }
    self->size += 2 * most;
}

static void list_blocks(struct stalloc *self, const struct workload *workload, int device)
{
    struct span *lives = vec_new(workload->block_count, sizeof(*lives));

    for (size_t i = 0; i < workload->event_count; i++) {
        const struct workload_event *event = &workload->events[i];
        if (event->is_free)
            lives[event->block].behind = i;
        else
            lives[event->block] = (struct span){i, workload->event_count};
    }
    for (uint32_t i = 0; i < workload->block_count; i++) {
        const struct workload_block *block = &workload->blocks[i];
        if (block->device == device && block->size > LEAST)
            VEC_PUSH(self->blocks, self->block_count, self->block_room) = (struct planned){
                    .block = i, .size = (block->size + LEAST - 1) & ~(LEAST - 1), .life = lives[i]};
    }
    free(lives);
    VEC_SORT(self->blocks, self->block_count, by_size);
}

static void stalloc_know(void *opaque, const struct workload *workload, int device)
{
    struct stalloc *self = opaque;

    self->offsets = vec_new(workload->block_count, sizeof(*self->offsets));
    list_blocks(self, workload, device);
    for (size_t first = 0, count; first < self->block_count; first += count) {
        struct planned *blocks = self->blocks + first;
        count = 1;
        while (first + count < self->block_count && blocks[count].size == blocks->size)
            count++;
        fill_older(self, blocks, count);
        add_layers(self, blocks, count);
    }
    add_tiny(self, workload, device);
    for (size_t i = 0; i < self->layer_count; i++)
        free(self->layers[i].items);
    free(self->layers);
    free(self->blocks);
    self->layers = NULL;
    self->blocks = NULL;
}

/* ── the run ── */

static void stalloc_take(void *opaque, uint32_t number, uint64_t size, uint32_t stream)
{
    struct stalloc *self = opaque;
    const struct driver *driver = &self->heap.device->driver;
    uint32_t set = peer_set(&self->heap, stream, 0);

    if (!self->base)
        (void)driver->mem_alloc(driver->self, 0, 0, self->size, &self->base);
    peer_own(&self->heap, number,
            peer_segment(&self->heap, self->base + self->offsets[number], size, set));
}

static void stalloc_give(void *opaque, uint32_t number, uint32_t stream)
{
    struct stalloc *self = opaque;

    (void)stream;
    peer_drop(&self->heap, peer_disown(&self->heap, number));
}

const struct peer peer_stalloc = {
        .size = sizeof(struct stalloc),
        .close = stalloc_close,
        .know = stalloc_know,
        .take = stalloc_take,
        .give = stalloc_give,
};
