/* SPDX-License-Identifier: MIT */
#include "tools/steps/period.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/base/types.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/steps/period_words.h"

enum {
    ALLOCS_MIN = 9,      /* three times three: a shorter sequence always repeats something */
    REPETITIONS_MIN = 3, /* two are enough if they are nearly the same */
    REST_OF = 16,        /* one part in so many of the peak may live across a step's cuts */
    COST_OF = 1000,      /* costs are in such parts of the peak; */
    NEAR_OF = 8,         /* a cost within one part in so many of the least one counts as equal */
    ANCHOR_SIZES = 4,    /* words of 1, 2, 4, 8 allocations mark repetitions */
    CLASSES_MAX = 48,
    UNEVEN_OF = 64,  /* anchors are ignored that are less even than the best by such a part */
    MISSES_MAX = 4,  /* in a row, at the begin of the first repetition */
    RUN_MAX = 8,     /* allocations that identify a beginning */
    FIRST_OF = 4,    /* by such a part of its length the first repetition may begin elsewhere */
    LONGER_MAX = 4,  /* the first repetition is at most so many times as long as the others */
    SAMPLES = 9,     /* repetitions that are compared to find a typical one */
    TURNS_MAX = 32,  /* pieces in random order that are compared */
    PARTS_MIN = 6,   /* of a step known by its parts: more than a layer has heads or experts */
    COARSER_OF = 32, /* a coarser repetition must have one allocation in so many more */
};

#define COVERED          0.65 /* of the sequence, by repetitions */
#define COVERED_BY_PARTS 0.25
#define NEARLY_SAME      0.9

/* A word, and its position. */
struct anchor {
    uint32_t *at;
    uint32_t count, length; /* the distance of most of them */
    /* the part of the sequence that such distances cover, less twice their deviation */
    double even;
};

struct search {
    const struct period_alloc *allocs;
    uint32_t count;
    uint32_t start; /* the first allocation that is not kept for good */
    struct period_words words;
    struct anchor *anchors; /* words that may occur once in each repetition */
    size_t anchor_count, anchor_room;
    uint32_t *places[ANCHOR_SIZES]; /* their `at` */
    uint64_t *bytes;  /* [i], to count: that live for a while and are live at allocation i */
    uint32_t *blocks; /* the same */
    uint64_t peak;    /* the maxima of `bytes` and of `blocks` */
    uint32_t peak_blocks;
    uint32_t *seen; /* [number of a word]: scratch space of likeness() */
};

/* A result, with figures to judge it. */
struct finding {
    struct period period;
    /* part of the sequence inside the repetitions, or made of the same allocations: 0 .. 1 */
    double share;
    double fit;      /* part of it inside alike repetitions: 0 .. 1 */
    bool repeats;    /* somewhere, if not from end to end */
    bool is_uniform; /* one half of it is like the other */
};

static uint32_t distance(uint32_t a, uint32_t b)
{
    return a > b ? a - b : b - a;
}

static bool is_about(uint64_t distance, uint64_t length)
{
    return 4 * distance >= 3 * length && 4 * distance <= 5 * length;
}

/* The likeness covers more than half of the distance between chance and 1. */
static bool period_is_like(double likeness, double chance)
{
    return likeness - chance > (1 - chance) / 2;
}

/* The quantile below which so many fourths of the numbers are. Sorts them. */
static uint64_t quantile(uint64_t *numbers, size_t count, size_t fourths)
{
    VEC_SORT(numbers, count, vec_by_number);
    return numbers[count * fourths / 4];
}

/* ── live memory over time ── */

/*
 * Short-lived memory between two places: allocated and freed there. Memory from before, memory that
 * stays, and memory that the final teardown frees is no result of a step.
 */
