/* SPDX-License-Identifier: MIT */
/*
 * runtime_fake_driver.h - a libcuda.so.1 for the tests of the runtime that is not the simulated device.
 *
 * It does everything at once on host memory and writes down every look-up and every call, so that a test can say what
 * the runtime asks a driver for, in which order, and what it makes of the answers. It answers a look-up only if name,
 * version and flags are those of tests/sim/runtime/runtime_entries.def, and has only some of them, as an old driver would.
 *
 * One thread. The tests link nothing of it: the runtime opens it, they find `fake` with dlsym.
 */
#ifndef KEDGE_UNIT_RUNTIME_FAKE_DRIVER_H
#define KEDGE_UNIT_RUNTIME_FAKE_DRIVER_H

#include "tests/sim/base/program_abi.h"

enum {
    FAKE_DEVICES = 2,
};

struct fake {
    char calls[65536];    /* "cuMemAlloc_v2 birth/512/-1 ", births with bytes and stream */
    char look_ups[65536]; /* "dlsym:cuInit/2000/0 ": through which pointer, name, version, flags */
    char without[64];     /* a name that this driver does not have */
    int fail_next;        /* what the next call returns */
    CUmemorytype pointer_type;
    uint64_t threads; /* of the last launch */
    const void *image;
    CUdeviceptr last_birth;
    CUDA_MEMCPY2D copy_2d;
    CUDA_MEMCPY3D copy_3d;
    CUlaunchConfig launch;
};

#pragma GCC visibility push(default)
extern struct fake fake;
CUresult fake_get_proc_address(const char *name, void **ret_entry, int version, cuuint64_t flags,
        CUdriverProcAddressQueryResult *ret_status);
#pragma GCC visibility pop

#endif
