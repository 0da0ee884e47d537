/* SPDX-License-Identifier: MIT */
#include "tools/cuts.h"

#include <stdlib.h>

#include "tools/vec.h"

enum {
    SAMPLES = 9, /* repetitions that a cut is tried on */
    SNAP_MOST = 64,
    MISSES_MOST = 4, /* in a row, where one begins */
    RUN_MOST = 8,
    REST_MOST = 16,
    NEAR_OF = 8,      /* of what lives across, one in so many makes no difference */
    GUESSED_MOST = 4, /* in a row */
};

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The number that so many fourths of them are below; the upper one of two. */
uint64_t cuts_quantile(uint64_t *numbers, size_t count, size_t fourths)
{
    if (count == 0)
        return 0;
    qsort(numbers, count, sizeof(*numbers), by_number);
    return numbers[count * fourths / 4];
}

uint32_t cuts_length(const struct grams_guess *guess)
{
    uint64_t *distances = vec_new(guess->count, sizeof(*distances));

    for (uint32_t i = 1; i < guess->count; i++)
        distances[i - 1] = guess->at[i] - guess->at[i - 1];
    (void)cuts_quantile(distances, guess->count - 1, 2); /* sorts */
    uint64_t length = distances[(guess->count - 2)
            / 2]; /* the lower one of two: the longer has something between */
    free(distances);
    return (uint32_t)length;
}

bool cuts_is_about(uint64_t distance, uint64_t length)
{
    return 4 * distance >= 3 * length && 4 * distance <= 5 * length;
}

/* ── what lives across ── */

/*
 * Memory of a moment: made in the repetitions and freed before the last of them ends. What was there before, stays until the end
 * or goes when all is torn down is nobody's result.
 */
void cuts_find_across(struct cuts *cuts, uint32_t from, uint32_t until)
{
    const struct cuts_sequence *sequence = cuts->sequence;
    uint64_t now = 0;
    uint32_t blocks = 0;

    free(cuts->across);
    free(cuts->blocks);
    cuts->period.peak = 0;
    cuts->peak_blocks = 0;
    cuts->blocks = vec_new((size_t)sequence->count + 1, sizeof(*cuts->blocks));
    cuts->across = vec_new((size_t)sequence->count + 1, sizeof(*cuts->across));
    for (uint32_t i = from; i < until; i++) {
        const struct period_alloc *alloc = &sequence->allocs[i];
        if (alloc->dies > until || alloc->dies <= i + 1)
            continue;
        cuts->blocks[i + 1]++;
        cuts->blocks[alloc->dies]--; /* modulo 2^32 */
        cuts->across[i + 1] += alloc->size;
        cuts->across[alloc->dies] -= alloc->size; /* modulo 2^64: the sum is right */
    }
    for (uint32_t i = 0; i <= sequence->count; i++) {
        now += cuts->across[i];
        cuts->across[i] = now;
        cuts->period.peak = now > cuts->period.peak ? now : cuts->period.peak;
        blocks += cuts->blocks[i];
        cuts->blocks[i] = blocks;
        cuts->peak_blocks = blocks > cuts->peak_blocks ? blocks : cuts->peak_blocks;
    }
}

/* ── where it begins ── */

/* What lives across there, of all that lives at once: bytes and blocks, in thousandths each. */
static uint64_t cost_of(const struct cuts *cuts, uint32_t there)
{
    uint64_t peak = cuts->period.peak / CUTS_NEAR_OF + 1;
    uint64_t blocks = (uint64_t)cuts->blocks[there] * CUTS_NEAR_OF;

    return cuts->across[there] / peak + (cuts->peak_blocks ? blocks / cuts->peak_blocks : 0);
}

/* The same sample of occurrences for every cut; neither the first, which may be special, nor if possible the last. */
static uint64_t cost_back(const struct cuts *cuts, uint32_t back)
{
    const struct grams_guess *guess = cuts->guess;
    uint64_t costs[SAMPLES];
    uint32_t inner = guess->count > 3 ? guess->count - 2 : guess->count - 1;
    uint32_t samples = inner < SAMPLES ? inner : SAMPLES;
    size_t count = 0;

    for (uint32_t i = 0; i < samples; i++) {
        uint32_t at = guess->at[1 + (uint32_t)((uint64_t)i * inner / samples)];
        if (at >= back)
            costs[count++] = cost_of(cuts, at - back);
    }
    return count ? cuts_quantile(costs, count, 2) : UINT64_MAX;
}

