/* SPDX-License-Identifier: MIT */
#include "tools/report/sources.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"
#include "tools/load/figures.h"
#include "tools/symbols/title.h"

/* State of a stack that has allocated a block, with the row of its last block. */
struct asker {
    uint32_t library, site, row;
    bool is_known;
};

/* A birth or death in the window. */
struct move {
    uint64_t size;
    uint32_t at, row, stack;
    bool is_birth;
};

struct work {
    struct load const *load;
    struct model_window window;
    struct symbols *symbols;
    struct sources *sources;
    struct keytable libraries; /* by name */
    struct keytable rows;      /* (library, class) */
    struct keytable sites;     /* text and library */
    struct asker *askers;      /* by stack */
    struct move *others;       /* of memory that is no block of the trace, in order */
    size_t other_count, other_room;
};

/* ---- collecting ---- */

static uint32_t library_named(struct work *work, const char *name)
{
    struct sources *sources = work->sources;
    uint32_t at = keytable_number(&work->libraries, keytable_text(name));

    if (at == sources->library_count)
        VEC_PUSH(sources->libraries, sources->library_count, sources->library_room) =
                (struct sources_library){.name = name};
    return at;
}

const char *sources_library_of(struct symbols *symbols, uint32_t stack)
{
    const char *owner = symbols_owner(symbols, stack);

    if (*owner)
        return owner;
    return stack ? "(code in no library)" : "(no stack)";
}

static uint32_t library_of(struct work *work, uint32_t stack)
{
    return library_named(work, sources_library_of(work->symbols, stack));
}

static uint32_t sources_row_of(struct work *work, uint32_t library, enum memclass memclass)
{
    struct sources *sources = work->sources;
    uint32_t at = keytable_number(&work->rows, (struct key){library, (uint64_t)memclass, 0});

    if (at == sources->row_count)
        VEC_PUSH(sources->rows, sources->row_count, sources->row_room) =
                (struct sources_row){.library = library, .memclass = memclass};
    return at;
}

static uint32_t sources_site_of(struct work *work, uint32_t library, uint32_t stack)
{
    struct sources *sources = work->sources;
    const char *site = symbols_site(work->symbols, stack);
    const char *pysite = symbols_pysite(work->symbols, stack);
    /* by the program's line: many of them call through one line of a framework */
    char *line = title_line(work->symbols, stack);
    struct key key = keytable_text(line);

    free(line);
    key.c ^= (uint64_t)(library + 1) << 32;
    uint32_t at = keytable_number(&work->sites, key);
    if (at == sources->site_count)
        VEC_PUSH(sources->sites, sources->site_count, sources->site_room) = (struct sources_site){
                .library = library, .site = site, .pysite = pysite, .stack = stack};
    return at;
}

static struct move move_of(struct work *work, uint32_t stack, enum memclass memclass, uint64_t size)
{
    struct asker *asker = &work->askers[stack];

    if (!asker->is_known) {
        asker->library = library_of(work, stack);
        asker->site = sources_site_of(work, asker->library, stack);
        asker->row = sources_row_of(work, asker->library, memclass);
        asker->is_known = true;
    }
    if (work->sources->rows[asker->row].memclass != memclass)
        asker->row = sources_row_of(work, asker->library, memclass);
    return (struct move){.size = size, .row = asker->row, .stack = stack};
}

static bool sources_is_in_window(const struct work *work, uint32_t born)
{
    return born >= work->window.first && born < work->window.last;
}

static void sources_add_other(struct work *work, const struct load_other *other)
{
    struct move move;

    if (!sources_is_in_window(work, other->born))
        return;
    move = move_of(work, other->stack, other->memclass, other->size);
    move.at = other->born;
    move.is_birth = true;
    VEC_PUSH(work->others, work->other_count, work->other_room) = move;
    move.at = other->died;
    move.is_birth = false;
    if (other->died < work->window.last)
        VEC_PUSH(work->others, work->other_count, work->other_room) = move;
}

/* Deaths before births at the same moment: a block that reuses an address is not counted twice. */
static const struct vec_key sources_by_time[] = {
        VEC_UP(struct move, at), VEC_UP(struct move, is_birth)};

/* ---- in order ---- */

/* Position of a walk through the births and deaths of the window. */
struct cursor {
    uint32_t at;
    size_t other;
};

static bool has_block(const struct work *work, const struct trace_event *event)
{
    return (event->kind == TRACE_ALLOC || event->kind == TRACE_FREE) && event->block != TRACE_NONE
            && sources_is_in_window(work, work->load->trace->blocks[event->block].born);
}

