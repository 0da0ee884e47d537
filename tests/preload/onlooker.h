/* SPDX-License-Identifier: MIT */
/* onlooker.h - another process that opens what a test shows it, and the lines that the test's own process says meanwhile. */
#ifndef KEDGE_TESTS_PRELOAD_ONLOOKER_H
#define KEDGE_TESTS_PRELOAD_ONLOOKER_H

#include "tests/preload/client.h"

#include <sys/wait.h>
#include <unistd.h>

/* ---- the other process ---------------------------------------------------------------------- */

struct order {
    CUipcMemHandle handle;
    unsigned char wanted;
    size_t offset, size; /* in the memory that is opened */
};

/* Opens what it is shown and counts the bytes that are as wanted. Forked before the first CUDA call. */
static inline int onlooker(int from, int to)
{
    struct order order;

    if (!client_load() || cu->cuInit(0) != CUDA_SUCCESS)
        return 77;
    CUcontext context = NULL;

    if (cu->cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS
            || cu->cuCtxSetCurrent(context) != CUDA_SUCCESS)
        return 1;
    while (read(from, &order, sizeof order) == (ssize_t)sizeof order) {
        unsigned char *back = calloc(1, order.size);
        CUdeviceptr ptr = 0;
        size_t same = 0;

        if (!back || cu->cuIpcOpenMemHandle_v2(&ptr, order.handle, 1) != CUDA_SUCCESS
                || cu->cuMemcpyDtoH_v2(back, ptr + order.offset, order.size) != CUDA_SUCCESS)
            return 2;
        for (size_t i = 0; i < order.size; i++)
            same += back[i] == order.wanted;
        free(back);
        if (cu->cuIpcCloseMemHandle(ptr) != CUDA_SUCCESS
                || write(to, &same, sizeof same) != (ssize_t)sizeof same)
            return 3;
    }
    return 0;
}

struct other {
    int to, from;
    pid_t pid;
};

static inline struct other start_onlooker(void)
{
    int down[2], up[2];
    struct other other;

    REQUIRE(pipe(down) == 0 && pipe(up) == 0);
    other.pid = fork();
    REQUIRE(other.pid >= 0);
    if (other.pid == 0) {
        (void)close(down[1]);
        (void)close(up[0]);
        _exit(onlooker(down[0], up[1]));
    }
    (void)close(down[0]);
    (void)close(up[1]);
    other.to = down[1];
    other.from = up[0];
    return other;
}

/* How many of the bytes at an offset in the handle's memory the other process sees as `wanted`. */
static inline size_t seen_at(const struct other *other, const CUipcMemHandle *handle,
        unsigned char wanted, size_t offset, size_t size)
{
    struct order order = {.handle = *handle, .wanted = wanted, .offset = offset, .size = size};
    size_t same = 0;

    REQUIRE_EQ(write(other->to, &order, sizeof order), (ssize_t)sizeof order);
    REQUIRE_EQ(read(other->from, &same, sizeof same), (ssize_t)sizeof same);
    return same;
}

static inline size_t seen_by(
        const struct other *other, const CUipcMemHandle *handle, unsigned char wanted, size_t size)
{
    return seen_at(other, handle, wanted, 0, size);
}

static inline void end_onlooker(const struct other *other)
{
    int status = 0;

    (void)close(other->to);
    REQUIRE_EQ(waitpid(other->pid, &status, 0), other->pid);
    CHECK_EQ(status, 0);
}

#endif
