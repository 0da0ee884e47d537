/* SPDX-License-Identifier: MIT */
#include "tests/sim/memory/sim_ipc.h"

#include "tests/sim/driver/sim_context.h"
#include "tests/sim/memory/sim_va.h"
#include "tests/sim/stream/sim_event.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define IPC_MAGIC 0x53494d4344553031U

/* What the 64 bytes of a handle say. A small block's handle is its granule's with an offset. */
struct ipc_handle {
    uint64_t magic;
    int32_t pid;
    int32_t fd;     /* of the exporter */
    uint64_t addr;  /* of the shared pages there */
    uint64_t bytes; /* of the shared pages */
    uint64_t offset, size;
    int32_t device;
    int32_t reserved; /* no padding: equal blocks have equal bytes */
};

_Static_assert(sizeof(struct ipc_handle) <= sizeof(CUipcMemHandle), "a handle has 64 bytes");

/* Pages that have been exported. They stay shared until they are freed. */
struct shared {
    uint64_t addr, bytes;
    struct sim_file file;
    struct shared *next;
};

static struct shared *shareds;

static bool is_zero(const unsigned char *at, size_t size)
{
    return at[0] == 0 && memcmp(at, at + 1, size - 1) == 0;
}

/* The content moves into a memfd that is then mapped in its place. Holes stay holes. */
static int make_shared(uint64_t addr, uint64_t bytes)
{
    int fd = memfd_create("simcuda-ipc", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, (off_t)bytes))
        goto undo_fd;
    for (uint64_t at = 0; at < bytes; at += SIM_HOST_PAGE) {
        const unsigned char *page = (const unsigned char *)(uintptr_t)(addr + at);
        if (sim_ledger_find(addr + at) && !is_zero(page, SIM_HOST_PAGE)
                && pwrite(fd, page, SIM_HOST_PAGE, (off_t)at) != (ssize_t)SIM_HOST_PAGE)
            goto undo_fd;
    }
    if (sim_va_map(addr, bytes, fd, 0) || sim_va_protect(addr, bytes, PROT_READ | PROT_WRITE))
        goto undo_fd;
    return fd;

undo_fd:
    if (fd >= 0)
        close(fd);
    return -1;
}

static struct shared *share(uint64_t addr, uint64_t bytes)
{
    struct shared *shared = shareds;
    int fd;

    while (shared && shared->addr != addr)
        shared = shared->next;
    if (shared)
        return shared;
    fd = make_shared(addr, bytes);
    if (fd < 0)
        return NULL;
    shared = sim_new(sizeof(*shared));
    *shared = (struct shared){addr, bytes, sim_file_of(fd), shareds};
    shareds = shared;
    return shared;
}

void sim_ipc_forget(uint64_t addr)
{
    for (struct shared **link = &shareds; *link; link = &(*link)->next) {
        struct shared *shared = *link;
        if (shared->addr != addr)
            continue;
        *link = shared->next;
        sim_file_close(&shared->file);
        free(shared);
        return;
    }
}

static int get_handle(CUipcMemHandle *ret_handle, CUdeviceptr ptr)
{
    const struct sim_block *block = sim_ledger_live(ptr);
    struct ipc_handle handle;
    struct shared *shared;

    if (!ret_handle || !block || block->kind != SIM_BLOCK_PLAIN)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t base = block->va_size ? block->addr : block->addr & ~(uint64_t)(SIM_GRANULE - 1);
    shared = share(base, block->va_size ? block->va_size : SIM_GRANULE);
    if (!shared)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(ret_handle, 0, sizeof(*ret_handle));
    handle = (struct ipc_handle){.magic = IPC_MAGIC,
            .pid = getpid(),
            .fd = shared->file.fd,
            .addr = base,
            .bytes = shared->bytes,
            .offset = block->addr - base,
            .size = block->size,
            .device = block->device};
    memcpy(ret_handle, &handle, sizeof(handle));
    return 0;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *ret_handle, CUdeviceptr ptr)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = get_handle(ret_handle, ptr);
    sim_note(&call, " ptr=0x%llx", ptr);
    return sim_leave(&call, r);
}

/* ---- the other process ---- */

int sim_ipc_map(int pid, int other_fd, uint64_t bytes, uint64_t *ret_addr)
{
    char path[64];
    int fd, r = CUDA_ERROR_INVALID_VALUE;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, other_fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return r;
    uint64_t addr = sim_va_take(bytes, SIM_GRANULE);
    if (addr && sim_va_map(addr, bytes, fd, 0) == 0
            && sim_va_protect(addr, bytes, PROT_READ | PROT_WRITE) == 0) {
        *ret_addr = addr;
        r = 0;
    } else if (addr) {
        sim_va_give(addr, bytes);
    }
    close(fd);
    return r;
}

int sim_ipc_file_of(uint64_t base, uint64_t bytes)
{
    const struct shared *shared = share(base, bytes);

    return shared && sim_file_is_there(&shared->file) ? shared->file.fd : -1;
}

static struct sim_block *find_opened(const struct CUctx_st *ctx, const struct ipc_handle *handle)
{
    for (struct sim_block *block = ctx->blocks; block; block = block->next_of_context)
        if (block->kind == SIM_BLOCK_IMPORTED
                && block->shared_base
                        == ((uint64_t)(uint32_t)handle->pid << 32 | (uint32_t)handle->fd)
                && block->physical_offset == handle->offset)
            return block;
    return NULL;
}