/* The next move; false: there is none. */
static bool next_move(struct work *work, struct cursor *cursor, struct move *ret_move)
{
    const struct trace *trace = work->load->trace;

    for (; cursor->at < work->window.last; cursor->at++) {
        const struct trace_event *event = &trace->events[cursor->at];

        if (cursor->other < work->other_count && work->others[cursor->other].at == cursor->at) {
            *ret_move = work->others[cursor->other++];
            return true;
        }
        if (work->sources->by_places || !has_block(work, event))
            continue;
        const struct trace_block *block = &trace->blocks[event->block];
        *ret_move = move_of(work, block->stack, block->memclass, block->size);
        ret_move->is_birth = event->kind == TRACE_ALLOC;
        cursor->at++;
        return true;
    }
    return false;
}

static void sources_apply(struct sources_figures *figures, const struct move *move)
{
    if (!move->is_birth) {
        figures->live -= move->size;
        figures->live_count--;
        return;
    }
    figures->allocated += move->size;
    figures->allocated_count++;
    figures->live += move->size;
    figures->live_count++;
    figures->peak = max_of(figures->peak, figures->live);
}

static void apply_all(const struct work *work, const struct move *move)
{
    struct sources *sources = work->sources;
    const struct sources_row *row = &sources->rows[move->row];

    sources_apply(&sources->rows[move->row].figures, move);
    sources_apply(&sources->classes[row->memclass], move);
    sources_apply(&sources->sites[work->askers[move->stack].site].figures, move);
    if (row->memclass < MEMCLASS_DEVICE_END)
        sources_apply(&sources->libraries[row->library].figures, move);
    sources->count += move->is_birth;
    sources->without_stack += move->is_birth && move->stack == 0;
}

/* The number of births and deaths after which most device memory was live. */
static size_t find_max(struct work *work)
{
    const struct sources *sources = work->sources;
    struct cursor cursor = {.at = work->window.first};
    struct move move;
    uint64_t live = 0;
    uint64_t max = 0;
    size_t max_at = 0;

    for (size_t i = 1; next_move(work, &cursor, &move); i++) {
        if (sources->rows[move.row].memclass >= MEMCLASS_DEVICE_END)
            continue;
        live = move.is_birth ? live + move.size : live - move.size;
        if (live > max) {
            max = live;
            max_at = i;
        }
    }
    return max_at;
}

static void keep_max(struct sources *sources)
{
    for (size_t i = 0; i < sources->row_count; i++)
        sources->rows[i].figures.at_max = sources->rows[i].figures.live;
    for (size_t i = 0; i < sources->site_count; i++)
        sources->sites[i].figures.at_max = sources->sites[i].figures.live;
    for (size_t i = 0; i < sources->library_count; i++)
        sources->libraries[i].figures.at_max = sources->libraries[i].figures.live;
    for (size_t i = 0; i < MEMCLASS_COUNT; i++)
        sources->classes[i].at_max = sources->classes[i].live;
}

static void sources_play(struct work *work)
{
    struct cursor cursor = {.at = work->window.first};
    size_t max_at = find_max(work);
    bool is_more = true;
    struct move move;

    for (size_t i = 0; is_more; i++) {
        if (i == max_at && !work->sources->by_places)
            keep_max(work->sources);
        is_more = next_move(work, &cursor, &move);
        if (is_more)
            apply_all(work, &move);
    }
}

/* ---- sorted ---- */

static int by_weight(const struct sources_figures *a, const struct sources_figures *b)
{
    if (a->at_max != b->at_max)
        return a->at_max < b->at_max ? 1 : -1;
    if (a->peak != b->peak)
        return a->peak < b->peak ? 1 : -1;
    return (a->allocated < b->allocated) - (a->allocated > b->allocated);
}

struct ranked {
    struct sources_library library;
    uint32_t before;
};

static int compare_libraries(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;
    int order = by_weight(&a->library.figures, &b->library.figures);

    return order ? order : strcmp(a->library.name, b->library.name);
}

static const struct vec_key by_library_and_class[] = {
        VEC_UP(struct sources_row, library), VEC_UP(struct sources_row, memclass)};

static int sources_compare_sites(const void *left, const void *right)
{
    const struct sources_site *a = left;
    const struct sources_site *b = right;
    int order = by_weight(&a->figures, &b->figures);

    if (a->library != b->library)
        return a->library < b->library ? -1 : 1;
    return order ? order : strcmp(a->site, b->site);
}

