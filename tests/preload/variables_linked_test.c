/* SPDX-License-Identifier: MIT */
/* A program that is linked with such a library, and has copies of its variables or uses them where they are. */
#include "tests/preload/variables_lib.h"

#include "tests/check.h"

#include <dlfcn.h>

TEST(the_program_and_the_library_have_the_same_variables)
{
    CHECK(cuInit == NULL && cuMemAlloc_v2 == NULL && cudaMalloc == NULL && ncclSend == NULL);
    CHECK(variables_are_unset());
    CHECK_EQ(variables_load(), 0);
    CHECK_EQ(variables_use(), 0);
    CHECK(variables_at() == (void *)&cuMemAlloc_v2);
    CHECK(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") == (void *)&cuMemAlloc_v2);
    REQUIRE(cuInit && cuMemAlloc_v2 && cuMemFree_v2);
    unsigned long long ptr = 0;
    CHECK_EQ(cuMemAlloc_v2(&ptr, 1000), 0);
    CHECK_EQ(cuMemFree_v2(ptr), 0);
}
