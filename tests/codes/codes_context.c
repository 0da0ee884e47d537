/* SPDX-License-Identifier: MIT */
/* Contexts, devices, the program's own virtual memory, and the tables of what there is. */
#include "tests/codes/codes.h"

/* ---- tables ---- */

int free_block_slot(void)
{
    for (int i = 0; i < BLOCKS; i++)
        if (state.blocks[i].kind == BLOCK_NONE)
            return i;
    return -1;
}

int some_block(unsigned kinds)
{
    int at = (int)chance(BLOCKS);

    for (int i = 0; i < BLOCKS; i++, at = (at + 1) % BLOCKS)
        if (state.blocks[at].kind != BLOCK_NONE && (kinds >> state.blocks[at].kind & 1)
                && !state.blocks[at].pinned)
            return at;
    return -1;
}

int pinned_block(void)
{
    for (int i = 0; i < BLOCKS; i++)
        if (state.blocks[i].kind != BLOCK_NONE && state.blocks[i].pinned)
            return i;
    return -1;
}

void block_gone(int slot)
{
    state.blocks[slot] = (struct block){.kind = BLOCK_NONE};
}

void context_gone(int slot)
{
    for (int i = 0; i < BLOCKS; i++)
        if (state.blocks[i].kind != BLOCK_NONE && state.blocks[i].context == slot)
            block_gone(i);
    for (int i = 0; i < STREAMS; i++) {
        if (!state.streams[i].alive || state.streams[i].context != slot)
            continue;
        state.streams[i].alive = state.streams[i].capturing = false;
        for (int k = 0; k < BLOCKS; k++)
            if (state.blocks[k].stream == i) {
                if (state.blocks[k].kind == BLOCK_GRAPH)
                    block_gone(k);
                state.blocks[k].stream = -1;
            }
    }
    for (int i = 0; i < EVENTS; i++)
        if (state.events[i].context == slot)
            state.events[i].alive = false;
    /* Host memory and graphs may have been of this context: nothing is done with them any more. */
    for (int i = 0; i < HOSTS; i++)
        state.hosts[i] = NULL;
    for (int i = 0; i < GRAPHS; i++)
        state.graphs[i] = (struct graph){NULL, NULL};
    if (state.module_context == slot)
        state.module_context = -1;
}

/* ---- begin and end ---- */

static void helper_begins(void)
{
    if (CALL(cuCtxSetCurrent, state.contexts[0].handle) == CUDA_SUCCESS)
        codes_here = 0;
}

