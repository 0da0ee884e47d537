/* SPDX-License-Identifier: MIT */
/*
 * cancel_helper LIBRARY: sets up stacks as libkedge.so does, loads a C++ library afterwards and cancels a thread in it.
 * Prints "destructors N engine NAME". The library's object must be destroyed: N = 1.
 */
#include "tracker/where.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);

    if (!found)
        (void)fprintf(stderr, "no %s\n", name);
    return found;
}

int main(int argc, char **argv)
{
    struct where_opts opts = {.unwind = {.ops = {dlopen, dlsym}}};
    void *(*run)(void *) = NULL;
    int *destructors;
    int *ready;
    pthread_t thread;
    struct tag tag;
    void *library, *address;

    if (argc != 2 || where_init(&opts) < 0 || where_am_i(NULL, 1, 0, &tag) < 0)
        return 2;
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        (void)fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    address = symbol(library, "cancel_run");
    destructors = symbol(library, "cancel_destructors");
    ready = symbol(library, "cancel_ready");
    if (!address || !destructors || !ready)
        return 2;
    memcpy(&run, &address, sizeof run);
    if (pthread_create(&thread, NULL, run, NULL) != 0)
        return 2;
    while (!__atomic_load_n(ready, __ATOMIC_ACQUIRE))
        (void)usleep(1000);
    (void)pthread_cancel(thread);
    (void)pthread_join(thread, NULL);
    printf("destructors %d engine %s\n", __atomic_load_n(destructors, __ATOMIC_ACQUIRE),
            unwind_engine_name(unwind_engine()));
    return 0;
}
