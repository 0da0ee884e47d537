/* SPDX-License-Identifier: MIT */
#include "tools/period.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/alike.h"
#include "tools/cuts.h"
#include "tools/grams.h"
#include "tools/render.h"
#include "tools/vec.h"

enum {
    ALLOCS_MIN = 9, /* three times three: of less everything repeats */
    GUESSES = 24,
    REPETITIONS_MIN = 3, /* where they need not be exact */
    /* Of all that lives at once, one in so many may live across the cuts of a step: a loader's batch, a free that comes late. */
    REST_OF = 16,
    /* To a step that is told by its parts: more than the heads or experts of a layer often are. */
    PARTS_MIN = 6,
    /* What is once in a coarser step is more than one in so many, else it is somebody's log. */
    OWN_OF = 32,
    /* The first repetition is at most so many times as long as the others. */
    LONGER_MOST = 4,
};

/* What is neither set up once nor made of the same allocations is a third at most, else a loop within one step would do. */
#define COVERED 0.65
/* Forward and backward are two loops of layers, and neither may have all of a step. */
#define COVERED_BY_PARTS 0.25

/* More than half of what is not so by chance. */
static bool is_like(double likeness, double chance)
{
    return likeness - chance > (1 - chance) / 2;
}

static bool is_even(const struct cuts *cuts)
{
    const struct grams_guess *guess = cuts->guess;
    uint32_t even = 0;

    for (uint32_t i = 1; i < guess->count; i++)
        even += cuts_is_about(guess->at[i] - guess->at[i - 1], cuts->length);
    return 2 * even >= guess->count - 1;
}

/* ── judging a guess ── */

/*
 * How much of the sequence is inside. What is set up before the first one and stays says nothing. Nor does what is made of the same
 * allocations, for `share`: an evaluation, or at an end what a recording that began late or ended early has of one.
 */
static void cover(struct cuts *cuts)
{
    const struct cuts_sequence *sequence = cuts->sequence;
    struct period *period = &cuts->period;
    bool *known = vec_new(sequence->kinds, sizeof(*known));
    uint64_t inside = 0;
    uint64_t beside = 0;
    uint64_t strange = 0;
    uint32_t at = 0;

    for (uint32_t i = 0; i < period->span_count; i++) {
        inside += period->spans[i].behind - period->spans[i].first;
        if (!is_like(period->spans[i].likeness, period->chance))
            continue;
        for (uint32_t k = period->spans[i].first; k < period->spans[i].behind; k++)
            known[sequence->symbols[k]] = true;
    }
    for (uint32_t i = 0; i <= period->span_count; i++) {
        uint32_t begin = at;
        uint32_t end = i < period->span_count ? period->spans[i].first : sequence->count;
        for (; at < end; at++) {
            bool is_far = (i == 0 && at + cuts->length < end)
                    || (i == period->span_count && at >= begin + cuts->length);
            if (i == 0 && sequence->allocs[at].dies >= sequence->count)
                continue;
            beside++;
            strange += is_far || !known[sequence->symbols[at]];
        }
        if (i < period->span_count)
            at = period->spans[i].behind;
    }
    free(known);
    period->share = (double)inside / (double)(inside + strange);
    period->fit = (period->likeness - period->chance) / (1 - period->chance) * (double)inside
            / (double)(inside + beside);
}

/* At an end: what a recording has of one that it did not see whole, half of it at least. */
static bool is_rest(const struct cuts *cuts, const struct period_span *span)
{
    uint32_t length = span->behind - span->first;
    bool holds = false;

    if (span->first > 0 && span->behind < cuts->sequence->count)
        return false;
    for (uint32_t i = span->first; i < span->behind; i++)
        holds = holds || cuts->sequence->allocs[i].dies == PERIOD_NEVER;
    if ((span->first > 0 && !holds) || length >= cuts->length || 2 * length < cuts->length)
        return false;
    return is_like(span->likeness * cuts->length / length, cuts->period.chance);
}

/* Only what is like the others stays. Returns how many of that are whole. */
static uint32_t drop_unlike(struct cuts *cuts)
{
    struct period *period = &cuts->period;
    uint32_t kept = 0;
    uint32_t rests = 0;
    double sum = 0;

    for (uint32_t i = 0; i < period->span_count; i++) {
        struct period_span span = period->spans[i];
        bool is_whole = is_like(span.likeness, period->chance);
        if (!is_whole && !is_rest(cuts, &span))
            continue;
        rests += !is_whole;
        period->spans[kept++] = span;
        sum += span.likeness;
    }
    period->span_count = kept;
    period->likeness = kept ? sum / kept : 0;
    return kept - rests;
}

