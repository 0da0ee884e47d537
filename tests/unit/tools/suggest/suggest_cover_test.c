/* SPDX-License-Identifier: MIT */
/* covers: suggest_cover.c */
#include "tests/check.h"

#include "tools/suggest/suggest_cover.h"

#include <stdlib.h>

#define ITEMS 16

/* Sets given as bits. */
struct given {
    struct suggest_cover_set sets[64];
    uint32_t items[64 * ITEMS];
    uint32_t bits[64];
    size_t count;
    uint32_t used;
};

static void add(struct given *given, uint32_t bits, uint32_t rank)
{
    struct suggest_cover_set *set = &given->sets[given->count];

    *set = (struct suggest_cover_set){.first = given->used, .rank = rank};
    given->bits[given->count++] = bits;
    for (uint32_t i = 0; i < ITEMS; i++)
        if (bits >> i & 1)
            given->items[given->used++] = i;
    set->count = given->used - set->first;
}

static size_t choose(const struct given *given, uint32_t taken[64])
{
    size_t count = suggest_cover_choose(given->sets, given->count, given->items, ITEMS, taken);
    uint32_t wanted = 0;
    uint32_t got = 0;

    for (size_t i = 0; i < given->count; i++)
        wanted |= given->bits[i];
    for (size_t i = 0; i < count; i++)
        got |= given->bits[taken[i]];
    CHECK_EQ(got, wanted);
    return count;
}

TEST(sets_are_taken_by_what_they_add)
{
    static const struct {
        const char *name;
        struct {
            uint32_t bits, rank;
        } sets[4];
        size_t count;
        uint32_t taken[3];
        size_t taken_count;
    } rows[] = {
            {"nothing needs no set", {{0, 0}}, 0, {0}, 0},
            {"nor does a set of nothing", {{0, 0}}, 1, {0}, 0},
            /* the third has one more than the second, and then the first is still needed */
            {"the set that adds most is taken first",
                    {{0x000f, 0}, {0x0ff0, 0}, {0x0ff8, 5}, {0xf000, 0}}, 4, {2, 3, 0}, 3},
            {"of sets that add as much the lower rank", {{0x00ff, 2}, {0x00ff, 1}, {0x00ff, 1}}, 3,
                    {1}, 1},
            /* it is taken first, and then the two that are needed anyway have all of it */
            {"a set that others make needless is dropped again",
                    {{0x007e, 0}, {0x000f, 0}, {0x00f0, 0}}, 3, {1, 2}, 2},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct given *given = calloc(1, sizeof(*given));
        uint32_t taken[64];

        CHECK_ROW(rows[i].name);
        for (size_t k = 0; k < rows[i].count; k++)
            add(given, rows[i].sets[k].bits, rows[i].sets[k].rank);
        REQUIRE_EQ(choose(given, taken), rows[i].taken_count);
        for (size_t k = 0; k < rows[i].taken_count; k++)
            CHECK_EQ(taken[k], rows[i].taken[k]);
        free(given);
    }
}

/* Against the fewest, found by trying all: never more than twice as many (16 items: H(16) is 3.4), and mostly as few. */
TEST(random_sets_are_covered_by_nearly_the_fewest)
{
    uint32_t state = 3;
    unsigned more = 0;

    for (int round = 0; round < 300; round++) {
        struct given *given = calloc(1, sizeof(*given));
        uint32_t taken[64];
        uint32_t all = 0;
        unsigned fewest = 99;

        for (int i = 0; i < 10; i++) {
            state = state * 1664525u + 1013904223u;
            add(given, (state >> 8) & (state >> 16) & 0xffff, state >> 28);
            all |= given->bits[i];
        }
        size_t count = choose(given, taken);
        for (unsigned mask = 0; mask < 1u << 10; mask++) {
            uint32_t got = 0;
            for (unsigned i = 0; i < 10; i++)
                got |= mask >> i & 1 ? given->bits[i] : 0;
            if (got == all && (unsigned)__builtin_popcount(mask) < fewest)
                fewest = (unsigned)__builtin_popcount(mask);
        }
        CHECK_LE(count, 2 * (size_t)fewest);
        more += count > fewest;
        free(given);
    }
    CHECK_LE(more, 75);
}
