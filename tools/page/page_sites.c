/* SPDX-License-Identifier: MIT */
#include "tools/page/page_parts.h"

#include <stdlib.h>

#include "tools/base/vec.h"

/* ---- bytes of each stack ---- */

static void page_sites_add_sums(struct page_sums *to, const struct page_sums *more)
{
    trace_sum_join(&to->allocated, more->allocated);
    for (unsigned i = 0; i < PAGE_MOMENTS; i++)
        trace_sum_join(&to->at[i], more->at[i]);
}

static bool page_sites_is_in_window(const struct page *page, const struct trace_block *block)
{
    return block->born >= page->report->window.first && block->born < page->report->window.last;
}

/*
 * Only the window's blocks; but for a failure all blocks of its device, whenever they were
 * allocated.
 */
static bool is_weighed_at(
        const struct page *page, const struct trace_block *block, enum page_moment moment)
{
    uint32_t at = page->moment[moment];

    if (at == TRACE_NEVER || block->born >= at || block->died < at)
        return false;
    return moment == PAGE_FAILURE ? block->device == page->failed_device
                                  : page_sites_is_in_window(page, block);
}

static void weigh_blocks(struct page *page)
{
    const struct trace *trace = page->report->load.trace;

    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        struct page_sums *sums = &page->stacks[block->stack];

        if (page_sites_is_in_window(page, block))
            trace_sum_add(&sums->allocated, block->size);
        for (unsigned k = 0; k < PAGE_MOMENTS; k++)
            if (is_weighed_at(page, block, (enum page_moment)k))
                trace_sum_add(&sums->at[k], block->size);
    }
}

static struct page_sums sums_of_place(const struct read_place *place)
{
    return (struct page_sums){.allocated = {place->allocated_count, place->allocated_bytes},
            .at = {[PAGE_PEAK] = {place->high_count, place->high_bytes},
                    [PAGE_END] = {place->live_count, place->live_bytes}}};
}

static void weigh_places(struct page *page)
{
    const struct load *load = &page->report->load;

    for (size_t i = 0; i < load->place_count; i++) {
        struct page_sums sums = sums_of_place(load->places[i].what);

        if (!load->places[i].what->is_other)
            page_sites_add_sums(&page->stacks[load->places[i].stack], &sums);
    }
}

/* ---- choosing the rows ---- */

struct heavy {
    uint64_t most, allocated;
    uint32_t stack;
};

static const struct vec_key heavier_first[] = {VEC_DOWN(struct heavy, most),
        VEC_DOWN(struct heavy, allocated), VEC_UP(struct heavy, stack)};

/* The stacks with most bytes at any of the moments; the caller frees the array. */
static struct heavy *heaviest_stacks(const struct page *page, size_t *ret_count)
{
    struct heavy *list = NULL;
    size_t count = 0;
    size_t room = 0;

    for (size_t i = 0; i < page->report->load.trace->stack_count; i++) {
        const struct page_sums *sums = &page->stacks[i];
        struct heavy heavy = {.allocated = sums->allocated.bytes, .stack = (uint32_t)i};

        for (unsigned k = 0; k < PAGE_MOMENTS; k++)
            heavy.most = max_of(heavy.most, sums->at[k].bytes);
        if (sums->allocated.count || heavy.most)
            VEC_PUSH(list, count, room) = heavy;
    }
    VEC_SORT_BY(list, count, heavier_first);
    *ret_count = count < PAGE_STACKS ? count : PAGE_STACKS;
    return list;
}

/* Stacks of one way are one site; the site's number is its index until the sites are sorted. */
static void group_stacks(struct page *page)
{
    struct page_sites *sites = &page->sites;
    struct keytable ways = {0};
    size_t count;
    struct heavy *stacks = heaviest_stacks(page, &count);
    char **names = title_ways(page->report->symbols, TITLE_STACKS(stacks), count);

    for (size_t i = 0; i < count; i++) {
        uint32_t at = keytable_number(&ways, keytable_text(names[i]));

        if (at == sites->count)
            VEC_PUSH(sites->list, sites->count, sites->room) =
                    (struct page_site){.name = vec_text(names[i]), .stack = stacks[i].stack};
        page_sites_add_sums(&sites->list[at].sums, &page->stacks[stacks[i].stack]);
        sites->of_stack[stacks[i].stack] = at;
    }
    title_done(names, count);
    keytable_done(&ways);
    free(stacks);
}

/* ---- sorting, and the sum of the others ---- */

struct ranked {
    struct page_site site;
    uint32_t before;
};

static const struct vec_key more_first[] = {VEC_DOWN(struct ranked, site.sums.at[PAGE_PEAK].bytes),
        VEC_DOWN(struct ranked, site.sums.at[PAGE_FAILURE].bytes),
        VEC_DOWN(struct ranked, site.sums.at[PAGE_END].bytes),
        VEC_DOWN(struct ranked, site.sums.allocated.bytes), VEC_UP(struct ranked, before)};

