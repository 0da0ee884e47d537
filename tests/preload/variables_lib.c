/* SPDX-License-Identifier: MIT */
/*
 * A library that finds the driver by itself, into exported variables that are named like the driver's functions. CONSTRUCTS: it
 * does so when it is loaded.
 */
#include "tests/preload/variables_lib.h"

#include <dlfcn.h>
#include <stdbool.h>

#define DEFINE(name, params) int(*name) params;
VARIABLES(DEFINE)

/* Words that hold addresses of variables, in a part of the library that is read-only once it is loaded. */
static const struct {
    const char *name;
    void *variable;
} table[] = {
#define ROW(name, params) {#name, (void *)&(name)},
        VARIABLES(ROW)};

enum {
    COUNT = sizeof table / sizeof *table,
};

bool variables_are_unset(void)
{
    int set = 0;

#define COUNT_SET(name, params) set += (name) != NULL;
    VARIABLES(COUNT_SET)
    return set == 0;
}

int variables_load(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);

    for (int i = 0; i < COUNT; i++)
        *(void **)table[i].variable = dlsym(driver, table[i].name);
    return cuInit ? cuInit(0) : -1;
}

int variables_use(void)
{
    unsigned long long ptr = 0;
    void *context = NULL;
    int device = 0;
    int r = cuDeviceGet(&device, 0);

    r = r ? r : cuDevicePrimaryCtxRetain(&context, device);
    r = r ? r : cuCtxSetCurrent(context);
    r = r ? r : cuMemAlloc_v2(&ptr, 3 << 20);
    return r ? r : cuMemFree_v2(ptr);
}

void *variables_at(void)
{
    return (void *)&cuMemAlloc_v2;
}

#ifdef CONSTRUCTS
__attribute__((constructor)) static void begin(void)
{
    (void)variables_load();
}
#endif
