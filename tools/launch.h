/* SPDX-License-Identifier: MIT */
/*
 * launch.h - the command line and environment that a program is started with.
 *
 * A pure function of what was asked and of the environment: `kedge run`, `verify` and `replay` all start programs with it, and
 * tests call it without starting anything.
 *
 *   LD_PRELOAD       the user's objects stay first; libkedge.so is appended once; in front of a program whose DT_RPATH
 *                    would win over LD_LIBRARY_PATH the simulated runtime comes behind it
 *   LD_LIBRARY_PATH  --sim: the simulated device's directory in front
 *   KEDGE_*          what was given; file names made absolute, since programs change their directory
 *   PYTHONPATH       kedge's own folder in front, where anchors of Python's frameworks are wanted (tools/python)
 *   PYTHONUNBUFFERED 1 unless it is set, where lines are anchors: Python's come when they are printed, not in heaps
 *   frameworks       switches that make tensors reach the driver (below)
 *
 * Frameworks keep memory in a cache of their own, and kedge then sees the cache's segments instead of tensors. The switches per
 * entrance (cuda-semantics: `stream` is the one that trainers should use, `framework` leaves everything alone):
 *
 *               stream                                      sync
 *   PyTorch     PYTORCH_CUDA_ALLOC_CONF +backend:           PYTORCH_NO_CUDA_MEMORY_CACHING=1
 *               cudaMallocAsync
 *   TensorFlow  TF_GPU_ALLOCATOR=cuda_malloc_async          TF_GPU_ALLOCATOR=cuda_malloc
 *   JAX         XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async      XLA_PYTHON_CLIENT_ALLOCATOR=platform
 *   Paddle      FLAGS_use_cuda_malloc_async_allocator=1     FLAGS_use_system_allocator=1
 *
 * JAX 0.10 makes of platform a pool over physical handles, and has no switch for a request for each buffer without a stream (its
 * others are bfc, cuda_async and vmm, which is a pool, too): there the stream entrance alone shows buffers.
 *
 * All of them are set, since who does not know a variable does not look at it; a line is said of those alone that the command is known
 * to use (framework.h). A setting of the user's own is merged where it can be (PyTorch's list), and where it already names a
 * backend it is left as it is and a line says so (R94).
 *
 * PyTorch 2.9 and later have PYTORCH_ALLOC_CONF, too, which counts only where PYTORCH_CUDA_ALLOC_CONF is not there (seen in 2.15; 2.5 does
 * not know it). So what is stated is merged, either or both, and the old name is set where neither is. PYTORCH_NO_CUDA_MEMORY_CACHING counts
 * in 2.15 as 1 alone, in 2.5 whatever it says, 0 and nothing included (seen): 0 and nothing are taken at their word, and the stream
 * entrance's backend makes the same of both. PaddlePaddle before 3 has no
 * asynchronous allocator (2.6 has no such flag): there the stream entrance is not to be had, and the system's allocator is used.
 *
 * Does not start, read or write anything. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_LAUNCH_H
#define KEDGE_TOOLS_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/framework.h"

enum launch_entrance {
    LAUNCH_STREAM,
    LAUNCH_SYNC,
    LAUNCH_FRAMEWORK,
    LAUNCH_ENTRANCE_COUNT,
};

struct launch_request {
    char *const *command;    /* NULL-terminated, at least one word */
    char *const *env;        /* NULL-terminated "NAME=value" */
    const char *directory;   /* the current one, absolute */
    const char *library;     /* libkedge.so, absolute */
    const char *python;      /* the folder of our Python module, absolute; NULL = there is none */
    const char *sim;         /* directory of the simulated device, absolute; NULL = the real one */
    const char *sim_runtime; /* simulated runtime to preload too; NULL = not needed */
    const char *capture, *hints, *hints_mode, *mode,
            *trace; /* NULL = as the environment has them */
    enum launch_entrance entrance;
    struct framework_found frameworks; /* known to be used: it is said what the switch costs */
};

struct launch {
    char **argv;
    char **env;
    char **lines; /* for stderr, without a prefix */
    size_t argc, env_count, line_count;
    size_t argv_room, env_room, line_room;
};

/* 0, or -EINVAL with a line in `lines` that says why. launch_done in both cases. */
int launch_prepare(const struct launch_request *request, struct launch *ret_launch);
void launch_done(struct launch *launch);

/* The value of a variable in the prepared environment, NULL if it is not there. */
const char *launch_value(const struct launch *launch, const char *name);

/* "stream", "sync" or "framework"; false if it is none of them. NULL gives LAUNCH_STREAM. */
bool launch_parse_entrance(const char *word, enum launch_entrance *ret_entrance);

#endif
