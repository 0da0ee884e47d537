/* SPDX-License-Identifier: MIT */
#include "preload/hints/params.h"

#include "preload/base/forklock.h"
#include "preload/base/guard.h"
#include "preload/driver/resolve.h"
#include "preload/hints/argcheck.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum {
    /* kernels take 4 KiB or 32 KiB of parameters: never more of them than this */
    PARAMS_MAX = 4096,
};

/* The layout of a kernel's parameters. */
struct params {
    atomic_uint holders; /* the table, and launches that use it; the last one frees it */
    uint32_t count;
    bool known; /* the driver gave the complete layout; else the kernel may have other parameters */
    struct {
        uint32_t offset;
        uint32_t size;
    } param[];
};

/* A CUkernel that the driver has returned. */
struct kernel {
    uint64_t handle;
    uint64_t library;
};

FORKLOCK(params_lock);
/* guarded by params_lock: */
static struct table layouts; /* by handle: struct params */
static uint64_t forgets;     /* number of times all layouts were forgotten */
static struct table params_kernels = TABLE_OF(struct kernel);

static void params_let_go(struct params *layout)
{
    if (layout && atomic_fetch_sub(&layout->holders, 1) == 1)
        meta_put(layout, sizeof *layout + layout->count * sizeof layout->param[0]);
}

void params_forget(void)
{
    lock_take(&params_lock);
    for (const struct table_pointer *at = table_next(&layouts, NULL); at;
            at = table_next(&layouts, at))
        params_let_go(at->to);
    table_clear(&layouts);
    forgets++;
    lock_drop(&params_lock);
}

/* ---- kernels -------------------------------------------------------------------------------- */

void params_kernels_told(CUlibrary library, const CUkernel *kernels, unsigned count)
{
    struct kernel *kernel;

    lock_take(&params_lock);
    for (unsigned i = 0; kernels && i < count; i++) {
        kernel = table_add(&params_kernels, (uintptr_t)kernels[i]);
        if (kernel)
            kernel->library = (uintptr_t)library;
    }
    lock_drop(&params_lock);
}

void params_library_gone(CUlibrary library)
{
    struct kernel *at;

    lock_take(&params_lock);
    at = table_next(&params_kernels, NULL);
    while (at)
        at = at->library == (uintptr_t)library || !at->library ? table_remove(&params_kernels, at)
                                                               : table_next(&params_kernels, at);
    lock_drop(&params_lock);
}

bool params_is_kernel(CUfunction func)
{
    bool is_kernel;

    lock_take(&params_lock);
    is_kernel = table_find(&params_kernels, (uintptr_t)func) != NULL;
    lock_drop(&params_lock);
    return is_kernel;
}

/* ---- asking the driver --------------------------------------------------------------------- */

static CUresult ask_param(
        CUfunction func, bool as_kernel, size_t index, size_t *offset, size_t *size)
{
    if (as_kernel)
        return REAL(cuKernelGetParamInfo)((CUkernel)(void *)func, index, offset, size);
    return REAL(cuFuncGetParamInfo)(func, index, offset, size);
}

/*
 * The list ends where the driver answers that there is no such parameter; any other answer means
 * that it does not know.
 */
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

/* A handle of the other kind gets no answer, or crashes. */
static struct params *ask_layout(CUfunction func)
{
    bool as_kernel = params_is_kernel(func);
    bool known = false;
    struct params *layout;
    unsigned count = 0;

    if (as_kernel ? REAL_HAS(cuKernelGetParamInfo) : REAL_HAS(cuFuncGetParamInfo))
        count = count_params(func, as_kernel, &known);
    layout = meta_get(sizeof *layout + count * sizeof layout->param[0]);
    if (!layout)
        return NULL;
    layout->holders = 1;
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

/* A layout that another launch asked for; NULL = none yet. */
static struct params *find_layout(CUfunction func, uint64_t *ret_forgets)
{
    struct params *layout;