static void period_find_live(struct search *search, uint32_t from)
{
    uint32_t count = search->count;

    memset(search->bytes, 0, ((size_t)count + 1) * sizeof(*search->bytes));
    memset(search->blocks, 0, ((size_t)count + 1) * sizeof(*search->blocks));
    search->peak = 0;
    search->peak_blocks = 0;
    for (uint32_t i = from; i < count; i++) {
        const struct period_alloc *alloc = &search->allocs[i];
        if (alloc->dies >= count || alloc->dies <= i + 1)
            continue;
        search->bytes[i + 1] += alloc->size;
        search->bytes[alloc->dies] -= alloc->size; /* modulo 2^64: the sum is right */
        search->blocks[i + 1]++;
        search->blocks[alloc->dies]--;
    }
    for (uint32_t i = 1; i <= count; i++) {
        search->bytes[i] += search->bytes[i - 1];
        search->blocks[i] += search->blocks[i - 1];
        search->peak = max_of(search->peak, search->bytes[i]);
        search->peak_blocks = (uint32_t)max_of(search->peak_blocks, search->blocks[i]);
    }
}

/* Memory that lives across the place: bytes and blocks, each in thousandths of its peak. */
static uint64_t cost_at(const struct search *search, uint32_t i)
{
    return search->bytes[i] / (search->peak / COST_OF + 1)
            + (uint64_t)search->blocks[i] * COST_OF / (search->peak_blocks + 1);
}

/* ── anchors ── */

/* The lower median: a longer distance may contain something else. */
static uint32_t middle_distance(const uint32_t *at, uint32_t count)
{
    uint64_t *distances = vec_new(count, sizeof(*distances));

    for (uint32_t i = 1; i < count; i++)
        distances[i - 1] = at[i] - at[i - 1];
    VEC_SORT(distances, count - 1, vec_by_number);
    uint64_t middle = distances[(count - 2) / 2];
    free(distances);
    return (uint32_t)middle;
}

/* Returns false if the word does not recur at even distances, or covers too little. */
static bool period_measure(
        const struct search *search, uint32_t *at, uint32_t count, struct anchor *ret)
{
    double all = search->count - search->start;
    uint64_t differ = 0;
    uint32_t even = 0;

    if (count < 2)
        return false;
    *ret = (struct anchor){.at = at, .count = count, .length = middle_distance(at, count)};
    uint64_t inside = search->count - at[count - 1];
    inside = inside < ret->length ? inside : ret->length;
    for (uint32_t k = 1; k < count; k++) {
        uint32_t apart = at[k] - at[k - 1];
        if (!is_about(apart, ret->length))
            continue;
        even++;
        inside += apart;
        differ += distance(apart, ret->length);
    }
    ret->even = ((double)inside - 2.0 * (double)differ) / all;
    return ret->length > 1 && (double)inside / all >= COVERED_BY_PARTS && 2 * even > count - 1;
}

/* Of consecutive repeats of a word count only the first. */
static void find_anchors(struct search *search, int size)
{
    uint32_t count = search->count - search->start;
    const uint32_t *ids = search->words.ids[size] + search->start;
    uint32_t *places = search->places[size];
    uint32_t kinds = 0;

    for (uint32_t i = 0; i < count; i++)
        kinds = ids[i] >= kinds ? ids[i] + 1 : kinds;
    struct vec_lists by_word = vec_lists_new(ids, count, kinds);
    for (uint32_t k = 0; k < kinds; k++) {
        uint32_t first = by_word.first[k];
        uint32_t kept = first;
        uint32_t last = search->words.next[2 * (size_t)search->count];
        for (uint32_t i = first; i < by_word.first[k + 1]; i++) {
            uint32_t at = search->start + by_word.at[i];
            if (i == first || search->words.next[last] != at)
                places[kept++] = at;
            last = at;
        }
        struct anchor anchor;
        if (period_measure(search, &places[first], kept - first, &anchor))
            VEC_PUSH(search->anchors, search->anchor_count, search->anchor_room) = anchor;
    }
    vec_lists_done(&by_word);
}

static bool is_same_class(const struct anchor *one, const struct anchor *other)
{
    return is_about(one->length, other->length) && is_about(one->count, other->count);
}

