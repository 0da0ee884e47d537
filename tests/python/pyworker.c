/* SPDX-License-Identifier: MIT */
/*
 * pyworker.c - a library of the kind that trainers load: its threads ask for device memory and know no Python.
 *
 *     worker_take    one allocation in a thread of its own, while the caller waits (a backward pass)
 *     worker_stay    a thread that allocates until the process ends, through the interpreter's end
 *     worker_linger  the same in the calling thread, which the interpreter believes to be in a library call
 *     worker_at_exit one allocation by the main thread after the interpreter's end
 *     worker_deep    one allocation in the calling thread, behind that many functions of this library
 *     worker_call    calls a function again and again, in the calling thread or in threads of its own
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define EXPORT       __attribute__((visibility("default")))
#define CALL_THREADS 8

typedef int (*alloc_fn)(uint64_t *ret_ptr, size_t size);
typedef int (*free_fn)(uint64_t ptr);
typedef int (*current_fn)(void *context);

static struct {
    alloc_fn alloc;
    free_fn free;
    current_fn current;
    void *context;
} driver;

struct job {
    size_t size;
    int result;
};

static _Atomic size_t exit_size;

EXPORT int worker_start(void *context)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);

    if (!cuda)
        return -1;
    *(void **)&driver.alloc = dlsym(cuda, "cuMemAlloc_v2");
    *(void **)&driver.free = dlsym(cuda, "cuMemFree_v2");
    *(void **)&driver.current = dlsym(cuda, "cuCtxSetCurrent");
    driver.context = context;
    return driver.alloc && driver.free && driver.current ? 0 : -1;
}

static int take(size_t size)
{
    uint64_t ptr;

    return driver.alloc(&ptr, size);
}

/* volatile: calls, each with a frame. */
EXPORT __attribute__((noinline)) int worker_deep(size_t size, unsigned levels)
{
    volatile int result = levels > 0 ? worker_deep(size, levels - 1) : take(size);

    return result;
}

static void *take_one(void *data)
{
    struct job *job = data;

    job->result = driver.current(driver.context);
    if (job->result == 0)
        job->result = take(job->size);
    return NULL;
}

EXPORT int worker_take(size_t size)
{
    struct job job = {.size = size, .result = -1};
    pthread_t thread;

    if (pthread_create(&thread, NULL, take_one, &job) == 0)
        (void)pthread_join(thread, NULL);
    return job.result;
}

static void *churn(void *unused)
{
    struct timespec pause = {0, 20000};
    uint64_t ptr;

    (void)unused;
    if (driver.current(driver.context) != 0)
        return NULL;
    for (;;) {
        if (driver.alloc(&ptr, 512) == 0)
            (void)driver.free(ptr);
        (void)nanosleep(&pause, NULL);
    }
}

EXPORT int worker_stay(void)
{
    pthread_t thread;

    return pthread_create(&thread, NULL, churn, NULL);
}

EXPORT void worker_linger(void)
{
    (void)churn(NULL);
}

static void at_exit(void)
{
    struct timespec pause = {0, 20000000}; /* the others go on meanwhile */

    (void)take(exit_size);
    (void)nanosleep(&pause, NULL);
}

EXPORT int worker_at_exit(size_t size)
{
    exit_size = size;
    return atexit(at_exit);
}

struct calls {
    int (*function)(int number);
    int times;
};

static void *call(void *data)
{
    const struct calls *calls = data;

    for (int i = 0; i < calls->times; i++)
        (void)calls->function(i);
    return NULL;
}

/* `threads`: 0 = the calling one. */
EXPORT int worker_call(int (*function)(int number), int times, int threads)
{
    struct calls calls = {function, times};
    pthread_t thread[CALL_THREADS];
    int started = 0;

    if (threads == 0)
        (void)call(&calls);
    while (started < threads && started < CALL_THREADS
            && pthread_create(&thread[started], NULL, call, &calls) == 0)
        started++;
    for (int i = 0; i < started; i++)
        (void)pthread_join(thread[i], NULL);
    return started - threads;
}
