/* SPDX-License-Identifier: MIT */
#include "preload/graph/kernelnames.h"

#include "preload/base/forklock.h"
#include "preload/base/guard.h"
#include "preload/driver/resolve.h"
#include "preload/hints/hints_run.h"
#include "preload/hints/params.h"
#include "tracker/stacks/intern.h"

#include "alloc/base/table.h"
#include "alloc/base/wildcard.h"

#include <string.h>

enum {
    PATTERN_ROOM = 256,
};

#define UNNAMED UINT64_MAX
#define UNKNOWN (UINT64_MAX - 1)

struct kernelname {
    uint64_t handle;
    uint64_t name; /* string number of the name, UNNAMED, or UNKNOWN */
};

FORKLOCK(lock);
static struct table kernels = TABLE_OF(struct kernelname); /* by CUfunction, guarded by lock */

const char *kernelnames_patterns = "";

void kernelnames_list(const char *patterns)
{
    kernelnames_patterns = patterns;
}

bool kernelnames_is_listed(const char *name)
{
    char pattern[PATTERN_ROOM];

    for (const char *at = kernelnames_patterns; *at;) {
        size_t length = strcspn(at, ",");

        if (length < sizeof pattern) {
            memcpy(pattern, at, length);
            pattern[length] = '\0';
            if (wildcard_match(pattern, name))
                return true;
        }
        at += length + (at[length] == ',' ? 1 : 0);
    }
    return false;
}

/* Asks the driver for the name of a handle, as a string number; UNNAMED: not wanted; UNKNOWN. */
static uint64_t kernelnames_ask(CUfunction function)
{
    CUresult r = CUDA_ERROR_NOT_SUPPORTED;
    const char *name = NULL;
    uint32_t string = 0;

    guard_push();
    if (!params_is_kernel(function))
        r = REAL(cuFuncGetName)(&name, function);
    else if (REAL_HAS(cuKernelGetName))
        r = REAL(cuKernelGetName)(&name, (CUkernel)(void *)function);
    if (r != CUDA_SUCCESS)
        name = NULL;
    if (name && (hints_run_waits_for_kernel(name) || kernelnames_is_listed(name)))
        string = intern_string(name, strlen(name));
    guard_pop();
    if (string)
        return string;
    return name ? UNNAMED : UNKNOWN;
}

uint32_t kernelnames_of(CUfunction function, bool *ret_is_known)
{
    uint64_t key = (uint64_t)(uintptr_t)function;
    struct kernelname *entry;
    uint64_t name;

    lock_take(&lock);
    entry = table_find(&kernels, key);
    name = entry ? entry->name : 0;
    lock_drop(&lock);
    if (name == 0) {
        name = kernelnames_ask(function);
        lock_take(&lock);
        entry = table_add(&kernels, key);
        if (entry)
            entry->name = name;
        lock_drop(&lock);
    }
    *ret_is_known = name != UNKNOWN;
    return name < UNKNOWN ? (uint32_t)name : 0;
}

bool kernelnames_are_wanted(void)
{
    return *kernelnames_patterns || (hints_run_waits(EDGE_LAUNCH) && REAL_HAS(cuFuncGetName));
}

void kernelnames_forget(void)
{
    lock_take(&lock);
    table_clear(&kernels);
    lock_drop(&lock);
}