/* The most even anchor for each length and number of repetitions. Returns how many. */
static size_t find_classes(const struct search *search, struct anchor *ret_classes)
{
    size_t count = 0;

    for (size_t i = 0; i < search->anchor_count; i++) {
        const struct anchor *anchor = &search->anchors[i];
        size_t k = 0;
        while (k < count && !is_same_class(&ret_classes[k], anchor))
            k++;
        if (k == CLASSES_MAX || (k < count && anchor->even <= ret_classes[k].even))
            continue;
        count += k == count;
        ret_classes[k] = *anchor;
    }
    return count;
}

/* ── the begin of a repetition ── */

/* A number of allocations before each occurrence of an anchor. */
struct place {
    struct anchor anchor;
    uint32_t back;
    uint64_t cost; /* in most repetitions but the first and the last */
};

static struct place period_place_of(
        const struct search *search, const struct anchor *anchor, uint32_t back)
{
    uint64_t *costs = vec_new(anchor->count, sizeof(*costs));
    uint32_t count = 0;

    for (uint32_t k = 0; k < anchor->count; k++) {
        bool is_inner = k > 0 && (k + 1 < anchor->count || k < REPETITIONS_MIN);
        if (is_inner && anchor->at[k] >= search->start + back)
            costs[count++] = cost_at(search, anchor->at[k] - back);
    }
    struct place place = {*anchor, back, count ? quantile(costs, count, 2) : UINT64_MAX};
    free(costs);
    return place;
}

/* For each place in a repetition the anchor of that class at it; `at` NULL: none. */
static struct anchor *find_owners(const struct search *search, const struct anchor *class)
{
    struct anchor *owners = vec_new(class->length, sizeof(*owners));
    uint32_t begin = class->at[(class->count - 1) / 2];

    for (size_t i = 0; i < search->anchor_count; i++) {
        const struct anchor *anchor = &search->anchors[i];
        if (!is_same_class(class, anchor) || UNEVEN_OF * (class->even - anchor->even) > 1)
            continue;
        uint32_t k = 0;
        while (k + 1 < anchor->count && anchor->at[k] < begin)
            k++;
        uint32_t offset = anchor->at[k] - begin;
        if (anchor->at[k] < begin || offset >= class->length)
            continue;
        if (!owners[offset].at || anchor->even > owners[offset].even)
            owners[offset] = *anchor;
    }
    if (!owners[0].at)
        owners[0] = *class;
    return owners;
}

/* The first repetition begins with allocations that recur, after those that are made once. */
static uint32_t find_begin(const struct search *search, const struct anchor *class)
{
    const uint32_t *ids = search->words.ids[0];
    uint32_t apart = class->at[1] - class->at[0];
    uint32_t begin = class->at[0];

    for (uint32_t i = begin; i > search->start && begin - i < MISSES_MAX; i--) {
        if (ids[i - 1] == ids[i - 1 + apart])
            begin = i - 1;
    }
    return begin;
}

static uint32_t around(uint32_t a, uint32_t b, uint32_t length)
{
    uint32_t away = distance(a, b);

    return away < length - away ? away : length - away;
}

/*
 * Of the places where least memory lives across: the one where the first repetition begins, else
 * the one where the last ends. The record may begin and end within a repetition; then the place is
 * any of them.
 */
static struct place find_place(const struct search *search, const struct anchor *class)
{
    uint32_t length = class->length;
    struct anchor *owners = find_owners(search, class);
    struct place *places = vec_new(length, sizeof(*places));
    uint32_t begin = length - 1 - (class->at[0] - find_begin(search, class) + length - 1) % length;
    uint32_t end = (search->count - class->at[class->count - 1]) % length;
    uint64_t least = UINT64_MAX;
    uint32_t owner = length;
    uint32_t best = 0;

