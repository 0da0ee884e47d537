/* SPDX-License-Identifier: MIT */
#include "tools/steps/growth.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/filename.h"
#include "tools/base/keytable.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/symbols/title.h"

/* ── rounds ── */

/* "train/epoch_#" is an epoch. */
static char *noun_of(const char *family)
{
    const char *last = filename_of(family);
    size_t length = strlen(last);

    while (length && !isalnum((unsigned char)last[length - 1]))
        length--;
    return length ? vec_format("%.*s", (int)length, last) : vec_text("round");
}

static void begin_rounds(struct growth_rounds *rounds, char *noun, size_t room)
{
    *rounds = (struct growth_rounds){.behind = vec_new(room, sizeof(*rounds->behind)),
            .anchor = vec_new(room, sizeof(*rounds->anchor))};
    rounds->noun = noun;
}

static void rounds_done(struct growth_rounds *rounds)
{
    free(rounds->noun);
    free(rounds->behind);
    free(rounds->anchor);
}

static void add_round(const struct load *load, struct model_window window,
        struct growth_rounds *rounds, const struct stated_steps_span *span, bool is_last)
{
    bool is_open = span->anchor != TRACE_NONE && is_last
            && load->trace->anchors[span->anchor].exit == TRACE_NEVER;

    if (span->first < max_of(load->complete_from, window.first) || span->behind > window.last
            || is_open)
        return;
    rounds->behind[rounds->count] = span->behind;
    rounds->anchor[rounds->count++] = span->anchor;
}

/* Keeps the rounds if there are enough of them. */
static void keep_rounds(struct growth *growth)
{
    struct growth_rounds *rounds = &growth->rounds[growth->kind_count];

    if (rounds->count >= TREND_ROUNDS) {
        growth->kind_count++;
        return;
    }
    if (!growth->why)
        growth->why = vec_format("%u finished %s%s, and growth shows in %d", rounds->count,
                rounds->noun, render_s(rounds->count), TREND_ROUNDS);
    rounds_done(rounds);
}

static void stated_rounds(
        const struct load *load, struct model_window window, struct growth *growth)
{
    struct stated_steps stated[STATED_ROUNDS];
    size_t kinds = stated_steps_rounds(load->trace, stated);

    for (size_t i = 0; i < kinds; i++) {
        struct growth_rounds *rounds = &growth->rounds[growth->kind_count];
        begin_rounds(rounds, noun_of(stated[i].family), stated[i].count);
        for (size_t k = 0; k < stated[i].count; k++)
            add_round(load, window, rounds, &stated[i].spans[k], k + 1 == stated[i].count);
        keep_rounds(growth);
        stated_steps_done(&stated[i]);
    }
    if (kinds == 0)
        growth->why =
                vec_text("the program states no steps or other rounds: no anchors of one name "
                         "but for digits, one after another");
}

static void detected_rounds(const struct load *load, struct model_window window,
        const struct stepview *view, struct growth *growth)
{
    struct growth_rounds *rounds = &growth->rounds[0];

    begin_rounds(rounds, vec_text("step"), view->row_count);
    for (size_t i = 0; i < view->row_count; i++) {
        const struct stepview_row *row = &view->rows[i];
        add_round(load, window, rounds,
                &(struct stated_steps_span){row->first, row->behind, TRACE_NONE}, false);
    }
    keep_rounds(growth);
}

/* ── bytes of each site at their ends ── */

struct place {
    uint32_t stack;
    uint64_t size;
    uint64_t bytes, blocks, before; /* now; at the end of the round before */
    uint64_t at_last, at_end;       /* at the last allocation of all, and at the record's end */
    bool is_touched;                /* in this round */
};

struct places {
    struct place *at;
    size_t count, room;
    uint32_t *of;      /* per block */
    uint32_t *touched; /* in this round */
    size_t touched_count, touched_room;
    uint64_t all, *ends; /* bytes of all places: now; at the end of each round */
    struct trend_change *changes;
    uint32_t *changed; /* the place of each */
    size_t change_count, change_room, changed_count, changed_room;
};

static void growth_places(const struct trace *trace, struct places *places)
{
    struct keytable numbers = {0};
    uint32_t last = trace->block_count ? trace->blocks[trace->block_count - 1].born : 0;

    places->of = vec_new(trace->block_count, sizeof(*places->of));
    places->at = vec_new(1, sizeof(*places->at));
    places->room = 1;
    for (size_t i = 0; i < trace->block_count; i++) {
        const struct trace_block *block = &trace->blocks[i];
        uint64_t size = block->stack ? 0 : block->size;
        uint32_t number = keytable_number(&numbers, (struct key){block->stack, size, 0});
        if (number == places->count)
            VEC_PUSH(places->at, places->count, places->room) =
                    (struct place){.stack = block->stack, .size = size};
        places->of[i] = number;
        places->at[number].at_last += block->died > last ? block->size : 0;
        places->at[number].at_end += block->died == TRACE_NEVER ? block->size : 0;
    }
    keytable_done(&numbers);
}

