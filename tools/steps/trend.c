/* SPDX-License-Identifier: MIT */
#include "tools/steps/trend.h"

#include <stdlib.h>

#include "alloc/base/types.h"
#include "tools/base/vec.h"

enum {
    TREND_RISES_REPLACED = 5, /* of a replaced block: 6 random sizes ascend once in 720 times */
    TREND_RISES_BLOCKS = 3,   /* of the number of blocks, where their bytes come and go */
    TREND_REPETITIONS = 3,    /* of a value that comes and goes */
};

/* The rises since the last fall; distances are in rounds. */
struct climb {
    uint32_t from, rises, since, latest;
    uint32_t before;                /* the distance of the first rise from `from` */
    uint32_t longest, shortest;     /* of two rises */
    uint64_t first;                 /* bytes at `from` */
    uint64_t amount, latest_amount; /* of the first rise, and of the last one */
    bool adds_blocks, is_even;      /* each of them adds blocks; adds as much as the first */
    bool ascends;                   /* each adds at least as much as the one before it */
};

struct values {
    struct climb climb;
    uint32_t stretch;                /* the longest one between two falls */
    uint64_t highest, most_blocks;   /* before the last fall */
    uint64_t begin;                  /* bytes at the end of the first round */
    uint32_t rises, since;           /* in all rounds */
    struct trend_change now;         /* at the end of the run */
    uint64_t first_most, last_least; /* of the first third, and of the last one */
    double first_sum, last_sum;      /* of their rounds */
};

static struct climb climb_from(uint32_t round, uint64_t bytes)
{
    return (struct climb){.from = round,
            .first = bytes,
            .shortest = UINT32_MAX,
            .adds_blocks = true,
            .is_even = true,
            .ascends = true};
}

static void add_rise(
        struct climb *climb, const struct trend_change *was, const struct trend_change *is)
{
    uint64_t amount = is->bytes - was->bytes;

    if (climb->rises++ == 0) {
        climb->since = is->round;
        climb->before = is->round - climb->from;
        climb->amount = amount;
    } else {
        uint32_t distance = is->round - climb->latest;
        climb->longest = distance > climb->longest ? distance : climb->longest;
        climb->shortest = distance < climb->shortest ? distance : climb->shortest;
    }
    climb->latest = is->round;
    climb->adds_blocks = climb->adds_blocks && is->blocks > was->blocks;
    climb->is_even = climb->is_even && amount == climb->amount;
    climb->ascends = climb->ascends && amount >= climb->latest_amount;
    climb->latest_amount = amount;
}

/* `is` holds from its round up to `behind`. */
static void add_value(
        struct values *v, const struct trend_change *is, uint32_t behind, uint32_t rounds)
{
    uint32_t third = rounds / 3, last = rounds - third;

    if (is->round < third) {
        v->first_most = max_of(v->first_most, is->bytes);
        v->first_sum += (double)is->bytes * ((behind < third ? behind : third) - is->round);
    }
    if (behind > last) {
        v->last_least = min_of(v->last_least, is->bytes);
        v->last_sum += (double)is->bytes * (behind - (is->round > last ? is->round : last));
    }
}

static void trend_add(struct values *v, const struct trend_change *is)
{
    if (is->bytes < v->now.bytes) {
        uint32_t stretch = is->round - v->climb.from;
        v->stretch = stretch > v->stretch ? stretch : v->stretch;
        v->highest = max_of(v->highest, v->now.bytes);
        v->most_blocks = max_of(v->most_blocks, v->now.blocks);
        v->climb = climb_from(is->round, is->bytes);
    } else if (is->bytes > v->now.bytes) {
        add_rise(&v->climb, &v->now, is);
        v->since = v->rises++ == 0 ? is->round : v->since;
    }
    v->now = *is;
}

/* Whether neither of two rises is twice the other. */
static bool are_alike(const struct climb *climb)
{
    return climb->amount < 2 * climb->latest_amount && climb->latest_amount < 2 * climb->amount;
}

/* TREND_KNOWN: its rises are those of something that grows. */
static enum trend_why doubt_of_rises(const struct climb *climb)
{
    uint32_t near = climb->before < climb->shortest ? climb->before : climb->shortest;
    uint32_t far = climb->before > climb->longest ? climb->before : climb->longest;

    if (climb->rises >= TREND_RISES_REPLACED)
        return TREND_KNOWN;
    if (!climb->adds_blocks && !climb->is_even)
        return TREND_REPLACED;
    return climb->rises > 2 || (far <= 2 * near && are_alike(climb)) ? TREND_KNOWN : TREND_TWICE;
}

/* Sets the trend, and why it is unknown. */
static void judge_climb(const struct climb *climb, struct trend_figures *is)
{
    uint32_t rest = is->rounds - 1 - climb->latest;

    is->trend = TREND_UNKNOWN;
    if (climb->rises == 0)
        is->trend = TREND_STEADY;
    else if (climb->rises == 1 ? rest >= 2 && rest > climb->before : rest > 2 * climb->longest)
        is->trend = TREND_FILLED;
    else if (climb->rises == 1 || rest > climb->longest)
        is->why = climb->rises == 1 ? TREND_ONCE : TREND_RESTS;
    else
        is->why = doubt_of_rises(climb);
    if (is->trend == TREND_UNKNOWN && is->why == TREND_KNOWN)
        is->trend = TREND_GROWS;
}

static struct trend_figures of_climb(const struct values *v, uint32_t rounds)
{
    const struct climb *climb = &v->climb;
    bool swells = climb->rises > 1 && climb->ascends;
    struct trend_figures is = {.first = climb->first,
            .last = v->now.bytes,
            .rises = climb->rises,
            .since = climb->since,
            .rest = rounds - 1 - climb->latest,
            .adds_blocks = climb->adds_blocks,
            .rounds = rounds,
            .first_rise = swells ? climb->amount : 0,
            .last_rise = swells ? climb->latest_amount : 0};