    for (uint32_t i = length; i-- > 0;) {
        owner = owners[i].at ? i : owner;
        places[i] = period_place_of(search, &owners[owner % length], owner - i);
        least = places[i].cost < least ? places[i].cost : least;
    }
    least += least / NEAR_OF;
    if (places[begin].cost > least && places[end].cost <= least)
        begin = end;
    for (uint32_t i = 0, nearest = UINT32_MAX; i < length; i++) {
        if (places[i].cost <= least && around(i, begin, length) < nearest) {
            nearest = around(i, begin, length);
            best = i;
        }
    }
    struct place place = places[best];
    free(places);
    free(owners);
    return place;
}

/* The number of equal allocations from both places on, RUN_MAX at most. */
static uint32_t period_run_of(const struct search *search, uint32_t here, uint32_t there)
{
    const uint32_t *ids = search->words.ids[0];
    uint32_t none = 2 * search->count;
    uint32_t run = 0;

    while (run < RUN_MAX && here != none && there != none && ids[here] == ids[there]) {
        here = search->words.next[here];
        there = search->words.next[there];
        run++;
    }
    return run;
}

/* Search criteria for a beginning, in order of priority. */
struct wish {
    uint32_t at, reach; /* near this position */
    uint32_t pattern;   /* most like the beginning at this position; UINT32_MAX: any */
    uint64_t cost;      /* then least memory across; this difference counts */
    uint32_t want;      /* then nearest to this */
};

static uint32_t find_like(const struct search *search, const struct wish *wish)
{
    uint32_t low = wish->at - search->start > wish->reach ? wish->at - wish->reach : search->start;
    uint32_t best = UINT32_MAX;
    uint32_t longest = 0;
    uint64_t least = 0;

    for (uint32_t i = low; i <= wish->at + wish->reach && i < search->count; i++) {
        uint32_t run = wish->pattern == UINT32_MAX ? 0 : period_run_of(search, i, wish->pattern);
        uint64_t cost = cost_at(search, i) > wish->cost ? cost_at(search, i) : wish->cost;
        bool is_same = best != UINT32_MAX && run == longest;
        if (best == UINT32_MAX || run > longest || (is_same && cost < least)
                || (is_same && cost == least
                        && distance(i, wish->want) < distance(best, wish->want))) {
            best = i;
            longest = run;
            least = cost;
        }
    }
    return best;
}

/* A first repetition without the anchor, perhaps a longer one: the earliest place like `that`. */
static uint32_t period_find_first(const struct search *search, uint32_t that, uint32_t length)
{
    uint32_t low = search->start;
    uint32_t best = low;
    uint32_t longest = 0;

    if (that - low > LONGER_MAX * length)
        best = low = that - LONGER_MAX * length;
    for (uint32_t i = low; i + length - length / 4 <= that; i++) {
        uint32_t run = period_run_of(search, i, that);
        if (run > longest && (best != search->start || longest == 0)) {
            longest = run;
            best = i;
        }
    }
    return best;
}

/* The begins of the repetitions, ascending. Returns how many. */
static uint32_t find_cuts(
        const struct search *search, const struct place *place, uint32_t length, uint32_t *ret_cuts)
{
    const struct anchor *anchor = &place->anchor;
    uint32_t middle = anchor->at[anchor->count / 2];
    uint32_t pattern = middle >= search->start + place->back ? middle - place->back : UINT32_MAX;
    uint32_t count = 0;

    for (uint32_t k = 0; k < anchor->count; k++) {
        if (anchor->at[k] < search->start + place->back)
            continue;
        uint32_t at = anchor->at[k] - place->back;
        /* The first repetition may contain extra work. */
        uint32_t reach = length / (count > 0 ? REST_OF : FIRST_OF);
        at = find_like(search, &(struct wish){at, reach, pattern, place->cost, at});
        /* At the place where the others rest; with several threads, at the usual distance. */
        uint32_t want = count > 0 ? ret_cuts[count - 1] + length : at;
        if (place->cost <= COST_OF / NEAR_OF && cost_at(search, at) > place->cost)
            at = find_like(
                    search, &(struct wish){at, length / REST_OF, UINT32_MAX, place->cost, want});
        if (count == 0 && at - search->start > length / 2)
            ret_cuts[count++] = period_find_first(search, at, length);
        if (count == 0 || at > ret_cuts[count - 1])
            ret_cuts[count++] = at;
    }
    return count;
}

