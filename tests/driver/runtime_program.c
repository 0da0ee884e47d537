/* SPDX-License-Identifier: MIT */
/*
 * runtime_program.c - a program of the CUDA runtime that meets no device; prints the code of each call. Linked with a shared or
 * a static runtime of any version.
 *
 *     runtime_program plain|threads|fork|fork_first|killed      the ways of program.h
 */
#include "tests/driver/program.h"

int cudaDriverGetVersion(int *);
int cudaRuntimeGetVersion(int *);
int cudaGetDeviceCount(int *);
int cudaGetDevice(int *);
int cudaSetDevice(int);
int cudaDeviceSynchronize(void);
int cudaDeviceReset(void);
int cudaGetLastError(void);
int cudaPeekAtLastError(void);
const char *cudaGetErrorName(int);
const char *cudaGetErrorString(int);
int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaMallocAsync(void **, size_t, void *);
int cudaFreeAsync(void *, void *);
int cudaMallocManaged(void **, size_t, unsigned);
int cudaMallocPitch(void **, size_t *, size_t, size_t);
int cudaMallocHost(void **, size_t);
int cudaFreeHost(void *);
int cudaHostAlloc(void **, size_t, unsigned);
int cudaMemGetInfo(size_t *, size_t *);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaMemset(void *, int, size_t);
int cudaStreamCreate(void **);
int cudaStreamSynchronize(void *);
int cudaEventCreate(void **);
int cudaPointerGetAttributes(void *, const void *);
int cudaDeviceGetDefaultMemPool(void **, int);
int cudaIpcGetMemHandle(void *, void *);
int cudaProfilerStart(void);

static void runtime_program_memory(struct text *out)
{
    void *const somewhere = (void *)0x7f0000000000;
    char attributes[256], handle[64];
    size_t free_bytes = 0, total = 0, pitch = 0;
    void *p = NULL;

    program_say(out, "malloc", cudaMalloc(&p, 1 << 20));
    program_say(out, "malloc of nothing", cudaMalloc(&p, 0));
    program_say(out, "malloc to nowhere", cudaMalloc(NULL, 1 << 20));
    program_say(out, "malloc async", cudaMallocAsync(&p, 1 << 20, NULL));
    program_say(out, "malloc async, per thread", cudaMallocAsync(&p, 1 << 20, (void *)2));
    program_say(out, "free of nothing", cudaFree(NULL));
    program_say(out, "free", cudaFree(somewhere));
    program_say(out, "free async", cudaFreeAsync(somewhere, NULL));
    program_say(out, "managed", cudaMallocManaged(&p, 4096, 1));
    program_say(out, "pitch", cudaMallocPitch(&p, &pitch, 100, 100));
    program_say(out, "host", cudaMallocHost(&p, 4096));
    program_say(out, "host free", cudaFreeHost(NULL));
    program_say(out, "host alloc", cudaHostAlloc(&p, 4096, 0));
    program_say(out, "info", cudaMemGetInfo(&free_bytes, &total));
    program_say(out, "copy", cudaMemcpy(&free_bytes, &total, sizeof total, 0));
    program_say(out, "copy to the host", cudaMemcpy(&free_bytes, somewhere, sizeof total, 2));
    program_say(out, "set", cudaMemset(somewhere, 0, 4));
    program_say(out, "attributes", cudaPointerGetAttributes(attributes, somewhere));
    program_say(out, "pool", cudaDeviceGetDefaultMemPool(&p, 0));
    program_say(out, "ipc", cudaIpcGetMemHandle(handle, somewhere));
}

static void runtime_program_calls(struct text *out)
{
    void *handle = NULL;
    int value = -1;
    int code = cudaDriverGetVersion(&value);

    program_say(out, "driver", code);
    program_say(out, "driver is", value);
    code = cudaRuntimeGetVersion(&value);
    program_say(out, "runtime", code);
    program_say(out, "runtime is", value);
    code = cudaGetDeviceCount(&value);
    program_say(out, "devices", code);
    program_say(out, cudaGetErrorName(code), value);
    program_say(out, cudaGetErrorString(code), cudaPeekAtLastError());
    program_say(out, "last", cudaGetLastError());
    program_say(out, "last", cudaGetLastError());
    runtime_program_memory(out);
    program_say(out, "set device", cudaSetDevice(0));
    program_say(out, "get device", cudaGetDevice(&value));
    program_say(out, "stream", cudaStreamCreate(&handle));
    program_say(out, "stream synchronize", cudaStreamSynchronize(NULL));
    program_say(out, "event", cudaEventCreate(&handle));
    program_say(out, "profiler", cudaProfilerStart());
    program_say(out, "synchronize", cudaDeviceSynchronize());
    program_say(out, "reset", cudaDeviceReset());
    runtime_program_memory(out);
    program_say(out, "last", cudaGetLastError());
}

int main(int argc, char **argv)
{
    return program_run(argc > 1 ? argv[1] : "plain", runtime_program_calls);
}
