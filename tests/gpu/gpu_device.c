/* SPDX-License-Identifier: MIT */
#define KEDGE_CHECK_NO_MAIN
#include "tests/gpu/gpu_device.h"

#include "tests/trainers/kernels.ptx.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct gpu the_gpu;
const struct gpu *const gpu = &the_gpu;
static CUfunction spin, sum;

/* One thread that looks at the clock. */
static const char spin_ptx[] = ".version 7.0\n"
                               ".target sm_70\n"
                               ".address_size 64\n"
                               ".visible .entry gpu_spin(.param .u64 p_ns)\n"
                               "{\n"
                               "    .reg .pred %p;\n"
                               "    .reg .u64 %begun, %now, %ns;\n"
                               "    ld.param.u64 %ns, [p_ns];\n"
                               "    mov.u64 %begun, %globaltimer;\n"
                               "AGAIN:\n"
                               "    mov.u64 %now, %globaltimer;\n"
                               "    sub.u64 %now, %now, %begun;\n"
                               "    setp.lt.u64 %p, %now, %ns;\n"
                               "    @%p bra AGAIN;\n"
                               "    ret;\n"
                               "}\n";

void gpu_load(void)
{
    static const struct {
        const char *symbol;
        void **slot;
    } rows[] = {
#define GPU_ROW(symbol) {#symbol, (void **)&the_gpu.symbol},
            GPU_API(GPU_ROW)
#undef GPU_ROW
    };
    Dl_info info;

    the_gpu.libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!the_gpu.libcuda)
        SKIP("no CUDA driver");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        *rows[i].slot = dlsym(the_gpu.libcuda, rows[i].symbol);
    REQUIRE(gpu->cuInit && gpu->cuDeviceGetCount && gpu->cuMemAlloc_v2);
    the_gpu.simulated = dlsym(the_gpu.libcuda, "simcuda_calls") != NULL;
    if (gpu->simulated && !getenv("TEST_GPU_ON_SIM"))
        SKIP("the CUDA driver on the library path is the simulated one");
    the_gpu.under_kedge = dladdr((void *)gpu->cuMemAlloc_v2, &info) && info.dli_fname
            && strstr(info.dli_fname, "libkedge") != NULL;
}

void gpu_init(void)
{
    char name[128] = "";
    CUmodule module;

    gpu_load();
    if (gpu->cuInit(0) != CUDA_SUCCESS || gpu->cuDeviceGetCount(&the_gpu.devices) != CUDA_SUCCESS
            || gpu->devices == 0)
        SKIP("the CUDA driver finds no device");
    REQUIRE_EQ(gpu->cuDriverGetVersion(&the_gpu.version), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuDeviceGetName(name, sizeof name, 0), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuDevicePrimaryCtxRetain(&the_gpu.context, gpu->device), CUDA_SUCCESS);
    gpu_here();
    REQUIRE_EQ(gpu->cuModuleLoadData(&module, kernels_ptx), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuModuleGetFunction(&sum, module, "kedge_sum"), CUDA_SUCCESS);
    if (gpu->simulated)
        return;
    REQUIRE_EQ(gpu->cuModuleLoadData(&module, spin_ptx), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuModuleGetFunction(&spin, module, "gpu_spin"), CUDA_SUCCESS);
}

void gpu_here(void)
{
    REQUIRE_EQ(gpu->cuCtxSetCurrent(gpu->context), CUDA_SUCCESS);
}

void gpu_fact(const char *name, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    printf("fact %s ", name);
    vprintf(format, list); /* NOLINT(clang-analyzer-valist.Uninitialized) */
    printf("\n");
    va_end(list);
}

int gpu_attribute(CUdevice_attribute attribute)
{
    int value = 0;

    GPU_OK(cuDeviceGetAttribute(&value, attribute, gpu->device));
    return value;
}

double gpu_microseconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

int gpu_in_a_process(void (*question)(void))
{
    int status = 0;
    pid_t pid;

    gpu_load();
    (void)fflush(stdout);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        question();
        (void)fflush(stdout);
        _exit(atomic_load(&check_state.failures) ? 1 : 0);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("the process that was to ask found nothing to ask");
    return status;
}

uint32_t *gpu_mailbox(CUdeviceptr *ret_device)
{
    void *host;

    REQUIRE_EQ(
            gpu->cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE),
            CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuMemHostGetDevicePointer_v2(ret_device, host, 0), CUDA_SUCCESS);
    memset(host, 0, 4096);
    return host;
}

CUstream gpu_stream(unsigned flags)
{
    CUstream stream = NULL;

    REQUIRE_EQ(gpu->cuStreamCreate(&stream, flags), CUDA_SUCCESS);
    return stream;
}

CUevent gpu_event(void)
{
    CUevent event = NULL;

    REQUIRE_EQ(gpu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    return event;
}

void gpu_hold(CUstream stream, unsigned milliseconds)
{
    uint64_t ns = (uint64_t)milliseconds * 1000000;
    void *params[] = {&ns};

    if (spin)
        GPU_OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

void gpu_sum(CUdeviceptr out, CUdeviceptr src, size_t bytes, CUstream stream)
{
    uint64_t size = bytes;
    void *params[] = {&out, &src, &size};

    GPU_OK(cuLaunchKernel(sum, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}
