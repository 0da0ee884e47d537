/* SPDX-License-Identifier: MIT */
#include "preload/params.h"

#include "preload/conduct.h"
#include "preload/guard.h"
#include "preload/resolve.h"

#include "alloc/meta.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum {
    PARAMS_SLOTS = 1 << 14,
    PARAMS_PROBES = 16, /* beyond them a kernel is asked about at each launch */
    PARAMS_MAX = 4096,  /* 4 KiB of parameters, or 32 KiB: never more of them than this */
};

/* Where the parameters of a kernel lie. */
struct params {
    struct params *next; /* of those that were replaced */
    uint64_t snapshot;   /* of the readers that may look at it still */
    uint32_t count;
    bool known; /* the driver said so; else it may have parameters that nobody tells us of */
    struct {
        uint32_t offset;
        uint32_t size;
    } param[];
};

/* One kernel. `generation` is stored last and read first, so that a slot is whole or not there. */
struct params_slot {
    _Atomic(uint64_t) generation; /* 0 = free; of another generation = free too */
    _Atomic(uintptr_t) func;
    _Atomic(struct params *) layout;
};

static struct params_slot slots[PARAMS_SLOTS];
static _Atomic(uint64_t) generation = 1;

/* ---- layouts that were replaced ------------------------------------------------------------- */

static _Atomic(struct params *) replaced; /* not given back yet */

static void give_back(struct params *layout)
{
    meta_put(layout, sizeof *layout + layout->count * sizeof layout->param[0]);
}

static void put_off(struct params *layout)
{
    layout->next = atomic_load(&replaced);
    while (!atomic_compare_exchange_weak(&replaced, &layout->next, layout))
        ;
}

/* No slot has it any more: it goes when whoever found it there before has looked (guard.h), with the next that is replaced. */
static void retire(struct params *layout)
{
    struct params *list = atomic_exchange(&replaced, NULL);

    layout->snapshot = guard_readers_snapshot();
    put_off(layout);
    while (list) {
        struct params *next = list->next;

        if (guard_readers_passed(list->snapshot) == 0)
            give_back(list);
        else
            put_off(list);
        list = next;
    }
}

/* ---- asking --------------------------------------------------------------------------------- */

void params_forget(void)
{
    atomic_fetch_add(&generation, 1);
}

static CUresult ask_param(
        CUfunction func, bool as_kernel, size_t index, size_t *offset, size_t *size)
{
    if (as_kernel)
        return REAL(cuKernelGetParamInfo)((CUkernel)(void *)func, index, offset, size);
    return REAL(cuFuncGetParamInfo)(func, index, offset, size);
}

/* The list ends where the driver says that there is no such parameter; any other word means that it does not know. */
static unsigned count_params(CUfunction func, bool as_kernel, bool *known)
{
    CUresult result = CUDA_SUCCESS;
    size_t offset, size;
    unsigned n = 0;

    while (n < PARAMS_MAX && result == CUDA_SUCCESS) {
        result = ask_param(func, as_kernel, n, &offset, &size);
        n += result == CUDA_SUCCESS ? 1 : 0;
    }
    *known |= result == CUDA_ERROR_INVALID_VALUE;
    return n;
}

/* A kernel without parameters cannot be told from a handle of the other kind; it has nothing to look at either way. */
static struct params *ask(CUfunction func)
{
    bool as_kernel = false;
    bool known = false;
    struct params *layout;
    unsigned count = 0;

    if (REAL_HAS(cuFuncGetParamInfo))
        count = count_params(func, false, &known);
    if (count == 0 && REAL_HAS(cuKernelGetParamInfo)) {
        as_kernel = true;
        count = count_params(func, true, &known);
    }
    layout = meta_get(sizeof *layout + count * sizeof layout->param[0]);
    if (!layout)
        return NULL;
    layout->count = count;
    layout->known = known;
    for (unsigned i = 0; i < count; i++) {
        size_t offset = 0;
        size_t size = 0;

        (void)ask_param(func, as_kernel, i, &offset, &size);
        layout->param[i].offset = (uint32_t)offset;
        layout->param[i].size = (uint32_t)size;
    }
    return layout;
}

static unsigned start_of(uintptr_t func)
{
    return (unsigned)(((uint64_t)func * UINT64_C(0x9e3779b97f4a7c15)) >> 50) % PARAMS_SLOTS;
}

static const struct params *find(uintptr_t func, uint64_t now)
{
    unsigned at = start_of(func);

    for (unsigned i = 0; i < PARAMS_PROBES; i++, at = (at + 1) % PARAMS_SLOTS) {
        const struct params *layout;

        if (atomic_load_explicit(&slots[at].generation, memory_order_acquire) != now)
            continue;
        layout = atomic_load_explicit(&slots[at].layout, memory_order_relaxed);
        if (atomic_load_explicit(&slots[at].func, memory_order_relaxed) != func)
            continue;
        /* taken over by another kernel meanwhile? then it is of a later generation */
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&slots[at].generation, memory_order_relaxed) == now)
            return layout;
    }
    return NULL;
}

