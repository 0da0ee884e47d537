/* SPDX-License-Identifier: MIT */
/* A program that is linked with libraries that call the runtime, and not with the runtime itself (R97). */
#include "tests/preload/last_error.h"

int ask_behind_12(size_t size);
int ask_behind_13(size_t size);
int ask_user_13(size_t size);

TEST(r97_libraries_of_a_program_call_their_runtimes)
{
    CHECK_EQ(ask_user_13(4096), cudaSuccess);
    CHECK_EQ(ask_behind_12(4096), cudaSuccess);
    CHECK_EQ(ask_behind_13(too_much), cudaErrorMemoryAllocation);
    check_runtimes(cudaSuccess, cudaErrorMemoryAllocation);
    CHECK_EQ(ask_behind_12(too_much), cudaErrorMemoryAllocation);
    check_runtimes(cudaErrorMemoryAllocation, cudaSuccess);
    CHECK_EQ(ask_user_13(too_much), cudaErrorMemoryAllocation);
    check_runtimes(cudaSuccess, cudaErrorMemoryAllocation);
}
