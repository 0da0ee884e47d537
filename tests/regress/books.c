/* SPDX-License-Identifier: MIT */
/*
 * books.c - a program that keeps its own books of what it has allocated, where a kill -9 cannot reach them.
 *
 *     books FILE THREADS sync|stream
 *
 * Every thread allocates and frees at random for ever. Its page of FILE (shared mapping) says how many bytes and
 * blocks it holds and which operation is under way. A test kills the program at any moment and compares what the
 * capture says with these books: they may differ by operations under way and nothing else.
 */
#include <cuda_runtime_api.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    SLOTS = 64,
    THREADS_MOST = 16
};

/* One thread's books. The reader is another process, after this one is dead. */
struct books {
    _Atomic int64_t bytes;
    _Atomic int64_t blocks;
    /* bytes of the operation under way: > 0 an allocation, < 0 a free, 0 none */
    _Atomic int64_t pending;
    _Atomic int64_t operations;
    char rest[96]; /* a line of its own */
};

struct worker {
    struct books *books;
    uint64_t random;
    int stream_entrance;
    cudaStream_t stream;
};

static uint64_t next_random(struct worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static int allocate(struct worker *w, size_t size, void **ret_ptr)
{
    cudaError_t r;

    atomic_store(&w->books->pending, (int64_t)size);
    r = w->stream_entrance ? cudaMallocAsync(ret_ptr, size, w->stream) : cudaMalloc(ret_ptr, size);
    if (r != cudaSuccess)
        return -1;
    atomic_fetch_add(&w->books->bytes, (int64_t)size);
    atomic_fetch_add(&w->books->blocks, 1);
    atomic_store(&w->books->pending, 0);
    return 0;
}

static int release(struct worker *w, void *ptr, size_t size)
{
    cudaError_t r;

    atomic_store(&w->books->pending, -(int64_t)size);
    r = w->stream_entrance ? cudaFreeAsync(ptr, w->stream) : cudaFree(ptr);
    if (r != cudaSuccess)
        return -1;
    atomic_fetch_sub(&w->books->bytes, (int64_t)size);
    atomic_fetch_sub(&w->books->blocks, 1);
    atomic_store(&w->books->pending, 0);
    return 0;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    void *held[SLOTS] = {NULL};
    size_t size[SLOTS] = {0};

    if (w->stream_entrance && cudaStreamCreate(&w->stream) != cudaSuccess)
        exit(EXIT_FAILURE);
    for (;;) {
        uint64_t i = next_random(w) % SLOTS;
        bool was_free = held[i] != NULL;
        int r;

        if (was_free) {
            r = release(w, held[i], size[i]);
            held[i] = NULL;
        } else {
            size[i] = 1 + next_random(w) % (next_random(w) % 8 ? 65536 : 8388608);
            r = allocate(w, size[i], &held[i]);
        }
        if (r) {
            fprintf(stderr, "books: %s of %zu bytes: %s\n", was_free ? "free" : "allocation",
                    size[i], cudaGetErrorString(cudaGetLastError()));
            exit(EXIT_FAILURE);
        }
        atomic_fetch_add(&w->books->operations, 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct worker workers[THREADS_MOST];
    int threads = argc == 4 ? atoi(argv[2]) : 0;
    size_t bytes = sizeof(struct books) * THREADS_MOST;
    struct books *books;
    int fd;

    if (threads < 1 || threads > THREADS_MOST) {
        fprintf(stderr, "usage: books FILE THREADS sync|stream\n");
        return 2;
    }
    fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
        return EXIT_FAILURE;
    books = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (books == MAP_FAILED)
        return EXIT_FAILURE;
    for (int i = 0; i < threads; i++) {
        pthread_t thread;

        workers[i] = (struct worker){.books = &books[i],
                .random = 0x9e3779b97f4a7c15U * (uint64_t)(i + 1),
                .stream_entrance = strcmp(argv[3], "stream") == 0};
        if (pthread_create(&thread, NULL, work, &workers[i]) != 0)
            return EXIT_FAILURE;
    }
    pause(); /* until somebody kills it */
    return EXIT_SUCCESS;
}
