/* SPDX-License-Identifier: MIT */
#include "tools/steps/growth.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/filename.h"
#include "tools/base/keytable.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/steps/larger.h"
#include "tools/steps/places.h"
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

static void begin_rounds(const struct load *load, struct model_window window,
        struct growth_rounds *rounds, char *noun, size_t room)
{
    *rounds = (struct growth_rounds){.behind = vec_new(room, sizeof(*rounds->behind)),
            .anchor = vec_new(room, sizeof(*rounds->anchor)),
            .end = (uint32_t)min_of(window.last, load->trace->event_count)};
    rounds->noun = noun;
}

static void rounds_done(struct growth_rounds *rounds)
{
    free(rounds->noun);
    free(rounds->behind);
    free(rounds->anchor);
}

/* The last request that failed in a round; 0: none did. */
static uint32_t failure_in(const struct load *load, const struct stated_steps_span *span)
{
    uint32_t at = 0;

    for (size_t i = 0; i < load->oom_count; i++)
        if (load->ooms[i].at > span->first && load->ooms[i].at < span->behind)
            at = load->ooms[i].at;
    return at;
}

static void add_round(const struct load *load, struct model_window window,
        struct growth_rounds *rounds, const struct stated_steps_span *span, bool is_last)
{
    bool is_open = span->anchor != TRACE_NONE && is_last
            && load->trace->anchors[span->anchor].exit == TRACE_NEVER;

    if (span->first < max_of(load->complete_from, window.first) || span->behind > window.last)
        return;
    if (is_last)
        rounds->failure = failure_in(load, span);
    if (is_open || rounds->failure)
        return; /* it did not come to its end */
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
        begin_rounds(load, window, rounds, noun_of(stated[i].family), stated[i].count);
        rounds->is_steps = stated_steps_says_step(stated[i].family);
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

    begin_rounds(load, window, rounds, vec_text("step"), view->row_count);
    rounds->is_steps = true;
    for (size_t i = 0; i < view->row_count; i++) {
        const struct stepview_row *row = &view->rows[i];
        add_round(load, window, rounds,
                &(struct stated_steps_span){row->first, row->behind, TRACE_NONE}, false);
    }
    keep_rounds(growth);
}

/* ── the trend of each site ── */

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

/* What may grow is judged again with the round that ended in a failure. */
static struct trend_figures judge_at_failure(const struct place *place, uint32_t rounds,
        struct trend_change *changes, size_t count, const struct trend_figures *is)
{
    if (!places_keep(place, rounds, &changes[count]))
        return *is;
    struct trend_figures more = trend_of(changes, count + 1, rounds + 1);
    return more.trend == TREND_GROWS ? more : *is;
}

/* What may grow is judged again if the run went on behind the rounds, and it rested. */
static struct trend_figures judge_beyond(const struct places *places, const struct place *place,
        uint32_t rounds, struct trend_change *changes, size_t count, const struct trend_figures *is)
{
    if (!places->beyond || !places_rest(place))
        return *is;
    struct trend_figures more = trend_of(changes, count, rounds + places->beyond);
    if (more.trend != TREND_FILLED)
        return *is;
    more.rounds = rounds;
    more.beyond = places->beyond;
    return more;
}

/* The trend of one place by its changes, which have room for one more. */
static struct trend_figures judge_place(const struct places *places, size_t number,
        const struct growth_rounds *rounds, struct trend_change *changes, size_t count)
{
    const struct place *place = &places->at[number];
    struct trend_figures is = trend_of(changes, count, rounds->count);

    if (is_only_moved(places, rounds->count, &is))
        is.trend = TREND_STEADY;
    if (is.trend != TREND_UNKNOWN)
        return is;
    return rounds->failure ? judge_at_failure(place, rounds->count, changes, count, &is)
                           : judge_beyond(places, place, rounds->count, changes, count, &is);
}

/* The figures of each place; the caller frees them. */
static struct trend_figures *judge_places(
        const struct trace *trace, const struct growth_rounds *rounds, struct places *places)
{
    struct trend_figures *figures = vec_new(places->count, sizeof(*figures));
    struct trend_change *own = vec_new(rounds->count + 1, sizeof(*own));

    places_follow(trace, rounds->behind, rounds->count,
            rounds->failure ? rounds->failure : rounds->end, places);
    struct vec_lists lists = vec_lists_new(places->changed, places->change_count, places->count);
    for (size_t i = 0; i < places->count; i++) {
        size_t count = lists.first[i + 1] - lists.first[i];
        for (size_t k = 0; k < count; k++)
            own[k] = places->changes[lists.at[lists.first[i] + k]];
        figures[i] = judge_place(places, i, rounds, own, count);
    }
    larger_judge(
            &(struct larger_run){trace, places->of, places->count, rounds->behind, rounds->count},
            places->changes, &lists, figures);
    vec_lists_done(&lists);
    free(own);
    return figures;
}

/* ── verdicts ── */

/* Whether the rounds of one kind tell a trend better: it gains in each of them. */
static bool is_told_better(const struct trend_figures *is, const struct trend_figures *than)
{
    return is->gains.period == 1 && than->gains.period != 1;
}

/*
 * Another kind of rounds may see the site grow. What the steps do not see is held in a phase only
 * if the program freed it and allocated again; after its last allocation it may have been exiting.
 */
static void join_kind(const struct place *place, const struct trend_figures *is, uint32_t kind,
        struct growth_site *io_site)
{
    struct growth_site seen = {io_site->stack, kind, io_site->size, *is};
    bool is_seen_by_steps = io_site->is.trend < TREND_FILLED;