/* One that has what the others have and more: it sets something up, or tries things out. */
static void add_first(struct cuts *cuts, const struct period_span *typical)
{
    struct period *period = &cuts->period;
    uint32_t first = period->spans[0].first;
    uint64_t reach = (uint64_t)LONGER_MOST * cuts->length;
    uint32_t found =
            alike_find_larger(cuts, typical, first > reach ? first - (uint32_t)reach : 0, first);

    if (found == UINT32_MAX)
        return;
    memmove(period->spans + 1, period->spans, period->span_count * sizeof(*period->spans));
    period->spans[0] = (struct period_span){.first = found, .behind = first, .is_guessed = true};
    period->spans[0].likeness = alike_of(cuts, typical, &period->spans[0]);
    period->span_count++;
}

/* One follows the other: what comes after each of them is a piece of it. An evaluation does not, and what comes once. */
static bool follow_on(const struct cuts *cuts)
{
    const struct period *period = &cuts->period;
    uint32_t close = 0;

    for (uint32_t i = 1; i < period->span_count; i++)
        close += period->spans[i].first - period->spans[i - 1].behind <= cuts->length / REST_OF;
    return 2 * close >= period->span_count - 1;
}

/* Most of what they make they free, or the next ones do. What only makes is set up. */
static bool free_most(const struct cuts *cuts)
{
    const struct period *period = &cuts->period;
    uint32_t inside = 0;
    uint32_t freed = 0;

    for (uint32_t i = 0; i + 1 < period->span_count; i++) {
        for (uint32_t k = period->spans[i].first; k < period->spans[i].behind; k++) {
            inside++;
            freed += cuts->sequence->allocs[k].dies <= period->spans[i + 1].behind;
        }
    }
    return 2 * freed >= inside;
}

/* What most repetitions need, and what three in four hand on at most. */
static void weigh(struct cuts *cuts)
{
    struct period *period = &cuts->period;
    uint64_t *bytes = vec_new(period->span_count, sizeof(*bytes));
    uint64_t *blocks = vec_new(period->span_count, sizeof(*blocks));

    for (uint32_t i = 0; i < period->span_count; i++) {
        for (uint32_t k = period->spans[i].first; k < period->spans[i].behind; k++) {
            bytes[i] = cuts->across[k] > bytes[i] ? cuts->across[k] : bytes[i];
            blocks[i] = cuts->blocks[k] > blocks[i] ? cuts->blocks[k] : blocks[i];
        }
    }
    period->peak = cuts_quantile(bytes, period->span_count, 2);
    uint64_t most = cuts_quantile(blocks, period->span_count, 2);
    for (uint32_t i = 1; i < period->span_count; i++) {
        bytes[i - 1] = cuts->across[period->spans[i].first];
        blocks[i - 1] = cuts->blocks[period->spans[i].first];
    }
    period->handed_on = cuts_quantile(bytes, period->span_count - 1, 3);
    period->rests = period->handed_on <= period->peak / REST_OF
            && cuts_quantile(blocks, period->span_count - 1, 3) <= most / REST_OF;
    free(bytes);
    free(blocks);
}

/* So many things that were made before a repetition live through all of it and die later: in more than a fourth of them. */
static uint32_t count_through(const struct cuts *cuts)
{
    const struct period *period = &cuts->period;
    const struct period_span *spans = period->spans;
    uint32_t last = period->span_count - 1;
    uint64_t *through = vec_new((size_t)last + 1, sizeof(*through));
    uint32_t next = 0;

    for (uint32_t i = spans[0].first; i < spans[last].first; i++) {
        while (spans[next].first <= i)
            next++;
        uint32_t dies = cuts->sequence->allocs[i].dies;
        if (dies >= spans[next].behind && dies <= spans[last].first)
            through[next]++;
    }
    uint32_t many = (uint32_t)cuts_quantile(through, last + 1, 3);
    free(through);
    return many;
}

