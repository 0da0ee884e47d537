/* SPDX-License-Identifier: MIT */
#include "tools/steps/trend.h"

#include "alloc/base/types.h"

enum {
    TREND_RISES_REPLACED = 5, /* of a replaced block: 6 random sizes ascend once in 720 times */
};

/* The rises since the last fall; distances are in rounds. */
struct climb {
    uint32_t from, rises, since, latest;
    uint32_t before;            /* the distance of the first rise from `from` */
    uint32_t longest, shortest; /* of two rises */
    uint64_t first, amount;     /* bytes at `from`, and of the first rise */
    bool adds_blocks, is_even;  /* each of them adds blocks; adds as much as the first */
};

struct values {
    struct climb climb;
    uint32_t stretch;                /* the longest one between two falls */
    uint64_t highest, most_blocks;   /* before the last fall */
    uint64_t begin;                  /* bytes at the end of the first round */
    uint32_t rises, since;           /* in all rounds */
    struct trend_change now;         /* at the end of the run */
    uint64_t first_most, last_least; /* of the first third, and of the last one */
};

static struct climb climb_from(uint32_t round, uint64_t bytes)
{
    return (struct climb){.from = round,
            .first = bytes,
            .shortest = UINT32_MAX,
            .adds_blocks = true,
            .is_even = true};
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
}

/* `is` holds from its round up to `behind`. */
static void add_value(
        struct values *v, const struct trend_change *is, uint32_t behind, uint32_t rounds)
{
    if (is->round < rounds / 3)
        v->first_most = max_of(v->first_most, is->bytes);
    if (behind > rounds - rounds / 3)
        v->last_least = min_of(v->last_least, is->bytes);
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

static bool is_believed(const struct climb *climb)
{
    uint32_t near = climb->before < climb->shortest ? climb->before : climb->shortest;
    uint32_t far = climb->before > climb->longest ? climb->before : climb->longest;

    if (climb->rises >= TREND_RISES_REPLACED)
        return true;
    if (climb->rises < 2 || !(climb->adds_blocks || climb->is_even))
        return false;
    return climb->rises > 2 || far <= 2 * near;
}

static enum trend of_climb(const struct climb *climb, uint32_t rounds)
{
    uint32_t rest = rounds - 1 - climb->latest;

    if (climb->rises == 0)
        return TREND_STEADY;
    if (climb->rises == 1)
        return rest >= 2 && rest > climb->before ? TREND_FILLED : TREND_UNKNOWN;
    if (rest > 2 * climb->longest)
        return TREND_FILLED;
    return rest <= climb->longest && is_believed(climb) ? TREND_GROWS : TREND_UNKNOWN;
}

/* What comes and goes. */
static enum trend of_noise(const struct values *v, uint32_t rounds)
{
    if (rounds >= TREND_NOISY && v->last_least > v->first_most)
        return TREND_GROWS;
    return v->now.bytes > v->highest && v->now.blocks > v->most_blocks ? TREND_UNKNOWN
                                                                       : TREND_STEADY;
}

struct trend_figures trend_of(const struct trend_change *changes, size_t count, uint32_t rounds)
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
    if (v.climb.from > 0 && rounds - v.climb.from <= 2 * v.stretch)
        return (struct trend_figures){of_noise(&v, rounds), v.begin, v.now.bytes, v.rises, v.since,
                rounds - 1 - v.now.round, v.now.blocks > v.most_blocks};
    return (struct trend_figures){of_climb(&v.climb, rounds), v.climb.first, v.now.bytes,
            v.climb.rises, v.climb.since, rounds - 1 - v.climb.latest, v.climb.adds_blocks};
}
