/* SPDX-License-Identifier: MIT */
/* Explained in runtime_fake_driver.h. */
#include "tests/unit/sim/runtime_fake_driver.h"

#include "tests/sim/base/program_abi.h"
#include "tests/sim/base/simcuda.h"
#include "tests/trainers/kernels_host.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUctx_st {
    int device;
};

struct CUkern_st {
    const char *name;
};

struct fake fake;
static struct CUctx_st primaries[FAKE_DEVICES] = {{0}, {1}};
static struct CUkern_st kernels[] = {
        {"kedge_fill"}, {"kedge_mix"}, {"kedge_sum"}, {"kedge_copy_strided"}};
static _Thread_local CUcontext current;

static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

static CUresult called(const char *name)
{
    CUresult r = (CUresult)fake.fail_next;

    append(fake.calls, sizeof(fake.calls), "%s ", name);
    fake.fail_next = 0;
    return r;
}

#define CALLED() called(__func__)

/* ---- look-up ---- */

struct row {
    const char *name;
    int version;
    cuuint64_t flags;
    const char *symbol;
};

static const struct row rows[] = {
        {"cuInit", 2000, 0, "cuInit"},
        {"cuGetProcAddress", 11030, 0, "cuGetProcAddress"},
        {"cuGetProcAddress", 12000, 0, "fake_get_proc_address"},
#define RUNTIME_ENTRY(symbol_, name_, version_, flags_) {#name_, version_, flags_, #symbol_},
#include "tests/sim/runtime/runtime_entries.def"
#undef RUNTIME_ENTRY
};

static CUresult look_up(const char *how, const char *name, void **ret_entry, int version,
        cuuint64_t flags, CUdriverProcAddressQueryResult *ret_status)
{
    void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    append(fake.look_ups, sizeof(fake.look_ups), "%s:%s/%d/%llu ", how, name, version,
            (unsigned long long)flags);
    *ret_entry = NULL;
    if (ret_status)
        *ret_status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].name, name) == 0 && rows[i].version == version && rows[i].flags == flags)
            *ret_entry = dlsym(self, rows[i].symbol);
    }
    if (self)
        (void)dlclose(self); /* NOLOAD counts as an open */
    if (!*ret_entry || strcmp(name, fake.without) == 0) {
        *ret_entry = NULL;
        return CUDA_ERROR_NOT_FOUND;
    }
    if (ret_status)
        *ret_status = CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *name, void **ret_entry, int version, cuuint64_t flags)
{
    return look_up("v1", name, ret_entry, version, flags, NULL);
}

/* What dlsym finds. */
CUresult cuGetProcAddress_v2(const char *name, void **ret_entry, int version, cuuint64_t flags,
        CUdriverProcAddressQueryResult *ret_status)
{
    return look_up("dlsym", name, ret_entry, version, flags, ret_status);
}

/* What the look-up of its own name finds. */
CUresult fake_get_proc_address(const char *name, void **ret_entry, int version, cuuint64_t flags,
        CUdriverProcAddressQueryResult *ret_status)
{
    return look_up("name", name, ret_entry, version, flags, ret_status);
}

/* ---- devices and contexts ---- */

CUresult cuInit(unsigned int flags)
{
    (void)flags;
    return CALLED();
}

CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CALLED();
}

CUresult cuDeviceGetCount(int *count)
{
    *count = FAKE_DEVICES;
    return CALLED();
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *ret_ctx, CUdevice device)
{
    *ret_ctx = &primaries[device];
    return CALLED();
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    (void)device;
    return CALLED();
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    current = ctx;
    return CALLED();
}

/* Not in the log: it comes before every call. */
CUresult cuCtxGetCurrent(CUcontext *ret_ctx)
{
    *ret_ctx = current;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *ret_device)
{
    *ret_device = current->device;
    return CALLED();
}

CUresult cuCtxSynchronize(void)
{
    return CALLED();
}

/* ---- memory ---- */