static void growth_touch(struct places *places, uint32_t number, uint64_t size, bool is_alloc)
{
    struct place *place = &places->at[number];

    place->bytes += is_alloc ? size : 0 - size;
    places->all += is_alloc ? size : 0 - size;
    place->blocks += is_alloc ? 1 : UINT64_MAX;
    if (!place->is_touched)
        VEC_PUSH(places->touched, places->touched_count, places->touched_room) = number;
    place->is_touched = true;
}

static void growth_end_round(struct places *places, uint32_t round)
{
    for (size_t i = 0; i < places->touched_count; i++) {
        uint32_t number = places->touched[i];
        struct place *place = &places->at[number];
        place->is_touched = false;
        if (place->bytes == place->before)
            continue;
        place->before = place->bytes;
        VEC_PUSH(places->changes, places->change_count, places->change_room) =
                (struct trend_change){round, place->bytes, place->blocks};
        VEC_PUSH(places->changed, places->changed_count, places->changed_room) = number;
    }
    places->touched_count = 0;
    places->ends[round] = places->all;
}

static void collect_changes(
        const struct trace *trace, const struct growth_rounds *rounds, struct places *places)
{
    uint32_t event = 0;

    places->change_count = places->changed_count = 0;
    places->all = 0;
    for (size_t i = 0; i < places->count; i++)
        places->at[i].bytes = places->at[i].blocks = places->at[i].before = 0;
    for (uint32_t round = 0; round < rounds->count; round++) {
        for (; event < rounds->behind[round]; event++) {
            const struct trace_event *at = &trace->events[event];
            if (!trace_is_of_block(at))
                continue;
            uint64_t size = trace->blocks[at->block].size;
            growth_touch(places, places->of[at->block], size, at->kind == TRACE_ALLOC);
        }
        growth_end_round(places, round);
    }
}

/*
 * Whether a place rose once, and all places together hold no more now than before: what it gained,
 * others let go. The same memory is then asked for in another way.
 */
static bool is_only_moved(
        const struct places *places, uint32_t rounds, const struct trend_figures *is)
{
    return is->trend == TREND_UNKNOWN && is->rises == 1 && is->since > 0
            && places->ends[rounds - 1] <= places->ends[is->since - 1];
}

/* The figures of each place; the caller frees them. */
static struct trend_figures *judge_places(
        const struct trace *trace, const struct growth_rounds *rounds, struct places *places)
{
    struct trend_figures *figures = vec_new(places->count, sizeof(*figures));
    struct trend_change *own = vec_new(rounds->count, sizeof(*own));

    places->ends = vec_new(rounds->count, sizeof(*places->ends));
    collect_changes(trace, rounds, places);
    struct vec_lists lists = vec_lists_new(places->changed, places->change_count, places->count);
    for (size_t i = 0; i < places->count; i++) {
        size_t count = lists.first[i + 1] - lists.first[i];
        for (size_t k = 0; k < count; k++)
            own[k] = places->changes[lists.at[lists.first[i] + k]];
        figures[i] = trend_of(own, count, rounds->count);
        if (is_only_moved(places, rounds->count, &figures[i]))
            figures[i].trend = TREND_STEADY;
    }
    vec_lists_done(&lists);
    free(places->ends);
    free(own);
    return figures;
}

/* ── verdicts ── */

static bool rises_in_each(const struct growth *growth, const struct growth_site *site)
{
    return site->is.rises + 1 == growth->rounds[site->kind].count;
}

/*
 * Another kind of rounds may see the site grow. What the steps do not see is held in a phase only
 * if the program freed it and allocated again; after its last allocation it may have been exiting.
 */
static void join_kind(const struct growth *growth, const struct place *place,
        const struct trend_figures *is, uint32_t kind, struct growth_site *io_site)
{
    struct growth_site seen = {io_site->stack, kind, io_site->size, *is};
    bool is_seen_by_steps = io_site->is.trend < TREND_FILLED;

    if (is->trend != TREND_GROWS || !is->adds_blocks
            || (!is_seen_by_steps && place->at_last < is->last))
        return;
    if (!is_seen_by_steps && place->at_end < is->last)
        seen.is.trend = TREND_UNKNOWN;
    if (io_site->is.trend != TREND_GROWS
            || (rises_in_each(growth, &seen) && !rises_in_each(growth, io_site)))
        *io_site = seen;
}

static int by_growth(const void *a, const void *b)
{
    const struct growth_site *x = a;
    const struct growth_site *y = b;

    return vec_order(x->is.trend, y->is.trend,
            vec_order(y->is.last - y->is.first, x->is.last - x->is.first,
                    vec_order(x->stack, y->stack, vec_order(x->size, y->size, 0))));
}