static void sort_all(struct sources *sources)
{
    size_t count = sources->library_count;
    struct ranked *ranked = vec_new(count + 1, sizeof(*ranked));
    uint32_t *place = vec_new(count + 1, sizeof(*place));

    for (size_t i = 0; i < count; i++)
        ranked[i] = (struct ranked){sources->libraries[i], (uint32_t)i};
    VEC_SORT(ranked, count, compare_libraries);
    for (size_t i = 0; i < count; i++) {
        sources->libraries[i] = ranked[i].library;
        place[ranked[i].before] = (uint32_t)i;
    }
    for (size_t i = 0; i < sources->row_count; i++)
        sources->rows[i].library = place[sources->rows[i].library];
    for (size_t i = 0; i < sources->site_count; i++)
        sources->sites[i].library = place[sources->sites[i].library];
    VEC_SORT_BY(sources->rows, sources->row_count, by_library_and_class);
    VEC_SORT(sources->sites, sources->site_count, sources_compare_sites);
    free(place);
    free(ranked);
}

/* ---- if events are missing ---- */

static void sources_add_sums(struct sources_figures *figures, const struct read_place *what)
{
    figures->allocated += what->allocated_bytes;
    figures->allocated_count += what->allocated_count;
    figures->live += what->live_bytes;
    figures->live_count += what->live_count;
    figures->at_max += what->high_bytes;
    figures->peak = figures->places++ == 0 ? what->peak_bytes : UINT64_MAX;
}

static void take_classes(struct sources *sources, const struct read_capture *capture)
{
    for (unsigned i = 0; i < MEMCLASS_COUNT; i++) {
        const struct format_class *of = &capture->class_total[i];
        sources->classes[i] = (struct sources_figures){.allocated = of->allocated_bytes,
                .allocated_count = of->allocated_count,
                .live = of->live_bytes,
                .live_count = of->live_count,
                .peak = of->peak_bytes,
                .at_max = UINT64_MAX};
    }
}

static void sources_add_places(struct work *work)
{
    struct sources *sources = work->sources;

    sources->by_places = true;
    for (size_t i = 0; i < work->load->place_count; i++) {
        const struct load_place *place = &work->load->places[i];
        bool is_other = place->what->is_other;
        uint32_t library;

        if (place->what->allocated_count == 0)
            continue;
        library = is_other ? library_named(work, "(places that the run had no room for)")
                           : library_of(work, place->stack);
        sources_add_sums(&sources->libraries[library].figures, place->what);
        if (!is_other) {
            uint32_t site = sources_site_of(work, library, place->stack); /* may move the array */
            sources_add_sums(&sources->sites[site].figures, place->what);
        }
        sources->count += place->what->allocated_count;
        sources->without_stack += !is_other && place->stack == 0 ? place->what->allocated_count : 0;
    }
}

void sources_figure(const struct load *load, struct model_window window, struct symbols *symbols,
        struct sources *ret_sources)
{
    struct work work = {.load = load, .window = window, .symbols = symbols, .sources = ret_sources};

    *ret_sources = (struct sources){0};
    work.askers = vec_new(load->trace->stack_count, sizeof(*work.askers));
    if (figures_by_totals(load, window))
        sources_add_places(&work);
    for (size_t i = 0; i < load->other_count; i++)
        sources_add_other(&work, &load->others[i]);
    VEC_SORT_BY(work.others, work.other_count, sources_by_time);
    sources_play(&work);
    if (ret_sources->by_places)
        take_classes(ret_sources, load->capture);
    sort_all(ret_sources);
    keytable_done(&work.libraries);
    keytable_done(&work.rows);
    keytable_done(&work.sites);
    free(work.askers);
    free(work.others);
}

void sources_done(struct sources *sources)
{
    free(sources->libraries);
    free(sources->rows);
    free(sources->sites);
    *sources = (struct sources){0};
}

const char *sources_class_name(enum memclass memclass)
{
    static const char *const names[MEMCLASS_COUNT] = {
            [MEMCLASS_POOLED] = "pooled",
            [MEMCLASS_DRIVER] = "linear",
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

struct sources_overhead sources_overhead(const struct format_look *look)
{
    uint64_t known = look->held_bytes + look->native_bytes + look->graph_reserved;
    uint64_t used = look->total_bytes - look->free_bytes;

    if (look->looks == 0 || look->free_bytes > look->total_bytes)
        return (struct sources_overhead){0};
    if (known > used)
        return (struct sources_overhead){.is_known = true, .is_short = true};
    return (struct sources_overhead){.is_known = true, .bytes = used - known};
}
