/* SPDX-License-Identifier: MIT */
#include "tools/load/waterfall.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/filename.h"
#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tracker/hints/hintfile.h"

static const char library_setting[] = "framework-library.";

/* The known state at a moment. */
struct moment {
    int device;
    uint64_t total, free, held, graphs, native;
    bool has_inside; /* the next three are known */
    uint64_t live, used, dead;
    /* event: the blocks live before it; TRACE_NEVER: the events do not cover the moment */
    uint32_t at;
};

struct work {
    const struct load *load;
    struct symbols *symbols;
    struct moment moment;
    uint64_t left; /* bytes in use that have no part yet */
    struct waterfall *waterfall;
};

/* Bytes of one library or framework. */
struct holder {
    const char *name;
    uint64_t bytes;
};

struct holders {
    struct keytable index;
    struct holder *at;
    size_t count, room;
};

static void add_part(struct work *work, enum waterfall_part part, const char *name, uint64_t bytes)
{
    struct waterfall *all = work->waterfall;

    VEC_PUSH(all->rows, all->count, all->room) = (struct waterfall_row){part, name, bytes};
}

/* As much of `wanted` as is left; the waterfall notes if that is less. */
static uint64_t take_up_to(struct work *work, uint64_t wanted)
{
    uint64_t taken = min_of(wanted, work->left);

    work->waterfall->is_short |= taken < wanted;
    work->left -= taken;
    return taken;
}

/* ---- holders at the moment ---- */

static bool waterfall_matches(const char *patterns, const char *file)
{
    const char *base = filename_of(file);

    while (*patterns) {
        size_t length = strcspn(patterns, ",");
        char *pattern = vec_format("%.*s", (int)length, patterns);
        bool is_match = hintfile_glob(pattern, strchr(pattern, '/') ? file : base);

        free(pattern);
        if (is_match)
            return true;
        patterns += length + (patterns[length] == ',');
    }
    return false;
}

/* The framework whose pool allocates from this library, NULL = none. */
static const char *framework_of(const struct read_capture *capture, const char *library)
{
    size_t length = sizeof(library_setting) - 1;

    for (size_t i = 0; i < capture->setting_count; i++)
        if (strncmp(capture->setting[i].name, library_setting, length) == 0
                && waterfall_matches(capture->setting[i].value, library))
            return capture->setting[i].name + length;
    return NULL;
}

static void add_holder(struct holders *holders, const char *name, uint64_t bytes)
{
    uint32_t at = keytable_number(&holders->index, keytable_text(name));

    if (at == holders->count)
        VEC_PUSH(holders->at, holders->count, holders->room) = (struct holder){name, 0};
    holders->at[at].bytes += bytes;
}

static bool is_past_the_pool(const struct trace_block *block)
{
    return block->memclass == MEMCLASS_DRIVER || block->memclass == MEMCLASS_PITCHED
            || block->memclass == MEMCLASS_VMM || block->memclass == MEMCLASS_ARRAY
            || block->memclass == MEMCLASS_ARRAY_GUESS;
}

