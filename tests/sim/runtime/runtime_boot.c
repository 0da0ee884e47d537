/* SPDX-License-Identifier: MIT */
#include "tests/sim/runtime/runtime_core.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum {
    DEVICES_MOST = 64,
};

struct runtime_driver runtime_driver;

static cudaError_t boot_result = cudaErrorInitializationError;
static pthread_once_t boot_once = PTHREAD_ONCE_INIT;

/* Primary contexts that this runtime has retained. A reset begins a new generation, so that all threads bind anew. */
static struct {
    pthread_mutex_t lock;
    CUcontext contexts[DEVICES_MOST];
} primaries = {.lock = PTHREAD_MUTEX_INITIALIZER};
static atomic_uint generation;

static _Thread_local struct {
    cudaError_t last;
    int device;
    CUcontext bound; /* the context that we made current, NULL: none */
    unsigned int generation;
} thread;

/* ---- errors ---- */

cudaError_t runtime_fail(cudaError_t error)
{
    if (error != cudaSuccess)
        thread.last = error;
    return error;
}

cudaError_t runtime_done(CUresult r)
{
    return runtime_fail((cudaError_t)r); /* equal by value since CUDA 10.1 */
}

cudaError_t runtime_asked(CUresult r)
{
    return r == CUDA_ERROR_NOT_READY ? cudaErrorNotReady : runtime_done(r);
}

cudaError_t runtime_last(void)
{
    return thread.last;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = thread.last;

    thread.last = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return thread.last;
}

/* ---- the driver ---- */

/* Function pointers come out of dlsym and of look-ups as data pointers. */
static void set_entry(void *field, void *value)
{
    memcpy(field, &value, sizeof(value));
}

static void *look_up(const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status;
    void *entry = NULL;

    if (runtime_driver.get_proc_address(name, &entry, version, flags, &status) != CUDA_SUCCESS)
        return NULL;
    return entry;
}

static void look_up_entries(void)
{
#define RUNTIME_ENTRY(symbol_, name_, version_, flags_) \
    set_entry(&runtime_driver.symbol_, look_up(#name_, (version_), (flags_)));
#include "tests/sim/runtime/runtime_entries.def"
#undef RUNTIME_ENTRY
}

/* The order of the real runtime: an empty name, cuInit, the look-up's own two forms, the rest. */
static cudaError_t open_driver(void)
{
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    CUresult (*init)(unsigned int) = NULL;
    void *by_name;

    if (!libcuda)
        return cudaErrorInsufficientDriver;
    set_entry(&runtime_driver.get_proc_address, dlsym(libcuda, "cuGetProcAddress_v2"));
    if (!runtime_driver.get_proc_address)
        return cudaErrorInsufficientDriver;
    (void)look_up("", 0, 0);
    set_entry(&init, look_up("cuInit", 2000, 0));
    (void)look_up("cuGetProcAddress", 11030, 0);
    by_name = look_up("cuGetProcAddress", 12000, 0);
    if (!init || !by_name)
        return cudaErrorInsufficientDriver;
    set_entry(&runtime_driver.get_proc_address, by_name);
    look_up_entries();
    set_entry(&runtime_driver.witness_birth, dlsym(libcuda, "simcuda_witness_birth"));
    set_entry(&runtime_driver.witness_death, dlsym(libcuda, "simcuda_witness_death"));
    set_entry(&runtime_driver.witness_step, dlsym(libcuda, "simcuda_witness_step"));
    return (cudaError_t)init(0);
}

static void boot(void)
{
    boot_result = open_driver();
}

cudaError_t runtime_boot(void)
{
    (void)pthread_once(&boot_once, boot);
    return runtime_fail(boot_result);
}

/* ---- contexts ---- */

CUresult runtime_primary(int device, CUcontext *ret_ctx)
{
    CUresult r = CUDA_SUCCESS;

    if (device < 0 || device >= DEVICES_MOST)
        return CUDA_ERROR_INVALID_DEVICE;
    (void)pthread_mutex_lock(&primaries.lock);
    if (!primaries.contexts[device])
        r = DRIVER(cuDevicePrimaryCtxRetain, (&primaries.contexts[device], device));
    if (r == CUDA_SUCCESS)
        *ret_ctx = primaries.contexts[device];
    (void)pthread_mutex_unlock(&primaries.lock);
    return r;
}

static CUresult bind_device(int device)
{
    unsigned int now = atomic_load(&generation);
    CUcontext ctx;
    CUresult r = runtime_primary(device, &ctx);

    if (r == CUDA_SUCCESS)
        r = DRIVER(cuCtxSetCurrent, (ctx));
    if (r != CUDA_SUCCESS)
        return r;
    thread.device = device;
    thread.bound = ctx;
    thread.generation = now;
    return CUDA_SUCCESS;
}

/* True while the thread's current context can be used as it is. */
static bool context_stands(void)
{
    CUcontext current = NULL;

    if (DRIVER(cuCtxGetCurrent, (&current)) != CUDA_SUCCESS || !current)
        return false;
    if (current != thread.bound)
        return true; /* the program's own choice, through the driver */
    return thread.generation == atomic_load(&generation);
}

cudaError_t runtime_enter(void)
{
    cudaError_t error = runtime_boot();

    if (error != cudaSuccess || context_stands())
        return error;
    return runtime_done(bind_device(thread.device));
}

int runtime_device(void)
{
    CUcontext current = NULL;
    CUdevice device;

    if (DRIVER(cuCtxGetCurrent, (&current)) == CUDA_SUCCESS && current && current != thread.bound
            && DRIVER(cuCtxGetDevice, (&device)) == CUDA_SUCCESS)
        return device;
    return thread.device;
}

cudaError_t cudaGetDevice(int *device)
{
    cudaError_t error = runtime_boot();

    if (error != cudaSuccess)
        return error;
    if (!device)
        return runtime_fail(cudaErrorInvalidValue);
    *device = runtime_device();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    int count = 0;
    cudaError_t error = runtime_boot();

    if (error == cudaSuccess)
        error = runtime_done(DRIVER(cuDeviceGetCount, (&count)));
    if (error != cudaSuccess)
        return error;
    if (device < 0 || device >= count)
        return runtime_fail(cudaErrorInvalidDevice);
    return runtime_done(bind_device(device));
}

cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags)
{
    CUcontext ctx;
    cudaError_t error = runtime_boot();

    if (error == cudaSuccess && (flags & ~1U) != 0)
        return runtime_fail(cudaErrorInvalidValue);
    if (error == cudaSuccess && (flags & 1U) != 0) /* cudaInitDeviceFlagsAreValid */
        error = runtime_done(DRIVER(cuDevicePrimaryCtxSetFlags_v2, (device, device_flags)));
    if (error == cudaSuccess)
        error = runtime_done(runtime_primary(device, &ctx));
    return error;
}

cudaError_t cudaDeviceReset(void)
{
    int device = thread.device;
    cudaError_t error = runtime_boot();

    if (error != cudaSuccess)
        return error;
    (void)pthread_mutex_lock(&primaries.lock);
    primaries.contexts[device] = NULL; /* retained anew on the next call */
    (void)atomic_fetch_add(&generation, 1);
    error = runtime_done(DRIVER(cuDevicePrimaryCtxReset_v2, (device)));
    (void)pthread_mutex_unlock(&primaries.lock);
    return error;
}
