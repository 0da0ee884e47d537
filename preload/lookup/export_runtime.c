/* SPDX-License-Identifier: MIT */
#include "preload/base/exports.h"

#include "preload/base/cuda_abi.h"
#include "preload/base/linked.h"
#include "preload/base/msg.h"
#include "preload/caller/bypass.h"
#include "preload/driver/resolve.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

/* libcudart.so.12, and libcudart-*.so.12 as some wheels rename it. */
static struct export_library library = {.base = "libcudart"};

/*
 * Types of cuda_runtime_api.h, in our own words: results are an enum, streams and pools are the
 * driver's.
 */
enum {
    RUNTIME_INITIALIZATION_ERROR = 3,
};

/*
 * Both must be in the export's function itself; an allocation notes its caller, a free ends with a
 * jump.
 */
/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
/* clang-format off */
#define FIND(name)                                                                                 \
    (resolve_note_export(EXPORT_##name),                                                               \
            (__typeof__(&(name)))export_real(                                                        \
                    &library, &export, #name, (const void *)(name), __builtin_return_address(0)))
#define ALLOCATES(name, params, args)                                                              \
    __attribute__((visibility("default"))) int name params;                                        \
    int name params                                                                                \
    {                                                                                              \
        static struct export export;                                                                   \
        __typeof__(&(name)) real = FIND(name);                                                     \
        int result = RUNTIME_INITIALIZATION_ERROR;                                                 \
        bypass_asker = __builtin_return_address(0);                                                  \
        if (real)                                                                                  \
            result = real args;                                                                    \
        bypass_asker = NULL;                                                                         \
        return result;                                                                             \
    }
#define FREES(name, params, args)                                                                  \
    __attribute__((visibility("default"))) int name params;                                        \
    int name params                                                                                \
    {                                                                                              \
        static struct export export;                                                                   \
        __typeof__(&(name)) real = FIND(name);                                                     \
        return real ? real args : RUNTIME_INITIALIZATION_ERROR;                                    \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

ALLOCATES(cudaMalloc, (void **ret_ptr, size_t size), (ret_ptr, size))
ALLOCATES(cudaMallocAsync, (void **ret_ptr, size_t size, CUstream stream), (ret_ptr, size, stream))
ALLOCATES(cudaMallocAsync_ptsz, (void **ret_ptr, size_t size, CUstream stream), (ret_ptr, size, stream))
ALLOCATES(cudaMallocFromPoolAsync,
        (void **ret_ptr, size_t size, CUmemoryPool pool, CUstream stream), (ret_ptr, size, pool, stream))
ALLOCATES(cudaMallocFromPoolAsync_ptsz,
        (void **ret_ptr, size_t size, CUmemoryPool pool, CUstream stream), (ret_ptr, size, pool, stream))
FREES(cudaFree, (void *ptr), (ptr))
FREES(cudaFreeAsync, (void *ptr, CUstream stream), (ptr, stream))
FREES(cudaFreeAsync_ptsz, (void *ptr, CUstream stream), (ptr, stream))
/* clang-format on */

/* ---- the loader's exports (export_dlopen.c) ------------------------------------------------- */

void export_deepbind(void)
{
    static atomic_bool told;

    resolve_note_export(EXPORT_dlopen);
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

void export_namespace(const void *caller)
{
    const char *base;
    Dl_info info;

    /* CUDA's own libraries may do so, and the runtime is known to */
    if (dladdr(caller, &info) && info.dli_fname) {
        base = linked_base(info.dli_fname);
        if (strncmp(base, "libcu", 5) == 0 || strncmp(base, "libnv", 5) == 0)
            return;
    }
    resolve_note_export(EXPORT_dlmopen);
    atomic_store(&other_namespace, true);
    tell_namespace();
}

void export_cuda_begins(void)
{
    atomic_store(&cuda_began, true);
    tell_namespace();
}