static int waterfall_by_bytes(const void *left, const void *right)
{
    const struct holder *a = left;
    const struct holder *b = right;

    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/*
 * Libraries that hold memory outside the pool, and frameworks with a pool: their bytes outside
 * kedge's pool, and in it.
 */
struct found {
    struct holders libraries, past, inside;
};

static void waterfall_find_holders(const struct work *work, struct found *ret_found)
{
    const struct trace *trace = work->load->trace;
    uint32_t at = work->moment.at;

    *ret_found = (struct found){.libraries = {.count = 0}};
    for (size_t i = 0; i < trace->block_count && at != TRACE_NEVER; i++) {
        const struct trace_block *block = &trace->blocks[i];
        bool is_past = is_past_the_pool(block);
        const char *library, *framework;

        if (block->born >= at || block->died < at || block->device != work->moment.device
                || (!is_past && block->memclass != MEMCLASS_POOLED))
            continue;
        library = symbols_owner(work->symbols, block->stack);
        framework = framework_of(work->load->capture, library);
        if (framework)
            add_holder(is_past ? &ret_found->past : &ret_found->inside, framework, block->size);
        else if (is_past)
            add_holder(&ret_found->libraries, *library ? library : "(no stack)", block->size);
    }
    VEC_SORT(ret_found->libraries.at, ret_found->libraries.count, waterfall_by_bytes);
}

static void holders_done(struct holders *holders)
{
    keytable_done(&holders->index);
    free(holders->at);
}

/* ---- the parts ---- */

/* Gives each holder its bytes, as far as they last; the remainder has no known holder. */
static uint64_t hand_out(struct holders *holders, uint64_t bytes)
{
    for (size_t i = 0; i < holders->count; i++) {
        holders->at[i].bytes = min_of(holders->at[i].bytes, bytes);
        bytes -= holders->at[i].bytes;
    }
    return bytes;
}

static void add_holders(struct work *work, enum waterfall_part part, const struct holders *holders)
{
    for (size_t i = 0; i < holders->count; i++)
        if (holders->at[i].bytes)
            add_part(work, part, holders->at[i].name, holders->at[i].bytes);
}

/*
 * The memory of kedge's pool, by its content. Storage that hints released from blocks that the
 * program has not freed is not there.
 */
static void waterfall_add_pool(struct work *work, uint64_t held, struct holders *frameworks)
{
    const struct moment *moment = &work->moment;
    uint64_t stored, rounding, requested;

    if (!moment->has_inside) {
        add_part(work, WATERFALL_POOL, NULL, held);
        return;
    }
    stored = excess_of(moment->used, moment->dead);
    if (stored > held) {
        work->waterfall->is_short = true;
        stored = held;
    }
    rounding = min_of(excess_of(moment->used, moment->live), stored);
    requested = hand_out(frameworks, stored - rounding);
    add_part(work, WATERFALL_REQUESTED, NULL, requested);
    add_part(work, WATERFALL_ROUNDING, NULL, rounding);
    add_part(work, WATERFALL_POOL_FREE, NULL, held - stored);
}

static int by_part(const void *left, const void *right)
{
    const struct waterfall_row *a = left;
    const struct waterfall_row *b = right;

    if (a->part != b->part)
        return a->part < b->part ? -1 : 1;
    if (a->bytes != b->bytes || !a->name || !b->name)
        return (a->bytes < b->bytes) - (a->bytes > b->bytes);
    return strcmp(a->name, b->name);
}

static void waterfall_make(const struct load *load, struct symbols *symbols,
        const struct moment *moment, struct waterfall *ret_waterfall)
{
    struct work work = {.load = load,
            .symbols = symbols,
            .moment = *moment,
            .left = excess_of(moment->total, moment->free),
            .waterfall = ret_waterfall};
    struct found found;
    uint64_t held = take_up_to(&work, moment->held);
    uint64_t graphs = take_up_to(&work, moment->graphs);
    uint64_t native = take_up_to(&work, moment->native);

    waterfall_find_holders(&work, &found);
    native = hand_out(&found.past, native);
    native = hand_out(&found.libraries, native);
    waterfall_add_pool(&work, held, &found.inside);
    for (size_t i = 0; i < found.inside.count; i++)
        add_holder(&found.past, found.inside.at[i].name,
                moment->has_inside ? found.inside.at[i].bytes : 0);
    add_holders(&work, WATERFALL_FRAMEWORK, &found.past);
    add_holders(&work, WATERFALL_LIBRARY, &found.libraries);
    if (native)
        add_part(&work, WATERFALL_LIBRARY, NULL, native);
    if (graphs)
        add_part(&work, WATERFALL_GRAPHS, NULL, graphs);
    add_part(&work, WATERFALL_OUTSIDE, NULL, work.left);
    add_part(&work, WATERFALL_FREE, NULL, min_of(moment->free, moment->total));
    VEC_SORT(ret_waterfall->rows, ret_waterfall->count, by_part);
    holders_done(&found.libraries);
    holders_done(&found.past);
    holders_done(&found.inside);
}

/* ---- moments ---- */

/* The first event after the moment; TRACE_NEVER: earlier events are missing. */
static uint32_t event_behind(const struct load *load, uint64_t seq)
{
    uint32_t at = 0;

    if (load->complete_from != 0)
        return TRACE_NEVER;
    while (at < load->trace->event_count && load->trace->events[at].seq <= seq)
        at++;
    return at;
}

bool waterfall_of_look(const struct load *load, struct symbols *symbols, unsigned device,
        struct waterfall *ret_waterfall)
{
    const struct format_look *look = &load->capture->look[device];
    const struct format_inside *inside = &load->capture->inside[device];
    struct moment moment = {.device = (int)device,
            .total = look->total_bytes,
            .free = look->free_bytes,
            .held = look->held_bytes,
            .graphs = look->graph_reserved,
            .native = look->native_bytes,
            .has_inside = inside->time_ns != 0,
            .live = inside->live,
            .used = inside->used,
            .dead = inside->dead,
            .at = inside->time_ns ? event_behind(load, inside->seq) : TRACE_NEVER};

    *ret_waterfall = (struct waterfall){
            .device = (int)device, .total = look->total_bytes, .time_ns = inside->time_ns};
    if (look->looks == 0)
        return false;
    waterfall_make(load, symbols, &moment, ret_waterfall);
    return true;
}

bool waterfall_of_oom(const struct load *load, struct symbols *symbols, const struct load_oom *oom,
        struct waterfall *ret_waterfall)
{
    const struct format_oom *what = oom->why ? &oom->why->what : NULL;

    *ret_waterfall = (struct waterfall){.device = oom->device};
    if (!what || what->total_bytes == UINT64_MAX || what->free_bytes == UINT64_MAX)
        return false;
    struct moment moment = {.device = oom->device,
            .total = what->total_bytes,
            .free = what->free_bytes,
            .native = what->native_bytes,
            .has_inside = (what->flags & FORMAT_OOM_HEAPS) != 0,
            .at = load->complete_from == 0 ? oom->at : TRACE_NEVER};
    if (moment.has_inside) {
        moment.held = what->heaps.held;
        moment.live = what->heaps.live;
        moment.used = what->heaps.used;
        moment.dead = what->heaps.limbo + what->heaps.husk;
    }
    ret_waterfall->total = what->total_bytes;
    ret_waterfall->time_ns = what->time_ns;
    waterfall_make(load, symbols, &moment, ret_waterfall);
    return true;
}

void waterfall_done(struct waterfall *waterfall)
{
    free(waterfall->rows);
    *waterfall = (struct waterfall){0};
}

const char *waterfall_word(enum waterfall_part part)
{
    static const char *const words[WATERFALL_PARTS] = {
            [WATERFALL_OUTSIDE] = "outside",
            [WATERFALL_LIBRARY] = "library",
            [WATERFALL_GRAPHS] = "graphs",
            [WATERFALL_FRAMEWORK] = "framework_pool",
            [WATERFALL_POOL] = "kedge",
            [WATERFALL_REQUESTED] = "kedge_live_requested",
            [WATERFALL_ROUNDING] = "kedge_live_rounding",
            [WATERFALL_POOL_FREE] = "kedge_free",
            [WATERFALL_FREE] = "free",
    };

    return words[part];
}

bool waterfall_is_told_apart(const struct waterfall_row *row)
{
    return row->part != WATERFALL_OUTSIDE && row->part != WATERFALL_POOL
            && row->part != WATERFALL_FRAMEWORK && (row->part != WATERFALL_LIBRARY || row->name);
}
