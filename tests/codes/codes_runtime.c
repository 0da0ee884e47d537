/* SPDX-License-Identifier: MIT */
/*
 * The same through the simulated runtime: after each call the thread's last error is what it would be without kedge (R33).
 * Where the driver's refusal became a success, the error that is natively there is taken away at once in both runs.
 */
#include "tests/codes/codes.h"

#include <dlfcn.h>
#include <stdlib.h>

/* clang-format off */
#define RUNTIME_API(X) \
    X(cudaGetLastError) X(cudaPeekAtLastError) X(cudaSetDevice) X(cudaDeviceSynchronize) X(cudaDeviceReset) \
    X(cudaMalloc) X(cudaMallocManaged) X(cudaMallocPitch) X(cudaFree) X(cudaMemGetInfo) \
    X(cudaHostAlloc) X(cudaFreeHost) X(cudaMallocAsync) X(cudaMallocAsync_ptsz) X(cudaFreeAsync) \
    X(cudaMemcpy) X(cudaMemset) X(cudaMemsetAsync) X(cudaPointerGetAttributes) \
    X(cudaStreamCreateWithFlags) X(cudaStreamDestroy) X(cudaStreamSynchronize) X(cudaStreamQuery) \
    X(cudaStreamBeginCapture) X(cudaStreamEndCapture) X(cudaGraphDestroy) \
    X(cudaDeviceGetDefaultMemPool) X(cudaMemPoolTrimTo) X(cudaMemPoolSetAttribute) X(cudaMemPoolGetAttribute)
/* clang-format on */

static struct {
#define RUNTIME_SLOT(symbol) __typeof__(&symbol) symbol;
    RUNTIME_API(RUNTIME_SLOT)
#undef RUNTIME_SLOT
} cuda;

#define RUN(fn, ...) (journal_before(#fn), journal_after((CUresult)cuda.fn(__VA_ARGS__)))

static char host_bytes[4096];
static cudaStream_t captured; /* NULL = nothing is captured */
static uint32_t captured_at;

static void load(void)
{
    void *library = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);

    if (!library)
        exit(99);
#define RUNTIME_LOAD(symbol) *(void **)&cuda.symbol = dlsym(library, #symbol);
    RUNTIME_API(RUNTIME_LOAD)
#undef RUNTIME_LOAD
}

/* ---- errors ---- */

static void look_at_errors(CUresult said)
{
    if (journal_takes_error() && said != CUDA_SUCCESS) {
        (void)RUN(cudaGetLastError);
        return;
    }
    if (one_in(2))
        (void)RUN(cudaPeekAtLastError);
    if (one_in(3))
        (void)RUN(cudaGetLastError);
}

/* ---- memory ---- */

static size_t some_size(void)
{
    switch (chance(10)) {
    case 0:
        return 0;
    case 1:
        return one_in(2) ? (size_t)1 << 41 : SIZE_MAX - 3;
    case 2:
    case 3:
        return (1 + chance(state.one_context ? 24 : 5)) * MB;
    default:
        return chance(100 << 10) + 1;
    }
}

static cudaStream_t some_handle(int *ret_slot)
{
    int slot = (int)chance(STREAMS);

    *ret_slot = state.streams[slot].alive ? slot : -1;
    return *ret_slot < 0 ? NULL : state.streams[slot].handle;
}

static void keep(enum block_kind kind, void *ptr, size_t size)
{
    int slot = free_block_slot();

    if (slot >= 0 && ptr)
        state.blocks[slot] = (struct block){
                .ptr = (CUdeviceptr)(uintptr_t)ptr, .size = size, .kind = kind, .stream = -1};
}

