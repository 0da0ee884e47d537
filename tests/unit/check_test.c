/* SPDX-License-Identifier: MIT */
#include "tests/check.h"

/* The framework itself: what must hold here is what every other test leans on. */

TEST(values_of_mixed_types_compare_by_value)
{
    size_t size = 5;
    const char *text = "x";

    CHECK_EQ(size, 5);
    CHECK_LT(-1, 1U);
    CHECK_GT(18446744073709551615ULL, -1);
    CHECK_EQ(text, text);
    CHECK_EQ((void *)0, NULL);
    CHECK_NE(text, NULL);
    CHECK_EQ(0.5, 0.5F);
    CHECK_STR_EQ("a", "a");
}

static int countdown(int calls, int fail_at, int *ret_failed)
{
    for (int i = 1; i <= calls; i++) {
        if (i == fail_at) {
            *ret_failed = 1;
            return -1;
        }
    }
    return 0;
}

TEST(fail_nth_gives_every_call_its_turn)
{
    int rounds = 0;

    FAIL_NTH(n, fired)
    {
        int failed = 0;
        int r = countdown(7, n, &failed);

        CHECK_EQ(r == 0, failed == 0);
        fired = failed;
        rounds++;
    }
    CHECK_EQ(rounds, 8);
}

static void *fails_in_a_thread(void *arg)
{
    int *reached = arg;

    REQUIRE(reached != NULL);
    *reached = 1;
    check_stop();
}

TEST(a_thread_that_stops_ends_alone)
{
    pthread_t thread;
    int reached = 0;

    REQUIRE_EQ(pthread_create(&thread, NULL, fails_in_a_thread, &reached), 0);
    REQUIRE_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(reached, 1);
}

TEST(operands_are_evaluated_once)
{
    int calls = 0;

    CHECK_EQ(++calls, 1);
    REQUIRE_EQ(++calls, 2);
    CHECK_EQ(calls, 2);
}
