/* SPDX-License-Identifier: MIT */
/*
 * results.h - classes of the driver's results. Pure functions of a number: no state, no lock, any
 * thread.
 * Source: the comments of CUresult in the CUDA Driver API's page "Data types used by CUDA driver".
 */
#ifndef KEDGE_PRELOAD_RESULTS_H
#define KEDGE_PRELOAD_RESULTS_H

#include "preload/base/cuda_abi.h"

#include <stdbool.h>

/* An error after which the device accepts no work in this process (R34, sticky errors). */
static inline bool results_is_sticky(int result)
{
    switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
        return true;
    default:
        return false;
    }
}

/* The driver refuses because of a capture: never reported to the program (R14, capture errors). */
static inline bool results_is_capture_error(int result)
{
    return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
            && result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

#endif
