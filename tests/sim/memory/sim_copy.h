/* SPDX-License-Identifier: MIT */
/*
 * sim_copy.h - copies and sets of one, two and three dimensions, on streams and not.
 *
 * Every copy is one operation on a stream; the forms without a stream use the default stream and
 * differ in whether the host waits (what CUDA documents of each):
 *
 *     to pageable host memory              waits, also on a stream
 *     from pageable host memory            returns when the bytes are staged
 *     from or to pinned memory             waits if the form has no stream
 *     device to device, sets               return at once
 *
 * Zeros stay untouched pages: a large set to 0 gives pages back to the host, and a copy of pages
 * that are zero does not touch pages that are zero.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_COPY_H
#define KEDGE_TESTS_SIM_SIM_COPY_H

#include "tests/sim/stream/sim_stream.h"

enum sim_copy_waiting {
    SIM_COPY_AS_STREAM, /* cuMemcpy*Async */
    SIM_COPY_AS_HOST    /* cuMemcpy* */
};

/* A copy of three dimensions on a stream, as the host or the stream waits. */
int sim_copy_3d(const char *name, struct CUstream_st *stream, const CUDA_MEMCPY3D *copy,
        enum sim_copy_waiting waiting);

/* Operations for graph nodes; 0 and *ret_op, or the driver's code. */
int sim_copy_make_3d(struct CUctx_st *ctx, const CUDA_MEMCPY3D *copy, struct sim_op **ret_op);
int sim_copy_make_set(
        struct CUctx_st *ctx, const CUDA_MEMSET_NODE_PARAMS *set, struct sim_op **ret_op);
bool sim_copy_is_set(const struct sim_op *op);

/* What they were made of; of an array only the address is left. */
void sim_copy_params(const struct sim_op *op, CUDA_MEMCPY3D *ret_copy);
void sim_copy_set_params(const struct sim_op *op, CUDA_MEMSET_NODE_PARAMS *ret_set);

#endif
