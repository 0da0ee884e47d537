/* SPDX-License-Identifier: MIT */
/*
 * nccl_device.h - what the simulated NCCL has a stream do, through the driver that the program uses.
 *
 * The driver is found at run time, as the real library does it, so whoever stands before the driver sees these calls. All of
 * them put one operation on the stream and return; 0 or the driver's error. Any thread, with a current context.
 */
#ifndef KEDGE_TESTS_SIM_NCCL_DEVICE_H
#define KEDGE_TESTS_SIM_NCCL_DEVICE_H

#include "tests/sim/base/program_abi.h"

#include <stddef.h>
#include <stdint.h>

/* Kernels of the context that was current when they were loaded. */
struct nccl_kernels {
    CUmodule module;
    CUfunction pack, unpack, fold;
};

/* How values of several ranks become one: kedge_fold's last parameters. */
struct nccl_fold {
    uint64_t type, op, ranks;
};

int nccl_device_load(struct nccl_kernels *ret_kernels);
void nccl_device_unload(struct nccl_kernels *kernels);

/* Host memory that kernels may use; its addresses are the same there. */
int nccl_device_register(void *memory, size_t bytes);
void nccl_device_unregister(void *memory);

/* The stream goes on when *at has reached `number`. */
int nccl_device_wait(CUstream stream, const uint64_t *at, uint64_t number);
int nccl_device_write(CUstream stream, uint64_t *at, uint64_t number);

/* The context that is current; where there is none, the first device's primary one, as the runtime would make it. */
int nccl_device_context(CUcontext *ret_context);
int nccl_device_number(int *ret_device);

/* Makes it current until nccl_device_leave, whoever the thread is; and with all its work over. */
int nccl_device_enter(CUcontext context);
int nccl_device_enter_idle(CUcontext context);
void nccl_device_leave(void);

int nccl_device_copy(CUstream stream, void *dst, const void *src, uint64_t bytes);

/* Reads all `bytes` at `src` and packs them; the other way round; the other way round onto what is there. */
int nccl_device_pack(const struct nccl_kernels *kernels, CUstream stream, void *packed,
        const void *src, uint64_t bytes);
int nccl_device_unpack(const struct nccl_kernels *kernels, CUstream stream, void *dst,
        const void *packed, uint64_t bytes);
int nccl_device_fold(const struct nccl_kernels *kernels, CUstream stream, void *dst,
        const void *packed, uint64_t bytes, const struct nccl_fold *fold);

#endif
