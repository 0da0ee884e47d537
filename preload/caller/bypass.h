/* SPDX-License-Identifier: MIT */
/*
 * bypass.h - libraries that get the driver's own memory, and frameworks that are known.
 *
 * NCCL, NVSHMEM, UCX and GDRCopy register or export what they allocate, by base address; a block inside one of our segments
 * would export its neighbours. Their requests are forwarded (R20, R83). The caller is the innermost frame outside of CUDA's
 * libraries; without stacks, the module that called the hook, or, if that is the runtime, the module that called its export.
 * The stack is searched only for calls that reached the runtime without an export, while a library of the list is loaded.
 *
 * Two more questions are answered here. Does the program use cudaFree as a barrier for the host (R75)? Frameworks that do not
 * are recognised by their libraries; for any other program the answer is yes. And does a framework cache memory by itself, so that a
 * user would take segments for tensors?
 *
 * Threads: any. Takes the loader's lock for an address not seen before, and after libraries came or went. Memory: static. Rules: R20 R75 R83.
 */
#ifndef KEDGE_PRELOAD_BYPASS_H
#define KEDGE_PRELOAD_BYPASS_H

#include "alloc/base/types.h"

#include <stdbool.h>

/* More names, as KEDGE_BYPASS has them ("libfoo*,libbar.so"). Once, at start; the text must live on. */
void bypass_init(const char *names);

/*
 * An address inside whoever made the call of the runtime that this thread is in; NULL: no export of ours was called. The driver's
 * caller is the runtime itself, so without this only a walk of the stack could say who asks for memory. export_runtime.c sets it.
 */
extern __thread const void *bypass_asker __attribute__((tls_model("initial-exec")));

/*
 * Whether this request is to be forwarded; `caller` is an address inside the hook's caller, `asker` one inside whoever asked the
 * runtime, where that is known (bypass_asker), else NULL.
 */
bool bypass_wants(const struct tag *tag, const void *caller, const void *asker);

/* Whether no request from these addresses is forwarded, whatever stack it has, until libraries come: nobody on the list calls
 * from there, nor through there. */
bool bypass_spares(const void *caller, const void *asker);

/* A framework's own caching allocator. With it on, kedge sees the framework's segments and not its tensors. */
struct bypass_caching {
    const char *name;
    const char *library; /* patterns of the files that it asks from, with commas */
    const char *advice;  /* the setting that turns it off */
    bool is_on;          /* its library is loaded, and none of its settings turns the cache off */
    bool is_certain;     /* false: the program or its version decides, and nothing outside tells */
};

/* The framework number `which`, as it is now: 0, or -ENOENT beyond the last one. */
int bypass_caching_framework(unsigned which, struct bypass_caching *ret_caching);

/* The loader's counts of objects that came and that went, added up: where the sum is another one, what is remembered of the
 * loaded libraries is asked for anew. */
void bypass_loader_says(uint64_t changes);

/* Whether the process has loaded a framework that does not use cudaFree as a host barrier. Remembered. */
bool bypass_framework_known(void);

#endif
