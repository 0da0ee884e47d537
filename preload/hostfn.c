/* SPDX-License-Identifier: MIT */
#include "preload/hostfn.h"

#include "preload/guard.h"
#include "preload/life.h"

#include "alloc/meta.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct record {
    CUhostFn fn;
    CUstreamCallback callback;
    void *data;
    struct record *next; /* kept ones of the same bucket; fixed once it is there */
};

enum {
    BUCKETS = 1024, /* a power of two */
};

/* Kept records: pushed, never taken off. */
static _Atomic(struct record *) kept[BUCKETS];

/* ---- what the driver runs ------------------------------------------------------------------- */

static void call(const struct record *record, CUstream stream, CUresult status)
{
    guard_thread.callback++;
    if (record->fn)
        record->fn(record->data);
    else
        record->callback(stream, status, record->data);
    guard_thread.callback--;
}

static void run_once(void *data)
{
    struct record copy = *(struct record *)data;

    meta_put(data, sizeof copy);
    call(&copy, NULL, CUDA_SUCCESS);
}

static void run_once_callback(CUstream stream, CUresult status, void *data)
{
    struct record copy = *(struct record *)data;

    meta_put(data, sizeof copy);
    call(&copy, stream, status);
}

static void run_kept(void *data)
{
    call(data, NULL, CUDA_SUCCESS);
}

static void run_kept_callback(CUstream stream, CUresult status, void *data)
{
    call(data, stream, status);
}

/* ---- records -------------------------------------------------------------------------------- */

/* The program's own, where there is nothing to wrap or no memory for it. */
static struct hostfn as_it_is(CUhostFn fn, CUstreamCallback callback, void *data)
{
    return (struct hostfn){fn, callback, data, NULL};
}

struct hostfn hostfn_once(CUhostFn fn, CUstreamCallback callback, void *data)
{
    struct record *record = fn || callback ? meta_get(sizeof *record) : NULL;

    if (!record)
        return as_it_is(fn, callback, data);
    *record = (struct record){fn, callback, data, NULL};
    return (struct hostfn){
            fn ? run_once : NULL, callback ? run_once_callback : NULL, record, record};
}

void hostfn_cancel(struct hostfn *given)
{
    if (given->record)
        meta_put(given->record, sizeof(struct record));
    given->record = NULL;
}

static _Atomic(struct record *) *bucket_of(const struct record *like)
{
    uint64_t hash = (uint64_t)(uintptr_t)like->fn ^ (uint64_t)(uintptr_t)like->callback;

    hash = (hash ^ (uint64_t)(uintptr_t)like->data << 1) * UINT64_C(0x9e3779b97f4a7c15);
    return &kept[hash >> 54 & (BUCKETS - 1)];
}

static struct record *find(struct record *from, const struct record *like)
{
    while (from
            && (from->fn != like->fn || from->callback != like->callback
                    || from->data != like->data))
        from = from->next;
    return from;
}

struct hostfn hostfn_kept(CUhostFn fn, CUstreamCallback callback, void *data)
{
    const struct record like = {fn, callback, data, NULL};
    _Atomic(struct record *) *bucket = bucket_of(&like);
    struct record *head = atomic_load_explicit(bucket, memory_order_acquire);
    struct record *record = find(head, &like);

    if (!fn && !callback)
        return as_it_is(fn, callback, data);
    if (!record) {
        record = meta_get(sizeof *record);
        if (!record)
            return as_it_is(fn, callback, data);
        *record = like;
        do /* two threads may push the same: then there are two, which does no harm */
            record->next = head;
        while (!atomic_compare_exchange_weak_explicit(
                bucket, &head, record, memory_order_release, memory_order_acquire));
    }
    return (struct hostfn){fn ? run_kept : NULL, callback ? run_kept_callback : NULL, record, NULL};
}

const CUDA_HOST_NODE_PARAMS *hostfn_host_node(
        const CUDA_HOST_NODE_PARAMS *params, CUDA_HOST_NODE_PARAMS *copy)
{
    struct hostfn given;

    if (!params || guard_depth() > 0 || !life_is_wanted() || life_is_passive())
        return params;
    given = hostfn_kept(params->fn, NULL, params->userData);
    *copy = *params;
    copy->fn = given.fn;
    copy->userData = given.data;
    return copy;
}

CUgraphNodeParams *hostfn_node(CUgraphNodeParams *params, CUgraphNodeParams *copy)
{
    CUDA_HOST_NODE_PARAMS host;

    if (!params || params->type != CU_GRAPH_NODE_TYPE_HOST
            || hostfn_host_node(&params->host, &host) == &params->host)
        return params;
    *copy = *params;
    copy->host = host;
    return copy;
}

void hostfn_original(CUDA_HOST_NODE_PARAMS *params)
{
    const struct record *record = params->userData;

    if (params->fn != run_kept || !record)
        return;
    params->fn = record->fn;
    params->userData = record->data;
}
