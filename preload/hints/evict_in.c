/* SPDX-License-Identifier: MIT */
#include "preload/hints/evict_in.h"

#include "preload/base/forklock.h"
#include "preload/base/gate.h"
#include "preload/driver/contexts.h"
#include "preload/driver/device_stats.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/hints/evictlog.h"
#include "preload/hints/hints_run.h"

#include "tracker/base/peek.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum {
    WORD = 8,              /* bytes of an address */
    DATA_MAX = 64u * 1024, /* bytes of a copy that are searched; a larger copy is data */
    DATA_PART = 4096,      /* bytes per step */
};

/* ---- addresses of blocks that may be evicted ------------------------------------------------ */

/*
 * All blocks that an evict hint ever matched lie between these two: a word outside them needs no
 * other check.
 */
static _Atomic(uint64_t) lowest = UINT64_MAX;
static _Atomic(uint64_t) highest;

void evict_in_made(devptr_t ptr, uint64_t size)
{
    uint64_t known = atomic_load_explicit(&lowest, memory_order_relaxed);

    while (ptr < known && !atomic_compare_exchange_weak(&lowest, &known, ptr))
        ;
    known = atomic_load_explicit(&highest, memory_order_relaxed);
    while (ptr + size > known && !atomic_compare_exchange_weak(&highest, &known, ptr + size))
        ;
}

/* ---- naming --------------------------------------------------------------------------------- */

void evict_in_begin(struct evict_in *bring, CUstream stream)
{
    *bring = (struct evict_in){.stream = stream};
    guard_thread.bring = bring;
}

CUresult evict_in_end(struct evict_in *bring, CUresult result)
{
    guard_thread.bring = NULL;
    pool_call_end(session_pool, &bring->call);
    return bring->refused != CUDA_SUCCESS ? bring->refused : result;
}

bool evict_in_name(devptr_t ptr, uint64_t size, bool is_written)
{
    struct evict_in *bring = guard_thread.bring;

    if (size == 0 || pool_call_name(session_pool, ptr, size, is_written, &bring->call) == 0)
        return false;
    bring->refused = CUDA_ERROR_OUT_OF_MEMORY;
    return true;
}

bool evict_in_all(void)
{
    if (!guard_thread.bring)
        return false;
    guard_thread.bring->is_untold = true;
    return evict_in_name(0, UINT64_MAX, false);
}

/* ---- addresses among data ------------------------------------------------------------------- */

static void evict_in_keep(devptr_t ptr, enum pool_kept why)
{
    pool_evict_keep(session_pool, ptr, why);
    session_go_on_later(); /* the pool is asked there */
}

/* A kernel may follow the pointer, unseen. */
static bool name_pointer(devptr_t word)
{
    struct block_info info;

    struct evict_in *bring = guard_thread.bring;

    if (pool_find(session_pool, word, &info) != 0 || !hints_run_is_evict_rule(info.rule))
        return false;
    if (bring->pointers < EVICT_IN_POINTERS)
        bring->pointer[bring->pointers++] = word;
    else
        evict_in_keep(word, POOL_KEPT_POINTER);
    return evict_in_name(word, 1, false);
}

/* An address that the driver does not know may be any host memory, or none. */
static bool is_of_device(devptr_t ptr)
{
    struct block_info info;
    unsigned type = 0;

    return pool_find(session_pool, ptr, &info) == 0
            || (REAL(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr)
                            == CUDA_SUCCESS
                    && type != 0 && type != CU_MEMORYTYPE_HOST);
}

static bool name_pointers(const char *bytes, size_t size)
{
    uint64_t lo = atomic_load_explicit(&lowest, memory_order_relaxed);
    uint64_t span = atomic_load_explicit(&highest, memory_order_relaxed) - lo;
    devptr_t word;

    for (size_t i = 0; i + WORD <= size; i += WORD) {
        memcpy(&word, bytes + i, sizeof word);
        if (__builtin_expect(word - lo < span, 0) && name_pointer(word))
            return true;
    }
    return false;
}

bool evict_in_data_slowly(devptr_t dst, const void *src, uint64_t size)
{
    uint64_t end = size < DATA_MAX ? size : DATA_MAX;
    const char *from = src;
    char bytes[DATA_PART];

    if (end < WORD || !src || is_of_device((uintptr_t)src) || !is_of_device(dst))
        return false;
    for (uint64_t at = -dst % WORD; at + WORD <= end; at += DATA_PART) {
        size_t part = end - at < DATA_PART ? (size_t)(end - at) : DATA_PART;

        if (!peek_copy(bytes, from + at, part))
            return false; /* a program that names no memory gets the driver's own answer */
        if (name_pointers(bytes, part))
            return true;
    }
    return false;
}