    lock_take(&params_lock);
    layout = table_get(&layouts, (uintptr_t)func);
    if (layout)
        atomic_fetch_add(&layout->holders, 1);
    *ret_forgets = forgets;
    lock_drop(&params_lock);
    return layout;
}

/*
 * Keeps the layout, unless another launch was faster or handles may name other kernels since the
 * query.
 */
static void keep_layout(CUfunction func, struct params *layout, uint64_t asked)
{
    lock_take(&params_lock);
    if (asked == forgets && !table_get(&layouts, (uintptr_t)func)
            && table_put(&layouts, (uintptr_t)func, layout) == 0)
        atomic_fetch_add(&layout->holders, 1);
    lock_drop(&params_lock);
}

/* The caller owns it until params_let_go; NULL: the driver does not say, or there is no memory. */
static struct params *params_of(CUfunction func)
{
    uint64_t asked;
    struct params *layout = func ? find_layout(func, &asked) : NULL;

    if (layout || !func)
        return layout;
    layout = ask_layout(func);
    if (layout)
        keep_layout(func, layout, asked);
    return layout;
}

/* ---- checking them ------------------------------------------------------------------------ */

enum {
    POINTER_BYTES = 8,
};

/* Eight bytes at `at`, which need not be aligned. */
static devptr_t params_word_at(const char *at)
{
    devptr_t word;

    memcpy(&word, at, sizeof word);
    return word;
}

static bool bytes_touch(const char *bytes, size_t size, const char *what)
{
    if (size == POINTER_BYTES)
        return argcheck_range(params_word_at(bytes), 1, TOUCH_PARAM, what);
    for (size_t i = 0; i + POINTER_BYTES <= size; i += POINTER_BYTES)
        if (argcheck_range(params_word_at(bytes + i), 1, TOUCH_INSIDE, what))
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
    if (!layout || !layout->known) { /* any word of it may be a pointer */
        argcheck_unseen();
        return size >= POINTER_BYTES && bytes_touch(buffer, size & ~(size_t)7, what);
    }
    for (unsigned i = 0; i < layout->count; i++)
        if (layout->param[i].offset + layout->param[i].size <= size
                && bytes_touch(buffer + layout->param[i].offset, layout->param[i].size, what))
            return true;
    return false;
}

static bool launch_touches(
        const struct params *layout, CUfunction func, void **params, void **extra, const char *what)
{
    if (params && func && (!layout || !layout->known) && argcheck_unknown_layout(what))
        return true;
    if (params && layout && list_touches(layout, params, what))
        return true;
    return extra && extra_touches(layout, extra, what);
}

bool params_touch(CUfunction func, void **params, void **extra, const char *what)
{
    struct params *layout = params || extra ? params_of(func) : NULL;
    bool touches;

    guard_thread.word = 0;
    touches = launch_touches(layout, func, params, extra, what);
    params_let_go(layout);
    return touches;
}

/*
 * Offset of a reduction's address (13.1): after the operation, its flags, the kind and the type, 4
 * bytes each.
 */
static devptr_t reduced_at(const CUstreamBatchMemOpParams *item)
{
    devptr_t address;

    memcpy(&address, (const char *)item + 16, sizeof address);
    return address;
}

bool params_words_touch(const CUstreamBatchMemOpParams *items, unsigned count, const char *what)
{
    for (unsigned i = 0; items && i < count; i++) {
        unsigned bytes = 4;

        switch ((int)items[i].operation) {
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
        case CU_STREAM_MEM_OP_ATOMIC_REDUCTION:
            if (argcheck_range(reduced_at(&items[i]), 8, TOUCH_POINTER, what))
                return true;
            continue;
        default: /* an operation of a later driver */
            if (argcheck_untold())
                return true;
            continue;
        }
        if (argcheck_range(items[i].writeValue.address, bytes, TOUCH_POINTER, what))
            return true;
    }
    return false;
}
