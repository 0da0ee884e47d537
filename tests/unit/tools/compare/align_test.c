/* SPDX-License-Identifier: MIT */
/* covers: align.c */
#include "tests/check.h"

#include "tools/compare/align.h"

#include <stdlib.h>
#include <string.h>

/* Length of a longest common subsequence by the textbook table. */
static uint32_t longest(const uint32_t *a, uint32_t n, const uint32_t *b, uint32_t m)
{
    uint32_t *row = calloc((size_t)m + 1, sizeof(*row));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t diagonal = 0;
        for (uint32_t k = 0; k < m; k++) {
            uint32_t up = row[k + 1];
            if (a[i] == b[k])
                row[k + 1] = diagonal + 1;
            else if (row[k] > up)
                row[k + 1] = row[k];
            diagonal = up;
        }
    }
    uint32_t length = row[m];
    free(row);
    return length;
}

/* Checks that `partner` is a common subsequence; returns its length. */
static uint32_t check_pairs(
        const uint32_t *a, uint32_t n, const uint32_t *b, uint32_t m, const uint32_t *partner)
{
    uint32_t count = 0;
    uint32_t next = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (partner[i] == ALIGN_NONE)
            continue;
        CHECK_LT(partner[i], m);
        CHECK_GE(partner[i], next);
        CHECK_EQ(a[i], b[partner[i]]);
        next = partner[i] + 1;
        count++;
    }
    return count;
}

static uint32_t state = 12345;

static uint32_t dice(uint32_t sides)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % sides;
}

TEST(random_sequences_give_a_longest_common_subsequence)
{
    for (int round = 0; round < 4000; round++) {
        uint32_t a[40];
        uint32_t b[40];
        uint32_t partner[40];
        uint32_t n = dice(41);
        uint32_t m = dice(41);
        uint32_t letters = 1 + dice(6);
        for (uint32_t i = 0; i < n; i++)
            a[i] = dice(letters);
        for (uint32_t i = 0; i < m; i++)
            b[i] = dice(letters);
        align_sequences(a, n, b, m, partner);
        CHECK_EQ(check_pairs(a, n, b, m, partner), longest(a, n, b, m));
    }
}

TEST(empty_and_equal_sequences)
{
    uint32_t a[3] = {1, 2, 3};
    uint32_t partner[3] = {9, 9, 9};
    align_sequences(a, 3, a, 0, partner);
    CHECK_EQ(partner[0], ALIGN_NONE);
    CHECK_EQ(partner[2], ALIGN_NONE);
    align_sequences(a, 3, a, 3, partner);
    for (uint32_t i = 0; i < 3; i++)
        CHECK_EQ(partner[i], i);
    align_sequences(a, 0, a, 3, partner);
}

TEST(extra_elements_leave_the_others_paired)
{
    enum {
        N = 3000
    };
    static uint32_t a[N];
    static uint32_t b[N + N / 3];
    static uint32_t partner[N];
    uint32_t m = 0;
    for (uint32_t i = 0; i < N; i++) {
        a[i] = i % 7;
        if (i % 3 == 0)
            b[m++] = 1000;
        b[m++] = a[i];
    }
    align_sequences(a, N, b, m, partner);
    CHECK_EQ(check_pairs(a, N, b, m, partner), N);
}

/* The search is given up three times, in what one sequence alone begins with. Nothing of the other is given up for it. */
TEST(a_long_beginning_of_one_sequence_costs_no_pairs)
{
    enum {
        COMMON = 1000,
        EXTRA = 3 * 4096 - 100, /* no multiple of what is searched at a time */
        REST = 20000,
        N = COMMON + REST,
        M = EXTRA + COMMON + REST
    };
    static uint32_t a[N];
    static uint32_t b[M];
    static uint32_t partner[N];

    for (uint32_t i = 0; i < N; i++)
        a[i] = i;
    for (uint32_t i = 0; i < M; i++)
        b[i] = i >= EXTRA && i < EXTRA + COMMON ? i - EXTRA : N + i;
    align_sequences(a, N, b, M, partner);
    CHECK_EQ(check_pairs(a, N, b, M, partner), COMMON);
}

/* So many edits that the search is given up: still a common subsequence, and still in bounded time. */
TEST(long_sequences_without_anything_in_common_end)
{
    enum {
        N = 100000
    };
    uint32_t *a = malloc(N * sizeof(*a));
    uint32_t *b = malloc(N * sizeof(*b));
    uint32_t *partner = malloc(N * sizeof(*partner));
    for (uint32_t i = 0; i < N; i++) {
        a[i] = i;
        b[i] = i % 100 == 0 ? i : i + N;
    }
    align_sequences(a, N, b, N, partner);
    CHECK_GT(check_pairs(a, N, b, N, partner), 0);
    for (uint32_t i = 0; i < N; i++)
        b[i] = i + N;
    align_sequences(a, N, b, N, partner);
    CHECK_EQ(check_pairs(a, N, b, N, partner), 0);
    free(a);
    free(b);
    free(partner);
}
