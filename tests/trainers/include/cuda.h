/* SPDX-License-Identifier: MIT */
/*
 * cuda.h - the CUDA driver's interface under the name that programs include.
 *
 * As in the toolkit, the plain name of a function that has had several forms means the newest one of CUDA 12 and 13.
 * Only for what the trainers call; the declarations themselves are in tests/sim/base/program_abi.h.
 */
#ifndef KEDGE_TRAINERS_CUDA_H
#define KEDGE_TRAINERS_CUDA_H

#include "tests/sim/base/program_abi.h"

#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuMemAlloc                cuMemAlloc_v2
#define cuMemFree                 cuMemFree_v2
#define cuMemcpyDtoH              cuMemcpyDtoH_v2
#define cuMemcpyHtoD              cuMemcpyHtoD_v2
#define cuStreamDestroy           cuStreamDestroy_v2
#define cuEventDestroy            cuEventDestroy_v2
#define cuGraphAddKernelNode      cuGraphAddKernelNode_v2
#define cuGraphExecUpdate         cuGraphExecUpdate_v2

#define cuGraphExecKernelNodeSetParams cuGraphExecKernelNodeSetParams_v2

#endif