void codes_begin(void)
{
    static const char text[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
                               ".visible .entry kedge_fill(.param .u64 a, .param .u64 b, "
                               ".param .u32 c)\n{\n    ret;\n}\n"
                               ".visible .entry kedge_sum(.param .u64 a, .param .u64 b, "
                               ".param .u64 c)\n{\n    ret;\n}\n";
    CUdeviceptr nothing = 0;

    state.module_context = -1;
    if (one_in(4))
        (void)CALL(cuMemAlloc_v2, &nothing, 4096);
    (void)CALL(cuInit, 0);
    if (CALL(cuDeviceGetCount, &state.devices) != CUDA_SUCCESS)
        state.devices = 1;
    if (one_in(3)) /* no context yet */
        (void)CALL(cuMemAlloc_v2, &nothing, 4096);
    if (one_in(3))
        (void)CALL(cuMemFree_v2, nothing);
    if (CALL(cuDevicePrimaryCtxRetain, &state.contexts[0].handle, 0) == CUDA_SUCCESS)
        state.contexts[0].alive = state.contexts[0].primary = true;
    if (CALL(cuCtxSetCurrent, state.contexts[0].handle) == CUDA_SUCCESS)
        codes_here = 0;
    if (CALL(cuDeviceGetDefaultMemPool, &state.pools[0].handle, 0) == CUDA_SUCCESS)
        state.pools[0].alive = true;
    if (CALL(cuModuleLoadData, &state.module, text) == CUDA_SUCCESS) {
        if (CALL(cuModuleGetFunction, &state.fill, state.module, "kedge_fill") == CUDA_SUCCESS)
            state.module_context = 0;
        (void)CALL(cuModuleGetFunction, &state.sum, state.module, "kedge_sum");
    }
    if (CALL(cuMemAlloc_v2, &nothing, 8192) == CUDA_SUCCESS)
        state.blocks[0] =
                (struct block){.ptr = nothing, .size = 8192, .kind = BLOCK_SYNC, .pinned = true};
    elsewhere(helper_begins);
}

void codes_end(void)
{
    CUgraph graph = NULL;

    for (int i = 0; i < STREAMS; i++)
        if (state.streams[i].alive && state.streams[i].capturing)
            (void)CALL(cuStreamEndCapture, state.streams[i].handle, &graph);
    (void)CALL(cuCtxSynchronize);
    for (int i = 0; i < BLOCKS; i++)
        if (state.blocks[i].kind != BLOCK_NONE && state.blocks[i].kind != BLOCK_GRAPH) {
            journal_say(" kind %d", state.blocks[i].kind);
            if (any_capture())
                journal_allow(RULE_R2);
            (void)CALL(cuMemFree_v2, state.blocks[i].ptr);
        }
    for (int i = 0; i < STREAMS; i++)
        if (state.streams[i].alive)
            (void)CALL(cuStreamDestroy_v2, state.streams[i].handle);
    (void)CALL(cuCtxSynchronize);
}

/* ---- contexts ---- */

static int context_slot(bool alive)
{
    int at = (int)chance(CONTEXTS);

    for (int i = 0; i < CONTEXTS; i++, at = (at + 1) % CONTEXTS)
        if (state.contexts[at].alive == alive)
            return at;
    return -1;
}

static void op_create(void)
{
    int slot = context_slot(false);
    CUdevice device = one_in(8) ? 9 : (CUdevice)chance((uint32_t)state.devices);
    CUcontext handle = NULL;

    if (slot < 0)
        return;
    journal_say(" slot %d", slot);
    if (CALL(cuCtxCreate_v2, &handle, 0, device) == CUDA_SUCCESS) {
        state.contexts[slot] = (struct context){handle, true, false, device};
        codes_here = slot;
    }
}

/* Which slot is current now is the driver's to say: destroying pops. */
static void look_where(void)
{
    CUcontext current = NULL;

    codes_here = -1;
    if (CALL(cuCtxGetCurrent, &current) != CUDA_SUCCESS)
        return;
    for (int i = 0; i < CONTEXTS; i++)
        if (current && state.contexts[i].alive && state.contexts[i].handle == current)
            codes_here = i;
    journal_answer("slot %d", codes_here);
}

static CUdeviceptr one_of(int context)
{
    for (int i = 0; i < BLOCKS; i++)
        if (state.blocks[i].kind == BLOCK_SYNC && state.blocks[i].context == context)
            return state.blocks[i].ptr;
    return 0;
}

static void op_destroy(void)
{
    int slot = context_slot(true);
    CUdeviceptr ptr;

    if (slot <= 0)
        return;
    ptr = one_of(slot);
    journal_say(" slot %d", slot);
    if (CALL(cuCtxDestroy_v2, state.contexts[slot].handle) == CUDA_SUCCESS) {
        CUcontext gone = state.contexts[slot].handle;

        state.contexts[slot].alive = false;
        context_gone(slot);
        if (one_in(3))
            (void)CALL(cuCtxSetCurrent, gone);
        if (ptr && one_in(2))
            (void)CALL(cuMemFree_v2, ptr);
    }
    look_where();
}

static void op_set(void)
{
    int slot = one_in(8) ? -1 : context_slot(true);

    journal_say(" slot %d", slot);
    (void)CALL(cuCtxSetCurrent, slot < 0 ? NULL : state.contexts[slot].handle);
    look_where();
}

/* One alone is left on no stack for long. */
static void op_push(void)
{
    int slot = context_slot(true);
    CUcontext popped = NULL;

    if (slot < 0)
        return;
    journal_say(" slot %d", slot);
    (void)CALL(cuCtxPushCurrent_v2, state.contexts[slot].handle);
    (void)CALL(cuCtxSynchronize);
    (void)CALL(cuCtxPopCurrent_v2, &popped);
    look_where();
}

static void op_primary(void)
{
    unsigned flags = 0;
    int active = 0;
    CUcontext handle = NULL;

    switch (chance(8)) {
    case 0: {
        CUdeviceptr ptr = one_of(0);

        if (CALL(cuDevicePrimaryCtxReset_v2, 0) == CUDA_SUCCESS) {
            context_gone(0);
            if (ptr && one_in(2))
                (void)CALL(cuMemFree_v2, ptr);
        }
        break;
    }
    case 1:
        (void)CALL(cuDevicePrimaryCtxRetain, &handle, one_in(4) ? 9 : 0);
        (void)CALL(cuDevicePrimaryCtxRelease_v2, 0);
        break;
    case 2:
        (void)CALL(cuDevicePrimaryCtxRelease_v2, one_in(2) ? 9 : state.devices - 1 + 5);
        break;
    default:
        if (CALL(cuDevicePrimaryCtxGetState, 0, &flags, &active) == CUDA_SUCCESS)
            journal_answer("%u %d", flags, active);
    }
    look_where();
}

static void op_peer(void)
{
    int slot = context_slot(true);

    if (slot < 0)
        return;
    journal_say(" slot %d", slot);
    if (one_in(2))
        (void)CALL(cuCtxEnablePeerAccess, state.contexts[slot].handle, one_in(8) ? 1 : 0);
    else
        (void)CALL(cuCtxDisablePeerAccess, state.contexts[slot].handle);
}

/* Nothing is current for a moment. */
static void op_without(void)
{
    CUdeviceptr ptr = 0;
    CUcontext popped = NULL;
    int slot = some_block(1 << BLOCK_SYNC);

    if (codes_here < 0 || CALL(cuCtxPopCurrent_v2, &popped) != CUDA_SUCCESS)
        return;
    (void)CALL(cuMemAlloc_v2, &ptr, 4096);
    (void)CALL(cuMemAllocAsync, &ptr, 4096, 0);
    (void)CALL(cuStreamSynchronize, 0);
    if (slot >= 0) { /* a free asks for no context */
        CUdeviceptr gone = state.blocks[slot].ptr;

        block_gone(slot);
        if (any_capture())
            journal_allow(RULE_R2);
        (void)CALL(cuMemFree_v2, gone);
    }
    (void)CALL(cuCtxPushCurrent_v2, popped);
    look_where();
}

/* ---- the program's own virtual memory ---- */

struct vmm {
    CUmemAllocationProp prop;
    CUmemGenericAllocationHandle handle, retained;
    CUdeviceptr at;
    size_t size;
};

static void map_and_back(struct vmm *vmm)
{
    CUmemAccessDesc desc = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at = vmm->at;
    size_t size = vmm->size;
    CUresult r;

    desc.location = vmm->prop.location;
    if (one_in(3)) /* nothing is mapped yet */
        (void)CALL(cuMemSetAccess, at, size, &desc, 1);
    if (one_in(3))
        (void)CALL(cuMemUnmap, at, size);
    if (CALL(cuMemMap, at, one_in(6) ? size + 5 : size, 0, vmm->handle, 0) != CUDA_SUCCESS)
        return;
    if (one_in(3))
        (void)CALL(cuMemMap, at, size, 0, vmm->handle, 0);
    if (one_in(3))
        (void)CALL(cuMemSetAccess, at, size, &desc, 0);
    r = CALL(cuMemSetAccess, at, size, &desc, 1);
    if (r == CUDA_SUCCESS && codes_here >= 0 && state.contexts[codes_here].device == 0) {
        (void)CALL(cuMemsetD8_v2, at, 1, 4096);
        if (CALL(cuCtxSynchronize) != CUDA_SUCCESS)
            QUIET(cuCtxSynchronize); /* the set must not outlive its memory */
    }
    if (CALL(cuMemRetainAllocationHandle, &vmm->retained, (void *)(uintptr_t)at) == CUDA_SUCCESS)
        (void)CALL(cuMemRelease, vmm->retained);
    if (one_in(3))
        (void)CALL(cuMemAddressFree, at, size);
    if (one_in(3))
        (void)CALL(cuMemFree_v2, at);
    (void)CALL(cuMemUnmap, at, size);
}

static void op_vmm(void)
{
    struct vmm vmm = {.prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED}, .size = 4 * MB};
    size_t granularity = 0;
    CUresult r;

    if (any_capture()) /* each call of it would be refused */
        return;
    vmm.prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    vmm.prop.location.id = one_in(10) ? 12 : 0;
    (void)CALL(cuMemGetAllocationGranularity, &granularity, &vmm.prop,
            CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    r = CALL(cuMemCreate, &vmm.handle, one_in(8) ? 4097 : vmm.size, &vmm.prop, one_in(8) ? 3 : 0);
    if (journal_spared())
        QUIET(cuMemRelease, vmm.handle);
    if (r != CUDA_SUCCESS)
        return;
    if (CALL(cuMemAddressReserve, &vmm.at, vmm.size, 0, 0, 0) == CUDA_SUCCESS) {
        map_and_back(&vmm);
        (void)CALL(cuMemAddressFree, vmm.at, vmm.size);
        if (one_in(3))
            (void)CALL(cuMemAddressFree, vmm.at, vmm.size);
    }
    (void)CALL(cuMemRelease, vmm.handle);
    if (one_in(3))
        (void)CALL(cuMemRelease, vmm.handle);
}

const struct op context_ops[] = {
        {op_create, {3, 0, 0, 0}},
        {op_destroy, {2, 0, 0, 0}},
        {op_set, {4, 1, 0, 0}},
        {op_push, {2, 1, 0, 1}},
        {op_primary, {3, 0, 0, 0}},
        {op_peer, {2, 0, 0, 0}},
        {op_without, {2, 1, 1, 1}},
        {op_vmm, {3, 1, 0, 2}},
};
const unsigned context_ops_count = sizeof context_ops / sizeof *context_ops;
