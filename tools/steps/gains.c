/* SPDX-License-Identifier: MIT */
#include "tools/steps/gains.h"

#include <stdlib.h>

#include "tools/base/vec.h"

/* What the rounds from `since` on gain; the caller frees it. */
static int64_t *gains_of_rounds(
        const struct trend_change *changes, size_t count, uint32_t since, uint32_t rounds)
{
    int64_t *gains = vec_new(rounds - since, sizeof(*gains));
    uint64_t before = 0;

    for (size_t i = 0; i < count; i++) {
        if (changes[i].round >= since)
            gains[changes[i].round - since] = (int64_t)(changes[i].bytes - before);
        before = changes[i].bytes;
    }
    return gains;
}

/* The shortest period of a sequence: its length without the longest beginning that also ends it. */
static uint32_t shortest_period(const int64_t *gains, uint32_t count)
{
    uint32_t *ends = vec_new(count, sizeof(*ends)); /* the longest one of each beginning */
    uint32_t length = 0;

    for (uint32_t i = 1; i < count; i++) {
        while (length && gains[i] != gains[length])
            length = ends[length - 1];
        length += gains[i] == gains[length];
        ends[i] = length;
    }
    free(ends);
    return count - length;
}

/* The distance of rises whose bytes differ; 0: something falls, or they come unevenly. */
static uint32_t even_distance(const int64_t *gains, uint32_t count)
{
    uint32_t distance = 0, last = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (gains[i] < 0)
            return 0;
        if (gains[i] == 0 || i == 0)
            continue;
        if (distance && i - last != distance)
            return 0;
        distance = i - last;
        last = i;
    }
    return count - last <= distance ? distance : 0;
}

/* Bytes in a period: of the whole ones, or those of a rise in the mean. 0: nothing rises. */
static int64_t gain_of_period(const int64_t *gains, uint32_t count, const struct gains *found)
{
    uint32_t whole = found->is_mean ? count : found->times * found->period;
    uint32_t rises = 0;
    int64_t sum = 0;

    for (uint32_t i = 0; i < whole; i++) {
        sum += gains[i];
        rises += gains[i] > 0;
    }
    return rises ? sum / (found->is_mean ? rises : found->times) : 0;
}

struct gains gains_find(
        const struct trend_change *changes, size_t count, uint32_t rounds, uint32_t since)
{
    struct gains found = {0};
    uint32_t length = rounds - since;

    if (since >= rounds)
        return found;
    int64_t *gains = gains_of_rounds(changes, count, since, rounds);
    uint32_t period = shortest_period(gains, length);
    found.is_mean = 2 * period > length;
    if (found.is_mean)
        period = even_distance(gains, length);
    if (period && 2 * period <= length) {
        found.period = period;
        found.times = length / period;
        found.each = gain_of_period(gains, length, &found);
    }
    free(gains);
    return found;
}
