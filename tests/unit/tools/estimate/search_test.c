/* SPDX-License-Identifier: MIT */
/* covers: search.c */
/* The largest number that fits is found, by few tries. */
#include "tests/check.h"
#include "tools/estimate/search.h"

#define MIB (UINT64_C(1) << 20)

/* What a program needs with a number. */
typedef uint64_t (*need_function)(uint64_t number);

static uint64_t line(uint64_t number)
{
    return 700 * MIB + 3 * MIB * number;
}

/* As PyTorch takes memory: pieces of 20 MiB, and nothing more for small numbers. */
static uint64_t stairs(uint64_t number)
{
    return 600 * MIB + (number * 40960 / (20 * MIB)) * 20 * MIB;
}

static uint64_t curve(uint64_t number)
{
    return 100 * MIB + number * number * 1024;
}

static uint64_t always(uint64_t number)
{
    (void)number;
    return 100 * MIB;
}

/* The search's answer; 0: not even the lowest number fits. *ret_tries: how many numbers were tried. */
static uint64_t found(
        need_function need, uint64_t low, uint64_t high, uint64_t room, unsigned *ret_tries)
{
    struct search search = {.low = low, .high = high, .room = room};
    uint64_t next;

    while ((next = search_next(&search)) != 0 && search.tries < 100)
        search_tell(&search,
                (struct search_point){
                        .number = next, .need = need(next), .fits = need(next) <= room});
    *ret_tries = search.tries;
    return search.has_best ? search.best.number : 0;
}

static uint64_t by_trying_all(need_function need, uint64_t low, uint64_t high, uint64_t room)
{
    uint64_t best = 0;

    for (uint64_t number = low; number <= high && need(number) <= room; number++)
        best = number;
    return best;
}

TEST(the_answer_is_that_of_trying_all_numbers)
{
    static const need_function needs[] = {line, stairs, curve, always};
    static const uint64_t rooms[] = {50 * MIB, 703 * MIB, 1000 * MIB, 14 * 1024 * MIB};
    static const uint64_t highs[] = {1, 2, 7, 512, 20000};
    unsigned tries;

    for (size_t n = 0; n < 4; n++)
        for (size_t r = 0; r < 4; r++)
            for (size_t h = 0; h < 5; h++) {
                CHECK_EQ(found(needs[n], 1, highs[h], rooms[r], &tries),
                        by_trying_all(needs[n], 1, highs[h], rooms[r]));
                CHECK(tries <= 24);
            }
    CHECK_EQ(found(line, 5, 9, 1000 * MIB, &tries), 9);
    CHECK_EQ(found(line, 5, 9, 700 * MIB, &tries), 0);
    CHECK_EQ(tries, 1);
}

TEST(a_program_that_needs_as_much_more_for_each_number_takes_few_tries)
{
    unsigned tries;

    CHECK_EQ(found(line, 1, 4096, 14 * 1024 * MIB, &tries), 4545 > 4096 ? 4096 : 4545);
    CHECK(tries <= 4);
    CHECK_EQ(found(line, 1, 100000, 14 * 1024 * MIB, &tries), 4545);
    CHECK(tries <= 7);
    CHECK_EQ(found(stairs, 1, 100000, 1024 * MIB, &tries),
            by_trying_all(stairs, 1, 100000, 1024 * MIB));
    CHECK(tries <= 24);
}