    judge_climb(climb, &is);
    return is;
}

/* ---- what comes and goes -------------------------------------------------------------------- */

static struct values values_of(const struct trend_change *changes, size_t count, uint32_t rounds)
{
    struct values v = {.last_least = UINT64_MAX};
    size_t i = 0;

    if (count && changes[0].round == 0)
        v.now = changes[i++];
    v.begin = v.now.bytes;
    v.climb = climb_from(0, v.begin);
    add_value(&v, &v.now, i < count ? changes[i].round : rounds, rounds);
    for (; i < count; i++) {
        trend_add(&v, &changes[i]);
        add_value(&v, &changes[i], i + 1 < count ? changes[i + 1].round : rounds, rounds);
    }
    return v;
}

static bool comes_and_goes(const struct values *v, uint32_t rounds)
{
    return v->climb.from > 0 && rounds - v->climb.from <= 2 * v->stretch;
}

/* Whether the number of blocks grows, whatever their bytes do. */
static bool has_more_and_more_blocks(
        const struct trend_change *changes, size_t count, uint32_t rounds)
{
    struct trend_change *blocks = vec_new(count, sizeof(*blocks));
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (kept == 0 || changes[i].blocks != blocks[kept - 1].blocks)
            blocks[kept++] =
                    (struct trend_change){changes[i].round, changes[i].blocks, changes[i].blocks};
    struct values v = values_of(blocks, kept, rounds);
    struct trend_figures is = of_climb(&v, rounds);
    free(blocks);
    return !comes_and_goes(&v, rounds) && is.trend == TREND_GROWS && is.rises >= TREND_RISES_BLOCKS;
}

/* The gains of a value that repeats often enough, without its first third if that differs. */
static struct gains repeated_gains(
        const struct trend_change *changes, size_t count, uint32_t rounds)
{
    struct gains gains = gains_find(changes, count, rounds, 1);

    if (gains.times < TREND_REPETITIONS)
        gains = gains_find(changes, count, rounds, rounds / 3);
    return gains.times < TREND_REPETITIONS ? (struct gains){0} : gains;
}

/* From the first third of the rounds to the last one, as if all rounds went on like that. */
static int64_t gained_in_the_mean(const struct values *v, uint32_t rounds)
{
    uint32_t third = rounds / 3;

    return third ? (int64_t)((v->last_sum - v->first_sum) / third * (rounds - 1) / (rounds - third))
                 : 0;
}

static struct trend_figures of_noise(
        const struct values *v, const struct trend_change *changes, size_t count, uint32_t rounds)
{
    struct trend_figures is = {.trend = TREND_STEADY,
            .last = v->now.bytes,
            .rises = v->rises,
            .since = v->since,
            .rest = rounds - 1 - v->now.round,
            .adds_blocks = v->now.blocks > v->most_blocks,
            .falls = true,
            .rounds = rounds,
            .gains = repeated_gains(changes, count, rounds)};
    int64_t gained =
            is.gains.period ? is.gains.each * is.gains.times : gained_in_the_mean(v, rounds);

    if (is.gains.period)
        is.trend = gained > 0 ? TREND_GROWS : TREND_STEADY;
    else if (rounds >= TREND_NOISY && v->last_least > v->first_most)
        is.trend = TREND_GROWS;
    else if (has_more_and_more_blocks(changes, count, rounds))
        is.trend = gained > 0 ? TREND_GROWS : TREND_UNKNOWN;
    else if (v->now.bytes > v->highest && v->now.blocks > v->most_blocks)
        is.trend = TREND_UNKNOWN;
    is.first = gained > 0 ? excess_of(is.last, (uint64_t)gained) : is.last;
    is.why = is.trend == TREND_UNKNOWN ? TREND_FALLS : TREND_KNOWN;
    return is;
}

/* ---- a trend -------------------------------------------------------------------------------- */

const char *trend_why_text(enum trend_why why)
{
    static const char *const texts[TREND_WHY_COUNT] = {
            [TREND_KNOWN] = "",
            [TREND_ONCE] = "it rose once, which a cache does, too",
            [TREND_RESTS] = "it has been at rest for longer than before, but not long enough",
            [TREND_REPLACED] = "blocks were replaced by larger ones, which chance does, too",
            [TREND_TWICE] = "it rose twice only, at uneven distances or by other bytes",
            [TREND_FALLS] = "it falls at times, and may fall again",
            [TREND_PASSING] = "it was freed after the run's last allocation, perhaps by its exit",
            [TREND_RESULTS] =
                    "it was freed while the run went on, as results that are collected are",
            [TREND_LARGER] = "blocks that are freed became larger in the same rounds, too",
    };

    return texts[why];
}

struct trend_figures trend_of(const struct trend_change *changes, size_t count, uint32_t rounds)
{
    struct values v = values_of(changes, count, rounds);

    if (comes_and_goes(&v, rounds))
        return of_noise(&v, changes, count, rounds);
    struct trend_figures is = of_climb(&v, rounds);
    if (is.trend == TREND_GROWS)
        is.gains = gains_find(changes, count, rounds, is.since);
    return is;
}

void trend_join(struct trend_figures *figures, const struct trend_figures *more)
{
    bool both_swell = figures->first_rise && more->first_rise;

    figures->first += more->first;
    figures->last += more->last;
    figures->gains.each += more->gains.each;
    figures->first_rise = both_swell ? figures->first_rise + more->first_rise : 0;
    figures->last_rise += more->last_rise;
}
