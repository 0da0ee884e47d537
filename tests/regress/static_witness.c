/* SPDX-License-Identifier: MIT */
/*
 * static_witness.c - what the real CUDA runtime, linked statically, gets from the driver for each name it asks for.
 *
 * The runtime asks dlsym for cuGetProcAddress_v2 and then that function for everything, itself included, before it
 * makes its first call. Symbol preloading never sees a static runtime; dlsym is the only door. This program stands
 * between the two as a witness that does not depend on kedge's own record: the linker wraps its dlsym, and every
 * answer is looked up with dladdr. It is linked with -Wl,--wrap=dlsym -rdynamic and libcudart_static.a.
 *
 * With WITNESS_SHARED the runtime is the shared one, named in the first argument: the program's own dlsym then comes before
 * kedge's in the global scope, and goes on to it.
 *
 * Prints "NAME LIBRARY" for the four entries, then how cudaMalloc ended (on the simulated driver: with an error, since
 * the runtime wants more of a driver than the public interface). Exit 0 if all four answers lie in libkedge, else 1.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*proc_address_v1)(const char *, void **, int, uint64_t);
typedef int (*proc_address_v2)(const char *, void **, int, uint64_t, int *);

#ifdef WITNESS_SHARED
#    define WITNESS dlsym
__attribute__((visibility("default"))) void *dlsym(
        void *restrict handle, const char *restrict name);

/* The next dlsym behind the program's, which is kedge's; a look-up with a version would pass it by. */
static void *go_on(void *handle, const char *name)
{
    static void *(*fn)(void *, const char *);
    void *libc = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    void *next;

    if (!fn && libc) {
        memcpy(&fn, &libc, sizeof(fn));
        next = fn(RTLD_NEXT, "dlsym");
        memcpy(&fn, &next, sizeof(fn));
    }
    return fn ? fn(handle, name) : NULL;
}
#else
#    define WITNESS __wrap_dlsym
extern int cudaMalloc(void **ptr, size_t size);
void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *restrict handle, const char *restrict name);
#    define go_on   __real_dlsym
#endif

static const char *const wanted[] = {
        "cuMemAlloc", "cuMemFree", "cuMemAllocAsync", "cuMemFreeAsync"};
enum {
    WANTED = sizeof(wanted) / sizeof(wanted[0])
};

static proc_address_v1 given_v1;
static proc_address_v2 given_v2;
static int asked[WANTED];
static int hooked[WANTED];
static int look_ups;

static void witness(const char *name, const void *answer)
{
    Dl_info info;

    look_ups++;
    for (int i = 0; i < WANTED; i++) {
        if (strcmp(name, wanted[i]) != 0 || !answer)
            continue;
        asked[i]++;
        if (!dladdr(answer, &info) || !info.dli_fname)
            info.dli_fname = "nowhere";
        if (strstr(info.dli_fname, "libkedge"))
            hooked[i]++;
        printf("%s %s\n", name, info.dli_fname);
    }
}

static int ask_v2(const char *name, void **fn, int version, uint64_t flags, int *status);

static int ask_v1(const char *name, void **fn, int version, uint64_t flags)
{
    int r = given_v1(name, fn, version, flags);

    if (r == 0 && fn)
        witness(name, *fn);
    return r;
}

static void put_ourselves_between(const char *name, void **fn, int version)
{
    if (strcmp(name, "cuGetProcAddress") != 0 || !*fn)
        return;
    if (version >= 12000) {
        memcpy(&given_v2, fn, sizeof(given_v2));
        *fn = (void *)(uintptr_t)ask_v2;
    } else {
        memcpy(&given_v1, fn, sizeof(given_v1));
        *fn = (void *)(uintptr_t)ask_v1;
    }
}

static int ask_v2(const char *name, void **fn, int version, uint64_t flags, int *status)
{
    int r = given_v2(name, fn, version, flags, status);

    if (r == 0 && fn) {
        witness(name, *fn);
        put_ourselves_between(name, fn, version);
    }
    return r;
}

void *WITNESS(void *restrict handle, const char *restrict name)
{
    void *found = go_on(handle, name);

    if (found && strcmp(name, "cuGetProcAddress_v2") == 0) {
        memcpy(&given_v2, &found, sizeof(given_v2));
        return (void *)(uintptr_t)ask_v2;
    }
    return found;
}

#ifdef WITNESS_SHARED
static int ask_for_memory(char **argv, void **ptr)
{
    void *runtime = argv[1] ? dlopen(argv[1], RTLD_NOW) : NULL;
    void *found = runtime ? go_on(runtime, "cudaMalloc") : NULL;
    int (*fn)(void **, size_t);

    if (!found) {
        fprintf(stderr, "no runtime: %s\n", dlerror());
        exit(2);
    }
    memcpy(&fn, &found, sizeof(fn));
    return fn(ptr, 1 << 20);
}
#else
static int ask_for_memory(char **argv, void **ptr)
{
    (void)argv;
    return cudaMalloc(ptr, 1 << 20);
}
#endif

int main(int argc, char **argv)
{
    void *ptr = NULL;
    int failed = 0;
    int r = ask_for_memory(argv, &ptr);

    (void)argc;

    printf("cudaMalloc returned %d after %d look-ups\n", r, look_ups);
    for (int i = 0; i < WANTED; i++) {
        if (asked[i] == 0 || hooked[i] != asked[i]) {
            printf("%s: %d of %d answers are hooks\n", wanted[i], hooked[i], asked[i]);
            failed = 1;
        }
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
