/* SPDX-License-Identifier: MIT */
/*
 * What nvcc's host code registers and calls: device code, kernels and variables by their host symbols. All of it is
 * registered before main runs, when there may be no driver yet, so images are loaded with the first use.
 */
#include "tests/sim/runtime/runtime_core.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    CONFIGURATIONS_MOST = 16, /* nested <<<>>>; one is usual */
};

/* Never freed: host code keeps handles until the process ends. */
struct fat_binary {
    const void *image;
    CUlibrary library; /* NULL before the first use */
};

struct host_function {
    const void *host;
    const char *name; /* the device's */
    struct fat_binary *binary;
    CUkernel kernel; /* NULL before the first use */
};

struct host_variable {
    const void *host;
    const char *name;
    struct fat_binary *binary;
    size_t bytes;
    struct host_variable *next;
};

/*
 * What may stand where a launch wants a function: the host stub of a registered function, the handle that
 * __cudaGetKernel gave for it, or a kernel that the program took out of a library.
 */
struct launchable {
    const void *key;
    struct host_function *function; /* NULL: a library's kernel */
    CUkernel kernel;
    CUlibrary library;
    struct launchable *next;
};

/* A framework registers ten thousands of functions before main: the table doubles as it fills. */
static struct {
    pthread_mutex_t lock;
    struct launchable **buckets;
    size_t buckets_count, launchables_count; /* the first one 0 or a power of 2 */
    struct host_variable *variables;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct configuration {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
};

static _Thread_local struct {
    struct configuration stack[CONFIGURATIONS_MOST];
    unsigned int count;
} configurations;

/* ---- the table, with the registry locked ---- */

static struct launchable **bucket_of(const void *key)
{
    uint64_t mixed = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15U;

    return &registry.buckets[(mixed >> 32) & (registry.buckets_count - 1)];
}

static struct launchable *find_launchable(const void *key)
{
    struct launchable *l = registry.buckets_count ? *bucket_of(key) : NULL;

