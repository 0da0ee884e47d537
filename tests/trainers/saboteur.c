/* SPDX-License-Identifier: MIT */
/*
 * saboteur.c - breaks what a trainer relies on, so that tests see the trainers' own checks fail.
 *
 *     SABOTAGE=reuse     cudaFree keeps the block and gives it to the next request of its size at once, without waiting
 *     SABOTAGE=nowait    cudaFree does nothing at all: nobody waits for the device
 *     SABOTAGE=scribble  the last block is overwritten at the second cudaEventRecord
 *
 * Preloaded into a program that links the runtime. One saboteur, any thread.
 */
#include <cuda_runtime_api.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCKS_MOST = 4096,
};

struct block {
    void *ptr;
    size_t bytes;
    int free;
};

static struct {
    pthread_mutex_t lock;
    struct block blocks[BLOCKS_MOST];
    int count;
    int records;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int sabotage_is(const char *word)
{
    const char *what = getenv("SABOTAGE");

    return what && strcmp(what, word) == 0;
}

static cudaError_t real_malloc(void **ret_ptr, size_t bytes)
{
    cudaError_t (*f)(void **, size_t);
    void *symbol = dlsym(RTLD_NEXT, "cudaMalloc");

    memcpy(&f, &symbol, sizeof(f));
    return f(ret_ptr, bytes);
}

static cudaError_t real_free(void *ptr)
{
    cudaError_t (*f)(void *);
    void *symbol = dlsym(RTLD_NEXT, "cudaFree");

    memcpy(&f, &symbol, sizeof(f));
    return f(ptr);
}

/* A freed block of this very size, or NULL. */
static void *take_freed(size_t bytes)
{
    void *ptr = NULL;

    (void)pthread_mutex_lock(&state.lock);
    for (int i = 0; i < state.count && !ptr; i++) {
        if (state.blocks[i].free && state.blocks[i].bytes == bytes) {
            state.blocks[i].free = 0;
            ptr = state.blocks[i].ptr;
        }
    }
    (void)pthread_mutex_unlock(&state.lock);
    return ptr;
}

cudaError_t cudaMalloc(void **ret_ptr, size_t bytes)
{
    void *ptr = sabotage_is("reuse") ? take_freed(bytes) : NULL;
    cudaError_t error = cudaSuccess;

    if (ptr) {
        *ret_ptr = ptr;
        return cudaSuccess;
    }
    error = real_malloc(ret_ptr, bytes);
    (void)pthread_mutex_lock(&state.lock);
    if (error == cudaSuccess && state.count < BLOCKS_MOST)
        state.blocks[state.count++] = (struct block){*ret_ptr, bytes, 0};
    (void)pthread_mutex_unlock(&state.lock);
    return error;
}

cudaError_t cudaFree(void *ptr)
{
    int kept = 0;

    if (sabotage_is("nowait"))
        return cudaSuccess;
    (void)pthread_mutex_lock(&state.lock);
    for (int i = 0; sabotage_is("reuse") && i < state.count; i++) {
        if (state.blocks[i].ptr == ptr) {
            state.blocks[i].free = 1;
            kept = 1;
        }
    }
    (void)pthread_mutex_unlock(&state.lock);
    return kept ? cudaSuccess : real_free(ptr);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t (*f)(cudaEvent_t, cudaStream_t);
    void *symbol = dlsym(RTLD_NEXT, "cudaEventRecord");

    if (sabotage_is("scribble") && ++state.records == 2 && state.count > 0)
        (void)cudaMemsetAsync(state.blocks[state.count - 1].ptr, 7, 4096, stream);
    memcpy(&f, &symbol, sizeof(f));
    return f(event, stream);
}
