/* SPDX-License-Identifier: MIT */
/*
 * libwitness.so - the witness for programs that ask the driver itself for memory: tinygrad, Numba, XLA.
 *
 *     program ─► libwitness.so ─► libkedge.so ─► simulated driver        LD_PRELOAD=libwitness.so:libkedge.so
 *
 * The simulated runtime tells the oracle which bytes the program has (simcuda.h); programs that look the driver's entries up
 * by dlsym or cuGetProcAddress tell nobody. This library stands in front of dlsym, answers for the entries of
 * witness_entries and tells the oracle what they did. What the simulated runtime looks up it gets as it is.
 *
 * Everything else leaves dlsym by a jump, because the C library decides by its caller's address: built with sibling calls
 * whatever the build type says (CMakeLists.txt). Threads: any.
 */
#include "tests/sim/base/program_abi.h"
#include "tests/sim/base/simcuda.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

typedef void *dlsym_fn(void *, const char *);

static _Atomic(dlsym_fn *) next_dlsym;
static __typeof__(simcuda_witness_birth) *birth;
static __typeof__(simcuda_witness_death) *death;

/* ---- the entries ---- */

static CUstream own(CUstream stream)
{
    return stream ? stream : CU_STREAM_PER_THREAD;
}

static CUresult born(CUresult r, const CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
    if (r == CUDA_SUCCESS)
        birth(*ptr, bytes, stream);
    return r;
}

#define WITNESS(result_, name_, params_, ...)        \
    static _Atomic(result_(*) params_) real_##name_; \
    static result_ told_##name_ params_              \
    {                                                \
        __VA_ARGS__                                  \
    }

WITNESS(CUresult, cuMemAlloc_v2, (CUdeviceptr * ptr, size_t bytes),
        return born(real_cuMemAlloc_v2(ptr, bytes), ptr, bytes, SIMCUDA_NO_STREAM);)
WITNESS(CUresult, cuMemAllocManaged, (CUdeviceptr * ptr, size_t bytes, unsigned flags),
        return born(real_cuMemAllocManaged(ptr, bytes, flags), ptr, bytes, SIMCUDA_NO_STREAM);)
WITNESS(CUresult, cuMemAllocPitch_v2,
        (CUdeviceptr * ptr, size_t *pitch, size_t width, size_t height, unsigned element),
        CUresult r = real_cuMemAllocPitch_v2(ptr, pitch, width, height, element);
        return born(r, ptr, r == CUDA_SUCCESS ? *pitch * height : 0, SIMCUDA_NO_STREAM);)
WITNESS(CUresult, cuMemFree_v2, (CUdeviceptr ptr), death(ptr, SIMCUDA_NO_STREAM);
        return real_cuMemFree_v2(ptr);)
WITNESS(CUresult, cuMemAllocAsync, (CUdeviceptr * ptr, size_t bytes, CUstream stream),
        return born(real_cuMemAllocAsync(ptr, bytes, stream), ptr, bytes, stream);)
WITNESS(CUresult, cuMemAllocAsync_ptsz, (CUdeviceptr * ptr, size_t bytes, CUstream stream),
        return born(real_cuMemAllocAsync_ptsz(ptr, bytes, stream), ptr, bytes, own(stream));)
WITNESS(CUresult, cuMemAllocFromPoolAsync,
        (CUdeviceptr * ptr, size_t bytes, CUmemoryPool pool, CUstream stream),
        return born(real_cuMemAllocFromPoolAsync(ptr, bytes, pool, stream), ptr, bytes, stream);)
WITNESS(CUresult, cuMemAllocFromPoolAsync_ptsz,
        (CUdeviceptr * ptr, size_t bytes, CUmemoryPool pool, CUstream stream),
        return born(real_cuMemAllocFromPoolAsync_ptsz(ptr, bytes, pool, stream), ptr, bytes,
                own(stream));)
WITNESS(CUresult, cuMemFreeAsync, (CUdeviceptr ptr, CUstream stream), death(ptr, stream);
        return real_cuMemFreeAsync(ptr, stream);)
WITNESS(CUresult, cuMemFreeAsync_ptsz, (CUdeviceptr ptr, CUstream stream), death(ptr, own(stream));
        return real_cuMemFreeAsync_ptsz(ptr, stream);)

static void *told(const char *name, void *entry, bool is_per_thread);

WITNESS(CUresult, cuGetProcAddress, (const char *name, void **entry, int version, cuuint64_t flags),
        CUresult r = real_cuGetProcAddress(name, entry, version, flags);
        if (r == CUDA_SUCCESS) *entry = told(name, *entry, flags & 2); return r;)
