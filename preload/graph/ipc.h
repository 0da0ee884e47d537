/* SPDX-License-Identifier: MIT */
/*
 * ipc.h - mapped memory of the cudaMalloc API (KEDGE_POOL=sync=mapped) between processes that run under kedge.
 *
 *     exporter   block ─► a descriptor for each physical handle under it ─► a sealed file that lists them
 *                     └─► the 64 bytes: process, its start, the file's descriptor, a random number that the file has too
 *     importer   64 bytes ─► pidfd_open, pidfd_getfd ─► the file ─► the handles ─► one range, mapped and accessible
 *
 * The driver's own handles cannot name mapped memory. A process without kedge gives the 64 bytes to its driver, which refuses
 * them. A block that was exported is pinned for good: its storage does not move, and nobody else gets it (R80). Its descriptors are
 * closed when the program frees it or its context ends; a handle of it is refused from then on. Descriptors: one more than the
 * block has physical handles. Nothing is allocated in the importer; the memory is the exporter's until the last of the two is gone.
 *
 * What stands in the same physical handles is mapped in the other process, too, as with the driver's own handles of small blocks.
 * Threads: any. No lock is held across driver or system calls. Rules: R23 R24 R80 R85.
 */
#ifndef KEDGE_PRELOAD_IPC_H
#define KEDGE_PRELOAD_IPC_H

#include "alloc/pool.h"
#include "preload/base/cuda_abi.h"

#include <stdbool.h>

/* Whether blocks of this kind are shown like that. */
bool ipc_shows(const struct block_info *info);

/*
 * A handle of the live block, the same one each time. 0; > 0: the driver's code; -EMFILE, -ENOMEM ... from the system. The caller has
 * pinned the block.
 */
int ipc_export(const struct block_info *info, CUipcMemHandle *ret_handle);

/* A handle of ours, unharmed. */
bool ipc_is_ours(const CUipcMemHandle *handle);

/*
 * Opens a handle of ours in the current context. 0; > 0: the driver's code; < 0: it cannot be had, which one line says: the caller asks
 * the driver for its answer. *ret_size: of the block; 0 = it was open there, and *ret_ptr is the same.
 */
int ipc_open(const CUipcMemHandle *handle, CUdeviceptr *ret_ptr, uint64_t *ret_size);

/* Closes it once. 0, also if it is still open; -ENOENT: none of ours; > 0: the driver's code. *ret_last: it is not open any more. */
int ipc_close(CUdeviceptr ptr, bool *ret_last);

/* The block of another process that an address of this one lies in. */
bool ipc_find(devptr_t ptr, devptr_t *ret_base, uint64_t *ret_size);

/* The program has freed the block; a context is gone, with all that was exported and opened there. */
void ipc_freed(CUdeviceptr ptr);
void ipc_context_gone(uint64_t context);

#endif
