/* SPDX-License-Identifier: MIT */
#include "preload/doors.h"

#include "preload/cuda_abi.h"
#include "preload/msg.h"
#include "preload/resolve.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

/* libcudart.so.12, and libcudart-*.so.12 as some wheels rename it. */
static struct door_library library = {.base = "libcudart"};

void *door_find_runtime(const char *symbol)
{
    return door_find(&library, symbol);
}

__thread const void *door_asker __attribute__((tls_model("initial-exec")));

/* Both in the door's function itself. */
#define FIND(name, door)                    \
    (resolve_note_door(DOOR_##name),        \
            (__typeof__(&(name)))door_real( \
                    &library, door, #name, (const void *)(name), __builtin_return_address(0)))
#define ASK(real, ...)                                     \
    ({                                                     \
        cudaError_t result = cudaErrorInitializationError; \
        door_asker = __builtin_return_address(0);          \
        if (real)                                          \
            result = (real)(__VA_ARGS__);                  \
        door_asker = NULL;                                 \
        result;                                            \
    })

cudaError_t cudaMalloc(void **ret_ptr, size_t size)
{
    static struct door door;
    __typeof__(&cudaMalloc) real = FIND(cudaMalloc, &door);

    return ASK(real, ret_ptr, size);
}

cudaError_t cudaFree(void *ptr)
{
    static struct door door;
    __typeof__(&cudaFree) real = FIND(cudaFree, &door);

    return real ? real(ptr) : cudaErrorInitializationError;
}

cudaError_t cudaMallocAsync(void **ret_ptr, size_t size, cudaStream_t stream)
{
    static struct door door;
    __typeof__(&cudaMallocAsync) real = FIND(cudaMallocAsync, &door);

    return ASK(real, ret_ptr, size, stream);
}

cudaError_t cudaMallocFromPoolAsync(
        void **ret_ptr, size_t size, cudaMemPool_t pool, cudaStream_t stream)
{
    static struct door door;
    __typeof__(&cudaMallocFromPoolAsync) real = FIND(cudaMallocFromPoolAsync, &door);

    return ASK(real, ret_ptr, size, pool, stream);
}

cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream)
{
    static struct door door;
    __typeof__(&cudaFreeAsync) real = FIND(cudaFreeAsync, &door);

    return real ? real(ptr, stream) : cudaErrorInitializationError;
}

cudaError_t cudaMallocAsync_ptsz(void **ret_ptr, size_t size, cudaStream_t stream)
{
    static struct door door;
    __typeof__(&cudaMallocAsync_ptsz) real = FIND(cudaMallocAsync_ptsz, &door);

    return ASK(real, ret_ptr, size, stream);
}

cudaError_t cudaMallocFromPoolAsync_ptsz(
        void **ret_ptr, size_t size, cudaMemPool_t pool, cudaStream_t stream)
{
    static struct door door;
    __typeof__(&cudaMallocFromPoolAsync_ptsz) real = FIND(cudaMallocFromPoolAsync_ptsz, &door);

    return ASK(real, ret_ptr, size, pool, stream);
}

cudaError_t cudaFreeAsync_ptsz(void *ptr, cudaStream_t stream)
{
    static struct door door;
    __typeof__(&cudaFreeAsync_ptsz) real = FIND(cudaFreeAsync_ptsz, &door);

    return real ? real(ptr, stream) : cudaErrorInitializationError;
}

/* ---- the loader's doors (door_dlopen.c) ----------------------------------------------------- */

void door_deepbind(void)
{
    static atomic_bool told;

    resolve_note_door(DOOR_dlopen);
    if (!atomic_exchange(&told, true))
        msg_warn("a library is opened with RTLD_DEEPBIND, which would hide it from kedge: opened "
                 "without the flag");
}

static atomic_bool other_namespace, cuda_began;

static void tell_namespace(void)
{
    static atomic_bool told;

    if (!atomic_load(&other_namespace) || !atomic_load(&cuda_began) || atomic_exchange(&told, true))
        return;
    msg_warn("a library was opened with dlmopen, in a namespace of its own: what it asks of CUDA "
             "is not watched");
}

void door_namespace(const void *caller)
{
    const char *slash, *base;
    Dl_info info;

    /* CUDA's own libraries do as they please, and the runtime is known to have such a call */
    if (dladdr(caller, &info) && info.dli_fname) {
        slash = strrchr(info.dli_fname, '/');
        base = slash ? slash + 1 : info.dli_fname;
        if (strncmp(base, "libcu", 5) == 0 || strncmp(base, "libnv", 5) == 0)
            return;
    }
    resolve_note_door(DOOR_dlmopen);
    atomic_store(&other_namespace, true);
    tell_namespace();
}

void door_cuda_begins(void)
{
    atomic_store(&cuda_began, true);
    tell_namespace();
}
