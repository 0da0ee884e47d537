/* SPDX-License-Identifier: MIT */
/*
 * static_witness.c - what the real CUDA runtime, linked statically, gets from the driver for each name it asks for.
 *
 * The runtime asks dlsym for cuGetProcAddress_v2 and then that function for everything, itself included, before it
 * makes its first call. Symbol preloading never sees a static runtime; dlsym is the only door. This program stands
 * between the two as a witness that does not depend on kedge's own record: the linker wraps its dlsym, and every
 * answer is looked up with dladdr. It is linked with -Wl,--wrap=dlsym -rdynamic and libcudart_static.a.
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

extern int cudaMalloc(void **ptr, size_t size);
void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);

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

void *__wrap_dlsym(void *handle, const char *name)
{
    void *found = __real_dlsym(handle, name);

    if (found && strcmp(name, "cuGetProcAddress_v2") == 0) {
        memcpy(&given_v2, &found, sizeof(given_v2));
        return (void *)(uintptr_t)ask_v2;
    }
    return found;
}

int main(void)
{
    void *ptr = NULL;
    int failed = 0;
    int r = cudaMalloc(&ptr, 1 << 20);

    printf("cudaMalloc returned %d after %d look-ups\n", r, look_ups);
    for (int i = 0; i < WANTED; i++) {
        if (asked[i] == 0 || hooked[i] != asked[i]) {
            printf("%s: %d of %d answers are hooks\n", wanted[i], hooked[i], asked[i]);
            failed = 1;
        }
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
