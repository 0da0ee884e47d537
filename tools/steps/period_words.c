/* SPDX-License-Identifier: MIT */
#include "tools/steps/period_words.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"

static uint64_t period_words_mix(uint64_t hash, uint64_t more)
{
    hash = (hash ^ more) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Numbers equal hashes alike: 0, 1, ... Returns how many there are. */
static uint32_t number(const uint64_t *hashes, uint32_t count, uint32_t *ret_numbers)
{
    size_t mask = 15;
    uint32_t kinds = 0;

    while (mask < 2 * (size_t)count)
        mask = 2 * mask + 1;
    /* 1 + the first position of that hash; 0: free */
    uint32_t *first = vec_new(mask + 1, sizeof(*first));
    for (uint32_t i = 0; i < count; i++) {
        size_t at = period_words_mix(0, hashes[i]) & mask;
        while (first[at] && hashes[first[at] - 1] != hashes[i])
            at = (at + 1) & mask;
        ret_numbers[i] = first[at] ? ret_numbers[first[at] - 1] : kinds++;
        first[at] = first[at] ? first[at] : i + 1;
    }
    free(first);
    return kinds;
}

static uint64_t period_words_hash_of(
        const struct period_alloc *alloc, enum period_words_sameness same)
{
    uint64_t size = alloc->size;

    if (same == PERIOD_WORDS_SITE)
        size = 0;
    if (same == PERIOD_WORDS_BITS)
        size = size ? 64 - (uint64_t)__builtin_clzll(size) : 0;
    return period_words_mix(period_words_mix(period_words_mix(1, alloc->lane), alloc->site), size);
}

/* Swaps allocations within each lane. `lanes`: the number of each one's lane, below lane_count. */
static void shuffle(uint64_t *hashes, const uint32_t *lanes, uint32_t count, uint32_t lane_count)
{
    struct vec_lists by_lane = vec_lists_new(lanes, count, lane_count);
    const uint32_t *order = by_lane.at;
    uint64_t state = 1;

    for (uint32_t k = count; k-- > 0;) {
        uint32_t first = by_lane.first[lanes[order[k]]];
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t other = order[first + (uint32_t)((state >> 33) % (k - first + 1))];
        uint64_t kept = hashes[order[k]];
        hashes[order[k]] = hashes[other];
        hashes[other] = kept;
    }
    vec_lists_done(&by_lane);
}

static void find_next(const uint32_t *lanes, uint32_t count, uint32_t *ret_next)
{
    uint32_t none = 2 * count;
    uint32_t *last = vec_new(count, sizeof(*last)); /* 1 + the previous one in that lane */

    for (uint32_t i = 0; i < count; i++) {
        uint32_t lane = lanes[i];
        ret_next[i] = ret_next[count + i] = none;
        if (last[lane]) {
            ret_next[last[lane] - 1] = i;
            ret_next[count + last[lane] - 1] = count + i;
        }
        last[lane] = i + 1;
    }
    ret_next[none] = none;
    free(last);
}

void period_words_make(const struct period_alloc *allocs, uint32_t start, uint32_t count,
        enum period_words_sameness same, struct period_words *ret)
{
    uint32_t all = 2 * count + 1;
    uint64_t *hashes = vec_new(all, sizeof(*hashes));
    uint32_t *lanes = vec_new(count, sizeof(*lanes));
    uint32_t *jump = vec_new(all, sizeof(*jump)); /* the position of the next word of that size */

    *ret = (struct period_words){.count = count, .next = vec_new(all, sizeof(*ret->next))};
    for (int k = 0; k < PERIOD_WORDS_SIZES; k++)
        ret->ids[k] = vec_new(all, sizeof(**ret->ids));
    for (uint32_t i = 0; i < count; i++)
        hashes[i] = allocs[i].lane;
    (void)number(hashes, count, lanes);
    find_next(lanes, count, ret->next);
    for (uint32_t i = 0; i < count; i++)
        hashes[i] = hashes[count + i] = period_words_hash_of(&allocs[i], same);
    shuffle(hashes + count + start, lanes + start, count - start, count);
    /* No hash stands for "none", since it could be an allocation's. */
    ret->kinds = number(hashes, all - 1, ret->ids[0]);
    ret->ids[0][all - 1] = ret->kinds;
    memcpy(jump, ret->next, all * sizeof(*jump));
    for (int k = 1; k < PERIOD_WORDS_SIZES; k++) {
        for (uint32_t i = 0; i < all; i++)
            hashes[i] = (uint64_t)ret->ids[k - 1][i] << 32 | ret->ids[k - 1][jump[i]];
        (void)number(hashes, all, ret->ids[k]);
        for (uint32_t i = 0; i < all; i++)
            jump[i] = jump[jump[i]]; /* entries further on are not changed yet */
    }
    free(hashes);
    free(lanes);
    free(jump);
}

void period_words_done(struct period_words *words)
{
    free(words->next);
    for (int k = 0; k < PERIOD_WORDS_SIZES; k++)
        free(words->ids[k]);
    *words = (struct period_words){0};
}
