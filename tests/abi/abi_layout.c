/* SPDX-License-Identifier: MIT */
/* Prints what abi_layout.def lists, with the toolkit's headers (ABI_TOOLKIT) or with ours. */
#ifdef ABI_TOOLKIT
#    define __CUDA_API_VERSION_INTERNAL
#    include <cuda.h>
#    include <cudaProfiler.h>
#    include <cuda_runtime_api.h>
#else
#    include "tests/sim/base/program_abi.h"
#endif

#include <stdio.h>

int main(void)
{
#define T(type) printf("size %s %zu align %zu\n", #type, sizeof(type), _Alignof(type));
#define F(type, field)                                                                      \
    printf("field %s.%s at %zu size %zu\n", #type, #field, __builtin_offsetof(type, field), \
            sizeof(((type *)0)->field));
#define V(name) printf("value %s %lld\n", #name, (long long)(name));
#include "tests/abi/abi_layout.def"
    return 0;
}
