/* SPDX-License-Identifier: MIT */
#include "tools/classes.h"

#include <stdlib.h>

#include "tools/vec.h"

/* One birth or death of the window, to be put in order. */
struct move {
    uint32_t at;
    enum memclass memclass;
    bool is_birth;
    uint64_t size;
};

struct moves {
    struct move *move;
    size_t count, room;
};

const char *classes_name(enum memclass memclass)
{
    static const char *const names[MEMCLASS_COUNT] = {
            [MEMCLASS_POOLED] = "pooled",
            [MEMCLASS_DRIVER] = "driver",
            [MEMCLASS_PITCHED] = "pitched",
            [MEMCLASS_MANAGED] = "managed",
            [MEMCLASS_VMM] = "vmm",
            [MEMCLASS_ARRAY] = "array",
            [MEMCLASS_ARRAY_GUESS] = "array-estimate",
            [MEMCLASS_GRAPH] = "graph",
            [MEMCLASS_HOST] = "host",
            [MEMCLASS_REGISTERED] = "registered",
            [MEMCLASS_IMPORTED] = "imported",
            [MEMCLASS_EXTERNAL] = "external",
            [MEMCLASS_MULTICAST] = "multicast",
            [MEMCLASS_VIRTUAL] = "virtual",
    };

    return (unsigned)memclass < MEMCLASS_COUNT ? names[memclass] : "?";
}

static void add_block(struct moves *moves, struct model_window window, enum memclass memclass,
        uint64_t size, uint32_t born, uint32_t died)
{
    if (born < window.first || born >= window.last)
        return;
    VEC_PUSH(moves->move, moves->count, moves->room) = (struct move){born, memclass, true, size};
    if (died < window.last)
        VEC_PUSH(moves->move, moves->count, moves->room) =
                (struct move){died, memclass, false, size};
}

static int by_time(const void *left, const void *right)
{
    const struct move *a = left;
    const struct move *b = right;

    return a->at < b->at ? -1 : a->at > b->at;
}

static void count(const struct moves *moves, struct classes_row *rows)
{
    for (size_t i = 0; i < moves->count; i++) {
        const struct move *move = &moves->move[i];
        struct classes_row *row = &rows[move->memclass];
        if (!move->is_birth) {
            row->live -= move->size;
            row->live_count--;
            continue;
        }
        row->allocated += move->size;
        row->allocated_count++;
        row->live += move->size;
        row->live_count++;
        if (row->peak < row->live)
            row->peak = row->live;
    }
}

/* What the writer counted itself, where events were lost. */
static void take_totals(const struct read_capture *capture, struct classes_row *rows)
{
    for (unsigned i = 0; i < MEMCLASS_COUNT; i++) {
        const struct format_class *of = &capture->class_total[i];
        rows[i] = (struct classes_row){.allocated = of->allocated_bytes,
                .allocated_count = of->allocated_count,
                .live = of->live_bytes,
                .live_count = of->live_count,
                .peak = of->peak_bytes};
    }
}

void classes_figure(const struct load *load, struct model_window window,
        struct classes_row ret_rows[static MEMCLASS_COUNT])
{
    const struct trace *trace = load->trace;
    bool whole = window.first == 0 && window.last == trace->event_count;
    struct moves moves = {0};

    for (unsigned i = 0; i < MEMCLASS_COUNT; i++)
        ret_rows[i] = (struct classes_row){0};
    if (whole && load->complete_from > window.first && load->capture->class_count) {
        take_totals(load->capture, ret_rows);
        return;
    }
    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        add_block(&moves, window, block->memclass, block->size, block->born, block->died);
    }
    for (size_t i = 0; i < load->other_count; i++) {
        const struct load_other *other = &load->others[i];
        add_block(&moves, window, other->memclass, other->size, other->born, other->died);
    }
    if (moves.count)
        qsort(moves.move, moves.count, sizeof(*moves.move), by_time);
    count(&moves, ret_rows);
    free(moves.move);
}

struct classes_overhead classes_overhead(const struct format_look *look)
{
    uint64_t known = look->held_bytes + look->native_bytes + look->graph_reserved;
    uint64_t used = look->total_bytes - look->free_bytes;

    if (look->looks == 0 || look->free_bytes > look->total_bytes)
        return (struct classes_overhead){0};
    if (known > used)
        return (struct classes_overhead){.is_known = true, .is_short = true};
    return (struct classes_overhead){.is_known = true, .bytes = used - known};
}
