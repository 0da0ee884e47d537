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

/* The last set place below a word of this level. */
static size_t export_live_last(const struct export_live *live, unsigned level, size_t word)
{
    for (;; level--) {
        word = word * 64 + 63 - (unsigned)__builtin_clzll(live->level[level][word]);
        if (level == 0)
            return word;
    }
}

static size_t export_live_first(const struct export_live *live, unsigned level, size_t word)
{
    for (;; level--) {
        word = word * 64 + (unsigned)__builtin_ctzll(live->level[level][word]);
        if (level == 0)
            return word;
    }
}

size_t export_live_before(const struct export_live *live, size_t place)
{
    for (unsigned i = 0; i < EXPORT_LIVE_LEVELS; i++) {
        size_t word = place / 64;
        uint64_t below = (UINT64_C(1) << (place % 64)) - 1;
        uint64_t bits = word < live->words[i] ? live->level[i][word] & below : 0;

        if (bits) {
            word = word * 64 + 63 - (unsigned)__builtin_clzll(bits);
            return i == 0 ? word : export_live_last(live, i - 1, word);
        }
        place = word;
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
            return i == 0 ? place : export_live_first(live, i - 1, place);
        }
        place = word + 1;
    }
    return EXPORT_LIVE_NONE;
}
