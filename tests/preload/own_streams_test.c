/* SPDX-License-Identifier: MIT */
/* Threads that come and go, each with a default stream of its own. */
#include "tests/preload/client.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    THREADS = 10000, /* more than there is room for at one time */
};

static atomic_int served;

/* The thread's own stream: nobody names it after the thread. */
static void *use_own_stream(void *data)
{
    CUdeviceptr ptr = 0;

    (void)data;
    if (cu->cuCtxSetCurrent(cu->context) == CUDA_SUCCESS
            && cu->cuMemAllocAsync_ptsz(&ptr, 64 << 10, NULL) == CUDA_SUCCESS
            && cu->cuMemFreeAsync_ptsz(ptr, NULL) == CUDA_SUCCESS)
        atomic_fetch_add(&served, 1);
    return NULL;
}

TEST(r69_streams_of_threads_end_with_them)
{
    client_init();
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;

        REQUIRE(pthread_create(&thread, NULL, use_own_stream, NULL) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    CHECK_EQ(atomic_load(&served), THREADS);
    CHECK_EQ(client_calls("cuMemAllocAsync_ptsz"), 0); /* none was left to the driver */
    CHECK_EQ(client_calls("cuMemFreeAsync_ptsz"), 0);
}
