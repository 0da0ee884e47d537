/* SPDX-License-Identifier: MIT */
#include "tools/export/export_live.h"

#include <stdlib.h>

#include "tools/base/vec.h"

void export_live_begin(struct export_live *live, size_t count)
{
    for (unsigned i = 0; i < EXPORT_LIVE_LEVELS; i++) {
        count = count / 64 + 1;
        live->words[i] = count;
        live->level[i] = vec_new(count, sizeof(uint64_t));
    }
}

void export_live_done(struct export_live *live)
{
    for (unsigned i = 0; i < EXPORT_LIVE_LEVELS; i++)
        free(live->level[i]);
    *live = (struct export_live){0};
}

void export_live_set(struct export_live *live, size_t place, bool is_taken)
{
    for (unsigned i = 0; i < EXPORT_LIVE_LEVELS; i++) {
        uint64_t *word = &live->level[i][place / 64];
        uint64_t bit = UINT64_C(1) << (place % 64);

        *word = is_taken ? *word | bit : *word & ~bit;
        is_taken = *word != 0;
        place /= 64;
    }
}

/* Up to the level that has a nearer place, then down to it. */
size_t export_live_before(const struct export_live *live, size_t place)
{
    for (unsigned i = 0; i < EXPORT_LIVE_LEVELS; i++) {
        size_t word = place / 64;
        uint64_t below = (UINT64_C(1) << (place % 64)) - 1;
        uint64_t bits = word < live->words[i] ? live->level[i][word] & below : 0;

        place = word;
        if (!bits)
            continue;
        place = word * 64 + 63 - (unsigned)__builtin_clzll(bits);
        while (i-- > 0)
            place = place * 64 + 63 - (unsigned)__builtin_clzll(live->level[i][place]);
        return place;
    }
    return EXPORT_LIVE_NONE;
}

size_t export_live_from(const struct export_live *live, size_t place)
{
    for (unsigned i = 0; i < EXPORT_LIVE_LEVELS; i++) {
        size_t word = place / 64;
        uint64_t bits = word < live->words[i] ? live->level[i][word] >> (place % 64) : 0;

        if (bits) {
            place += (unsigned)__builtin_ctzll(bits);
            while (i-- > 0)
                place = place * 64 + (unsigned)__builtin_ctzll(live->level[i][place]);
            return place;
        }
        place = word + 1;
    }
    return EXPORT_LIVE_NONE;
}
