/* SPDX-License-Identifier: MIT */
/* covers: quick.c */
/* How often the short way may be gone before the long one is gone again. */
#include "preload/request/quick.h"
#include "tests/check.h"

__thread struct context_memo context_memo __attribute__((tls_model("initial-exec")));
__thread const void *bypass_asker __attribute__((tls_model("initial-exec")));

static const char caller;

static unsigned count_spared(unsigned calls)
{
    unsigned n = 0;

    for (unsigned i = 0; i < calls; i++)
        n += quick_is_spared(&caller);
    return n;
}

TEST(the_long_way_is_gone_once_in_so_many_calls)
{
    *quick_caller(&caller, NULL) = (struct caller_memo){&caller, NULL};
    context_memo.left = QUICK_ROUNDS;
    CHECK_EQ(count_spared(QUICK_ROUNDS), QUICK_ROUNDS - 1);
}

/* The long way may have learned nothing, since something else served the request. */
TEST(the_long_way_is_gone_until_it_has_learned_something)
{
    *quick_caller(&caller, NULL) = (struct caller_memo){&caller, NULL};
    context_memo.left = 0;
    CHECK_EQ(count_spared(10), 0);
    context_memo.left = 2;
    CHECK_EQ(count_spared(10), 1);
}

TEST(an_unknown_caller_is_not_spared)
{
    *quick_caller(&caller, NULL) = (struct caller_memo){NULL, NULL};
    context_memo.left = QUICK_ROUNDS;
    CHECK_EQ(count_spared(10), 0);
    CHECK_EQ(context_memo.left, QUICK_ROUNDS);
}