static int open_handle(
        struct CUctx_st *ctx, CUdeviceptr *ret_ptr, const CUipcMemHandle *from, unsigned flags)
{
    struct ipc_handle handle;
    struct sim_block *block;
    uint64_t base;
    int r;

    memcpy(&handle, from, sizeof(handle));
    if (!ret_ptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || handle.magic != IPC_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT; /* the reference: not in the exporting process */
    if (handle.device >= sim_config.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    block = find_opened(ctx, &handle);
    if (!block) {
        r = sim_ipc_map(handle.pid, handle.fd, handle.bytes, &base);
        if (r)
            return r;
        block = sim_ledger_add((struct sim_block){.addr = base + handle.offset,
                .size = handle.size,
                .kind = SIM_BLOCK_IMPORTED,
                .device = handle.device,
                .ctx = ctx,
                .va_size = handle.bytes,
                .physical_offset = handle.offset,
                .shared_base = (uint64_t)(uint32_t)handle.pid << 32 | (uint32_t)handle.fd});
    }
    block->opened++;
    *ret_ptr = block->addr;
    return 0;
}

void sim_ipc_release(struct sim_block *block)
{
    uint64_t base = block->addr - block->physical_offset;

    sim_va_drop(base, block->va_size);
    sim_va_give(base, block->va_size);
    sim_ledger_remove(block);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *ret_ptr, CUipcMemHandle handle, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0)
        r = open_handle(call.ctx, ret_ptr, &handle, flags);
    return sim_leave(&call, r);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *ret_ptr, CUipcMemHandle handle, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0)
        r = open_handle(call.ctx, ret_ptr, &handle, flags);
    return sim_leave(&call, r);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr ptr)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);
    struct sim_block *block = r ? NULL : sim_ledger_find(ptr);

    if (r == 0
            && (!block || block->kind != SIM_BLOCK_IMPORTED || block->addr != ptr
                    || !block->shared_base))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        struct CUctx_st *ctx = block->ctx;
        sim_queue_demand_context(ctx);
        block = sim_ledger_find(ptr);
        if (block && block->kind == SIM_BLOCK_IMPORTED && --block->opened == 0)
            sim_ipc_release(block);
    }
    return sim_leave(&call, r);
}

/* ---- events ---- */

#define IPC_EVENT_MAGIC 0x53494d4344554531U

struct ipc_event_handle {
    uint64_t magic;
    int32_t pid;
    int32_t fd;
    uint64_t flags;
};

_Static_assert(sizeof(struct ipc_event_handle) <= sizeof(CUipcEventHandle), "64 bytes");

static struct sim_ipc_event *map_event(int fd)
{
    void *at = mmap(NULL, SIM_HOST_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return at == MAP_FAILED ? NULL : at;
}

/* The event gets a page that other processes can map too. */
static int share_event(CUevent event)
{
    int fd = memfd_create("simcuda-event", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, (off_t)SIM_HOST_PAGE))
        goto undo_fd;
    event->shared = map_event(fd);
    if (!event->shared)
        goto undo_fd;
    event->shared_fd = fd;
    if (event->recorded) {
        event->shared_number = 1;
        atomic_store(&event->shared->recorded, 1);
        atomic_store(&event->shared->done, sim_clock_is_done(&event->points));
    }
    return 0;

undo_fd:
    if (fd >= 0)
        close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* What is behind the record at last has to run by itself: other processes cannot ask for it. */
static int get_event_handle(CUipcEventHandle *ret_handle, CUevent event)
{
    struct ipc_event_handle handle;
    int r = 0;

    if (!sim_handle_is(event, SIM_KIND_EVENT) || !(event->flags & CU_EVENT_INTERPROCESS))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_handle)
        return CUDA_ERROR_INVALID_VALUE;
    sim_queue_demand_clock(&event->points);
    if (!sim_handle_is(event, SIM_KIND_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!event->shared)
        r = share_event(event);
    if (r)
        return r;
    handle = (struct ipc_event_handle){
            .magic = IPC_EVENT_MAGIC, .pid = getpid(), .fd = event->shared_fd};
    memset(ret_handle, 0, sizeof(*ret_handle));
    memcpy(ret_handle, &handle, sizeof(handle));
    return 0;
}

static int open_event(struct CUctx_st *ctx, CUevent *ret_event, const CUipcEventHandle *from)
{
    struct ipc_event_handle handle;
    struct sim_ipc_event *shared = NULL;
    char path[64];

    memcpy(&handle, from, sizeof(handle));
    if (!ret_event || handle.magic != IPC_EVENT_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle.pid, handle.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        shared = map_event(fd);
    if (fd >= 0 && !shared)
        close(fd);
    if (!shared)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_event = sim_event_open(ctx, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
    (*ret_event)->shared = shared;
    (*ret_event)->shared_fd = fd;
    return 0;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *ret_handle, CUevent event)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = get_event_handle(ret_handle, event);
    return sim_leave(&call, r);
}

CUresult cuIpcOpenEventHandle(CUevent *ret_event, CUipcEventHandle handle)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0)
        r = open_event(call.ctx, ret_event, &handle);
    return sim_leave(&call, r);
}
