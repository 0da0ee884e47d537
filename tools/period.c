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
    ALLOCS_MIN = 9,
    GUESSES = 24,
    PARTS_MIN = 6, /* to a step that is told by its parts */
    REST_OF = 100, /* of the peak may live across the cuts of a step: one in so many */
};

#define LIKE 0.7 /* two repetitions are alike */
/* the first, which may set something up, or the last, which may be cut off */
#define LIKE_AT_END      0.5
#define BY_CHANCE        0.15 /* so much less alike are those of a random order */
#define COVERED          0.65 /* of all allocations */
#define COVERED_BY_PARTS 0.5

static bool is_even(const struct cuts *cuts)
{
    const struct grams_guess *guess = cuts->guess;
    uint32_t even = 0;

    for (uint32_t i = 1; i < guess->count; i++)
        even += cuts_is_about(guess->at[i] - guess->at[i - 1], cuts->length);
    return 2 * even >= guess->count - 1;
}

/* ── judging a guess ── */

static double covered(const struct cuts *cuts)
{
    const struct period *period = &cuts->period;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < period->span_count; i++)
        sum += period->spans[i].behind - period->spans[i].first;
    return (double)sum / cuts->sequence->count;
}

/* A repetition that the recording ends in: it holds something still. */
static bool is_cut_off(const struct cuts_sequence *sequence, const struct period_span *span)
{
    bool holds = false;

    for (uint32_t i = span->first; i < span->behind; i++)
        holds = holds || sequence->allocs[i].dies == PERIOD_NEVER;
    return holds;
}

/* Of those that lack the gram only what is like the others stays. */
static void drop_unlike(const struct cuts_sequence *sequence, struct period *period)
{
    uint32_t last = period->span_count - 1;
    uint32_t kept = 0;
    double sum = 0;

    for (uint32_t i = 0; i <= last; i++) {
        struct period_span span = period->spans[i];
        bool is_special = i == 0 || (i == last && is_cut_off(sequence, &span));
        if (span.is_guessed && span.likeness < (is_special ? LIKE_AT_END : LIKE))
            continue;
        period->spans[kept++] = span;
        sum += span.likeness;
    }
    period->span_count = kept;
    period->likeness = kept ? sum / kept : 0;
}

/* What most repetitions need, and what three in four hand on at most. */
static void weigh(struct cuts *cuts)
{
    struct period *period = &cuts->period;
    uint64_t *bytes = vec_new(period->span_count, sizeof(*bytes));

    for (uint32_t i = 0; i < period->span_count; i++) {
        for (uint32_t k = period->spans[i].first; k < period->spans[i].behind; k++)
            bytes[i] = cuts->across[k] > bytes[i] ? cuts->across[k] : bytes[i];
    }
    period->peak = cuts_quantile(bytes, period->span_count, 2);
    for (uint32_t i = 1; i < period->span_count; i++)
        bytes[i - 1] = cuts->across[period->spans[i].first];
    period->handed_on = cuts_quantile(bytes, period->span_count - 1, 3);
    free(bytes);
}

static void judge(struct cuts *cuts)
{
    struct period *period = &cuts->period;
    uint32_t like = 0;

    if (period->span_count < 3 || covered(cuts) < COVERED_BY_PARTS)
        return;
    period->likeness = alike_compare(cuts, period->spans);
    drop_unlike(cuts->sequence, period);
    for (uint32_t i = 0; i < period->span_count; i++)
        like += period->spans[i].likeness >= LIKE;
    if (period->likeness < LIKE || like < LIKE * period->span_count)
        return;
    period->chance = alike_by_chance(cuts);
    if (period->likeness - period->chance < BY_CHANCE)
        return;
    weigh(cuts);
    period->repeats = true;
    if (covered(cuts) >= COVERED)
        period->kind = period->handed_on > period->peak / REST_OF ? PERIOD_PARTS : PERIOD_STEPS;
}

static void try_guess(
        const struct cuts_sequence *sequence, const struct grams_guess *guess, struct period *ret)
{
    struct cuts cuts = {.sequence = sequence, .guess = guess, .length = cuts_length(guess)};

    cuts.period.length = cuts.length;
    if (cuts.length > 1 && is_even(&cuts)) {
        cuts_make(&cuts);
        judge(&cuts);
    }
    free(cuts.across);
    *ret = cuts.period;
}

/* ── which of them ── */

/* Of what a coarser period has beside the spans of a finer one, how much are allocations that those have too? */
static bool is_of_its_own(const struct cuts_sequence *sequence, const struct period *fine,
        const struct period *coarse)
{
    bool *known = vec_new(sequence->kinds, sizeof(*known));
    bool *inside = vec_new(sequence->count, sizeof(*inside));
    uint64_t beside = 0;
    uint64_t strange = 0;

    for (uint32_t i = 0; i < fine->span_count; i++) {
        if (fine->spans[i].likeness < LIKE)
            continue;
        for (uint32_t k = fine->spans[i].first; k < fine->spans[i].behind; k++)
            known[sequence->symbols[k]] = inside[k] = true;
    }
    for (uint32_t i = 0; i < coarse->span_count; i++) {
        for (uint32_t k = coarse->spans[i].first; k < coarse->spans[i].behind; k++) {
            beside += !inside[k];
            strange += !inside[k] && !known[sequence->symbols[k]];
        }
    }
    free(known);
    free(inside);
    return beside > 0 && 2 * strange > beside;
}

