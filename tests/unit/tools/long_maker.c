/* SPDX-License-Identifier: MIT */
/*
 * long_maker - writes the capture of a long training run within seconds, for tests of what the commands can bear.
 *
 *     long_maker FILE PAIRS [late] [ring]
 *
 * PAIRS allocations, each freed but for the weights at the end. A step is 4 phases of 8 layers, each layer an anchor in its phase
 * in its step, with 64 requests at call sites of their own: 2048 call sites. Of 64 requests of a forward phase 8 live until
 * the same layer of the backward phase; the others are freed within their layer. Four streams; addresses are used again
 * as a pool does. Seven blocks of eight are used, once when they are made and once before they are freed. late: every fourth of those that live until the backward phase is freed at the end of the step instead.
 * ring: the log is bounded to 1 MiB and has lost its beginning.
 */
#include "tracker/base/site.h"
#include "tracker/capture/capstate.h"
#include "tracker/capture/capture.h"
#include "tracker/capture/uses.h"
#include "tracker/stacks/intern.h"
#include "tracker/where/anchor.h"
#include "tracker/where/nth.h"
#include "tracker/where/where.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PHASES     4u /* data, forward, backward, optimizer */
#define LAYERS     8u
#define SLOTS      64u
#define SITES      (PHASES * LAYERS * SLOTS)
#define KEPT       8u   /* of a layer's requests in the forward phase, until its backward phase */
#define WEIGHTS    256u /* live to the end */
#define SIZE_KINDS 32u
#define BLOCKS_MAX 4096u

static const char *const phases[PHASES] = {"data", "forward", "backward", "optimizer"};
enum {
    FORWARD = 1,
    BACKWARD = 2
};

struct block {
    devptr_t ptr;
    uint64_t size;
    uint64_t stream;
};

/* Freed addresses of each size, the last one first. */
static struct {
    devptr_t ptr[BLOCKS_MAX];
    unsigned count;
} cached[SIZE_KINDS];

static struct {
    uint32_t leaf;
    uint64_t key;
} sites[SITES];

static uint64_t seq, left, held;
static devptr_t next_ptr = UINT64_C(0x7f0000000000);
static bool is_late;

/* A stack of eight frames: four that all have, one each for phase, layer and slot, and the one that asks. */
static void make_sites(uint32_t module)
{
    for (unsigned i = 0; i < SITES; i++) {
        unsigned layer = i / SLOTS;
        struct intern_frame frames[SITE_FRAMES] = {{module, 0x1000}, {module, 0x2000 + i % SLOTS},
                {module, 0x3000 + layer}, {module, 0x4000 + layer / LAYERS}, {module, 0x5000},
                {module, 0x5100}, {module, 0x5200}, {module, 0x5300}};
        uint64_t hashes[SITE_FRAMES];

        for (unsigned k = 0; k < SITE_FRAMES; k++)
            hashes[k] = site_frame(intern_module_at(module)->hash, frames[k].offset);
        sites[i].leaf = intern_stack(frames, SITE_FRAMES);
        sites[i].key = site_combine(hashes, SITE_FRAMES);
    }
}

static uint64_t size_of(unsigned kind)
{
    return (UINT64_C(1) << (12 + kind % 8 * 2)) + UINT64_C(512) * (kind / 8);
}

static unsigned kind_of(unsigned site)
{
    return (site * 7 + site / SLOTS) % SIZE_KINDS;
}

static void use(const struct block *block, unsigned site)
{
    if (site % 8 != 0)
        uses_of_stretch(block->ptr, 1, USE_SURE, &(uint64_t){0});
}

static struct block allocate(unsigned site)
{
    unsigned kind = kind_of(site);
    uint64_t size = size_of(kind);
    struct anchor_place place;
    struct block block = {.size = size, .stream = 1 + site / SLOTS % 4};

    anchor_here(&place);
    struct tag tag = {.site = sites[site].key,
            .stack = sites[site].leaf,
            .anchor = place.anchor,
            .nth = nth_count(place.anchor, sites[site].key, size),
            .size = size,
            .path = place.path,
            .instance = place.instance,
            .is_main = true};
    if (cached[kind].count > 0) {
        block.ptr = cached[kind].ptr[--cached[kind].count];
    } else {
        block.ptr = next_ptr;
        next_ptr += (size + 511) & ~UINT64_C(511);
        held += size;
        (void)capture_reserved(0, 1, held, held, ++seq);
    }
    (void)capture_alloc(&(struct capture_alloc_info){.tag = &tag,
            .ptr = block.ptr,
            .seq = ++seq,
            .stream = block.stream,
            .api = API_STREAM,
            .rule = -1});
    use(&block, site);
    left--;
    return block;
}

