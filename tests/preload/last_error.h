/* SPDX-License-Identifier: MIT */
/*
 * last_error.h - which runtime was called: each keeps its own last error.
 */
#ifndef KEDGE_TESTS_PRELOAD_LAST_ERROR_H
#define KEDGE_TESTS_PRELOAD_LAST_ERROR_H

#include "tests/check.h"
#include "tests/sim/base/program_abi.h"

#include <dlfcn.h>
#include <stdint.h>

/* More than any device has. */
static const size_t too_much = SIZE_MAX / 2;

/* The last error of a runtime, which it forgets; cudaSuccess where that runtime is not loaded. */
static cudaError_t last_error(const char *soname)
{
    void *runtime = dlopen(soname, RTLD_NOW | RTLD_NOLOAD);
    cudaError_t (*last)(void);

    if (!runtime)
        return cudaSuccess;
    last = (cudaError_t(*)(void))dlsym(runtime, "cudaGetLastError");
    REQUIRE(last);
    (void)dlclose(runtime);
    return last();
}

static inline void check_runtimes(cudaError_t of_12, cudaError_t of_13)
{
    CHECK_EQ(last_error("libcudart.so.12"), of_12);
    CHECK_EQ(last_error("libcudart.so.13"), of_13);
}

#endif