WITNESS(CUresult, cuGetProcAddress_v2,
        (const char *name, void **entry, int version, cuuint64_t flags,
                CUdriverProcAddressQueryResult *status),
        CUresult r = real_cuGetProcAddress_v2(name, entry, version, flags, status);
        if (r == CUDA_SUCCESS) *entry = told(name, *entry, flags & 2); return r;)

struct entry {
    const char *symbol, *name; /* of the library; for cuGetProcAddress */
    bool is_per_thread;
    void *told;
    _Atomic(void *) *real;
};

#define ENTRY(symbol_, name_, per_thread_)                                                                \
    {                                                                                                     \
#        symbol_, #        name_, per_thread_, (void *)told_##symbol_, (_Atomic(void *) *)&real_##symbol_ \
    }

static const struct entry witness_entries[] = {ENTRY(cuMemAlloc_v2, cuMemAlloc, false),
        ENTRY(cuMemAllocManaged, cuMemAllocManaged, false),
        ENTRY(cuMemAllocPitch_v2, cuMemAllocPitch, false), ENTRY(cuMemFree_v2, cuMemFree, false),
        ENTRY(cuMemAllocAsync, cuMemAllocAsync, false),
        ENTRY(cuMemAllocAsync_ptsz, cuMemAllocAsync, true),
        ENTRY(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, false),
        ENTRY(cuMemAllocFromPoolAsync_ptsz, cuMemAllocFromPoolAsync, true),
        ENTRY(cuMemFreeAsync, cuMemFreeAsync, false),
        ENTRY(cuMemFreeAsync_ptsz, cuMemFreeAsync, true),
        ENTRY(cuGetProcAddress, cuGetProcAddress_v1, false),
        ENTRY(cuGetProcAddress_v2, cuGetProcAddress, false)};

static const struct entry *find(const char *symbol)
{
    for (size_t i = 0; i < sizeof(witness_entries) / sizeof(witness_entries[0]); i++)
        if (strcmp(witness_entries[i].symbol, symbol) == 0)
            return &witness_entries[i];
    return NULL;
}

static void *answer(const struct entry *e, void *entry)
{
    if (!e || !entry || entry == e->told)
        return entry;
    atomic_store(e->real, entry);
    return e->told;
}

/* cuGetProcAddress: calls without a form for threads of their own come under their one name with either flag. */
static void *told(const char *name, void *entry, bool is_per_thread)
{
    const struct entry *found = NULL;

    for (size_t i = 0; i < sizeof(witness_entries) / sizeof(witness_entries[0]); i++)
        if (strcmp(witness_entries[i].name, name) == 0
                && (!found || witness_entries[i].is_per_thread == is_per_thread))
            found = &witness_entries[i];
    return answer(found, entry);
}

/* ---- dlsym ---- */

/* RTLD_NEXT in a call of this library's: behind it, which may be kedge's. */
__attribute__((constructor)) static void start(void)
{
    void *c = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34"), *next;
    dlsym_fn *libc_dlsym, *found;

    c = c ? c : dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    memcpy(&libc_dlsym, &c, sizeof(c));
    next = libc_dlsym(RTLD_NEXT, "dlsym");
    memcpy(&found, &next, sizeof(next));
    atomic_store(&next_dlsym, found);
}

static bool is_runtime(const void *caller)
{
    Dl_info info;

    return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "/libcudart.so");
}

static void *look_up(void *handle, const char *name, const void *caller)
{
    const struct entry *e = find(name);
    dlsym_fn *next = atomic_load(&next_dlsym);
    void *found;

    if (!e || handle == RTLD_NEXT || handle == RTLD_DEFAULT || is_runtime(caller))
        return NULL;
    found = next(handle, "simcuda_witness_birth");
    memcpy(&birth, &found, sizeof(found));
    found = next(handle, "simcuda_witness_death");
    memcpy(&death, &found, sizeof(found));
    return birth && death ? answer(e, next(handle, name)) : NULL;
}

__attribute__((visibility("default"))) void *dlsym(void *restrict handle, const char *restrict name)
{
    dlsym_fn *next;
    void *found;

    if (!atomic_load(&next_dlsym))
        start(); /* another library's constructor comes first */
    found = name[0] == 'c' && name[1] == 'u' ? look_up(handle, name, __builtin_return_address(0))
                                             : NULL;
    next = atomic_load(&next_dlsym);
    return found ? found : next(handle, name);
}
