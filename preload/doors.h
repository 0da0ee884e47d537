/* SPDX-License-Identifier: MIT */
/*
 * doors.h - exported functions that are not the driver's: dlsym (door_dlsym.c), dlopen (door_dlopen.c), some of the CUDA
 * runtime, NCCL's and NVTX 2's.
 *
 * A program that links the runtime comes through cudaMalloc and its like on the way to the driver. kedge works below, so
 * these doors only count that they were used and go on to the real function: the next one in the global scope, else the
 * one of a libcudart that somebody loaded, the caller's own where there are several.
 * Any thread. No state of ours, apart from the address that was found.
 */
#ifndef KEDGE_PRELOAD_DOORS_H
#define KEDGE_PRELOAD_DOORS_H

#include <stdatomic.h>

/* NCCL's functions (door_nccl.c), and those of NVTX 2 (door_nvtx.c): door_take for a name that they have, else NULL. */
void *door_nccl(void *handle, const char *name);
void *door_nvtx(void *handle, const char *name);

/* A library whose functions we stand in for, in programs that are linked with it and in those that look them up. */
struct door_library {
    const char *base; /* how its file's name begins: "libnccl.so" */
    atomic_bool is_second_told;
};

/*
 * What a dlsym of `name` gets, whose door is `ours`: `ours` for a handle that has the function, which goes into *real; NULL: go
 * on; RESOLVE_HIDE: only we have such a name, so there is none. Of two libraries that have it the first is watched, one line.
 */
void *door_take(struct door_library *library, void *handle, const char *name, void *ours,
        _Atomic(void *) *real);

/*
 * The function behind a door, for a call from `caller`: its object's own, if it has one or is linked with one (a framework with a
 * NCCL inside); else what was taken; else the next in the global scope; else that of a library that somebody loaded. NULL: none.
 */
void *door_real(const struct door_library *library, _Atomic(void *) *real, const char *name,
        const void *ours, const void *caller);

/* Another function of the object that `real` is in; NULL: it has none. */
void *door_beside(const void *real, const char *name);

/* The object that an address lies in stays for good. */
void door_keep(const void *address);

/* The real function of a runtime symbol, for an object that has it loaded; NULL if there is none in this process. */
void *door_find(const char *symbol);

/* A library was to be opened with RTLD_DEEPBIND, and is opened without: one line per process. */
void door_deepbind(void);

/* Somebody opens a library in a namespace of its own, which is not watched: one line, once the process uses CUDA. */
void door_namespace(const void *caller);

/* The process begins to use CUDA: that line, if it is due. */
void door_cuda_begins(void);

#endif