/* New index of each site: its own, or that of the others. */
static uint32_t *sort_sites(struct page_sites *sites)
{
    struct ranked *ranked = vec_new(sites->count, sizeof(*ranked));
    uint32_t *place = vec_new(sites->count, sizeof(*place));
    size_t kept = sites->count < PAGE_SITES ? sites->count : PAGE_SITES;

    for (size_t i = 0; i < sites->count; i++)
        ranked[i] = (struct ranked){sites->list[i], (uint32_t)i};
    VEC_SORT_BY(ranked, sites->count, more_first);
    for (size_t i = 0; i < sites->count; i++) {
        sites->list[i] = ranked[i].site;
        place[ranked[i].before] = (uint32_t)(i < kept ? i : kept);
    }
    for (size_t i = kept; i < sites->count; i++)
        free(sites->list[i].name);
    sites->count = kept;
    free(ranked);
    return place;
}

static void add_others(struct page *page)
{
    const struct load *load = &page->report->load;
    struct page_sites *sites = &page->sites;
    uint32_t *place = sort_sites(sites);
    uint32_t others = (uint32_t)sites->count;

    VEC_PUSH(sites->list, sites->count, sites->room) =
            (struct page_site){.name = vec_text("(all other call sites)")};
    for (size_t i = 0; i < load->trace->stack_count; i++) {
        uint32_t *at = &sites->of_stack[i];

        *at = *at == TRACE_NONE ? others : place[*at];
        if (*at == others)
            page_sites_add_sums(&sites->list[others].sums, &page->stacks[i]);
    }
    for (size_t i = 0; page->by_places && i < load->place_count; i++) {
        struct page_sums sums = sums_of_place(load->places[i].what);

        if (load->places[i].what->is_other)
            page_sites_add_sums(&sites->list[others].sums, &sums);
    }
    free(place);
}

/* The maximum of live bytes of each site's blocks of the window. */
static void find_most(struct page *page)
{
    const struct trace *trace = page->report->load.trace;
    struct model_window window = page->report->window;
    struct page_sites *sites = &page->sites;
    uint64_t *live = vec_new(sites->count, sizeof(*live));

    for (uint32_t at = window.first; at < window.last; at++) {
        const struct trace_event *event = &trace->events[at];
        bool is_birth = event->kind == TRACE_ALLOC;

        if (!is_birth && (event->kind != TRACE_FREE || event->block == TRACE_NONE))
            continue;
        const struct trace_block *block = &trace->blocks[event->block];
        uint32_t site = sites->of_stack[block->stack];
        if (block->born < window.first)
            continue;
        live[site] = is_birth ? live[site] + block->size : live[site] - block->size;
        sites->list[site].most = max_of(sites->list[site].most, live[site]);
    }
    free(live);
}

void page_sites_find(struct page *page)
{
    size_t stacks = page->report->load.trace->stack_count;

    page->stacks = vec_new(stacks, sizeof(*page->stacks));
    page->sites.of_stack = vec_new(stacks, sizeof(*page->sites.of_stack));
    for (size_t i = 0; i < stacks; i++)
        page->sites.of_stack[i] = TRACE_NONE;
    if (page->by_places)
        weigh_places(page);
    else
        weigh_blocks(page);
    group_stacks(page);
    add_others(page);
    if (!page->by_places)
        find_most(page);
}

void page_sites_done(struct page *page)
{
    for (size_t i = 0; i < page->sites.count; i++)
        free(page->sites.list[i].name);
    free(page->sites.list);
    free(page->sites.of_stack);
    free(page->stacks);
}

/* ---- JSON ---- */

static void json_site(struct page *page, const struct page_site *site, bool is_others)
{
    struct json *json = &page->json;

    json_begin(json, NULL, '{');
    json_text(json, "title", site->name);
    json_text(json, "library", is_others ? "" : symbols_owner(page->report->symbols, site->stack));
    for (unsigned i = 0; i < PAGE_MOMENTS; i++)
        if (page_has(page, (enum page_moment)i))
            page_json_sum(json, page_moment_key((enum page_moment)i), site->sums.at[i]);
    json_known(json, "most", page->by_places ? UINT64_MAX : site->most);
    page_json_sum(json, "allocated", site->sums.allocated);
    if (!is_others)
        figures_json_stack(json, page->report->symbols, site->stack, "stack");
    json_end(json, '}');
}

void page_sites_json(struct page *page)
{
    const struct page_sites *sites = &page->sites;

    json_begin(&page->json, "call_sites", '[');
    for (size_t i = 0; i < sites->count; i++) {
        bool is_others = i + 1 == sites->count;

        json_site(page, &sites->list[i], is_others);
    }
    json_end(&page->json, ']');
}
