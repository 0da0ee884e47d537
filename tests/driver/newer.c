/* SPDX-License-Identifier: MIT */
/*
 * newer.c - a libcuda.so.1 that says it is of CUDA 13.5 and hands on the functions of the real driver that $REAL_DRIVER names.
 *
 * A runtime that is newer than the driver ends at that (cudaErrorInsufficientDriver). Above this one it goes on to cuInit and beyond.
 * What the real driver lacks answers CUDA_ERROR_NOT_SUPPORTED.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERSION = 13050,
    FIRST_V2 = 12000, /* from here on the name cuGetProcAddress is the form with a status */
    NOT_SUPPORTED = 801,
};

#define PUBLIC __attribute__((visibility("default")))

PUBLIC int cuInit(unsigned flags);
PUBLIC int cuDriverGetVersion(int *ret_version);
PUBLIC int cuGetExportTable(const void **ret_table, const void *id);
PUBLIC int cuGetProcAddress(const char *name, void **ret_fn, int version, uint64_t flags);
PUBLIC int cuGetProcAddress_v2(
        const char *name, void **ret_fn, int version, uint64_t flags, int *ret_status);

static void *newer_real(const char *name)
{
    static void *driver;

    if (!driver)
        driver = dlopen(getenv("REAL_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    return dlsym(driver, name);
}

static int newer_missing(void)
{
    return NOT_SUPPORTED;
}

int cuInit(unsigned flags)
{
    return ((int (*)(unsigned))newer_real("cuInit"))(flags);
}

int cuDriverGetVersion(int *ret_version)
{
    *ret_version = VERSION;
    return 0;
}

int cuGetExportTable(const void **ret_table, const void *id)
{
    return ((int (*)(const void **, const void *))newer_real("cuGetExportTable"))(ret_table, id);
}

int cuGetProcAddress(const char *name, void **ret_fn, int version, uint64_t flags)
{
    int status;

    return cuGetProcAddress_v2(name, ret_fn, version, flags, &status);
}

int cuGetProcAddress_v2(
        const char *name, void **ret_fn, int version, uint64_t flags, int *ret_status)
{
    int (*real)(const char *, void **, int, uint64_t) =
            (int (*)(const char *, void **, int, uint64_t))newer_real("cuGetProcAddress");

    *ret_fn = NULL;
    if (ret_status)
        *ret_status = 0;
    if (strcmp(name, "cuDriverGetVersion") == 0)
        *ret_fn = (void *)cuDriverGetVersion;
    else if (strcmp(name, "cuGetExportTable") == 0)
        *ret_fn = (void *)cuGetExportTable;
    else if (strcmp(name, "cuGetProcAddress") == 0)
        *ret_fn = version < FIRST_V2 ? (void *)cuGetProcAddress : (void *)cuGetProcAddress_v2;
    else if (*name && real(name, ret_fn, version, flags) != 0)
        *ret_fn = NULL;
    if (*name && !*ret_fn)
        *ret_fn = (void *)newer_missing;
    return 0;
}