static void op_malloc(void)
{
    size_t size = some_size();
    size_t pitch = 0;
    void *ptr = NULL;
    enum block_kind kind = BLOCK_SYNC;
    CUresult r;

    if (free_block_slot() < 0)
        return;
    journal_say(" %zu", size);
    switch (chance(6)) {
    case 0:
        r = RUN(cudaMallocManaged, &ptr, size, one_in(4) ? 8 : 1);
        kind = BLOCK_MANAGED;
        break;
    case 1:
        r = RUN(cudaMallocPitch, &ptr, &pitch, size / 64, 50);
        kind = BLOCK_PITCH;
        break;
    default:
        r = RUN(cudaMalloc, one_in(30) ? NULL : &ptr, size);
    }
    if (journal_spared())
        QUIET(cuMemFree_v2, (CUdeviceptr)(uintptr_t)ptr);
    else if (r == CUDA_SUCCESS)
        keep(kind, ptr, size);
    look_at_errors(r);
}

static void op_malloc_async(void)
{
    size_t size = some_size();
    void *ptr = NULL;
    CUresult r;
    int slot;
    cudaStream_t stream = some_handle(&slot);

    if (free_block_slot() < 0)
        return;
    journal_say(" %zu stream %d", size, slot);
    if (one_in(4))
        r = RUN(cudaMallocAsync_ptsz, &ptr, size, stream);
    else
        r = RUN(cudaMallocAsync, &ptr, size, stream);
    if (journal_spared())
        QUIET(cuMemFree_v2, (CUdeviceptr)(uintptr_t)ptr);
    else if (r == CUDA_SUCCESS && (!captured || stream != captured))
        keep(BLOCK_ASYNC, ptr, size);
    look_at_errors(r);
}

static void op_free(void)
{
    int slot = some_block(~0u);
    void *ptr;
    CUresult r;
    int stream;
    cudaStream_t on = some_handle(&stream);

    if (slot < 0)
        return;
    ptr = (void *)(uintptr_t)state.blocks[slot].ptr;
    journal_say(" kind %d", state.blocks[slot].kind);
    if (captured)
        journal_allow(RULE_R2);
    if (state.blocks[slot].kind == BLOCK_ASYNC && one_in(2) && !state.lazy) {
        block_gone(slot);
        r = RUN(cudaFreeAsync, ptr, on);
    } else {
        block_gone(slot);
        r = RUN(cudaFree, ptr);
    }
    look_at_errors(r);
}

static void op_free_odd(void)
{
    static void *const odd[] = {NULL, (void *)0x1000, host_bytes};
    CUresult r;

    if (captured)
        journal_allow(RULE_R2);
    r = RUN(cudaFree, odd[chance(3)]);
    look_at_errors(r);
}

static void op_touch(void)
{
    int slot = captured ? -1 : some_block(1 << BLOCK_SYNC | 1 << BLOCK_PITCH);
    void *ptr = slot < 0 || one_in(5) ? (void *)0x1000 : (void *)(uintptr_t)state.blocks[slot].ptr;
    size_t size = slot < 0 || state.blocks[slot].size > 4096 ? 4096 : state.blocks[slot].size;
    struct cudaPointerAttributes attributes;

    switch (chance(4)) {
    case 0:
        look_at_errors(RUN(cudaMemcpy, host_bytes, ptr, size, cudaMemcpyDeviceToHost));
        break;
    case 1:
        look_at_errors(RUN(cudaMemset, ptr, 1, size));
        break;
    case 2:
        look_at_errors(RUN(cudaMemsetAsync, ptr, 1, size, NULL));
        break;
    default:
        look_at_errors(RUN(cudaPointerGetAttributes, &attributes, ptr));
    }
}

/* ---- the rest ---- */

static void op_stream(void)
{
    int slot = (int)chance(STREAMS);
    struct stream *stream = &state.streams[slot];
    CUresult r;

    if (!stream->alive) {
        r = RUN(cudaStreamCreateWithFlags, &stream->handle, one_in(8) ? 9 : chance(2));
        stream->alive = r == CUDA_SUCCESS;
    } else if (one_in(3) && stream->handle != captured) {
        r = RUN(cudaStreamDestroy, stream->handle);
        stream->alive = r != CUDA_SUCCESS;
    } else if (one_in(2)) {
        r = RUN(cudaStreamSynchronize, stream->handle);
    } else {
        journal_before("cudaStreamQuery");
        r = (CUresult)cuda.cudaStreamQuery(stream->handle);
        r = journal_after(r == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r);
    }
    look_at_errors(r);
}

