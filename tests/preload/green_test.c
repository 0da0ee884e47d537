/* SPDX-License-Identifier: MIT */
/*
 * Green contexts: a context of some multiprocessors, whose streams and events are its own, and whose memory is its primary context's.
 * On a device of 512 MiB whose streams run late. Each test is a program of its own.
 */
#include "tests/preload/client.h"

#define MB ((size_t)1 << 20)

#define GREEN(symbol) ((__typeof__(&symbol))client_sim(#symbol))
#define CU_OK(call)   REQUIRE_EQ(call, CUDA_SUCCESS)

enum {
    ROUNDS = 20,
};

static void begin(const char *pool)
{
    REQUIRE(setenv("SIMCUDA_MEMORY", "512M", 1) == 0);
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    REQUIRE(setenv("KEDGE_POOL", pool, 1) == 0);
    client_init();
}

static CUgreenCtx green_context(CUcontext *ret_context)
{
    CUgreenCtx green = NULL;

    CU_OK(GREEN(cuGreenCtxCreate)(&green, NULL, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    CU_OK(GREEN(cuCtxFromGreenCtx)(ret_context, green));
    return green;
}

static CUstream green_stream(CUgreenCtx green)
{
    CUstream stream = NULL;

    CU_OK(GREEN(cuGreenCtxStreamCreate)(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    return stream;
}

static void must_hold(CUdeviceptr ptr, unsigned char value)
{
    unsigned char back[64];

    CU_OK(cu->cuMemcpyDtoH_v2(back, ptr, sizeof back));
    for (size_t i = 0; i < sizeof back; i++)
        CHECK_EQ(back[i], value);
}

/* The next block, wherever it is, is not written to by what the stream was given before the free. */
static void reuse(CUstream stream, bool is_sync)
{
    CUdeviceptr ptr, next;

    for (int i = 0; i < ROUNDS; i++) {
        CU_OK(is_sync ? cu->cuMemAlloc_v2(&ptr, 32 * MB)
                      : cu->cuMemAllocAsync(&ptr, 32 * MB, stream));
        CU_OK(cu->cuMemsetD8Async(ptr, 0x11, 32 * MB, stream));
        CU_OK(is_sync ? cu->cuMemFree_v2(ptr) : cu->cuMemFreeAsync(ptr, stream));
        CU_OK(cu->cuMemAlloc_v2(&next, 32 * MB));
        CU_OK(cu->cuMemsetD8_v2(next, 0x22, 32 * MB));
        CU_OK(cu->cuStreamSynchronize(stream));
        must_hold(next, 0x22);
        CU_OK(cu->cuMemFree_v2(next));
    }
}

static void reuse_there(const char *pool, bool is_sync, bool is_current)
{
    CUcontext context = NULL;
    CUgreenCtx green;
    CUstream stream;

    begin(pool);
    green = green_context(&context);
    stream = green_stream(green);
    if (is_current)
        CU_OK(cu->cuCtxSetCurrent(context));
    reuse(stream, is_sync);
    CU_OK(cu->cuStreamDestroy_v2(stream));
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    CU_OK(GREEN(cuGreenCtxDestroy)(green));
}

TEST(r01_work_of_a_green_context_is_waited_for)
{
    reuse_there("sync=plain", true, false);
}

TEST(r01_work_of_a_green_context_that_is_current_is_waited_for)
{
    reuse_there("sync=plain", true, true);
}

TEST(r01_on_mapped_memory_it_is_waited_for)
{
    reuse_there("sync=mapped", true, true);
}

TEST(r01_a_free_on_a_stream_of_a_green_context_waits_there)
{
    reuse_there("sync=plain", false, false);
}

/* Its end loses nothing: what was asked for there serves others, and what is freed afterwards is reused. */
static void end_again_and_again(const char *pool)
{
    begin(pool);
    for (int i = 0; i < ROUNDS; i++) {
        CUcontext context = NULL;
        CUgreenCtx green = green_context(&context);
        CUstream stream = green_stream(green);
        CUdeviceptr kept, freed, ordered;

        CU_OK(cu->cuCtxSetCurrent(context));
        CU_OK(cu->cuMemAlloc_v2(&kept, 64 * MB));
        CU_OK(cu->cuMemAlloc_v2(&freed, 64 * MB));
        CU_OK(cu->cuMemAllocAsync(&ordered, 64 * MB, stream));
        CU_OK(cu->cuMemsetD8Async(kept, 0x33, 64 * MB, stream));
        CU_OK(cu->cuMemsetD8Async(ordered, 0x44, 64 * MB, stream));
        CU_OK(cu->cuMemFreeAsync(ordered, stream));
        CU_OK(cu->cuMemFree_v2(freed));
        CU_OK(cu->cuStreamDestroy_v2(stream));
        CU_OK(cu->cuCtxSetCurrent(cu->context));
        CU_OK(GREEN(cuGreenCtxDestroy)(green));
        must_hold(kept, 0x33);
        CU_OK(cu->cuMemFree_v2(kept));
    }
    CU_OK(cu->cuCtxSynchronize());
    {
        CUdeviceptr all;

        CU_OK(cu->cuMemAlloc_v2(&all, 400 * MB));
    }
}

TEST(r31_the_end_of_a_green_context_loses_no_memory)
{
    end_again_and_again("sync=plain");
}

TEST(r31_nor_does_it_with_mapped_memory)
{
    end_again_and_again("sync=mapped");
}
