/* SPDX-License-Identifier: MIT */
/* A program whose libraries call the runtime, beside another preload that stands in for it, before kedge or behind it. */
#include "tests/preload/last_error.h"

int ask_behind_13(size_t size);

TEST(another_preload_sees_each_call_of_the_runtime_once)
{
    const int *calls = dlsym(RTLD_DEFAULT, "preload_calls");

    REQUIRE(calls);
    CHECK_EQ(ask_behind_13(4096), cudaSuccess);
    CHECK_EQ(*calls, 2); /* there and back */
    CHECK_EQ(ask_behind_13(too_much), cudaErrorMemoryAllocation);
    CHECK_EQ(*calls, 3);
    CHECK_EQ(last_error("libcudart.so.13"), cudaErrorMemoryAllocation);
}

/* A library that comes later is bound to what is there, the preload, too. */
TEST(another_preload_sees_the_calls_of_a_library_that_comes_later)
{
    const int *calls = dlsym(RTLD_DEFAULT, "preload_calls");
    void *behind = dlopen(FAR_BEHIND_13_PATH, RTLD_NOW | RTLD_LOCAL);
    int (*ask)(size_t size);

    REQUIRE(calls && behind);
    ask = (int (*)(size_t))dlsym(behind, "ask_far_behind_13");
    REQUIRE(ask);
    CHECK_EQ(ask(4096), cudaSuccess);
    CHECK_EQ(*calls, 2);
}