    while (l && l->key != key)
        l = l->next;
    return l;
}

/* Without memory the table stays as it is, slower. */
static void grow_table(void)
{
    struct launchable **old = registry.buckets;
    size_t old_count = registry.buckets_count;
    struct launchable **grown =
            calloc(old_count ? old_count * 2 : 256, sizeof(struct launchable *));

    if (!grown)
        return;
    registry.buckets = grown;
    registry.buckets_count = old_count ? old_count * 2 : 256;
    for (size_t i = 0; i < old_count; i++)
        for (struct launchable *l = old[i], *next; l; l = next) {
            struct launchable **bucket = bucket_of(l->key);

            next = l->next;
            l->next = *bucket;
            *bucket = l;
        }
    free(old);
}

/* What is there already under that key is hidden: the newest registration counts. False without memory. */
static bool add_launchable(const struct launchable *what)
{
    struct launchable *l = malloc(sizeof(*l));

    if (registry.launchables_count >= registry.buckets_count)
        grow_table();
    if (!l || !registry.buckets_count) {
        free(l);
        return false;
    }
    *l = *what;
    l->next = *bucket_of(l->key);
    *bucket_of(l->key) = l;
    registry.launchables_count++;
    return true;
}

/* ---- before main ---- */

void **__cudaRegisterFatBinary(void *wrapper)
{
    struct fat_binary *b = calloc(1, sizeof(*b));

    if (b)
        b->image = wrapper;
    return (void **)b;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

/* Comes while the process ends: the driver may be gone, and the kernel's memory goes with the process. */
void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device_function,
        const char *device_name, int thread_limit, struct uint3 *thread, struct uint3 *block,
        dim3 *block_dim, dim3 *grid_dim, int *warp_size)
{
    struct host_function *f = calloc(1, sizeof(*f));

    (void)device_function;
    (void)thread_limit;
    (void)thread;
    (void)block;
    (void)block_dim;
    (void)grid_dim;
    (void)warp_size;
    if (!f)
        return; /* its launch will say that there is no such function */
    f->host = host;
    f->name = device_name;
    f->binary = (struct fat_binary *)(void *)handle;
    (void)pthread_mutex_lock(&registry.lock);
    (void)add_launchable(&(struct launchable){.key = host, .function = f});
    (void)add_launchable(&(struct launchable){.key = f, .function = f});
    (void)pthread_mutex_unlock(&registry.lock);
}

void __cudaRegisterVar(void **handle, char *host, char *device_address, const char *device_name,
        int external, size_t size, int constant, int global)
{
    struct host_variable *v = calloc(1, sizeof(*v));

    (void)device_address;
    (void)external;
    (void)constant;
    (void)global;
    if (!v)
        return;
    v->host = host;
    v->name = device_name;
    v->bytes = size;
    v->binary = (struct fat_binary *)(void *)handle;
    (void)pthread_mutex_lock(&registry.lock);
    v->next = registry.variables;
    registry.variables = v;
    (void)pthread_mutex_unlock(&registry.lock);
}

/* Managed and host variables are not offered: their host side stays what the program's own data is. */
void __cudaRegisterManagedVar(void **handle, void **host, char *device_address,
        const char *device_name, int external, size_t size, int constant, int global)
{
    (void)handle;
    (void)host;
    (void)device_address;
    (void)device_name;
    (void)external;
    (void)size;
    (void)constant;
    (void)global;
}

void __cudaRegisterHostVar(void **handle, const char *device_name, char *host, size_t size)
{
    (void)handle;
    (void)device_name;
    (void)host;
    (void)size;
}

void __cudaRegisterUnifiedTable(void **handle, const void *table)
{
    (void)handle;
    (void)table;
}

/* ---- <<<grid, block, shared, stream>>> ---- */

unsigned int __cudaPushCallConfiguration(
        dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream)
{
    if (configurations.count == CONFIGURATIONS_MOST)
        return 1; /* the launch is skipped */
    configurations.stack[configurations.count++] =
            (struct configuration){grid, block, shared_bytes, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared_bytes, void *stream)
{
    const struct configuration *c;

    if (configurations.count == 0)
        return runtime_fail(cudaErrorMissingConfiguration);
    c = &configurations.stack[--configurations.count];
    *grid = c->grid;
    *block = c->block;
    *shared_bytes = c->shared_bytes;
    *(cudaStream_t *)stream = c->stream;
    return cudaSuccess;
}

/* ---- kernels ---- */

cudaError_t runtime_remember_kernel(CUkernel kernel, CUlibrary library)
{
    bool is_known;

    (void)pthread_mutex_lock(&registry.lock);
    is_known = find_launchable(kernel)
            || add_launchable(
                    &(struct launchable){.key = kernel, .kernel = kernel, .library = library});
    (void)pthread_mutex_unlock(&registry.lock);
    return is_known ? cudaSuccess : runtime_fail(cudaErrorOperatingSystem);
}

void runtime_forget_library(CUlibrary library)
{
    (void)pthread_mutex_lock(&registry.lock);
    for (size_t i = 0; i < registry.buckets_count; i++)
        for (struct launchable **link = &registry.buckets[i]; *link;) {
            struct launchable *l = *link;

            if (l->function || l->library != library) {
                link = &l->next;
                continue;
            }
            *link = l->next;
            free(l);
            registry.launchables_count--;
        }
    (void)pthread_mutex_unlock(&registry.lock);
}

/*
 * The first use may be a launch into a capture, where a program may not load: the real runtime loads there all the
 * same, so the thread is in relaxed mode meanwhile.
 */
static cudaError_t load_binary(struct fat_binary *b)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cudaError_t error;

    if (!b)
        return runtime_fail(cudaErrorInvalidKernelImage);
    if (b->library)
        return cudaSuccess;
    (void)DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
    error = runtime_done(
            DRIVER(cuLibraryLoadData, (&b->library, b->image, NULL, NULL, 0, NULL, NULL, 0)));
    (void)DRIVER(cuThreadExchangeStreamCaptureMode, (&mode));
    return error;
}

/* With the registry locked. */
static cudaError_t load_function(struct host_function *f)
{
    cudaError_t error = f->kernel ? cudaSuccess : load_binary(f->binary);

    if (error == cudaSuccess && !f->kernel)
        error = runtime_done(DRIVER(cuLibraryGetKernel, (&f->kernel, f->binary->library, f->name)));
    return error;
}

cudaError_t runtime_kernel(const void *func, CUkernel *ret_kernel)
{
    cudaError_t error = runtime_enter();
    const struct launchable *l;

    if (error != cudaSuccess)
        return error;
    (void)pthread_mutex_lock(&registry.lock);
    l = find_launchable(func);
    if (!l)
        error = runtime_fail(cudaErrorInvalidDeviceFunction);
    else if (l->function)
        error = load_function(l->function);
    if (l && error == cudaSuccess)
        *ret_kernel = l->function ? l->function->kernel : l->kernel;
    (void)pthread_mutex_unlock(&registry.lock);
    return error;
}

/* Host code asks for this before it launches, perhaps before there is a driver: a handle of ours will do. */
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    const struct launchable *l;