static void put_spans(const struct search *search, const struct place *place, struct period *ret)
{
    uint32_t length = ret->length;
    uint32_t *cuts = vec_new((size_t)place->anchor.count + 2, sizeof(*cuts));
    uint32_t count = find_cuts(search, place, length, cuts);

    cuts[count] = search->count;
    ret->spans = vec_new((size_t)count + 1, sizeof(*ret->spans));
    for (uint32_t i = 0; i < count; i++) {
        bool is_long = i == 0 && cuts[1] - cuts[0] <= LONGER_MAX * length;
        bool is_whole = is_long || cuts[i + 1] - cuts[i] <= length + length / 4;
        uint32_t behind = is_whole ? cuts[i + 1] : cuts[i] + length;
        if (2 * (behind - cuts[i]) >= length)
            ret->spans[ret->span_count++] =
                    (struct period_span){.first = cuts[i], .behind = behind};
    }
    free(cuts);
}

/* ── judging it ── */

/* The share of the larger one's words of that size that both have. */
static double likeness(const struct search *search, const struct period_span *one,
        const struct period_span *other, int size)
{
    const uint32_t *ids = search->words.ids[size];
    uint32_t larger = one->behind - one->first;
    uint32_t common = 0;

    if (other->behind - other->first > larger)
        larger = other->behind - other->first;
    for (uint32_t i = one->first; i < one->behind; i++)
        search->seen[ids[i]]++;
    for (uint32_t i = other->first; i < other->behind; i++) {
        if (search->seen[ids[i]]) {
            search->seen[ids[i]]--;
            common++;
        }
    }
    for (uint32_t i = one->first; i < one->behind; i++)
        search->seen[ids[i]] = 0;
    return larger ? (double)common / larger : 0;
}

/* The likeness of pieces of that length of the randomly ordered sequence. */
static double chance_of(const struct search *search, uint32_t length, int size)
{
    uint32_t all = search->count - search->start;
    uint32_t turns = all / length - 1;
    double sum = 0;

    turns = turns < 1 ? 1 : turns > TURNS_MAX ? TURNS_MAX : turns;
    length = length < all / 2 ? length : all / 2;
    struct period_span one = {.first = search->count + search->start};
    for (uint32_t i = 0; i < turns; i++) {
        one.behind = one.first + length;
        struct period_span other = {.first = one.behind, .behind = one.behind + length};
        sum += likeness(search, &one, &other, size);
        one.first = one.behind;
    }
    return sum / turns;
}

/* The smallest word size with which less than half of random pieces are alike. */
static int choose_size(const struct search *search, uint32_t length, double *ret_chance)
{
    for (int size = 1;; size++) {
        *ret_chance = chance_of(search, length, size);
        if (*ret_chance < 0.5 || size + 1 == PERIOD_WORDS_SIZES)
            return size;
    }
}

/* Of a sample, the repetition that the others are most like. */
static struct period_span find_typical(
        const struct search *search, const struct period *period, int size)
{
    uint32_t samples = period->span_count < SAMPLES ? period->span_count : SAMPLES;
    const struct period_span *best = period->spans;
    double most = -1;

    for (uint32_t i = 0; i < samples; i++) {
        const struct period_span *one = &period->spans[(uint64_t)i * period->span_count / samples];
        double sum = 0;
        for (uint32_t k = 0; k < samples; k++)
            sum += likeness(
                    search, one, &period->spans[(uint64_t)k * period->span_count / samples], size);
        if (sum > most) {
            most = sum;
            best = one;
        }
    }
    return *best;
}

/* Drops repetitions that are not like the others. The first one may do more. */
static void keep_alike(const struct search *search, const struct period_span *typical, int size,
        struct period *period)
{
    uint32_t length = typical->behind - typical->first;
    uint32_t kept = 0;
    double sum = 0;