/* How far before its first occurrence the repetition goes back: the first one begins with what comes again, behind what is done once. */
static uint32_t find_begin(const struct cuts *cuts)
{
    const struct grams_guess *guess = cuts->guess;
    const uint32_t *symbols = cuts->sequence->symbols;
    uint32_t apart = guess->at[1] - guess->at[0];
    uint32_t misses = 0;
    uint32_t last = guess->at[0];

    for (uint32_t i = guess->at[0]; i > 0 && misses < MISSES_MOST; i--) {
        if (symbols[i - 1] == symbols[i - 1 + apart]) {
            last = i - 1;
            misses = 0;
        } else {
            misses++;
        }
    }
    return (guess->at[0] - last) % cuts->length;
}

/* Where the recording ends with the last one. */
static uint32_t find_last(const struct cuts *cuts)
{
    const struct grams_guess *guess = cuts->guess;
    uint32_t rest = (cuts->sequence->count - guess->at[guess->count - 1]) % cuts->length;

    return rest ? cuts->length - rest : 0;
}

static uint32_t around(uint32_t a, uint32_t b, uint32_t length)
{
    uint32_t distance = a > b ? a - b : b - a;

    return distance < length - distance ? distance : length - distance;
}

/*
 * Of the places where least lives across: where the first one begins, else where the last one ends. What was recorded may begin or
 * end within one; then the place is one of many there.
 */
static void find_back(struct cuts *cuts)
{
    uint32_t length = cuts->length;
    uint32_t begin = find_begin(cuts);
    uint32_t last = find_last(cuts);
    uint64_t *costs = vec_new(length, sizeof(*costs));
    uint64_t least = UINT64_MAX;
    uint32_t best = UINT32_MAX;

    for (uint32_t back = 0; back < length; back++) {
        costs[back] = cost_back(cuts, back);
        least = costs[back] < least ? costs[back] : least;
    }
    least += least / NEAR_OF;
    if (costs[begin] > least && costs[last] <= least)
        begin = last;
    for (uint32_t back = length; back-- > 0;) {
        uint32_t away = around(back, begin, length);
        if (costs[back] > least || away >= best)
            continue;
        best = away;
        cuts->back = back;
    }
    free(costs);
}

/* So many allocations are the same from here on and from there on. */
uint32_t cuts_run(const struct cuts *cuts, uint32_t here, uint32_t there)
{
    const struct cuts_sequence *sequence = cuts->sequence;
    uint32_t run = 0;

    while (run < RUN_MOST && here < sequence->count && there < sequence->count
            && sequence->symbols[here] == sequence->symbols[there]) {
        here = sequence->next ? sequence->next[here] : here + 1;
        there = sequence->next ? sequence->next[there] : there + 1;
        run++;
    }
    return run;
}

/* Between `low` and `high`, both included: what begins like `pattern`; there where least lives across; the nearest to `want`. */
static uint32_t find_like(
        const struct cuts *cuts, uint32_t pattern, uint32_t low, uint32_t high, uint32_t want)
{
    uint32_t longest = 0;
    uint32_t nearest = UINT32_MAX;
    uint32_t best = want;

    for (uint32_t there = low; there <= high && there < cuts->sequence->count; there++) {
        uint32_t run = cuts_run(cuts, there, pattern);
        uint32_t away = there > want ? there - want : want - there;
        uint64_t cost = cost_of(cuts, there);
        bool is_better = run > longest || (run == longest && cost < cost_of(cuts, best))
                || (run == longest && cost == cost_of(cuts, best) && away < nearest);
        if (!is_better)
            continue;
        longest = run;
        nearest = away;
        best = there;
    }
    return best;
}

/* Where one begins that should begin here. */
static uint32_t snap(const struct cuts *cuts, uint32_t at, uint32_t pattern)
{
    uint32_t reach = cuts->length / 8 < SNAP_MOST ? cuts->length / 8 : SNAP_MOST;

    return find_like(cuts, pattern, at > reach ? at - reach : 0, at + reach, at);
}

/* Near so many allocations: where least lives across. */
static uint32_t find_end(const struct cuts *cuts, uint32_t first)
{
    uint64_t most = cuts->sequence->count;
    uint64_t want = (uint64_t)first + cuts->length;
    uint32_t reach = cuts->length / 8;
    uint64_t best = want < most ? want : most;

    for (uint64_t there = want - reach; there <= want + reach && there <= most; there++) {
        if (cost_of(cuts, (uint32_t)there) < cost_of(cuts, (uint32_t)best))
            best = there;
    }
    return (uint32_t)best;
}

static void put_span(struct cuts *cuts, uint32_t first, bool is_guessed)
{
    struct period *period = &cuts->period;

    period->spans[period->span_count++] =
            (struct period_span){.first = first, .is_guessed = is_guessed};
}

/*
 * Those before `first` that lack the gram: warm-up, another path through the program. None begins much before `reached`, where the
 * one before them ends if it is as long as most.
 */
