/* SPDX-License-Identifier: MIT */
/*
 * External memory: what another driver allocated and handed over as a file descriptor.
 *
 * Any file of pages will do here (a memfd, an exported handle of cuMemCreate). A buffer in it is
 * mapped at addresses of its own and freed with cuMemFree; the import may be gone by then. Nothing of
 * it counts against the device: its owner holds it. Other kinds of handles belong to other systems.
 */
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/memory/sim_va.h"
#include "tests/sim/stream/sim_ledger.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANDLE_TYPE_OPAQUE_FD 1

struct CUextMemory_st {
    struct sim_file file;
    uint64_t size;
};

static int import(CUexternalMemory *ret_memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    struct CUextMemory_st *memory;
    struct stat status;

    if (!ret_memory || !desc || desc->type == 0 || desc->size == 0 || desc->flags & ~1U)
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->type != HANDLE_TYPE_OPAQUE_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (fstat(desc->handle.fd, &status) || (uint64_t)status.st_size < desc->size)
        return CUDA_ERROR_INVALID_HANDLE;
    memory = sim_new(sizeof(*memory));
    *memory = (struct CUextMemory_st){
            sim_file_of(desc->handle.fd), desc->size}; /* the descriptor is ours now */
    sim_handle_add(memory, SIM_KIND_EXTERNAL);
    *ret_memory = memory;
    return 0;
}

CUresult cuImportExternalMemory(
        CUexternalMemory *ret_memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0)
        r = import(ret_memory, desc);
    return sim_leave(&call, r);
}

static int map_buffer(struct CUctx_st *ctx, CUdeviceptr *ret_ptr, CUexternalMemory memory,
        const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
    uint64_t bytes, addr;

    if (!sim_handle_is(memory, SIM_KIND_EXTERNAL))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_ptr || !desc || desc->flags || desc->size == 0 || desc->offset % SIM_HOST_PAGE
            || desc->offset + desc->size < desc->size || desc->offset + desc->size > memory->size)
        return CUDA_ERROR_INVALID_VALUE;
    bytes = sim_round(desc->size, SIM_GRANULE);
    addr = sim_va_take(bytes, SIM_GRANULE);
    if (!addr)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!sim_file_is_there(&memory->file)
            || sim_va_map(addr, sim_round(desc->size, SIM_HOST_PAGE), memory->file.fd, desc->offset)
            || sim_va_protect(addr, sim_round(desc->size, SIM_HOST_PAGE), PROT_READ | PROT_WRITE)) {
        sim_va_drop(addr, bytes);
        sim_va_give(addr, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (void)sim_ledger_add((struct sim_block){.addr = addr,
            .size = desc->size,
            .kind = SIM_BLOCK_IMPORTED,
            .device = ctx->device,
            .ctx = ctx,
            .va_size = bytes,
            .external = true});
    *ret_ptr = addr;
    return 0;
}

CUresult cuExternalMemoryGetMappedBuffer(
        CUdeviceptr *ret_ptr, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0)
        r = map_buffer(call.ctx, ret_ptr, memory, desc);
    return sim_leave(&call, r);
}

/* An array's layout is a matter between drivers. */
CUresult cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *ret_array,
        CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT | SIM_NEED_SAFE);

    if (r == 0 && (!ret_array || !desc))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0 && !sim_handle_is(memory, SIM_KIND_EXTERNAL))
        r = CUDA_ERROR_INVALID_HANDLE;
    return sim_leave(&call, r ? r : CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_INIT | SIM_NEED_SAFE);

    if (r == 0 && !sim_handle_is(memory, SIM_KIND_EXTERNAL))
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0) {
        sim_handle_remove(memory);
        sim_file_close(&memory->file);
        free(memory);
    }
    return sim_leave(&call, r);
}
