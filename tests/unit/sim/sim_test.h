/* SPDX-License-Identifier: MIT */
/*
 * sim_test.h - what the tests of the simulated driver share: start, kernels, memory, children.
 */
#ifndef KEDGE_TESTS_UNIT_SIM_TEST_H
#define KEDGE_TESTS_UNIT_SIM_TEST_H

#include "tests/check.h"
#include "tests/sim/base/sim_abi.h"
#include "tests/sim/base/simcuda.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

#define CU(call_) REQUIRE_EQ(call_, CUDA_SUCCESS)

static const char sim_ptx[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry kedge_fill(.param .u64 a, .param .u64 b, .param .u32 c) { ret; }\n"
        "// .entry in_a_comment\n/* .entry in_another */\n"
        ".visible .entry kedge_mix(.param .u64 a, .param .u64 b, .param .u64 c) { ret; }\n"
        ".visible .entry kedge_sum (.param .u64 a, .param .u64 b, .param .u64 c) { ret; }\n"
        ".visible .entry kedge_sum_at(.param .u64 a, .param .u64 b, .param .u64 c) { ret; }\n"
        ".visible .entry\n  kedge_copy_strided(.param .u64 a, .param .u64 b, .param .u64 c,\n"
        "    .param .u64 d, .param .u64 e) { ret; }\n"
        ".visible .entry unknown_to_the_device(.param .u64 a) { ret; }\n";

/* A variable for the device. Before the first call of the process only. */
static inline void sim_env(const char *name, const char *value)
{
    REQUIRE(setenv(name, value, 1) == 0);
}

/* A context on device 0. A test wants a fresh device, so a second test in one process is skipped. */
static inline CUcontext sim_start(void)
{
    static bool started;
    CUcontext ctx;

    if (started)
        SKIP("the device of this process was used by another test");
    started = true;
    CU(cuInit(0));
    CU(cuDevicePrimaryCtxRetain(&ctx, 0));
    CU(cuCtxSetCurrent(ctx));
    return ctx;
}

static inline CUfunction sim_function(const char *name)
{
    static CUmodule module;
    CUfunction function;

    if (!module)
        CU(cuModuleLoadData(&module, sim_ptx));
    CU(cuModuleGetFunction(&function, module, name));
    return function;
}

static inline CUdeviceptr sim_alloc(size_t size)
{
    CUdeviceptr ptr;

    CU(cuMemAlloc_v2(&ptr, size));
    return ptr;
}

static inline CUstream sim_stream(unsigned flags)
{
    CUstream stream;

    CU(cuStreamCreate(&stream, flags));
    return stream;
}

static inline CUresult sim_launch3(
        const char *name, uint64_t a, uint64_t b, uint64_t c, CUstream stream)
{
    void *params[] = {&a, &b, &c};

    return cuLaunchKernel(sim_function(name), 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

static inline CUresult sim_fill(CUdeviceptr dst, uint64_t bytes, uint32_t seed, CUstream stream)
{
    void *params[] = {&dst, &bytes, &seed};

    return cuLaunchKernel(sim_function("kedge_fill"), 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

static inline struct simcuda_stats sim_figures(void)
{
    struct simcuda_stats stats = {.size = sizeof(stats)};

    REQUIRE_EQ(simcuda_stats(&stats), 0);
    return stats;
}

/*
 * Runs `body` in a child and returns how it ended: the exit status, or -signal. CUDA does not
 * survive a fork, so the child has to be the one that calls cuInit.
 */
static inline int sim_in_child(void (*body)(void))
{
    int status;

    (void)fflush(stdout);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        (void)signal(SIGSEGV, SIG_DFL); /* a sanitizer would exit instead */
        body();
        _exit(atomic_load(&check_state.failures) ? 1 : 0);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

#endif