static void op_capture(void)
{
    cudaGraph_t graph = NULL;
    CUresult r;
    int slot;
    cudaStream_t stream = some_handle(&slot);

    if (captured) {
        if (state.step - captured_at < 4)
            return;
        r = RUN(cudaStreamEndCapture, captured, &graph);
        if (r != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
            captured = NULL;
        if (r == CUDA_SUCCESS && graph)
            (void)RUN(cudaGraphDestroy, graph);
    } else if (slot >= 0) {
        r = RUN(cudaStreamBeginCapture, stream,
                one_in(8) ? 5 : (enum cudaStreamCaptureMode)chance(3));
        captured = r == CUDA_SUCCESS ? stream : NULL;
        captured_at = state.step;
    } else {
        r = RUN(cudaStreamBeginCapture, NULL, cudaStreamCaptureModeGlobal);
    }
    look_at_errors(r);
}

static void op_device(void)
{
    size_t available, total;
    cudaMemPool_t pool = NULL;
    void *host = NULL;
    CUresult r;

    switch (chance(6)) {
    case 0:
        r = RUN(cudaSetDevice, one_in(3) ? 40 : 0);
        break;
    case 1:
        r = RUN(cudaMemGetInfo, &available, one_in(6) ? NULL : &total);
        break;
    case 2:
        r = RUN(cudaDeviceGetDefaultMemPool, &pool, one_in(4) ? 40 : 0);
        if (r == CUDA_SUCCESS)
            r = RUN(cudaMemPoolTrimTo, pool, 0);
        break;
    case 3:
        r = RUN(cudaHostAlloc, &host, one_in(4) ? 0 : 5000, 0);
        if (r == CUDA_SUCCESS && host)
            r = RUN(cudaFreeHost, host);
        break;
    default:
        r = RUN(cudaDeviceSynchronize);
    }
    look_at_errors(r);
}

static void op_reset(void)
{
    CUresult r;

    if (captured || state.one_context)
        return;
    r = RUN(cudaDeviceReset);
    if (r == CUDA_SUCCESS) {
        for (int i = 0; i < BLOCKS; i++)
            if (state.blocks[i].kind != BLOCK_ASYNC)
                block_gone(i);
        for (int i = 0; i < STREAMS; i++)
            state.streams[i].alive = false;
    }
    look_at_errors(r);
}

/* Only the thread that began a capture may end it, unless it is a relaxed one. */
static void end_capture(void)
{
    cudaGraph_t graph = NULL;

    if (captured
            && RUN(cudaStreamEndCapture, captured, &graph)
                    != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
        captured = NULL;
}

static void run_one(void)
{
    static void (*const ops[])(void) = {op_malloc, op_malloc, op_malloc, op_malloc_async,
            op_malloc_async, op_free, op_free, op_free, op_free_odd, op_touch, op_touch, op_stream,
            op_stream, op_capture, op_device, op_reset};

    ops[chance(sizeof ops / sizeof *ops)]();
}

void runtime_program(uint32_t steps)
{
    load();
    state.one_context = state.one_context || one_in(2);
    for (state.step = 0; state.step < steps; state.step++) {
        if (one_in(6))
            elsewhere(run_one);
        else
            run_one();
    }
    end_capture();
    elsewhere(end_capture);
    for (int i = 0; i < BLOCKS; i++)
        if (state.blocks[i].kind != BLOCK_NONE)
            (void)RUN(cudaFree, (void *)(uintptr_t)state.blocks[i].ptr);
    (void)RUN(cudaPeekAtLastError);
}
