/* SPDX-License-Identifier: MIT */
#include "preload/doors.h"

#include "preload/cuda_abi.h"
#include "preload/msg.h"
#include "preload/resolve.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

/* The libcudarts that are loaded: the first one's path, and how many. */
struct runtimes {
    char path[PATH_MAX];
    unsigned count;
};

static int count_runtime(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    const char *base = slash ? slash + 1 : info->dlpi_name;
    struct runtimes *runtimes = data;

    (void)size;
    if (!base || strncmp(base, "libcudart.so", 12) != 0 || strlen(info->dlpi_name) >= PATH_MAX)
        return 0;
    if (runtimes->count++ == 0)
        memcpy(runtimes->path, info->dlpi_name, strlen(info->dlpi_name) + 1);
    return 0;
}

static void *look_up(void *handle, const char *symbol)
{
    void *(*real)(void *, const char *) = resolve_real_dlsym();

    return real ? real(handle, symbol) : NULL;
}

static void *in_loaded(const struct runtimes *runtimes, const char *symbol)
{
    void *handle = runtimes->count ? dlopen(runtimes->path, RTLD_LAZY | RTLD_NOLOAD) : NULL;

    return handle ? look_up(handle, symbol) : NULL;
}

void *door_find(const char *symbol)
{
    struct runtimes runtimes = {.count = 0};
    void *found = resolve_next(symbol);

    if (found)
        return found;
    (void)dl_iterate_phdr(count_runtime, &runtimes);
    return in_loaded(&runtimes, symbol);
}

/* With several runtimes in one process each library must get its own, the one that it is linked with. */
static void *find_for(const void *caller, const char *symbol, const void *self)
{
    void *found = door_beside(caller, symbol);

    return found && found != self ? found : door_find(symbol);
}

/* One door: its real function, found once unless there are several runtimes. */
struct door {
    _Atomic(void *) real;
    const char *symbol;
    enum resolve_door id;
};

static void *enter(struct door *door, const void *caller, const void *self)
{
    void *real = atomic_load_explicit(&door->real, memory_order_relaxed);
    struct runtimes runtimes = {.count = 0};

    resolve_note_door(door->id);
    if (real)
        return real;
    real = find_for(caller, door->symbol, self);
    door_keep(real);
    (void)dl_iterate_phdr(count_runtime, &runtimes);
    if (runtimes.count < 2)
        atomic_store_explicit(&door->real, real, memory_order_relaxed);
    return real;
}

cudaError_t cudaMalloc(void **ret_ptr, size_t size)
{
    static struct door door = {NULL, "cudaMalloc", DOOR_cudaMalloc};
    __typeof__(&cudaMalloc) real =
            (__typeof__(&cudaMalloc))enter(&door, __builtin_return_address(0), (void *)cudaMalloc);

    return real ? real(ret_ptr, size) : cudaErrorInitializationError;
}

cudaError_t cudaFree(void *ptr)
{
    static struct door door = {NULL, "cudaFree", DOOR_cudaFree};
    __typeof__(&cudaFree) real =
            (__typeof__(&cudaFree))enter(&door, __builtin_return_address(0), (void *)cudaFree);

    return real ? real(ptr) : cudaErrorInitializationError;
}

cudaError_t cudaMallocAsync(void **ret_ptr, size_t size, cudaStream_t stream)
{
    static struct door door = {NULL, "cudaMallocAsync", DOOR_cudaMallocAsync};
    __typeof__(&cudaMallocAsync) real = (__typeof__(&cudaMallocAsync))enter(
            &door, __builtin_return_address(0), (void *)cudaMallocAsync);

    return real ? real(ret_ptr, size, stream) : cudaErrorInitializationError;
}

cudaError_t cudaMallocAsync_ptsz(void **ret_ptr, size_t size, cudaStream_t stream)
{
    static struct door door = {NULL, "cudaMallocAsync_ptsz", DOOR_cudaMallocAsync_ptsz};
    __typeof__(&cudaMallocAsync_ptsz) real = (__typeof__(&cudaMallocAsync_ptsz))enter(
            &door, __builtin_return_address(0), (void *)cudaMallocAsync_ptsz);

    return real ? real(ret_ptr, size, stream) : cudaErrorInitializationError;
}

cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream)
{
    static struct door door = {NULL, "cudaFreeAsync", DOOR_cudaFreeAsync};
    __typeof__(&cudaFreeAsync) real = (__typeof__(&cudaFreeAsync))enter(
            &door, __builtin_return_address(0), (void *)cudaFreeAsync);

    return real ? real(ptr, stream) : cudaErrorInitializationError;
}

cudaError_t cudaFreeAsync_ptsz(void *ptr, cudaStream_t stream)
{
    static struct door door = {NULL, "cudaFreeAsync_ptsz", DOOR_cudaFreeAsync_ptsz};
    __typeof__(&cudaFreeAsync_ptsz) real = (__typeof__(&cudaFreeAsync_ptsz))enter(
            &door, __builtin_return_address(0), (void *)cudaFreeAsync_ptsz);

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