/* One half of it is like the other: a few kinds of allocation in any order, of which all pieces look alike. */
static bool is_uniform(const struct cuts *cuts, const struct period_span *span)
{
    uint32_t middle = span->first + (span->behind - span->first) / 2;
    struct period_span one = {.first = span->first, .behind = middle};
    struct period_span other = {.first = middle, .behind = span->behind};

    return is_like(alike_of(cuts, &one, &other), cuts->period.chance);
}

static void judge(struct cuts *cuts)
{
    struct period *period = &cuts->period;

    if (period->span_count < cuts->least)
        return;
    uint32_t number = alike_measure(cuts);
    if (number == UINT32_MAX)
        return;
    struct period_span typical = period->spans[number];
    if (drop_unlike(cuts) < cuts->least)
        return;
    add_first(cuts, &typical);
    weigh(cuts);
    cover(cuts);
    period->repeats = period->fit >= COVERED_BY_PARTS;
    period->is_uniform = is_uniform(cuts, &typical);
    if (period->share < COVERED || !follow_on(cuts) || !free_most(cuts)
            || (cuts->least < REPETITIONS_MIN && (!period->rests || period->is_uniform)))
        return;
    period->kind = period->rests ? PERIOD_STEPS : PERIOD_PARTS;
    uint32_t through = count_through(cuts);
    period->holds = through > 1; /* one may be somebody's counter */
    period->holds_much = through > cuts->peak_blocks / REST_OF;
}

/*
 * Parts between which now and then nothing lives: there something begins of which they are parts, even where no allocation says so.
 * The last one counts for nothing: what it hands on is not known.
 */
static void guess_whole(const struct cuts *cuts, struct grams_guess *ret)
{
    const struct period *period = &cuts->period;

    *ret = (struct grams_guess){.at = vec_new(period->span_count, sizeof(*ret->at))};
    for (uint32_t i = 0; i + 1 < period->span_count; i++) {
        uint32_t first = period->spans[i].first;
        if (cuts->across[first] <= period->peak / REST_OF
                && cuts->blocks[first] <= cuts->peak_blocks / REST_OF)
            ret->at[ret->count++] = first;
    }
}

/* `ret_whole`: what parts are parts of, or nothing. */
static void try_guess(const struct cuts_sequence *sequence, const struct grams_guess *guess,
        uint32_t least, struct period *ret, struct grams_guess *ret_whole)
{
    struct cuts cuts = {
            .sequence = sequence, .guess = guess, .least = least, .length = cuts_length(guess)};

    *ret_whole = (struct grams_guess){0};
    cuts.period.length = cuts.length;
    if (cuts.length > 1 && is_even(&cuts)) {
        cuts_make(&cuts);
        judge(&cuts);
        if (cuts.period.kind == PERIOD_PARTS)
            guess_whole(&cuts, ret_whole);
    }
    free(cuts.across);
    free(cuts.blocks);
    *ret = cuts.period;
}

/* ── which of them ── */

/*
 * What hands memory on and yet is a step: it is itself made of parts and of something else, and does not pile up. Gradients that live until the next
 * step is under way do that, and weights that are made anew.
 */
static bool has_parts(const struct period *period, const struct period *all, size_t count)
{
    if (period->holds_much || period->is_uniform || period->handed_on > period->peak / 4 * 3)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (all[i].repeats && all[i].length <= period->length / PARTS_MIN
                && OWN_OF * (period->share - all[i].share) > 1)
            return true;
    }
    return false;
}

static int rank(const struct period *period)
{
    if (period->kind != PERIOD_STEPS)
        return (int)period->kind;
    return (int)PERIOD_STEPS + period->rests + (period->rests && !period->holds);
}

static int by_length(const void *a, const void *b)
{
    const struct period *x = a;
    const struct period *y = b;

    return (x->length > y->length) - (x->length < y->length);
}

/* The best of those that are as long as the first; *ret_behind: the first one that is longer. */
static size_t best_of_length(
        const struct period *all, size_t first, size_t count, size_t *ret_behind)
{
    size_t best = first;
    size_t i;

    for (i = first; i < count && cuts_is_about(all[i].length, all[first].length); i++) {
        bool is_higher = rank(&all[i]) > rank(&all[best]);
        bool is_same = rank(&all[i]) == rank(&all[best]);
        if (is_higher || (is_same && all[i].fit > all[best].fit))
            best = i;
    }
    *ret_behind = i;
    return best;
}

