/* SPDX-License-Identifier: MIT */
/*
 * bypass.h - libraries whose memory is left to the driver, and programs whose habits are known.
 *
 * NCCL, NVSHMEM, UCX and GDRCopy register or export what they allocate, by base address; a block inside a segment of ours
 * would be the wrong thing to export. Their requests are forwarded (R20, R83). Who asks is the innermost frame outside
 * CUDA's libraries; without stacks, the module that called the hook, or, where that is the runtime, the one that called its door.
 * Only what called the runtime past the doors is looked for on the stack, while a library of the list is loaded.
 *
 * The second question is R75's: does the program use cudaFree as a barrier for the host? Frameworks that are known not to
 * are recognised by their libraries; any other program is served the way the driver does it.
 *
 * The third: does a framework cache by itself, so that a user looks at segments and takes them for tensors?
 *
 * Threads: any. Takes the loader's lock for an address not seen before, and after libraries came or went. Memory: static. Rules: R20 R75 R83.
 */
#ifndef KEDGE_PRELOAD_BYPASS_H
#define KEDGE_PRELOAD_BYPASS_H

#include "alloc/types.h"

#include <stdbool.h>

/* More names, as KEDGE_BYPASS has them ("libfoo*,libbar.so"). Once, at start; the text must live on. */
void bypass_init(const char *names);

/*
 * Whether this request is to be forwarded; `caller` is an address inside the hook's caller, `asker` one inside whoever asked the
 * runtime, where that is known (door_asker), else NULL.
 */
bool bypass_wants(const struct tag *tag, const void *caller, const void *asker);

/* Whether no request from these addresses is forwarded, whatever stack it has, until libraries come: nobody on the list calls
 * from there, nor through there. */
bool bypass_spares(const void *caller, const void *asker);

/* Whether a base name of a library is on the list. */
bool bypass_names(const char *base_name);

/* A framework's own caching allocator. With it on, kedge sees the framework's segments and not its tensors. */
struct bypass_caching {
    const char *name;
    const char *advice;  /* the setting that turns it off */
    const char *setting; /* the name under which the capture keeps the advice */
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