struct header {
    size_t bytes;
    char pad[4096 - sizeof(size_t)];
};

static CUresult allocate(CUresult r, CUdeviceptr *ret_ptr, size_t bytes)
{
    struct header *h;

    if (r != CUDA_SUCCESS)
        return r;
    h = host_tensor_new(bytes + sizeof(*h));
    if (!h)
        return CUDA_ERROR_OUT_OF_MEMORY;
    h->bytes = bytes;
    *ret_ptr = (CUdeviceptr)(uintptr_t)(h + 1);
    return CUDA_SUCCESS;
}

static CUresult release(CUresult r, CUdeviceptr ptr)
{
    struct header *h = (struct header *)(uintptr_t)ptr - 1;

    if (r == CUDA_SUCCESS)
        host_tensor_free(h, h->bytes + sizeof(*h));
    return r;
}

CUresult cuMemAlloc_v2(CUdeviceptr *ret_ptr, size_t bytes)
{
    return allocate(CALLED(), ret_ptr, bytes);
}

CUresult cuMemFree_v2(CUdeviceptr ptr)
{
    return release(CALLED(), ptr);
}

CUresult cuMemAllocAsync(CUdeviceptr *ret_ptr, size_t bytes, CUstream stream)
{
    (void)stream;
    return allocate(CALLED(), ret_ptr, bytes);
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *ret_ptr, size_t bytes, CUstream stream)
{
    (void)stream;
    return allocate(CALLED(), ret_ptr, bytes);
}

CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream)
{
    (void)stream;
    return release(CALLED(), ptr);
}

CUresult cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream)
{
    (void)stream;
    return release(CALLED(), ptr);
}

CUresult cuPointerGetAttributes(
        unsigned int count, CUpointer_attribute *attributes, void **values, CUdeviceptr ptr)
{
    (void)count;
    (void)attributes;
    *(CUmemorytype *)values[0] = fake.pointer_type;
    *(unsigned int *)values[1] = 0;
    *(CUdeviceptr *)values[2] = ptr;
    *(void **)values[3] = NULL;
    *(int *)values[4] = 1;
    return CALLED();
}

static CUresult copy(CUresult r, void *dst, const void *src, size_t bytes)
{
    if (r == CUDA_SUCCESS)
        memcpy(dst, src, bytes);
    return r;
}

static void *at(CUdeviceptr ptr)
{
    return (void *)(uintptr_t)ptr;
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    return copy(CALLED(), at(dst), at(src), bytes);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
    return copy(CALLED(), at(dst), src, bytes);
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t bytes)
{
    return copy(CALLED(), dst, at(src), bytes);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    return copy(CALLED(), at(dst), at(src), bytes);
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dst, const void *src, size_t bytes)
{
    return copy(CALLED(), at(dst), src, bytes);
}

CUresult cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    (void)stream;
    return copy(CALLED(), at(dst), at(src), bytes);
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    (void)stream;
    return copy(CALLED(), dst, at(src), bytes);
}

CUresult cuMemsetD8Async(CUdeviceptr ptr, unsigned char value, size_t bytes, CUstream stream)
{
    (void)stream;
    memset(at(ptr), value, bytes);
    return CALLED();
}

CUresult cuMemsetD2D8_v2(
        CUdeviceptr ptr, size_t pitch, unsigned char value, size_t width, size_t height)
{
    for (size_t y = 0; y < height; y++)
        memset((char *)at(ptr) + y * pitch, value, width);
    return CALLED();
}

/* Keeps what it was given, for a test to look at. */
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *c)
{
    fake.copy_2d = *c;
    return CALLED();
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *c)
{
    fake.copy_3d = *c;
    return CALLED();
}

/* ---- streams and events ---- */

CUresult cuStreamCreate(CUstream *ret_stream, unsigned int flags)
{
    (void)flags;
    *ret_stream = (CUstream)(uintptr_t)0x1000;
    return CALLED();
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    (void)stream;
    return CALLED();
}