static void put_before(struct cuts *cuts, uint32_t first, uint32_t reached)
{
    uint32_t length = cuts->length;
    uint32_t least = reached > length / 8 ? reached - length / 8 : 0;
    uint32_t at[GUESSED_MOST];
    int count = 0;

    while (count < GUESSED_MOST && first >= reached + length / 2 && first > 0) {
        uint32_t far = length + length / 2;
        uint32_t low = first > least + far ? first - far : least;
        uint32_t want = first > length ? first - length : 0;
        first = find_like(cuts, first, low, first - length / 2, want > low ? want : low);
        at[count++] = first;
    }
    while (count-- > 0)
        put_span(cuts, at[count], true);
}

static void find_ends(struct cuts *cuts)
{
    struct period *period = &cuts->period;

    for (uint32_t i = 0; i < period->span_count; i++) {
        uint32_t first = period->spans[i].first;
        uint32_t next =
                i + 1 < period->span_count ? period->spans[i + 1].first : cuts->sequence->count;
        bool whole = (uint64_t)4 * (next - first) <= (uint64_t)5 * cuts->length;
        uint32_t end = whole ? next : find_end(cuts, first);
        period->spans[i].behind = end < next ? end : next;
    }
}

static bool clearly_less(const struct cuts *cuts, uint32_t one, uint32_t than)
{
    return cost_of(cuts, one) < cost_of(cuts, than);
}

/* A few allocations more or less in a step, and its begin is not where that of most is: where clearly less lives across. */
static uint32_t find_rest(const struct cuts *cuts, uint32_t at)
{
    uint32_t reach = cuts->length / 16 < REST_MOST ? cuts->length / 16 : REST_MOST;
    uint32_t best = at;

    for (uint32_t away = 1; away <= reach; away++) {
        if (away <= at && clearly_less(cuts, at - away, best))
            best = at - away;
        if (at + away < cuts->sequence->count && clearly_less(cuts, at + away, best))
            best = at + away;
    }
    return best;
}

/* Of some beginnings the one that most of them look like. */
static uint32_t find_pattern(const struct cuts *cuts)
{
    const struct grams_guess *guess = cuts->guess;
    uint32_t at[SAMPLES];
    uint32_t count = 0;
    uint32_t best = 0;
    uint32_t most = 0;

    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t there = guess->at[(uint64_t)i * guess->count / SAMPLES];
        if (there >= cuts->back)
            at[count++] = find_rest(cuts, there - cuts->back);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < count; k++)
            sum += cuts_run(cuts, at[i], at[k]);
        best = sum > most ? at[i] : best;
        most = sum > most ? sum : most;
    }
    return best;
}

static void cut(struct cuts *cuts)
{
    const struct grams_guess *guess = cuts->guess;
    struct period *period = &cuts->period;
    uint32_t count = cuts->sequence->count;
    uint32_t pattern = find_pattern(cuts);
    uint32_t reached = 0; /* behind all that is cut so far */

    period->spans = vec_new(
            (size_t)guess->count * (1 + GUESSED_MOST) + GUESSED_MOST, sizeof(*period->spans));
    for (uint32_t i = 0; i < guess->count; i++) {
        uint32_t at = guess->at[i];
        if (at < cuts->back && cuts->back - at > cuts->length / 8)
            continue; /* its beginning was not recorded */
        uint32_t first = snap(cuts, at > cuts->back ? at - cuts->back : 0, pattern);
        if (cuts->sequence->next)
            first = find_rest(cuts, first);
        if (period->span_count && first <= period->spans[period->span_count - 1].first)
            continue;
        put_before(cuts, first, reached);
        put_span(cuts, first, false);
        reached = first + cuts->length;
    }
    for (int i = 0; i < GUESSED_MOST && reached + cuts->length / 2 <= count; i++) {
        put_span(cuts, snap(cuts, reached, pattern), true);
        reached = period->spans[period->span_count - 1].first + cuts->length;
    }
    find_ends(cuts);
}

/* Behind it nothing counts: where the last of several begins, since it may be cut off. Of two there is no other than the last. */
static uint32_t end_of_moment(const struct cuts *cuts, uint32_t repetitions, uint32_t last)
{
    return repetitions > 2 ? last : cuts->sequence->count - 1;
}

void cuts_make(struct cuts *cuts)
{
    const struct grams_guess *guess = cuts->guess;
    const struct period *period = &cuts->period;
    uint32_t first = guess->at[0] > cuts->length ? guess->at[0] - cuts->length : 0;

    cuts_find_across(cuts, first, end_of_moment(cuts, guess->count, guess->at[guess->count - 1]));
    find_back(cuts);
    cut(cuts);
    /* Those that lack the gram may lie far from where it occurs. */
    if (period->span_count)
        cuts_find_across(cuts, period->spans[0].first,
                end_of_moment(
                        cuts, period->span_count, period->spans[period->span_count - 1].first));
}
