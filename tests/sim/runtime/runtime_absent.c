/* SPDX-License-Identifier: MIT */
#include "tests/sim/runtime/runtime_core.h"

/* Whatever the arguments are, they are not looked at. */
#define RUNTIME_ABSENT(name_)                                       \
    __attribute__((visibility("default"))) cudaError_t name_(void); \
    cudaError_t name_(void)                                         \
    {                                                               \
        return runtime_fail(cudaErrorNotSupported);                 \
    }
#include "tests/sim/runtime/runtime_absent.def"
