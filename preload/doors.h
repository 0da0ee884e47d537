/* SPDX-License-Identifier: MIT */
/*
 * doors.h - exported functions that are not the driver's: dlsym (door_dlsym.c), dlopen (door_dlopen.c) and some of the
 * CUDA runtime.
 *
 * A program that links the runtime comes through cudaMalloc and its like on the way to the driver. kedge works below, so
 * these doors only count that they were used and go on to the real function: the next one in the global scope, else the
 * one of a libcudart that somebody loaded, the caller's own where there are several.
 * Any thread. No state of ours, apart from the address that was found.
 */
#ifndef KEDGE_PRELOAD_DOORS_H
#define KEDGE_PRELOAD_DOORS_H

/*
 * NCCL's registration (door_nccl.c): ours, for a dlsym that asks a library that has it. NULL: go on, RESOLVE_HIDE: there is
 * none.
 */
void *door_nccl(void *handle, const char *name);

/* The same for the functions of NVTX 2 (door_nvtx.c). */
void *door_nvtx(void *handle, const char *name);

/* The real function of a runtime symbol, for an object that has it loaded; NULL if there is none in this process. */
void *door_find(const char *symbol);

/* A library was to be opened with RTLD_DEEPBIND, and is opened without: one line per process. */
void door_deepbind(void);

/* Somebody opens a library in a namespace of its own, which is not watched: one line, once the process uses CUDA. */
void door_namespace(const void *caller);

/* The process begins to use CUDA: that line, if it is due. */
void door_cuda_begins(void);

#endif
