/* SPDX-License-Identifier: MIT */
/*
 * runtime_program.c - a program of the CUDA runtime that meets no device; prints the code of each call. Linked with a shared or
 * a static runtime of any version.
 *
 *     runtime_program plain|threads|fork|fork_first
 *
 * threads: in four threads at once, the output in order; fork: the parent, then a child, then the parent; fork_first: a child
 * before the parent has made a call. Exit 3.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    THREADS = 4,
    OUTPUT = 8192,
    STATUS = 3,
};

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

struct text {
    char text[OUTPUT];
    size_t length;
};

static void runtime_program_say(struct text *out, const char *what, int code)
{
    out->length += (size_t)snprintf(
            out->text + out->length, sizeof out->text - out->length, "%s %d\n", what, code);
}

static void runtime_program_flush(struct text *out)
{
    (void)!write(STDOUT_FILENO, out->text, out->length);
    out->length = 0;
}

static void runtime_program_memory(struct text *out)
{
    void *const somewhere = (void *)0x7f0000000000;
    char attributes[256], handle[64];
    size_t free_bytes = 0, total = 0, pitch = 0;
    void *p = NULL;

    runtime_program_say(out, "malloc", cudaMalloc(&p, 1 << 20));
    runtime_program_say(out, "malloc of nothing", cudaMalloc(&p, 0));
    runtime_program_say(out, "malloc to nowhere", cudaMalloc(NULL, 1 << 20));
    runtime_program_say(out, "malloc async", cudaMallocAsync(&p, 1 << 20, NULL));
    runtime_program_say(out, "malloc async, per thread", cudaMallocAsync(&p, 1 << 20, (void *)2));
    runtime_program_say(out, "free of nothing", cudaFree(NULL));
    runtime_program_say(out, "free", cudaFree(somewhere));
    runtime_program_say(out, "free async", cudaFreeAsync(somewhere, NULL));
    runtime_program_say(out, "managed", cudaMallocManaged(&p, 4096, 1));
    runtime_program_say(out, "pitch", cudaMallocPitch(&p, &pitch, 100, 100));
    runtime_program_say(out, "host", cudaMallocHost(&p, 4096));
    runtime_program_say(out, "host free", cudaFreeHost(NULL));
    runtime_program_say(out, "host alloc", cudaHostAlloc(&p, 4096, 0));
    runtime_program_say(out, "info", cudaMemGetInfo(&free_bytes, &total));
    runtime_program_say(out, "copy", cudaMemcpy(&free_bytes, &total, sizeof total, 0));
    runtime_program_say(
            out, "copy to the host", cudaMemcpy(&free_bytes, somewhere, sizeof total, 2));
    runtime_program_say(out, "set", cudaMemset(somewhere, 0, 4));
    runtime_program_say(out, "attributes", cudaPointerGetAttributes(attributes, somewhere));
    runtime_program_say(out, "pool", cudaDeviceGetDefaultMemPool(&p, 0));
    runtime_program_say(out, "ipc", cudaIpcGetMemHandle(handle, somewhere));
}

static void runtime_program_calls(struct text *out)
{
    void *handle = NULL;
    int value = -1;
    int code = cudaDriverGetVersion(&value);

    runtime_program_say(out, "driver", code);
    runtime_program_say(out, "driver is", value);
    code = cudaRuntimeGetVersion(&value);
    runtime_program_say(out, "runtime", code);
    runtime_program_say(out, "runtime is", value);
    code = cudaGetDeviceCount(&value);
    runtime_program_say(out, "devices", code);
    runtime_program_say(out, cudaGetErrorName(code), value);
    runtime_program_say(out, cudaGetErrorString(code), cudaPeekAtLastError());
    runtime_program_say(out, "last", cudaGetLastError());
    runtime_program_say(out, "last", cudaGetLastError());
    runtime_program_memory(out);
    runtime_program_say(out, "set device", cudaSetDevice(0));
    runtime_program_say(out, "get device", cudaGetDevice(&value));
    runtime_program_say(out, "stream", cudaStreamCreate(&handle));
    runtime_program_say(out, "stream synchronize", cudaStreamSynchronize(NULL));
    runtime_program_say(out, "event", cudaEventCreate(&handle));
    runtime_program_say(out, "profiler", cudaProfilerStart());
    runtime_program_say(out, "synchronize", cudaDeviceSynchronize());
    runtime_program_say(out, "reset", cudaDeviceReset());
    runtime_program_memory(out);
    runtime_program_say(out, "last", cudaGetLastError());
}

static void runtime_program_once(void)
{
    static struct text out;

    runtime_program_calls(&out);
    runtime_program_flush(&out);
}

static void *runtime_program_thread(void *out)
{
    runtime_program_calls(out);
    return NULL;
}

static void runtime_program_threads(void)
{
    static struct text out[THREADS];
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, runtime_program_thread, &out[i]) != 0)
            exit(2);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        runtime_program_flush(&out[i]);
    }
}

static void runtime_program_fork(const char *order)
{
    int status = 0;
    pid_t child;

    if (strcmp(order, "fork") == 0)
        runtime_program_once();
    child = fork();
    if (child == 0) {
        runtime_program_once();
        exit(STATUS + 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        exit(2);
    printf("the child ended with %x\n", (unsigned)status);
    fflush(stdout);
    runtime_program_once();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "plain";

    if (strcmp(what, "threads") == 0)
        runtime_program_threads();
    else if (strncmp(what, "fork", 4) == 0)
        runtime_program_fork(what);
    else
        runtime_program_once();
    return STATUS;
}
