/* SPDX-License-Identifier: MIT */
/* What variables_lib.c exports: variables, as a program that is linked with the library declares them. */
#ifndef KEDGE_TESTS_PRELOAD_VARIABLES_LIB_H
#define KEDGE_TESTS_PRELOAD_VARIABLES_LIB_H

#include <stdbool.h>
#include <stddef.h>

#define VARIABLES(row)                                                                          \
    row(cuInit, (unsigned)) row(cuDeviceGet, (int *, int))                                      \
            row(cuDevicePrimaryCtxRetain, (void **, int)) row(cuCtxSetCurrent, (void *))        \
                    row(cuMemAlloc_v2, (unsigned long long *, size_t)) row(cuMemFree_v2,        \
                            (unsigned long long)) row(cuMemGetInfo_v2, (size_t *, size_t *))    \
                            row(cuGetProcAddress_v2, (void)) row(cudaMalloc, (void **, size_t)) \
                                    row(ncclSend, (void))

#define DECLARE(name, params) extern int(*name) params;
VARIABLES(DECLARE)
#undef DECLARE

/* Each 0 or the driver's code; the address of cuMemAlloc_v2. */
bool variables_are_unset(void);
int variables_load(void);
int variables_use(void);
void *variables_at(void);

#endif