/* What is unlike the others counts against it. */
static double covered_alike(const struct period *period)
{
    double sum = 0;

    for (uint32_t i = 0; i < period->span_count; i++) {
        const struct period_span *span = &period->spans[i];
        sum += (span->likeness - LIKE) * (span->behind - span->first);
    }
    return sum;
}

/*
 * What hands memory on and yet is a step: it is itself made of parts, and does not pile up. Gradients that live until the next
 * step is under way do that, and weights that are made anew.
 */
static bool has_parts(const struct period *period, const struct period *all, size_t count)
{
    if (period->handed_on > period->peak / 4 * 3)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (all[i].repeats && all[i].length <= period->length / PARTS_MIN)
            return true;
    }
    return false;
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
        bool is_higher = all[i].kind > all[best].kind;
        bool is_same = all[i].kind == all[best].kind;
        if (is_higher || (is_same && covered_alike(&all[i]) > covered_alike(&all[best])))
            best = i;
    }
    *ret_behind = i;
    return best;
}

/* From the finest to the coarsest. Returns `count` if nothing repeats. */
static size_t choose(const struct cuts_sequence *sequence, const struct period *all, size_t count)
{
    size_t chosen = count;

    for (size_t i = 0; i < count;) {
        size_t best = best_of_length(all, i, count, &i);
        if (all[best].kind == PERIOD_NONE)
            continue;
        if (chosen == count || all[best].kind > all[chosen].kind
                || (all[best].kind == all[chosen].kind
                        && (all[best].kind == PERIOD_PARTS
                                || is_of_its_own(sequence, &all[chosen], &all[best]))))
            chosen = best;
    }
    return chosen;
}

static void find_in(
        const struct cuts_sequence *sequence, struct progress *progress, struct period *ret)
{
    struct period all[GUESSES] = {0};
    struct grams grams;

    grams_guess(sequence->symbols, sequence->count, GUESSES, progress, &grams);
    for (size_t i = 0; i < grams.count; i++) {
        try_guess(sequence, &grams.guesses[i], &all[i]);
        if (progress)
            progress_step(progress, i, grams.count);
    }
    for (size_t i = 0; i < grams.count; i++) {
        all[i].rests = all[i].kind == PERIOD_STEPS;
        if (all[i].kind == PERIOD_PARTS && has_parts(&all[i], all, grams.count))
            all[i].kind = PERIOD_STEPS;
    }
    qsort(all, grams.count, sizeof(*all), by_length);
    size_t chosen = choose(sequence, all, grams.count);
    if (chosen < grams.count && all[chosen].kind > ret->kind) {
        struct period worse = *ret;
        *ret = all[chosen];
        all[chosen] = worse;
    }
    for (size_t i = 0; i < GUESSES; i++)
        period_done(&all[i]);
    grams_done(&grams);
}

/* ── what counts as the same allocation ── */

enum sameness {
    SAME_ALL,  /* place and size */
    SAME_SITE, /* place alone: sizes follow the batch */
    SAME_BITS, /* size up to a factor of two */
    SAME_COUNT
};

static uint64_t symbol_of(const struct period_alloc *alloc, enum sameness same)
{
    uint64_t size = alloc->size;

    if (same == SAME_SITE)
        return alloc->site;
    if (same == SAME_BITS)
        size = size ? 64 - (uint64_t)__builtin_clzll(size) : 0;
    return alloc->site * UINT64_C(0x9e3779b97f4a7c15) ^ size;
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
    uint64_t *hashes = vec_new(count, sizeof(*hashes));
    uint32_t kinds = 0;

    *ret = (struct period){0};
    sequence.symbols = vec_new(count, sizeof(*sequence.symbols));
    for (int same = 0; same < SAME_COUNT && count >= ALLOCS_MIN && ret->kind != PERIOD_STEPS;
            same++) {
        for (uint32_t i = 0; i < count; i++)
            hashes[i] = symbol_of(&allocs[i], (enum sameness)same);
        sequence.kinds = grams_number(hashes, count, sequence.symbols);
        kinds = sequence.kinds > kinds ? sequence.kinds : kinds;
        if (sequence.kinds > 1)
            find_in(&sequence, progress, ret);
    }
    free(hashes);
    free(sequence.symbols);
    say_why(ret, kinds);
    if (count < ALLOCS_MIN)
        (void)snprintf(ret->reason, sizeof(ret->reason), "only %" PRIu32 " allocations", count);
}

void period_done(struct period *period)
{
    free(period->spans);
    *period = (struct period){0};
}
