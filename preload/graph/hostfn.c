/* SPDX-License-Identifier: MIT */
#include "preload/graph/hostfn.h"

#include "preload/base/bounds.h"
#include "preload/base/forklock.h"
#include "preload/base/guard.h"
#include "preload/driver/life.h"

#include "alloc/base/meta.h"
#include "tracker/base/catalog.h"
#include "tracker/base/site.h"

#include <stddef.h>
#include <stdint.h>

struct record {
    CUhostFn fn;
    CUstreamCallback callback;
    void *data;
};

enum {
    HOSTFN_KEPT_MAX = 1 << 22,
};

static bool same_record(uint32_t number, const void *key);
FORKLOCK(kept_lock);
static struct catalog kept = CATALOG_OF(struct record, HOSTFN_KEPT_MAX, same_record);

static bool same_record(uint32_t number, const void *key)
{
    const struct record *have = catalog_at(&kept, number);
    const struct record *wanted = key;

    return have->fn == wanted->fn && have->callback == wanted->callback
            && have->data == wanted->data;
}

/* ---- functions that the driver runs --------------------------------------------------------- */

static void hostfn_call(const struct record *record, CUstream stream, CUresult status)
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
    hostfn_call(&copy, NULL, CUDA_SUCCESS);
}

static void run_once_callback(CUstream stream, CUresult status, void *data)
{
    struct record copy = *(struct record *)data;

    meta_put(data, sizeof copy);
    hostfn_call(&copy, stream, status);
}

static void run_kept(void *data)
{
    hostfn_call(data, NULL, CUDA_SUCCESS);
}

static void run_kept_callback(CUstream stream, CUresult status, void *data)
{
    hostfn_call(data, stream, status);
}

/* ---- records -------------------------------------------------------------------------------- */

/* The program's own function, if it need not be wrapped or there is no memory for a record. */
static struct hostfn as_it_is(CUhostFn fn, CUstreamCallback callback, void *data)
{
    return (struct hostfn){fn, callback, data, NULL};
}

struct hostfn hostfn_once(CUhostFn fn, CUstreamCallback callback, void *data)
{
    struct record *record = fn || callback ? meta_get(sizeof *record) : NULL;

    if (!record)
        return as_it_is(fn, callback, data);
    *record = (struct record){fn, callback, data};
    return (struct hostfn){
            fn ? run_once : NULL, callback ? run_once_callback : NULL, record, record};
}

void hostfn_cancel(struct hostfn *given)
{
    if (given->record)
        meta_put(given->record, sizeof(struct record));
    given->record = NULL;
}

struct hostfn hostfn_kept(CUhostFn fn, CUstreamCallback callback, void *data)
{
    const struct record like = {fn, callback, data};
    uint32_t number = 0;

    if (fn || callback)
        number = catalog_number(&kept, &kept_lock, site_hash(&like, sizeof like, 0), &like);
    if (!number && (fn || callback))
        bounds_reached(BOUNDS_HOSTFN);
    if (!number)
        return as_it_is(fn, callback, data);
    return (struct hostfn){fn ? run_kept : NULL, callback ? run_kept_callback : NULL,
            catalog_at(&kept, number), NULL};
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

static const CUgraphNodeParams *original_node(
        const CUgraphNodeParams *params, CUgraphNodeParams *copy)
{
    if (!params || params->type != CU_GRAPH_NODE_TYPE_HOST)
        return params;
    *copy = *params;
    hostfn_original(&copy->host);
    return copy;
}

static CUresult run_recapture(void *data, CUgraphNode node, const CUgraphNodeParams *original,
        const CUgraphNodeParams *recaptured, CUgraphRecaptureStatus status)
{
    const struct record *record = data;
    const struct guard_thread before = guard_thread;
    CUgraphNodeParams copies[2];
    CUresult result;

    guard_thread.depth = 0;
    guard_thread.pins = NULL;
    guard_thread.bring = NULL;
    result = ((CUgraphRecaptureCallback)(void *)record->fn)(record->data, node,
            original_node(original, &copies[0]), original_node(recaptured, &copies[1]), status);
    guard_thread.depth = before.depth;
    guard_thread.pins = before.pins;
    guard_thread.bring = before.bring;
    guard_thread.cancel = before.cancel;
    guard_thread.entry = before.entry;
    guard_thread.moment = before.moment;
    return result;
}

CUgraphRecaptureCallback hostfn_recapture(CUgraphRecaptureCallback callback, void **data)
{
    struct hostfn given = hostfn_kept((CUhostFn)(void *)callback, NULL, *data);

    if (!callback || given.fn != run_kept)
        return callback;
    *data = given.data;
    return run_recapture;
}

void hostfn_original(CUDA_HOST_NODE_PARAMS *params)
{
    const struct record *record = params->userData;

    if (params->fn != run_kept || !record)
        return;
    params->fn = record->fn;
    params->userData = record->data;
}
