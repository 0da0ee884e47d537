/* SPDX-License-Identifier: MIT */
/*
 * launch.h - the command line and environment that a program is started with.
 *
 * A pure function of the request and the environment: `kedge run` and `verify` start
 * programs with it, and tests call it without starting anything.
 *
 *   LD_PRELOAD       the user's objects stay first; libkedge.so is appended once, but before an
 *                    object that answers look-ups itself (quota libraries do), hiding it; other
 *                    copies of libkedge.so are removed. Nothing is preloaded into a program of
 *                    another C library
 *   LD_LIBRARY_PATH  --sim: the simulated device's directory in front
 *   LD_AUDIT         --sim: its auditor in front (tests/sim/standins/audit.c), because a wheel's
 *                    DT_RPATH and absolute paths come before LD_LIBRARY_PATH
 *   GLIBC_TUNABLES   --sim: more static thread-local memory, which an auditor leaves little of
 *   TORCH_CUDNN_*    --sim: 1 unless they are set: what the stand-in of cuDNN lacks is not used
 *   KEDGE_*          given values; file names made absolute, since programs change directory
 *   PYTHONUNBUFFERED 1 unless it is set, if lines of output are anchors: Python buffers pipes
 *   frameworks       switches that make tensors reach the driver (below)
 *
 * Frameworks cache memory, and kedge then sees the cache's segments instead of tensors. The
 * switches by allocation API (trainers should use `stream`; `framework` changes nothing):
 *
 *               stream                                      sync
 *   PyTorch     PYTORCH_CUDA_ALLOC_CONF +backend:           PYTORCH_NO_CUDA_MEMORY_CACHING=1
 *               cudaMallocAsync
 *   TensorFlow  TF_GPU_ALLOCATOR=cuda_malloc_async          TF_GPU_ALLOCATOR=cuda_malloc
 *   JAX         XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async      XLA_PYTHON_CLIENT_ALLOCATOR=platform
 *   Paddle      FLAGS_use_cuda_malloc_async_allocator=1     FLAGS_use_system_allocator=1
 *
 * In JAX 0.10 `platform` is a pool over physical handles, and no switch makes it request each
 * buffer without a stream (bfc, cuda_async and vmm, also a pool, are the others): only the stream
 * API shows its buffers.
 *
 * All variables are set, because a program ignores those that it does not know. Lines are printed
 * only for frameworks that the command is known to use (framework.h). A setting of the user is
 * merged if possible (PyTorch's list); if it already names a backend it is kept and a line says so
 * (R94, settings of users).
 *
 * PyTorch 2.9 and later also have PYTORCH_ALLOC_CONF, which counts only if PYTORCH_CUDA_ALLOC_CONF
 * is not set (seen in 2.15; 2.5 does not know it). So whichever is set is merged, and the old name
 * is set if neither is. 2.15 obeys PYTORCH_NO_CUDA_MEMORY_CACHING only if it is 1; 2.5 obeys every
 * value, 0 and empty included (seen). Here 0 and empty mean no, and with the stream API's backend
 * both versions behave the same. The process group that 2.15 makes for NCCL asks its allocator for
 * a snapshot in its destructor, and that backend throws (seen, without kedge, too):
 * TORCH_DIST_USE_NCCL2=0 selects the one before it, which 2.5 has as well. PaddlePaddle before 3
 * has no asynchronous allocator (2.6 has no such flag): there the system's allocator is used
 * instead of the stream API.
 *
 * What the async backend lacks (needs.h): history, snapshots, MemPool, IPC, pool checkpoints. If the
 * program names any of it and the user does not name an API, PyTorch keeps its own allocator.
 *
 * Does not start, read or write anything. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_LAUNCH_H
#define KEDGE_TOOLS_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/base/vec.h"
#include "tools/run/framework.h"

enum launch_api {
    LAUNCH_STREAM,
    LAUNCH_SYNC,
    LAUNCH_FRAMEWORK,
};

struct launch_request {
    char *const *command;  /* NULL-terminated, at least one word */
    char *const *env;      /* NULL-terminated "NAME=value" */
    const char *directory; /* the current one, absolute */
    const char *library;   /* libkedge.so, absolute */
    const char *sim;       /* directory of the simulated device, absolute; NULL = the real one */
    bool is_foreign;       /* the program uses another C library: nothing can be preloaded */
    /* The user's first preload that answers look-ups, as stated; NULL = none. */
    const char *front;
    /* Other copies of libkedge.so that the user preloads; NULL = none. */
    const struct vec_texts *others;
    const char *run; /* config.h's CONFIG_RUN, without "+"; NULL = none */
    const char *capture, *hints, *hints_mode, *mode, *trace; /* NULL = from the environment */
    enum launch_api api;
    bool is_api_stated; /* by the user: else PyTorch keeps an allocator that the program needs */
    bool is_silent;     /* of frameworks that keep their cache no line is said */
    struct framework_found frameworks; /* known to be used: a line says what the switch costs */
};

struct launch {
    char *const *argv;      /* the request's */
    char **env;             /* NULL-terminated */
    struct vec_texts lines; /* for stderr, without a prefix */
    char *vars;             /* the memory of `env` (envz.h) */
    size_t vars_length;
};

/*
 * 0, or -EINVAL with the reason in `lines`. Call launch_done in both cases; the command must live
 * as long.
 */
int launch_prepare(const struct launch_request *request, struct launch *ret_launch);
void launch_done(struct launch *launch);

/* Adds a variable for the program. */
void launch_add(struct launch *launch, const char *name, const char *value);

/* The value of a variable in the prepared environment, NULL if it is not set. */
const char *launch_value(const struct launch *launch, const char *name);

#endif
