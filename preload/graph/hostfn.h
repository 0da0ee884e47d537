/* SPDX-License-Identifier: MIT */
/*
 * hostfn.h - functions of the program's that the driver runs, each with a note on the way in.
 *
 * Inside a host function of a stream or a node of a graph no driver call may be made, so a free in one must be told from a
 * free elsewhere (R38). The driver is given a function of ours, which takes the note and calls the program's:
 *
 *     cuLaunchHostFunc(fn, data) ─► hostfn_once ─► run once ─► the record is given back before fn runs
 *     graph nodes, captured calls ► hostfn_kept ─► run any number of times, by graphs that nobody can follow
 *
 * A kept record stands for its (function, data) for good, so a program that builds the same graph again and again needs no
 * more of them. What the driver says about a node is translated back (hostfn_original).
 *
 * Threads: any; a lock when a record is kept for the first time. Memory: meta.h. Without memory the program's own function is passed on. Rules: R38.
 */
#ifndef KEDGE_PRELOAD_HOSTFN_H
#define KEDGE_PRELOAD_HOSTFN_H

#include "preload/base/cuda_abi.h"

/* A function and its argument as the driver gets them. */
struct hostfn {
    CUhostFn fn;               /* one of these two */
    CUstreamCallback callback; /* NULL in graph nodes */
    void *data;
    void *record; /* for hostfn_cancel; NULL = nothing to take back */
};

/* For one run. If the call that was to start it fails, hostfn_cancel. */
struct hostfn hostfn_once(CUhostFn fn, CUstreamCallback callback, void *data);
void hostfn_cancel(struct hostfn *given);

/* For any number of runs. */
struct hostfn hostfn_kept(CUhostFn fn, CUstreamCallback callback, void *data);

/*
 * A graph node's parameters as the driver is to get them: host nodes with our function in *copy, the rest as it is. The
 * program's own while kedge is off, or where it is kedge that calls.
 */
CUgraphNodeParams *hostfn_node(CUgraphNodeParams *params, CUgraphNodeParams *copy);
const CUDA_HOST_NODE_PARAMS *hostfn_host_node(
        const CUDA_HOST_NODE_PARAMS *params, CUDA_HOST_NODE_PARAMS *copy);

/* Puts the program's own function and data where ours are; leaves anything else alone. */
void hostfn_original(CUDA_HOST_NODE_PARAMS *params);

/*
 * The callback of a recapture as the driver is to get it, and its data in *data: ours, which translates what it is told of
 * host nodes and calls the program's. That is the program's own code inside of a call that kedge has hooked, so its own
 * calls are looked at like any of the program's. The program's own while kedge is off.
 */
CUgraphRecaptureCallback hostfn_recapture(CUgraphRecaptureCallback callback, void **data);

#endif
