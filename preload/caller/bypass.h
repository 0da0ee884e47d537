/* SPDX-License-Identifier: MIT */
/*
 * bypass.h - libraries that get the driver's own memory, and known frameworks.
 *
 * NCCL, NVSHMEM, UCX and GDRCopy register or export what they allocate, by base address; a block
 * inside one of our segments would export its neighbours. Their requests are forwarded (R20, bypass
 * by module; R83, bypass by caller). The caller is the innermost frame outside of CUDA's libraries;
 * without stacks, the module that called the hook, or, if that is the runtime, the module that
 * called its export. The stack is searched only for calls that reached the runtime without an
 * export, while a library of the list is loaded.
 *
 * The module also answers two more questions. Does the program use cudaFree as a barrier for the
 * host (R75, host barrier)? Frameworks that do not are recognised by their libraries; for any other
 * program the answer is yes. And does a framework cache memory itself, so that reports would show
 * its segments and a user would take them for tensors?
 *
 * Threads: any. Takes the loader's lock for an address not seen before, and after libraries were
 * loaded or closed. Memory: static. Rules: R20 R75 R83.
 */
#ifndef KEDGE_PRELOAD_BYPASS_H
#define KEDGE_PRELOAD_BYPASS_H

#include "alloc/base/types.h"

#include <stdbool.h>

/*
 * More names, in the form of KEDGE_BYPASS ("libfoo*,libbar.so"). Once, at start; the text must stay
 * valid.
 */
void bypass_init(const char *names);

/*
 * An address inside the caller of the runtime call that this thread is in; NULL: no export of ours
 * was called. The driver's caller is the runtime itself, so without this only a stack walk could
 * find the module that asks for memory. export_runtime.c sets it.
 */
extern __thread const void *bypass_asker __attribute__((tls_model("initial-exec")));

/*
 * Whether this request is to be forwarded; `caller` is an address inside the hook's caller, `asker`
 * one inside the caller of the runtime, where known (bypass_asker), else NULL.
 */
bool bypass_wants(const struct tag *tag, const void *caller, const void *asker);

/*
 * Whether no request from these addresses is forwarded, whatever its stack, until libraries are
 * loaded: neither address lies in a listed library, and none calls through them.
 */
bool bypass_spares(const void *caller, const void *asker);

/*
 * A framework's own caching allocator. While it is on, kedge sees the framework's segments and not
 * its tensors.
 */
struct bypass_caching {
    const char *name;
    const char *library; /* patterns of the files that it allocates from, separated by commas */
    const char *advice;  /* the setting that turns it off */
    bool is_on;          /* its library is loaded, and none of its settings turns the cache off */
    /* false: the program or the framework's version decides, which cannot be told from outside */
    bool is_certain;
};

/* The current state of framework number `which`: 0, or -ENOENT after the last one. */
int bypass_caching_framework(unsigned which, struct bypass_caching *ret_caching);

/*
 * The sum of the loader's counts of objects loaded and unloaded: if it has changed, what is
 * remembered about loaded libraries is looked up anew.
 */
void bypass_loader_says(uint64_t changes);

/*
 * Whether the process has loaded a framework that does not use cudaFree as a host barrier.
 * Remembered.
 */
bool bypass_framework_known(void);

#endif
