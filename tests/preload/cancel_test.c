/* SPDX-License-Identifier: MIT */
/*
 * Unwinding is the program's, not ours: with libkedge.so in the process, cancelling a thread inside a library that was opened
 * late still runs the cleanups of its frames (an interposed unwinder would skip them silently).
 */
#include "tests/preload/client.h"

#include <dlfcn.h>
#include <time.h>

static int cleaned;

static void *cancelled(void *data)
{
    void (*here)(int *, int) = (void (*)(int *, int))data;

    here(&cleaned, 4);
    return NULL;
}

TEST(cancelling_a_thread_runs_its_cleanups)
{
    struct timespec pause = {0, 20000000};
    void *library, *here, *result = NULL;
    CUdeviceptr ptr;
    pthread_t thread;
    Dl_info info;

    client_init();
    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, 4096), CUDA_SUCCESS); /* the unwinder has been used */
    library = dlopen(CANCEL_PATH, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library);
    here = dlsym(library, "cancel_here");
    REQUIRE(here);
    REQUIRE(pthread_create(&thread, NULL, cancelled, here) == 0);
    (void)nanosleep(&pause, NULL);
    REQUIRE(pthread_cancel(thread) == 0);
    REQUIRE(pthread_join(thread, &result) == 0);
    CHECK_EQ(result, PTHREAD_CANCELED);
    CHECK_EQ(cleaned, 5);
    /* and what the library bound to is libgcc's */
    REQUIRE(dladdr(dlsym(library, "_Unwind_Resume"), &info));
    CHECK(strstr(info.dli_fname, "libgcc_s"));
}
