/* SPDX-License-Identifier: MIT */
/*
 * record.c - writes down what a program allocates, for tests/traces.
 *
 *     RECORD=trace.csv LD_PRELOAD=build/dev/trainers/librecord.so build/dev/trainers/streams --entrance stream
 *
 * Stands in for cudaMalloc, cudaFree, cudaMallocAsync and cudaFreeAsync of a program that links the runtime, calls the
 * real ones and writes a row for each success: op,id,size,stream,time_us. Streams are numbered as they are first seen,
 * 0 is the legacy stream and the sync API. Rows are in the order in which calls returned (allocations) or were
 * made (frees), so that a block is never freed after its address is another's.
 */
#include <cuda_runtime_api.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    BLOCKS_MOST = 1 << 16,
    STREAMS_MOST = 64,
};

struct block {
    void *ptr;
    size_t bytes;
    unsigned long id;
};

static struct {
    pthread_mutex_t lock;
    FILE *file;
    struct block live[BLOCKS_MOST];
    int count;
    struct {
        cudaStream_t handle;
        pthread_t thread; /* of the per-thread handle, which means another stream in each thread */
    } streams[STREAMS_MOST];
    int streams_count;
    unsigned long next_id;
    struct timespec start;
} record = {.lock = PTHREAD_MUTEX_INITIALIZER, .streams_count = 1};

static void *real(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);

    if (!f) {
        (void)fprintf(stderr, "record: there is no %s behind this one\n", name);
        exit(1);
    }
    return f;
}

static void give_up(const char *why)
{
    (void)fprintf(stderr, "record: %s\n", why);
    exit(1);
}

static long time_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - record.start.tv_sec) * 1000000L
            + (now.tv_nsec - record.start.tv_nsec) / 1000;
}

/* With the lock. */
static int stream_number(cudaStream_t stream)
{
    for (int i = 0; i < record.streams_count; i++) {
        if (record.streams[i].handle == stream
                && (stream != cudaStreamPerThread
                        || pthread_equal(record.streams[i].thread, pthread_self())))
            return i;
    }
    if (record.streams_count == STREAMS_MOST)
        give_up("too many streams");
    record.streams[record.streams_count].handle = stream;
    record.streams[record.streams_count].thread = pthread_self();
    return record.streams_count++;
}

/* With the lock. */
static void row(char op, const struct block *b, cudaStream_t stream)
{
    if (!record.file) {
        const char *path = getenv("RECORD");

        record.file = path ? fopen(path, "we") : NULL;
        if (!record.file)
            give_up("RECORD names no file that can be written");
        (void)clock_gettime(CLOCK_MONOTONIC, &record.start);
        (void)fputs("op,id,size,stream,time_us\n", record.file);
    }
    (void)fprintf(record.file, "%c,%lu,%zu,%d,%ld\n", op, b->id, b->bytes, stream_number(stream),
            time_us());
}

static void allocated(void *ptr, size_t bytes, cudaStream_t stream)
{
    struct block b = {ptr, bytes, 0};

    if (!ptr)
        return; /* of 0 bytes */
    (void)pthread_mutex_lock(&record.lock);
    if (record.count == BLOCKS_MOST)
        give_up("too many live blocks");
    b.id = record.next_id++;
    record.live[record.count++] = b;
    row('a', &b, stream);
    (void)pthread_mutex_unlock(&record.lock);
}

static void freeing(void *ptr, cudaStream_t stream)
{
    (void)pthread_mutex_lock(&record.lock);
    for (int i = record.count - 1; i >= 0; i--) {
        if (record.live[i].ptr == ptr) {
            row('f', &record.live[i], stream);
            record.live[i] = record.live[--record.count];
            break;
        }
    }
    (void)pthread_mutex_unlock(&record.lock);
}

cudaError_t cudaMalloc(void **ret_ptr, size_t bytes)
{
    cudaError_t (*f)(void **, size_t);
    void *symbol = real(__func__);
    cudaError_t error;

    memcpy(&f, &symbol, sizeof(f));
    error = f(ret_ptr, bytes);
    if (error == cudaSuccess)
        allocated(*ret_ptr, bytes, NULL);
    return error;
}

cudaError_t cudaFree(void *ptr)
{
    cudaError_t (*f)(void *);
    void *symbol = real(__func__);

    memcpy(&f, &symbol, sizeof(f));
    freeing(ptr, NULL);
    return f(ptr);
}

cudaError_t cudaMallocAsync(void **ret_ptr, size_t bytes, cudaStream_t stream)
{
    cudaError_t (*f)(void **, size_t, cudaStream_t);
    void *symbol = real(__func__);
    cudaError_t error;

    memcpy(&f, &symbol, sizeof(f));
    error = f(ret_ptr, bytes, stream);
    if (error == cudaSuccess)
        allocated(*ret_ptr, bytes, stream);
    return error;
}

cudaError_t cudaFreeAsync(void *ptr, cudaStream_t stream)
{
    cudaError_t (*f)(void *, cudaStream_t);
    void *symbol = real(__func__);

    memcpy(&f, &symbol, sizeof(f));
    freeing(ptr, stream);
    return f(ptr, stream);
}

__attribute__((destructor)) static void close_file(void)
{
    if (record.file)
        (void)fclose(record.file);
}