/* From the finest to the coarsest. Returns `count` if nothing repeats. */
static size_t choose(const struct period *all, size_t count)
{
    size_t chosen = count;

    for (size_t i = 0; i < count;) {
        size_t best = best_of_length(all, i, count, &i);
        if (all[best].kind == PERIOD_NONE)
            continue;
        if (chosen == count || rank(&all[best]) > rank(&all[chosen])
                || (rank(&all[best]) == rank(&all[chosen])
                        && (all[best].kind == PERIOD_PARTS
                                || OWN_OF * (all[best].share - all[chosen].share) > 1)))
            chosen = best;
    }
    return chosen;
}

static bool is_fitter(const struct period *one, const struct period *than)
{
    return one->kind > than->kind || (one->kind == than->kind && one->fit > than->fit);
}

static void take_if_fitter(struct period *one, struct period *ret)
{
    if (is_fitter(one, ret)) {
        struct period worse = *ret;
        *ret = *one;
        *one = worse;
    }
}

/* `ret_two`: what comes two times only; it is taken where nothing comes more often. Returns how many of `ret_all` are filled. */
static size_t try_all(const struct cuts_sequence *sequence, struct progress *progress,
        struct period *ret_all, struct period *ret_two)
{
    struct grams grams;
    size_t count = 0;

    grams_guess(sequence->symbols, sequence->order, sequence->count, GUESSES, progress, &grams);
    for (size_t i = 0; i < grams.count; i++) {
        struct period *found = &ret_all[count++];
        struct grams_guess whole;
        struct grams_guess none;
        try_guess(sequence, &grams.guesses[i], REPETITIONS_MIN, found, &whole);
        if (found->kind == PERIOD_NONE && grams.guesses[i].count <= REPETITIONS_MIN) {
            struct period two;
            try_guess(sequence, &grams.guesses[i], 2, &two, &none);
            take_if_fitter(&two, ret_two);
            period_done(&two);
            free(none.at);
        }
        if (whole.count >= REPETITIONS_MIN && whole.count < found->span_count - 1) {
            try_guess(sequence, &whole, REPETITIONS_MIN, &ret_all[count++], &none);
            free(none.at);
        }
        free(whole.at);
        if (progress)
            progress_step(progress, i, grams.count);
    }
    grams_done(&grams);
    return count;
}

static void find_in(const struct cuts_sequence *sequence, struct progress *progress,
        struct period *ret, struct period *ret_two)
{
    struct period all[2 * GUESSES] = {0};
    size_t count = try_all(sequence, progress, all, ret_two);

    for (size_t i = 0; i < count; i++) {
        if (all[i].kind == PERIOD_PARTS && has_parts(&all[i], all, count))
            all[i].kind = PERIOD_STEPS;
    }
    qsort(all, count, sizeof(*all), by_length);
    size_t chosen = choose(all, count);
    if (chosen < count)
        take_if_fitter(&all[chosen], ret);
    for (size_t i = 0; i < count; i++)
        period_done(&all[i]);
}

/* ── what counts as the same allocation ── */

enum sameness {
    SAME_ALL,  /* place and size */
    SAME_SITE, /* place alone: sizes follow the batch */
    SAME_BITS, /* size up to a factor of two */
    SAME_COUNT
};

static uint64_t symbol_of(const struct period_alloc *alloc, enum sameness same, bool by_lane)
{
    uint64_t size = alloc->size;

    if (same == SAME_SITE)
        size = 0;
    if (same == SAME_BITS)
        size = size ? 64 - (uint64_t)__builtin_clzll(size) : 0;
    return (alloc->site * UINT64_C(0x9e3779b97f4a7c15) ^ size) * UINT64_C(0xd6e8feb86659fd93)
            + (by_lane ? alloc->lane : 0);
}

static void number(struct cuts_sequence *sequence, enum sameness same, bool by_lane)
{
    uint64_t *hashes = vec_new(sequence->count, sizeof(*hashes));

    for (uint32_t i = 0; i < sequence->count; i++)
        hashes[i] = symbol_of(&sequence->allocs[i], same, by_lane);
    sequence->kinds = grams_number(hashes, sequence->count, sequence->symbols);
    free(hashes);
}