    for (uint32_t i = 0; i < period->span_count; i++) {
        struct period_span span = period->spans[i];
        uint32_t own = span.behind - span.first;
        span.likeness = likeness(search, typical, &span, size);
        bool is_kept = period_is_like(span.likeness, period->chance);
        if (!is_kept && i == 0 && own > length)
            is_kept = likeness(search, typical, &span, 0) * own >= NEARLY_SAME * length;
        if (!is_kept)
            continue;
        period->spans[kept++] = span;
        sum += span.likeness;
    }
    period->span_count = kept;
    period->likeness = kept ? sum / kept : 0;
}

/* The part of the sequence in repetitions, or of the same allocations, as an evaluation is. */
static void period_cover(const struct search *search, struct finding *one)
{
    const struct period *period = &one->period;
    const uint32_t *ids = search->words.ids[0];
    bool *known = vec_new(search->words.kinds, sizeof(*known));
    uint64_t inside = 0;
    uint64_t beside = 0;
    uint64_t strange = 0;
    uint32_t at = search->start;

    for (uint32_t i = 0; i < period->span_count; i++) {
        bool is_whole = period_is_like(period->spans[i].likeness, period->chance);
        for (uint32_t k = period->spans[i].first; k < period->spans[i].behind && is_whole; k++)
            known[ids[k]] = true;
    }
    for (uint32_t i = 0; i <= period->span_count; i++) {
        uint32_t begin = at;
        uint32_t end = i < period->span_count ? period->spans[i].first : search->count;
        for (; at < end; at++) {
            bool is_far = (i == 0 && at + period->length < end)
                    || (i == period->span_count && at >= begin + period->length);
            beside++;
            strange += (is_far && search->allocs[at].dies < search->count) || !known[ids[at]];
        }
        if (i == period->span_count)
            break;
        inside += period->spans[i].behind - period->spans[i].first;
        at = period->spans[i].behind;
    }
    free(known);
    one->share = (double)inside / (double)(inside + strange);
    one->fit = (period->likeness - period->chance) / (1 - period->chance) * (double)inside
            / (double)(inside + beside);
}

/* The peak of most repetitions, and the bytes that three in four hand on at most. */
static void weigh(const struct search *search, struct period *period)
{
    uint32_t count = period->span_count;
    uint64_t *bytes = vec_new(count, sizeof(*bytes));
    uint64_t *blocks = vec_new(count, sizeof(*blocks));

    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = period->spans[i].first; k < period->spans[i].behind; k++) {
            bytes[i] = search->bytes[k] > bytes[i] ? search->bytes[k] : bytes[i];
            blocks[i] = search->blocks[k] > blocks[i] ? search->blocks[k] : blocks[i];
        }
    }
    period->peak = quantile(bytes, count, 2);
    uint64_t most = quantile(blocks, count, 2);
    for (uint32_t i = 1; i < count; i++) {
        bytes[i - 1] = search->bytes[period->spans[i].first];
        blocks[i - 1] = search->blocks[period->spans[i].first];
    }
    period->handed_on = quantile(bytes, count - 1, 3);
    period->rests = period->handed_on <= period->peak / REST_OF
            && quantile(blocks, count - 1, 3) <= most / REST_OF;
    free(bytes);
    free(blocks);
}

static bool is_uniform(
        const struct search *search, const struct period_span *span, int size, double chance)
{
    uint32_t middle = span->first + (span->behind - span->first) / 2;
    struct period_span one = {.first = span->first, .behind = middle};
    struct period_span other = {.first = middle, .behind = span->behind};

    return period_is_like(likeness(search, &one, &other, size), chance);
}

/* Most repetitions directly follow one: an evaluation, and what occurs once, do not. */
static bool follow_on(const struct period *period)
{
    uint32_t close = 0;

    for (uint32_t i = 1; i < period->span_count; i++)
        close += period->spans[i].first - period->spans[i - 1].behind <= period->length / REST_OF;
    return 2 * close >= period->span_count - 1;
}

