/* SPDX-License-Identifier: MIT */
/* The toolkit's declarations, then ours: a prototype that differs is an error of the compiler. */
#define __CUDA_API_VERSION_INTERNAL /* real symbol names instead of renaming macros */
#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#define KEDGE_ABI_PROTOTYPES_ONLY
#include "tests/sim/base/program_abi.h"
