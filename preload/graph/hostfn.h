/* SPDX-License-Identifier: MIT */
/*
 * hostfn.h - functions of the program that the driver runs, each wrapped to mark the thread.
 *
 * Inside a host function of a stream or a node of a graph no driver call may be made, so a free in
 * one must be distinguished from a free elsewhere (R38, frees in callbacks). The driver gets a
 * function of ours, which marks the thread and calls the program's:
 *
 *     cuLaunchHostFunc(fn, data) ─► hostfn_once ─► run once ─► the record is freed before fn runs
 *     graph nodes, captured calls ► hostfn_kept ─► run any number of times, by unknown graphs
 *
 * A record is kept for its (function, data) for good, so a program that builds the same graph again
 * and again needs no more records. The driver's answers about a node are translated back
 * (hostfn_original).
 *
 * Threads: any; a lock when a record is kept for the first time. Memory: meta.h. Without memory the
 * program's own function is passed on. Rules: R38.
 */
#ifndef KEDGE_PRELOAD_HOSTFN_H
#define KEDGE_PRELOAD_HOSTFN_H

#include "preload/base/cuda_abi.h"

/* A function and its argument for the driver. */
struct hostfn {
    CUhostFn fn;               /* one of these two is set */
    CUstreamCallback callback; /* NULL in graph nodes */
    void *data;
    void *record; /* for hostfn_cancel; NULL = nothing to undo */
};

/* For one run. If the call that should start it fails, call hostfn_cancel. */
struct hostfn hostfn_once(CUhostFn fn, CUstreamCallback callback, void *data);
void hostfn_cancel(struct hostfn *given);

/* For any number of runs. */
struct hostfn hostfn_kept(CUhostFn fn, CUstreamCallback callback, void *data);

/*
 * A graph node's parameters for the driver: host nodes get our function, in *copy; others are
 * returned unchanged. The program's own while kedge is off or is itself the caller.
 */
CUgraphNodeParams *hostfn_node(CUgraphNodeParams *params, CUgraphNodeParams *copy);
const CUDA_HOST_NODE_PARAMS *hostfn_host_node(
        const CUDA_HOST_NODE_PARAMS *params, CUDA_HOST_NODE_PARAMS *copy);

/* Replaces our function and data by the program's own; leaves anything else unchanged. */
void hostfn_original(CUDA_HOST_NODE_PARAMS *params);

/*
 * The callback of a recapture for the driver, with its data in *data: ours, which translates host
 * nodes and calls the program's. The program's callback runs inside a call that kedge has hooked,
 * so its own calls are handled like any of the program's. The program's own callback while kedge is
 * off.
 */
CUgraphRecaptureCallback hostfn_recapture(CUgraphRecaptureCallback callback, void **data);

#endif