/* The allocations lane by lane. Returns false if there is one lane only. */
static bool put_in_order(struct cuts_sequence *sequence)
{
    uint32_t count = sequence->count;
    uint64_t *names = vec_new(count, sizeof(*names));

    sequence->lanes = vec_new(count, sizeof(*sequence->lanes));
    for (uint32_t i = 0; i < count; i++)
        names[i] = sequence->allocs[i].lane;
    uint32_t kinds = grams_number(names, count, sequence->lanes);
    free(names);
    if (kinds < 2)
        return false;
    sequence->behind = vec_new((size_t)kinds + 1, sizeof(*sequence->behind));
    sequence->order = vec_new(count, sizeof(*sequence->order));
    sequence->next = vec_new(count, sizeof(*sequence->next));
    for (uint32_t i = 0; i < count; i++)
        sequence->behind[sequence->lanes[i] + 1]++;
    for (uint32_t k = 0; k < kinds; k++)
        sequence->behind[k + 1] += sequence->behind[k];
    for (uint32_t i = 0; i < count; i++)
        sequence->order[sequence->behind[sequence->lanes[i]]++] = i;
    for (uint32_t k = 0; k < count; k++) {
        bool is_last = k + 1 == sequence->behind[sequence->lanes[sequence->order[k]]];
        sequence->next[sequence->order[k]] = is_last ? count : sequence->order[k + 1];
    }
    return true;
}

static void forget_order(struct cuts_sequence *sequence)
{
    free(sequence->order);
    free(sequence->next);
    free(sequence->lanes);
    free(sequence->behind);
    sequence->order = sequence->next = sequence->lanes = sequence->behind = NULL;
}

/* Nothing that is looked for further on would be much better. */
static bool is_sure(const struct period *period)
{
    return period->kind == PERIOD_STEPS && period->fit > 1 - 1.0 / REST_OF;
}

/* From what is the same in most ways to what is in few, until there are steps. Returns how many kinds of allocations there are. */
static uint32_t find_in_order(struct cuts_sequence *sequence, struct progress *progress,
        struct period *ret, struct period *ret_two)
{
    uint32_t kinds = 0;

    for (int same = 0; same < SAME_COUNT && !is_sure(ret); same++) {
        number(sequence, (enum sameness)same, sequence->order != NULL);
        kinds = sequence->kinds > kinds ? sequence->kinds : kinds;
        if (sequence->kinds > 1)
            find_in(sequence, progress, ret, ret_two);
    }
    return kinds;
}

static void say_why(struct period *period, uint32_t kinds)
{
    char handed[RENDER_BYTES_MAX];
    char peak[RENDER_BYTES_MAX];

    render_bytes(handed, period->handed_on);
    render_bytes(peak, period->peak);
    if (period->kind == PERIOD_NONE)
        (void)snprintf(period->reason, sizeof(period->reason), "%s",
                kinds < 2 ? "all allocations look the same"
                          : "nothing repeats from end to end, or no more than by chance");
    else
        (void)snprintf(period->reason, sizeof(period->reason),
                "%" PRIu32 " times about %" PRIu32
                " allocations, %.0f %% alike (in random order %.0f %%), %s across %s of %s",
                period->span_count, period->length, 100 * period->likeness, 100 * period->chance,
                handed, period->kind == PERIOD_STEPS ? "a cut, at a peak" : "each cut, at a peak",
                peak);
}

void period_find(const struct period_alloc *allocs, uint32_t count, struct progress *progress,
        struct period *ret)
{
    struct cuts_sequence sequence = {.allocs = allocs, .count = count};
    struct period two = {0};
    uint32_t kinds = 0;

    *ret = (struct period){0};
    sequence.symbols = vec_new(count, sizeof(*sequence.symbols));
    if (count >= ALLOCS_MIN) {
        if (put_in_order(&sequence))
            (void)find_in_order(&sequence, progress, ret, &two);
        forget_order(&sequence);
        kinds = find_in_order(&sequence, progress, ret, &two);
    }
    if (ret->kind != PERIOD_STEPS)
        take_if_fitter(&two, ret);
    period_done(&two);
    free(sequence.symbols);
    say_why(ret, kinds);
    if (count < ALLOCS_MIN)
        (void)snprintf(ret->reason, sizeof(ret->reason), "only %" PRIu32 " allocation%s", count,
                render_s(count));
}

void period_done(struct period *period)
{
    free(period->spans);
    *period = (struct period){0};
}
