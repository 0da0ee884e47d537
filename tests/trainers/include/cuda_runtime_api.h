/* SPDX-License-Identifier: MIT */
/*
 * cuda_runtime_api.h - the CUDA runtime's interface under the name that programs include.
 *
 * For programs that are built where there is no toolkit. The declarations are ours (tests/sim/base/program_abi.h). As in the
 * toolkit, a program compiled with CUDA_API_PER_THREAD_DEFAULT_STREAM means the per-thread forms.
 */
#ifndef KEDGE_TRAINERS_CUDA_RUNTIME_API_H
#define KEDGE_TRAINERS_CUDA_RUNTIME_API_H

#include "tests/sim/base/program_abi.h"

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#    define cudaMallocAsync         cudaMallocAsync_ptsz
#    define cudaMallocFromPoolAsync cudaMallocFromPoolAsync_ptsz
#    define cudaFreeAsync           cudaFreeAsync_ptsz
#    define cudaMemcpy              cudaMemcpy_ptds
#    define cudaMemcpyAsync         cudaMemcpyAsync_ptsz
#    define cudaMemset              cudaMemset_ptds
#    define cudaMemsetAsync         cudaMemsetAsync_ptsz
#    define cudaStreamQuery         cudaStreamQuery_ptsz
#    define cudaStreamSynchronize   cudaStreamSynchronize_ptsz
#    define cudaStreamWaitEvent     cudaStreamWaitEvent_ptsz
#    define cudaStreamIsCapturing   cudaStreamIsCapturing_ptsz
#    define cudaStreamBeginCapture  cudaStreamBeginCapture_ptsz
#    define cudaStreamEndCapture    cudaStreamEndCapture_ptsz
#    define cudaEventRecord         cudaEventRecord_ptsz
#    define cudaLaunchKernel        cudaLaunchKernel_ptsz
#    define cudaLaunchHostFunc      cudaLaunchHostFunc_ptsz
#    define cudaGraphLaunch         cudaGraphLaunch_ptsz
#endif

#endif