static void judge(const struct trace *trace, struct growth *growth)
{
    struct trend_figures *figures[STATED_ROUNDS];
    struct places places = {0};

    growth_places(trace, &places);
    for (size_t kind = 0; kind < growth->kind_count; kind++)
        figures[kind] = judge_places(trace, &growth->rounds[kind], &places);
    for (size_t i = 0; i < places.count; i++) {
        const struct place *place = &places.at[i];
        struct growth_site site = {place->stack, 0, place->size, figures[0][i]};
        for (uint32_t kind = 1; kind < growth->kind_count; kind++)
            join_kind(growth, place, &figures[kind][i], kind, &site);
        growth->last += figures[0][i].last;
        growth->counts[site.is.trend]++;
        if (site.is.trend != TREND_STEADY)
            VEC_PUSH(growth->sites, growth->site_count, growth->site_room) = site;
    }
    VEC_SORT(growth->sites, growth->site_count, by_growth);
    for (size_t kind = 0; kind < growth->kind_count; kind++)
        free(figures[kind]);
    free(places.at);
    free(places.of);
    free(places.touched);
    free(places.changes);
    free(places.changed);
}

void growth_find(const struct load *load, struct model_window window, const struct stepview *view,
        struct growth *ret)
{
    *ret = (struct growth){0};
    stated_rounds(load, window, ret);
    if (ret->kind_count == 0 && view && view->period.kind == PERIOD_STEPS)
        detected_rounds(load, window, view, ret);
    if (ret->kind_count == 0)
        return;
    free(ret->why);
    ret->why = NULL;
    judge(load->trace, ret);
}

/* "evaluate train.py:41, Linear.forward linear.py:134" is of the line 41. */
static void cut_to_line(char *title)
{
    for (char *at = strstr(title, ", "); at; at = strstr(at + 1, ", ")) {
        if (at > title && isdigit((unsigned char)at[-1])) {
            *at = '\0';
            return;
        }
    }
}

void growth_join(struct growth *growth, struct symbols *symbols)
{
    size_t count = growth->counts[TREND_GROWS], kept = 0;
    char **titles = title_rows(symbols, TITLE_STACKS(growth->sites), count);
    struct keytable numbers = {0};

    for (size_t i = 0; i < count; i++) {
        struct growth_site site = growth->sites[i];
        cut_to_line(titles[i]);
        char *text = vec_format("%u %u %s", site.kind, site.is.rises, titles[i]);
        struct key key = site.stack ? keytable_text(text) : (struct key){site.size, 0, 0};
        uint32_t at = keytable_number(&numbers, key);
        if (at == kept) {
            growth->sites[kept++] = site;
        } else {
            growth->sites[at].is.first += site.is.first;
            growth->sites[at].is.last += site.is.last;
        }
        free(text);
    }
    keytable_done(&numbers);
    title_done(titles, count);
    for (size_t i = count; i < growth->site_count; i++)
        growth->sites[i - count + kept] = growth->sites[i];
    growth->site_count -= count - kept;
    growth->counts[TREND_GROWS] = kept;
    VEC_SORT(growth->sites, growth->site_count, by_growth);
}

void growth_done(struct growth *growth)
{
    for (size_t i = 0; i < growth->kind_count; i++)
        rounds_done(&growth->rounds[i]);
    free(growth->sites);
    free(growth->why);
    *growth = (struct growth){0};
}

const struct growth_site *growth_first(const struct growth *growth, enum trend trend)
{
    size_t at = 0;

    for (enum trend before = TREND_GROWS; before < trend; before++)
        at += growth->counts[before];
    return growth->counts[trend] ? &growth->sites[at] : NULL;
}

char *growth_text(const struct growth *growth, const struct growth_site *site)
{
    const struct growth_rounds *rounds = &growth->rounds[site->kind];
    uint64_t gain = site->is.last - site->is.first;

    if (site->is.trend == TREND_GROWS && rises_in_each(growth, site))
        return vec_format("+%s %s %s", render_bytes(gain / site->is.rises).text,
                strchr("aeiouAEIOU", *rounds->noun) ? "an" : "a", rounds->noun);
    size_t length = strlen(rounds->noun);
    bool is_batch = length > 3 && strcmp(rounds->noun + length - 3, "tch") == 0;
    char *rest = vec_format(", not in the last %u", site->is.rest);
    char *text = vec_format("+%s in %u of %u %s%s%s", render_bytes(gain).text, site->is.rises,
            rounds->count - 1, rounds->noun, is_batch ? "es" : "s",
            site->is.trend == TREND_FILLED ? rest : "");
    free(rest);
    return text;
}
