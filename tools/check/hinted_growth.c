/* SPDX-License-Identifier: MIT */
#include "tools/check/hinted_growth.h"

#include <stdlib.h>

#include "tools/base/keytable.h"
#include "tools/base/vec.h"

uint64_t hinted_growth_held(const struct load *load, const struct growth *growth)
{
    const struct growth_rounds *rounds = &growth->rounds[0];
    uint64_t held = 0, least = UINT64_MAX;
    size_t next = 0;

    for (uint32_t round = 0; round < rounds->count; round++) {
        for (; next < load->held_count && load->holds[next].at < rounds->behind[round]; next++)
            held = load->holds[next].bytes;
        if (round > 0 && held < least)
            least = held;
    }
    return held - least;
}

static bool is_released(const struct trace_block *block, uint32_t behind)
{
    return block->mode == HINT_LIVE && block->released < behind && block->died >= behind;
}

uint64_t hinted_growth_stored(const struct load *load, const struct growth *growth)
{
    size_t count = growth->counts[TREND_GROWS];
    struct keytable numbers = {0};
    uint64_t *first = vec_new(count, sizeof(*first));
    uint64_t *last = vec_new(count, sizeof(*last));
    uint64_t stored = 0;

    for (size_t i = 0; i < count; i++) {
        const struct growth_site *site = &growth->sites[i];
        *keytable_at(&numbers, (struct key){site->stack, site->size, 0}, 0) = (uint32_t)i;
        first[i] = site->is.first;
        last[i] = site->is.last;
    }
    for (size_t i = 0; i < load->trace->block_count && count > 0; i++) {
        const struct trace_block *block = &load->trace->blocks[i];
        struct key key = {block->stack, block->stack ? 0 : block->size, 0};
        const uint32_t *at = keytable_find(&numbers, key);
        if (!at)
            continue;
        const struct growth_rounds *rounds = &growth->rounds[growth->sites[*at].kind];
        if (is_released(block, rounds->behind[0]))
            first[*at] = excess_of(first[*at], block->size);
        if (is_released(block, rounds->behind[rounds->count - 1]))
            last[*at] = excess_of(last[*at], block->size);
    }
    for (size_t i = 0; i < count; i++)
        stored += excess_of(last[i], first[i]);
    keytable_done(&numbers);
    free(first);
    free(last);
    return stored;
}