static void period_judge(struct search *search, const struct anchor *class, struct finding *ret)
{
    struct period *period = &ret->period;
    uint32_t first = class->at[0];

    *ret = (struct finding){.period.length = class->length};
    period_find_live(
            search, first > search->start + class->length ? first - class->length : search->start);
    struct place place = find_place(search, class);
    put_spans(search, &place, period);
    if (period->span_count < 2)
        return;
    int size = choose_size(search, period->length, &period->chance);
    struct period_span typical = find_typical(search, period, size);
    keep_alike(search, &typical, size, period);
    if (period->span_count < 2)
        return;
    period_find_live(search, period->spans[0].first);
    weigh(search, period);
    period_cover(search, ret);
    ret->repeats = period->span_count >= REPETITIONS_MIN && ret->fit >= COVERED_BY_PARTS;
    ret->is_uniform = is_uniform(search, &typical, size, period->chance);
    if (ret->share < COVERED || !follow_on(period))
        return;
    if (period->span_count < REPETITIONS_MIN && (!period->rests || period->likeness < NEARLY_SAME))
        return;
    period->kind = period->rests ? PERIOD_STEPS : PERIOD_PARTS;
}

/* ── choosing one ── */

static int by_length(const void *a, const void *b)
{
    const struct finding *x = a;
    const struct finding *y = b;

    return vec_order(x->period.length, y->period.length, 0);
}

/* Steps that hand memory on contain parts, which repeat more finely, and other allocations. */
static bool has_parts(const struct finding *all, size_t count, const struct finding *one)
{
    if (one->is_uniform || one->period.handed_on > one->period.peak / 4 * 3)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (all[i].repeats && all[i].period.length <= one->period.length / PARTS_MIN
                && COARSER_OF * (one->share - all[i].share) > 1)
            return true;
    }
    return false;
}

static int period_rank(const struct finding *one)
{
    if (one->period.kind != PERIOD_STEPS)
        return (int)one->period.kind;
    return (int)PERIOD_STEPS + one->period.rests;
}

static void period_swap(struct finding *one, struct finding *other)
{
    struct finding kept = *other;

    *other = *one;
    *one = kept;
}

static void take_if_better(struct finding *one, struct finding *best)
{
    bool is_fitter = is_about(one->period.length, best->period.length)
            ? one->fit > best->fit
            : COARSER_OF * (one->share - best->share) > 1;
    bool is_better = period_rank(one) > period_rank(best)
            || (period_rank(one) == period_rank(best) && is_fitter);

    if (is_better && one->period.kind != PERIOD_NONE)
        period_swap(one, best);
}

/*
 * If now and then nothing lives between parts, a whole begins there that the parts belong to, even
 * if no allocation marks it. The last one does not count: the memory that it hands on is unknown.
 */
static void judge_whole(struct search *search, const struct period *parts, struct finding *ret)
{
    uint32_t *at = vec_new(parts->span_count, sizeof(*at));
    uint32_t count = 0;
    struct anchor whole;

    for (uint32_t i = 0, rested = false; i + 1 < parts->span_count; i++) {
        uint32_t first = parts->spans[i].first;
        bool rests = search->bytes[first] <= parts->peak / REST_OF
                && search->blocks[first] <= search->peak_blocks / REST_OF;
        if (rests && !rested)
            at[count++] = first;
        rested = rests;
    }
    *ret = (struct finding){0};
    if (count >= REPETITIONS_MIN && count + 1 < parts->span_count
            && period_measure(search, at, count, &whole))
        period_judge(search, &whole, ret);
    free(at);
}

