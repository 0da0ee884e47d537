/* SPDX-License-Identifier: MIT */
/*
 * doors.h - exported functions that are not the driver's: dlsym (door_dlsym.c) and four of the CUDA runtime.
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

/* The real function of a runtime symbol, for an object that has it loaded; NULL if there is none in this process. */
void *door_find(const char *symbol);

#endif
