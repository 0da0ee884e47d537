/* SPDX-License-Identifier: MIT */
/* A program that calls one runtime and is linked with libraries that call another (R97). */
#include "tests/preload/last_error.h"

int ask_user_13(size_t size);

TEST(r97_a_program_that_calls_first_has_its_own_runtime)
{
    void *ptr = NULL;

    CHECK_EQ(cudaMalloc(&ptr, 4096), cudaSuccess);
    CHECK_EQ(ask_user_13(too_much), cudaErrorMemoryAllocation);
    check_runtimes(cudaSuccess, cudaErrorMemoryAllocation);
    CHECK_EQ(cudaMalloc(&ptr, too_much), cudaErrorMemoryAllocation);
    check_runtimes(cudaErrorMemoryAllocation, cudaSuccess);
}
