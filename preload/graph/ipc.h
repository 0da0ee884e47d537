/* SPDX-License-Identifier: MIT */
/*
 * ipc.h - mapped memory of the cudaMalloc API (KEDGE_POOL=sync=mapped) between processes that run
 * under kedge.
 *
 *     exporter   block ─► a descriptor per physical handle ─► a sealed file that lists them
 *                     └─► the 64 bytes: process, its start, the file's descriptor,
 *                         a random number that is also in the file
 *     importer   64 bytes ─► pidfd_open, pidfd_getfd ─► the file ─► the handles ─► one mapping
 *
 * The driver's own IPC handles cannot name mapped memory. A process without kedge passes the 64
 * bytes to its driver, which refuses them. An exported block is pinned for good: its storage does
 * not move and is not reused (R80, pinned blocks). Its descriptors are closed when the program
 * frees it or its context ends; a handle of it is refused from then on. It needs one descriptor
 * more than it has physical handles. The importer allocates nothing; the memory exists until both
 * processes have released it.
 *
 * Other blocks in the same physical handles are mapped in the other process, too, as with the
 * driver's own IPC handles of small blocks.
 * Threads: any. No lock is held across driver or system calls. Rules: R23 R24 R80 R85.
 */
#ifndef KEDGE_PRELOAD_IPC_H
#define KEDGE_PRELOAD_IPC_H

#include "alloc/pool.h"
#include "preload/base/cuda_abi.h"

#include <stdbool.h>

/* Whether blocks of this kind are exported in this way. */
bool ipc_shows(const struct block_info *info);

/*
 * A handle of the live block, the same one each time. 0; > 0: the driver's code; -EMFILE, -ENOMEM
 * ... from the system. The caller has pinned the block.
 */
int ipc_export(const struct block_info *info, CUipcMemHandle *ret_handle);

/* Whether this is an intact handle of kedge. */
bool ipc_is_ours(const CUipcMemHandle *handle);

/*
 * Opens a handle of kedge in the current context. 0; > 0: the driver's code; < 0: it cannot be
 * opened, and one line says why: the caller asks the driver for its answer. *ret_size: bytes of the
 * block; 0 = it was open there, and *ret_ptr is the same address.
 */
int ipc_open(const CUipcMemHandle *handle, CUdeviceptr *ret_ptr, uint64_t *ret_size);

/*
 * Undoes one open. 0, also if the block is still open; -ENOENT: not opened by kedge; > 0: the
 * driver's code. *ret_last: it was the last open.
 */
int ipc_close(CUdeviceptr ptr, bool *ret_last);

/* The block of another process at an address of this one. */
bool ipc_find(devptr_t ptr, devptr_t *ret_base, uint64_t *ret_size);

/*
 * The program has freed the block. Below: a context has ended, with everything exported and opened
 * there.
 */
void ipc_freed(CUdeviceptr ptr);
void ipc_context_gone(uint64_t context);

#endif