static void release(const struct block *block, unsigned site)
{
    unsigned kind = kind_of(site);

    use(block, site);
    (void)capture_free(&(struct capture_free_info){.ptr = block->ptr,
            .seq = ++seq,
            .size = block->size,
            .stream = block->stream,
            .device = -1,
            .api = API_STREAM});
    if (cached[kind].count < BLOCKS_MAX)
        cached[kind].ptr[cached[kind].count++] = block->ptr;
}

static void enter(const char *name)
{
    struct edge edge;

    if (anchor_push(NULL, name, &edge) == 0)
        (void)capture_edge(&edge, ++seq);
}

static void leave(void)
{
    struct edge edge;

    if (anchor_pop(NULL, &edge) == 0)
        (void)capture_edge(&edge, ++seq);
}

/* What the forward phase keeps, by layer and slot. */
static struct block kept[LAYERS][KEPT];

static void run_layer(unsigned phase, unsigned layer)
{
    struct block blocks[SLOTS];
    unsigned first = (phase * LAYERS + layer) * SLOTS;
    unsigned keeps = phase == FORWARD ? KEPT : 0;
    unsigned count = 0;
    char name[16];

    (void)snprintf(name, sizeof name, "layer%u", layer);
    enter(name);
    for (; count < SLOTS && left > 0; count++)
        blocks[count] = allocate(first + count);
    for (unsigned i = count; i > keeps; i--)
        release(&blocks[i - 1], first + i - 1);
    for (unsigned i = 0; i < keeps && i < count; i++)
        kept[layer][i] = blocks[i];
    leave();
}

static bool is_freed_late(unsigned slot)
{
    return is_late && slot % 4 == 0;
}

static void release_kept(unsigned layer, bool late)
{
    for (unsigned i = 0; i < KEPT; i++) {
        if (kept[layer][i].ptr == 0 || is_freed_late(i) != late)
            continue;
        release(&kept[layer][i], (FORWARD * LAYERS + layer) * SLOTS + i);
        kept[layer][i].ptr = 0;
    }
}

static void run_step(void)
{
    enter("step");
    for (unsigned phase = 0; phase < PHASES; phase++) {
        enter(phases[phase]);
        for (unsigned i = 0; i < LAYERS; i++) {
            unsigned layer = phase == BACKWARD ? LAYERS - 1 - i : i;

            run_layer(phase, layer);
            if (phase == BACKWARD)
                release_kept(layer, false);
        }
        leave();
    }
    for (unsigned layer = 0; layer < LAYERS; layer++) {
        release_kept(layer, false); /* of a step that was cut short */
        release_kept(layer, true);
    }
    leave();
}

static void *open_library(const char *file, int flags)
{
    return dlopen(file, flags);
}

static void *find_symbol(void *handle, const char *symbol)
{
    return dlsym(handle, symbol);
}

static bool begin(const char *file, bool is_ring)
{
    struct where_opts where = {.unwind = {.mode = UNWIND_OFF, .ops = {open_library, find_symbol}}};
    const struct capture_opts opts = {.file = file,
            .trace = is_ring ? FORMAT_TRACE_RING : FORMAT_TRACE_FULL,
            .ring_bytes = 1 << 20};

    (void)unlink(file);
    uses_init(true);
    return where_init(&where) == 0 && capture_init(&opts) == 0 && capstate_open() == 0;
}

int main(int argc, char **argv)
{
    static const struct intern_module module = {
            .base = 0x400000, .end = 0x500000, .hash = 0x5eed, .is_main = true};
    bool is_ring = false;

    if (argc < 3)
        return 2;
    for (int i = 3; i < argc; i++) {
        is_late = is_late || strcmp(argv[i], "late") == 0;
        is_ring = is_ring || strcmp(argv[i], "ring") == 0;
    }
    left = strtoull(argv[2], NULL, 10);
    if (!begin(argv[1], is_ring))
        return 1;
    make_sites(intern_module(&module));
    for (unsigned i = 0; i < WEIGHTS && left > 0; i++)
        (void)allocate(i);
    while (left > 0)
        run_step();
    capture_state(FORMAT_STATE_CLEAN, FORMAT_EXIT_KNOWN);
    return 0;
}