/* ---- coming in ------------------------------------------------------------------------------ */

/*
 * The code for the program. Natively nothing would be moved, so no code of the driver fits exactly.
 */
static CUresult evict_in_code_of(int r)
{
    if (r >= 0)
        return (CUresult)r;
    return r == -EBUSY ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Outside of reader sections. */
static int evict_in_in(struct pool_call *call)
{
    struct pool_short lacks = {.rule = -1};
    int cancel, unused;
    int r;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    r = pool_call_bring(session_pool, call, &lacks);
    (void)pthread_setcancelstate(cancel, &unused);
    device_stats_all_reserved();
    if (r == DRIVER_OUT_OF_MEMORY && lacks.rule < 0 && gate_captures() > 0)
        return -EBUSY; /* it has waited for the end of the capture */
    if (r == DRIVER_OUT_OF_MEMORY)
        evictlog_short(&lacks);
    return r;
}

static CUresult call_ready(struct pool_call *call)
{
    int r = pool_call_begin(session_pool, call);

    while (r == -EAGAIN) {
        unsigned suspended = guard_read_suspend();

        r = evict_in_in(call);
        guard_read_resume(suspended);
        if (r == 0)
            r = pool_call_begin(session_pool, call);
    }
    return evict_in_code_of(r);
}

/* The block is in, and is held until the call is made. */
static void keep_noted(const struct evict_in *bring)
{
    if (bring->is_untold)
        evict_in_keep(0, POOL_KEPT_UNTOLD);
    for (unsigned i = 0; i < bring->pointers; i++)
        evict_in_keep(bring->pointer[i], POOL_KEPT_POINTER);
}

CUresult evict_in_ready_slowly(struct evict_in *bring)
{
    struct stream stream;

    if (bring->call.count == 0)
        return CUDA_SUCCESS;
    if (bring->stream && stream_here(bring->stream, false, &stream) == 0)
        bring->call.stream = stream.identity;
    bring->refused = call_ready(&bring->call);
    if (bring->refused == CUDA_SUCCESS)
        keep_noted(bring);
    return bring->refused;
}

CUresult evict_in_pinned(struct evict_in *bring, devptr_t ptr, uint64_t size)
{
    evict_in_begin(bring, NULL);
    if (evict_in_name(ptr, size, true))
        return bring->refused;
    return evict_in_ready_slowly(bring);
}

/* ---- blocks to bring in later --------------------------------------------------------------- */

enum {
    OWED_MAX = 64,
};

struct owed {
    devptr_t ptr;
    uint64_t size;
};

FORKLOCK(owed_lock);
static struct owed owed[OWED_MAX]; /* guarded by owed_lock */
static unsigned owed_count;
atomic_bool evict_in_owes;

void evict_in_later(devptr_t ptr, uint64_t size)
{
    lock_take(&owed_lock);
    if (owed_count == OWED_MAX) { /* one entry that covers all */
        owed_count = 1;
        owed[0] = (struct owed){0, UINT64_MAX};
    } else {
        owed[owed_count++] = (struct owed){ptr, size};
    }
    lock_drop(&owed_lock);
    atomic_store_explicit(&evict_in_owes, true, memory_order_release);
}

void evict_in_owed(void)
{
    struct owed some[OWED_MAX];
    struct evict_in bring;
    unsigned count;

    if (!session_may_fence())
        return;
    lock_take(&owed_lock);
    count = owed_count;
    memcpy(some, owed, count * sizeof some[0]);
    owed_count = 0;
    atomic_store_explicit(&evict_in_owes, false, memory_order_relaxed);
    lock_drop(&owed_lock);
    for (unsigned i = 0; i < count; i++) {
        if (evict_in_pinned(&bring, some[i].ptr, some[i].size) != CUDA_SUCCESS)
            evict_in_later(some[i].ptr, some[i].size);
        (void)evict_in_end(&bring, CUDA_SUCCESS);
    }
}

void evict_in_go_on_slowly(void)
{
    int cancel, unused;

    if (guard_thread.reading > 0 || !session_may_fence())
        return;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    pool_evict_go_on(session_pool);
    session_sweep_stack();
    (void)pthread_setcancelstate(cancel, &unused);
    if (!evict_in_has_more())
        device_stats_all_reserved();
}