static void period_find_in(struct search *search, struct finding *ret, struct finding *ret_two)
{
    struct anchor classes[CLASSES_MAX];
    struct finding all[2 * CLASSES_MAX];

    for (int k = 0; k < ANCHOR_SIZES; k++)
        find_anchors(search, k);
    size_t class_count = find_classes(search, classes);
    size_t count = 0;
    for (size_t i = 0; i < class_count; i++) {
        struct finding *found = &all[count++];
        period_judge(search, &classes[i], found);
        if (found->period.kind == PERIOD_PARTS)
            judge_whole(search, &found->period, &all[count++]);
    }
    search->anchor_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (all[i].period.kind == PERIOD_PARTS && has_parts(all, count, &all[i]))
            all[i].period.kind = PERIOD_STEPS;
    }
    VEC_SORT(all, count, by_length);
    for (size_t i = 0; i < count; i++) {
        take_if_better(&all[i], all[i].period.span_count < REPETITIONS_MIN ? ret_two : ret);
        period_done(&all[i].period);
    }
}

static void say_why(struct period *period, uint32_t kinds)
{
    if (period->kind == PERIOD_NONE)
        (void)snprintf(period->reason, sizeof(period->reason), "%s",
                kinds < 2 ? "all allocations look the same"
                          : "nothing repeats from end to end, or no more than by chance");
    else
        (void)snprintf(period->reason, sizeof(period->reason),
                "%" PRIu32 " times about %" PRIu32
                " allocations, %.0f %% alike (in random order %.0f %%), %s across %s of %s",
                period->span_count, period->length, 100 * period->likeness, 100 * period->chance,
                render_bytes(period->handed_on).text,
                period->kind == PERIOD_STEPS ? "a cut, at a peak" : "each cut, at a peak",
                render_bytes(period->peak).text);
}

/* By notions of equal allocations, the finest first; returns the number of kinds of them. */
static uint32_t period_find_all(struct search *search, struct period *ret)
{
    struct finding best = {0};
    struct finding two = {0};
    uint32_t kinds = 0;

    for (int same = 0; same < PERIOD_WORDS_SAMENESSES; same++) {
        struct finding found = {0};
        period_words_make(search->allocs, search->start, search->count,
                (enum period_words_sameness)same, &search->words);
        kinds = search->words.kinds > kinds ? search->words.kinds : kinds;
        if (search->words.kinds > 1)
            period_find_in(search, &found, &two);
        if (found.period.kind > best.period.kind
                || (found.period.kind == best.period.kind && found.fit > best.fit))
            period_swap(&found, &best);
        period_done(&found.period);
        period_words_done(&search->words);
        progress_step((uint64_t)same + 1, PERIOD_WORDS_SAMENESSES);
    }
    if (!best.period.rests)
        take_if_better(&two, &best);
    period_done(&two.period);
    *ret = best.period;
    return kinds;
}

void period_find(const struct period_alloc *allocs, uint32_t count, struct period *ret)
{
    struct search search = {.allocs = allocs, .count = count};
    uint32_t kinds = 2;

    *ret = (struct period){0};
    if (count < ALLOCS_MIN) {
        (void)snprintf(ret->reason, sizeof(ret->reason), "only %" PRIu32 " allocation%s", count,
                render_s(count));
        return;
    }
    while (search.start < count && allocs[search.start].dies == PERIOD_NEVER)
        search.start++;
    search.bytes = vec_new((size_t)count + 1, sizeof(*search.bytes));
    search.blocks = vec_new((size_t)count + 1, sizeof(*search.blocks));
    search.seen = vec_new(2 * (size_t)count + 1, sizeof(*search.seen));
    for (int k = 0; k < ANCHOR_SIZES; k++)
        search.places[k] = vec_new(count, sizeof(*search.places[k]));
    if (count - search.start >= ALLOCS_MIN)
        kinds = period_find_all(&search, ret);
    say_why(ret, kinds);
    for (int k = 0; k < ANCHOR_SIZES; k++)
        free(search.places[k]);
    free(search.bytes);
    free(search.blocks);
    free(search.seen);
    free(search.anchors);
}

void period_done(struct period *period)
{
    free(period->spans);
    *period = (struct period){0};
}