/* Marks a slot as being written, so that one writer has it. */
#define PARAMS_BUSY UINT64_MAX

static bool keep(uintptr_t func, struct params *layout, uint64_t now)
{
    struct params *old;
    unsigned at = start_of(func);

    for (unsigned i = 0; i < PARAMS_PROBES; i++, at = (at + 1) % PARAMS_SLOTS) {
        uint64_t was = atomic_load(&slots[at].generation);

        if (was == now || was == PARAMS_BUSY
                || !atomic_compare_exchange_strong(&slots[at].generation, &was, PARAMS_BUSY))
            continue;
        atomic_store_explicit(&slots[at].func, func, memory_order_relaxed);
        old = atomic_exchange_explicit(&slots[at].layout, layout, memory_order_relaxed);
        atomic_store_explicit(&slots[at].generation, now, memory_order_release);
        if (old)
            retire(old);
        return true;
    }
    return false;
}

/* For a kernel without a slot: the thread's, until its next launch of such a kernel. */
static __thread struct params *passing __attribute__((tls_model("initial-exec")));

static void hold(struct params *layout)
{
    if (passing)
        give_back(passing);
    passing = layout;
}

/* NULL: the driver does not say, or there is no memory. Inside a reader section, until the end of which the layout stays. */
static const struct params *params_of(CUfunction func)
{
    uint64_t now = atomic_load(&generation);
    const struct params *known = find((uintptr_t)func, now);
    struct params *layout;

    if (known || !func)
        return known;
    layout = ask(func);
    if (layout && !keep((uintptr_t)func, layout, now))
        hold(layout);
    return layout;
}

/* ---- looking at them ------------------------------------------------------------------------ */

enum {
    POINTER_BYTES = 8,
};

/* Eight bytes at `at`, which need not be aligned. */
static devptr_t word_at(const char *at)
{
    devptr_t word;

    memcpy(&word, at, sizeof word);
    return word;
}

static bool bytes_touch(const char *bytes, size_t size, const char *what)
{
    if (size == POINTER_BYTES)
        return conduct_touch(word_at(bytes), 1, TOUCH_POINTER, what);
    for (size_t i = 0; i + POINTER_BYTES <= size; i += POINTER_BYTES)
        if (conduct_touch(word_at(bytes + i), 1, TOUCH_INSIDE, what))
            return true;
    return false;
}

static bool list_touches(const struct params *layout, void **params, const char *what)
{
    for (unsigned i = 0; i < layout->count; i++)
        if (params[i] && bytes_touch(params[i], layout->param[i].size, what))
            return true;
    return false;
}

/* The buffer and its size from an `extra` list. */
static const char *extra_buffer(void **extra, size_t *ret_size)
{
    const char *buffer = NULL;

    *ret_size = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *ret_size = *(const size_t *)extra[1];
    }
    return buffer;
}

static bool extra_touches(const struct params *layout, void **extra, const char *what)
{
    size_t size;
    const char *buffer = extra_buffer(extra, &size);

    if (!buffer)
        return false;
    if (!layout || !layout->known) { /* every word of it may be a pointer */
        conduct_unseen();
        return size >= POINTER_BYTES && bytes_touch(buffer, size & ~(size_t)7, what);
    }
    for (unsigned i = 0; i < layout->count; i++)
        if (layout->param[i].offset + layout->param[i].size <= size
                && bytes_touch(buffer + layout->param[i].offset, layout->param[i].size, what))
            return true;
    return false;
}

static bool launch_touches(CUfunction func, void **params, void **extra, const char *what)
{
    const struct params *layout = params || extra ? params_of(func) : NULL;

    if (params && func && (!layout || !layout->known))
        conduct_unknown_layout(what);
    if (params && layout && list_touches(layout, params, what))
        return true;
    return extra && extra_touches(layout, extra, what);
}

bool params_touch(CUfunction func, void **params, void **extra, const char *what)
{
    bool touches;

    guard_read_begin();
    touches = launch_touches(func, params, extra, what);
    guard_read_end();
    return touches;
}

bool params_given_before(const char *what)
{
    conduct_unknown_layout(what);
    return false;
}

bool params_words_touch(const CUstreamBatchMemOpParams *items, unsigned count, const char *what)
{
    for (unsigned i = 0; items && i < count; i++) {
        unsigned bytes = 4;

        switch (items[i].operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64:
            bytes = 8;
            break;
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            break;
        case CU_STREAM_MEM_OP_BARRIER:
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
            continue;
        default: /* of a later driver */
            conduct_unseen();
            continue;
        }
        if (conduct_touch(items[i].writeValue.address, bytes, TOUCH_POINTER, what))
            return true;
    }
    return false;
}