    (void)pthread_mutex_lock(&registry.lock);
    l = find_launchable(host);
    (void)pthread_mutex_unlock(&registry.lock);
    if (!l || !l->function)
        return runtime_fail(cudaErrorInvalidDeviceFunction);
    *kernel = (cudaKernel_t)(void *)l->function;
    return cudaSuccess;
}

/* The public one gives the driver's handle, which may be used with the driver. */
cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
    return kernel ? runtime_kernel(host, kernel) : runtime_fail(cudaErrorInvalidValue);
}

/* ---- variables ---- */

static cudaError_t symbol_range(const void *symbol, CUdeviceptr *ret_ptr, size_t *ret_bytes)
{
    cudaError_t error = runtime_enter();
    struct host_variable *v;

    if (error != cudaSuccess)
        return error;
    (void)pthread_mutex_lock(&registry.lock);
    for (v = registry.variables; v && v->host != symbol; v = v->next)
        ;
    if (!v)
        error = runtime_fail(cudaErrorInvalidSymbol);
    else
        error = load_binary(v->binary);
    if (v && error == cudaSuccess)
        error = runtime_done(
                DRIVER(cuLibraryGetGlobal, (ret_ptr, ret_bytes, v->binary->library, v->name)));
    (void)pthread_mutex_unlock(&registry.lock);
    return error;
}

cudaError_t cudaGetSymbolAddress(void **ret_ptr, const void *symbol)
{
    CUdeviceptr ptr = 0;
    size_t bytes = 0;
    cudaError_t error = symbol_range(symbol, &ptr, &bytes);

    if (error == cudaSuccess)
        *ret_ptr = (void *)(uintptr_t)ptr;
    return error;
}

cudaError_t cudaGetSymbolSize(size_t *ret_bytes, const void *symbol)
{
    CUdeviceptr ptr = 0;

    return symbol_range(symbol, &ptr, ret_bytes);
}

/* The part of a variable that a copy names, as a device pointer. */
static cudaError_t symbol_part(const void *symbol, size_t bytes, size_t offset, void **ret_ptr)
{
    CUdeviceptr ptr = 0;
    size_t size = 0;
    cudaError_t error = symbol_range(symbol, &ptr, &size);

    if (error != cudaSuccess)
        return error;
    if (offset > size || bytes > size - offset)
        return runtime_fail(cudaErrorInvalidValue);
    *ret_ptr = (void *)(uintptr_t)(ptr + offset);
    return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbol(
        const void *symbol, const void *src, size_t bytes, size_t offset, enum cudaMemcpyKind kind)
{
    void *ptr = NULL;
    cudaError_t error = symbol_part(symbol, bytes, offset, &ptr);

    return error != cudaSuccess ? error : cudaMemcpy(ptr, src, bytes, kind);
}

cudaError_t cudaMemcpyFromSymbol(
        void *dst, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind)
{
    void *ptr = NULL;
    cudaError_t error = symbol_part(symbol, bytes, offset, &ptr);

    return error != cudaSuccess ? error : cudaMemcpy(dst, ptr, bytes, kind);
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t bytes,
        size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    void *ptr = NULL;
    cudaError_t error = symbol_part(symbol, bytes, offset, &ptr);

    return error != cudaSuccess ? error : cudaMemcpyAsync(ptr, src, bytes, kind, stream);
}

cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t bytes, size_t offset,
        enum cudaMemcpyKind kind, cudaStream_t stream)
{
    void *ptr = NULL;
    cudaError_t error = symbol_part(symbol, bytes, offset, &ptr);

    return error != cudaSuccess ? error : cudaMemcpyAsync(dst, ptr, bytes, kind, stream);
}