CUresult cuStreamQuery(CUstream stream)
{
    (void)stream;
    return CALLED();
}

CUresult cuStreamQuery_ptsz(CUstream stream)
{
    (void)stream;
    return CALLED();
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    return CALLED();
}

CUresult cuStreamAddCallback(
        CUstream stream, CUstreamCallback callback, void *data, unsigned int flags)
{
    CUresult r = CALLED();

    (void)flags;
    if (r == CUDA_SUCCESS)
        callback(stream, CUDA_ERROR_LAUNCH_FAILED, data);
    return r;
}

CUresult cuEventCreate(CUevent *ret_event, unsigned int flags)
{
    (void)flags;
    *ret_event = (CUevent)(uintptr_t)0x2000;
    return CALLED();
}

CUresult cuEventDestroy_v2(CUevent event)
{
    (void)event;
    return CALLED();
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)event;
    (void)stream;
    return CALLED();
}

/* ---- kernels ---- */

CUresult cuLibraryLoadData(CUlibrary *ret_library, const void *code, CUjit_option *jit_options,
        void **jit_values, unsigned int jit_count, CUlibraryOption *options, void **values,
        unsigned int count)
{
    (void)jit_options;
    (void)jit_values;
    (void)jit_count;
    (void)options;
    (void)values;
    (void)count;
    fake.image = code;
    *ret_library = (CUlibrary)(uintptr_t)0x3000;
    return CALLED();
}

CUresult cuLibraryUnload(CUlibrary library)
{
    (void)library;
    return CALLED();
}

CUresult cuLibraryGetKernel(CUkernel *ret_kernel, CUlibrary library, const char *name)
{
    CUresult r = CALLED();

    (void)library;
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        if (strcmp(kernels[i].name, name) == 0) {
            *ret_kernel = &kernels[i];
            return r;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

static uint64_t argument(void **args, int i)
{
    return *(uint64_t *)args[i];
}

static void *pointer_argument(void **args, int i)
{
    return at(argument(args, i));
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
        unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
        unsigned int shared_bytes, CUstream stream, void **args, void **extra)
{
    const struct CUkern_st *kernel = (const struct CUkern_st *)(const void *)function;
    CUresult r = CALLED();

    (void)shared_bytes;
    (void)stream;
    (void)extra;
    fake.threads = (uint64_t)grid_x * grid_y * grid_z * block_x * block_y * block_z;
    if (r != CUDA_SUCCESS)
        return r;
    if (kernel == &kernels[0])
        host_fill(pointer_argument(args, 0), argument(args, 1), *(uint32_t *)args[2]);
    else if (kernel == &kernels[1])
        host_mix(pointer_argument(args, 0), pointer_argument(args, 1), argument(args, 2));
    else if (kernel == &kernels[2])
        host_sum(pointer_argument(args, 0), pointer_argument(args, 1), argument(args, 2));
    else
        host_copy_strided(pointer_argument(args, 0), pointer_argument(args, 1), argument(args, 2),
                argument(args, 3), argument(args, 4));
    return r;
}

/* Keeps what it was given. */
CUresult cuLaunchKernelEx(
        const CUlaunchConfig *config, CUfunction function, void **args, void **extra)
{
    (void)function;
    (void)args;
    (void)extra;
    fake.launch = *config;
    return CALLED();
}

/* ---- the witness ---- */

void simcuda_witness_birth(CUdeviceptr ptr, size_t bytes, CUstream stream)
{
    append(fake.calls, sizeof(fake.calls), "birth/%zu/%lld ", bytes, (long long)(intptr_t)stream);
    fake.last_birth = ptr;
}

void simcuda_witness_death(CUdeviceptr ptr, CUstream stream)
{
    append(fake.calls, sizeof(fake.calls), "death/%d/%lld ", ptr == fake.last_birth,
            (long long)(intptr_t)stream);
}

void simcuda_witness_step(void)
{
    append(fake.calls, sizeof(fake.calls), "step ");
}
