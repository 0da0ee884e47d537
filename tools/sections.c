/* SPDX-License-Identifier: MIT */
#include "tools/sections.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/vec.h"

/* A birth or a death. Deaths come first where both fall on one time: ends are exclusive. */
struct moment {
    uint64_t time;
    uint32_t span;
    bool birth;
};

static int compare_moments(const void *a, const void *b)
{
    const struct moment *x = a;
    const struct moment *y = b;

    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->birth != y->birth)
        return x->birth ? 1 : -1;
    return (x->span > y->span) - (x->span < y->span);
}

static struct moment *sort_moments(const struct span *spans, uint32_t count)
{
    struct moment *moments = vec_new(2 * (size_t)count, sizeof(*moments));

    for (uint32_t i = 0; i < count; i++) {
        moments[2 * (size_t)i] = (struct moment){spans[i].begin, i, true};
        moments[2 * (size_t)i + 1] = (struct moment){spans[i].end, i, false};
    }
    VEC_SORT(moments, 2 * (size_t)count, compare_moments);
    return moments;
}

static void sum_live(struct sections *sections)
{
    uint64_t now = 0;
    uint64_t *change = vec_new((size_t)sections->count + 1, sizeof(*change));

    for (uint32_t i = 0; i < sections->span_count; i++) {
        const struct span *span = &sections->spans[i];
        change[span->first] += span->size;
        change[span->last + 1] -= span->size; /* modulo 2^64: the sum is right */
    }
    sections->live = vec_new(sections->count, sizeof(*sections->live));
    for (uint32_t s = 0; s < sections->count; s++) {
        now += change[s];
        sections->live[s] = now;
        if (now > sections->max_live)
            sections->max_live = now;
    }
    free(change);
}

int sections_make(
        struct span *spans, uint32_t count, struct sections *ret_sections, uint32_t *ret_bad)
{
    struct sections sections = {.spans = spans, .span_count = count};
    uint64_t sum = 0;
    bool died = false;

    for (uint32_t i = 0; i < count; i++) {
        if (spans[i].size == 0 || spans[i].begin >= spans[i].end) {
            *ret_bad = i;
            return -EINVAL;
        }
        if (spans[i].size > (UINT64_MAX >> 1) - sum)
            return -EOVERFLOW;
        sum += spans[i].size;
    }
    struct moment *moments = sort_moments(spans, count);
    for (size_t i = 0; i < 2 * (size_t)count; i++) {
        struct span *span = &spans[moments[i].span];
        if (moments[i].birth) {
            sections.count += died;
            died = false;
            span->first = sections.count;
        } else {
            died = true;
            span->last = sections.count;
        }
    }
    sections.count += count > 0;
    free(moments);
    sum_live(&sections);
    *ret_sections = sections;
    return 0;
}

void sections_done(struct sections *sections)
{
    free(sections->live);
    *sections = (struct sections){0};
}

/* What lives during the sweep, by offset. */
struct sweep {
    const struct span *spans;
    uint32_t *live;
    size_t count;
};

/* Where a block with this offset stands or would stand. */
static size_t sweep_find(const struct sweep *sweep, uint64_t offset)
{
    size_t low = 0;
    size_t high = sweep->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sweep->spans[sweep->live[middle]].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* False if it touches a neighbour. */
static bool sweep_add(struct sweep *sweep, uint32_t number)
{
    const struct span *span = &sweep->spans[number];
    size_t at = sweep_find(sweep, span->offset);

    if (at < sweep->count && sweep->spans[sweep->live[at]].offset - span->offset < span->size)
        return false;
    if (at > 0) {
        const struct span *below = &sweep->spans[sweep->live[at - 1]];
        if (span->offset - below->offset < below->size)
            return false;
    }
    memmove(&sweep->live[at + 1], &sweep->live[at], (sweep->count - at) * sizeof(*sweep->live));
    sweep->live[at] = number;
    sweep->count++;
    return true;
}

bool sections_check(const struct span *spans, uint32_t count, uint64_t *ret_peak)
{
    struct moment *moments = sort_moments(spans, count);
    struct sweep sweep = {.spans = spans, .live = vec_new(count, sizeof(*sweep.live))};
    uint64_t peak = 0;
    bool fine = true;

    for (size_t i = 0; fine && i < 2 * (size_t)count; i++) {
        const struct span *span = &spans[moments[i].span];
        if (span->offset > UINT64_MAX - span->size) {
            fine = false;
        } else if (moments[i].birth) {
            fine = sweep_add(&sweep, moments[i].span);
            if (span->offset + span->size > peak)
                peak = span->offset + span->size;
        } else {
            size_t at = sweep_find(&sweep, span->offset);
            sweep.count--;
            memmove(&sweep.live[at], &sweep.live[at + 1], (sweep.count - at) * sizeof(*sweep.live));
        }
    }
    free(sweep.live);
    free(moments);
    if (fine)
        *ret_peak = peak;
    return fine;
}