    if (is->trend != TREND_GROWS || !is->adds_blocks
            || (!is_seen_by_steps && place->at_last < is->last))
        return;
    if (!is_seen_by_steps && place->at_end < is->last) {
        seen.is.trend = TREND_UNKNOWN;
        seen.is.why = TREND_PASSING;
    }
    if (io_site->is.trend != TREND_GROWS || is_told_better(is, &io_site->is))
        *io_site = seen;
}

/* Whether most of what it gained was freed before the run's last allocation. */
static bool is_given_back(const struct place *place, const struct trend_figures *is)
{
    return is->trend == TREND_GROWS
            && excess_of(place->at_last, is->first) < (is->last - is->first) / 2;
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
    struct trend_figures *figures[STATED_ROUNDS] = {NULL};
    struct places places;

    growth->alike = places_alike(trace);
    places_begin(trace, growth->alike, &places);
    for (size_t kind = 0; kind < growth->kind_count; kind++)
        figures[kind] = judge_places(trace, &growth->rounds[kind], &places);
    for (size_t i = 0; i < places.count; i++) {
        const struct place *place = &places.at[i];
        struct growth_site site = {place->stack, 0, place->size, figures[0][i]};
        if (!growth->rounds[0].is_steps && is_given_back(place, &site.is)) {
            site.is.trend = TREND_UNKNOWN;
            site.is.why = TREND_RESULTS;
        }
        for (uint32_t kind = 1; kind < growth->kind_count; kind++)
            join_kind(place, &figures[kind][i], kind, &site);
        growth->last += figures[0][i].last;
        growth->counts[site.is.trend]++;
        if (site.is.trend != TREND_STEADY)
            VEC_PUSH(growth->sites, growth->site_count, growth->site_room) = site;
    }
    VEC_SORT(growth->sites, growth->site_count, by_growth);
    for (size_t kind = 0; kind < growth->kind_count; kind++)
        free(figures[kind]);
    places_done(&places);
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
        uint32_t when = site.is.gains.period ? site.is.gains.period : site.is.rises;
        char *text = vec_format("%u %u %u %s", site.kind, site.is.gains.period, when, titles[i]);
        struct key key = site.stack ? keytable_text(text) : (struct key){site.size, 0, 0};
        uint32_t at = keytable_number(&numbers, key);
        if (at == kept) {
            growth->sites[kept++] = site;
        } else {
            trend_join(&growth->sites[at].is, &site.is);
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
    free(growth->alike);
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

bool growth_is_one(const struct growth_site *site, const struct growth_site *other)
{
    uint32_t period = site->is.gains.period;

    return site->kind == other->kind && period == other->is.gains.period
            && (period || site->is.rises == other->is.rises);
}

/* Whether it gains more and more, which the mean would hide. */
static bool growth_swells(const struct trend_figures *is)
{
    return is->gains.period && is->first_rise && is->last_rise >= 2 * is->first_rise;
}

/* Whether it is told by its gain after so many rounds: else by all that it gained. */
static bool growth_is_regular(const struct growth_site *site)
{
    const struct trend_figures *is = &site->is;

    return is->trend == TREND_GROWS
            && (is->gains.period || is->falls || 4 * is->rises >= 3 * (is->rounds - is->since));
}

uint64_t growth_bytes(const struct growth_site *site)
{
    const struct trend_figures *is = &site->is;

    if (is->trend == TREND_GROWS && growth_swells(is))
        return is->last_rise;
    if (!growth_is_regular(site))
        return is->last - is->first;
    return is->gains.period ? (uint64_t)is->gains.each
                            : (is->last - is->first) / (is->rounds - is->since);
}

static const char *article_of(const char *noun)
{
    return strchr("aeiouAEIOU", *noun) ? "an" : "a";
}

/* "steps", "batches"; the caller frees it. */
static char *nouns_of(const char *noun)
{
    size_t length = strlen(noun);
    bool is_batch = length > 3 && strcmp(noun + length - 3, "tch") == 0;

    return vec_format("%s%s", noun, is_batch ? "es" : "s");
}

/* How often it gains what growth_bytes says, and in which rounds; the caller frees it. */
static char *when_text(const struct growth *growth, const struct growth_site *site)
{
    const char *noun = growth->rounds[site->kind].noun;
    const struct trend_figures *is = &site->is;
    char *nouns = nouns_of(noun);
    char *text;

    if (growth_is_regular(site) && is->gains.period <= 1)
        text = vec_format("%s %s", article_of(noun), noun);
    else if (growth_is_regular(site))
        text = vec_format("every %u %s", is->gains.period, nouns);
    else
        text = vec_format("in %u of %u %s", is->rises, is->rounds - 1, nouns);
    free(nouns);
    return text;
}

char *growth_text(const struct growth *growth, const struct growth_site *site)
{
    const struct trend_figures *is = &site->is;
    bool is_mean = growth_is_regular(site) && !growth_swells(is)
            && (!is->gains.period || is->gains.is_mean);
    char *when = when_text(growth, site);
    char *more = vec_text("");

    if (is->trend == TREND_FILLED && is->beyond) {
        free(more);
        more = vec_format(", not in the time of %u more", is->beyond);
    } else if (is->trend == TREND_FILLED) {
        free(more);
        more = vec_format(", not in the last %u", is->rest);
    } else if (is->trend == TREND_GROWS && growth_swells(is)) {
        free(more);
        more = vec_format(" in the end, +%s in the beginning", render_bytes(is->first_rise).text);
    } else if (growth_is_regular(site) && is->since > 1 && is->since >= 2 * is->gains.period) {
        free(more);
        more = vec_format(" in the last %u of %u", is->rounds - is->since, is->rounds);
    }
    char *text = vec_format("%s+%s %s%s", is_mean ? "about " : "",
            render_bytes(growth_bytes(site)).text, when, more);
    free(when);
    free(more);
    return text;
}
