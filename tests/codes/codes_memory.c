/* SPDX-License-Identifier: MIT */
/* Memory without a stream, copies and sets, questions, exports. */
#include "tests/codes/codes.h"

#include <stdlib.h>
#include <string.h>

enum {
    ANY_BLOCK = 1 << BLOCK_SYNC | 1 << BLOCK_PITCH | 1 << BLOCK_MANAGED | 1 << BLOCK_ASYNC,
    HOST_BYTES = 4096,
};

static char host_bytes[HOST_BYTES];

/* ---- sizes and addresses ---- */

static size_t some_size(void)
{
    switch (chance(state.one_context ? 24 : 16)) {
    case 0:
        return 0;
    case 1:
        return (size_t)1 << 40;
    case 2:
        return SIZE_MAX - chance(4096);
    case 3:
    case 4:
        return 2 * MB + chance(6) * MB + chance(3);
    case 5:
    case 6:
        return chance(1 << 20) + 1;
    default:
        return state.one_context && one_in(2) ? (1 + chance(20)) * MB : chance(64 << 10) + 1;
    }
}

CUdeviceptr unknown_address(void)
{
    return 0x1000;
}

/* A live block to touch: when streams run late, not one that may be gone in stream order before that. */
static int touchable(void)
{
    return some_block(state.lazy ? ANY_BLOCK & ~(1 << BLOCK_ASYNC) : ANY_BLOCK);
}

static void keep(enum block_kind kind, CUdeviceptr ptr, size_t size)
{
    int slot = free_block_slot();

    if (slot >= 0)
        state.blocks[slot] = (struct block){.ptr = ptr,
                .size = size,
                .kind = kind,
                .context = codes_here,
                .stream = -1,
                .device = codes_here < 0 ? -1 : state.contexts[codes_here].device};
}

/* ---- allocation ---- */

static void op_alloc(void)
{
    size_t size = some_size();
    CUdeviceptr ptr = 0;
    CUresult r;

    if (free_block_slot() < 0)
        return;
    journal_say(" %zu", size);
    r = CALL(cuMemAlloc_v2, one_in(40) ? NULL : &ptr, size);
    if (journal_spared())
        QUIET(cuMemFree_v2, ptr);
    if (r == CUDA_SUCCESS)
        keep(BLOCK_SYNC, ptr, size);
}

static void op_pitch(void)
{
    static const unsigned elements[] = {4, 8, 16, 3};
    size_t width = one_in(6) ? 0 : chance(5000) + 1;
    size_t height = one_in(10) ? 0 : chance(300) + 1;
    CUdeviceptr ptr = 0;
    size_t pitch = 0;
    CUresult r;

    if (free_block_slot() < 0)
        return;
    if (one_in(12))
        height = (size_t)1 << 40;
    journal_say(" %zux%zu", width, height);
    r = CALL(cuMemAllocPitch_v2, &ptr, one_in(20) ? NULL : &pitch, width, height,
            elements[chance(4)]);
    if (journal_spared())
        QUIET(cuMemFree_v2, ptr);
    if (r != CUDA_SUCCESS)
        return;
    journal_answer("pitch %zu", pitch);
    keep(BLOCK_PITCH, ptr, pitch * height);
}

static void op_managed(void)
{
    size_t size = some_size();
    CUdeviceptr ptr = 0;
    CUresult r;

    if (free_block_slot() < 0)
        return;
    journal_say(" %zu", size);
    r = CALL(cuMemAllocManaged, &ptr, size, one_in(5) ? 9 : CU_MEM_ATTACH_GLOBAL);
    if (journal_spared())
        QUIET(cuMemFree_v2, ptr);
    if (r == CUDA_SUCCESS)
        keep(BLOCK_MANAGED, ptr, size);
}

/* ---- free ---- */

static CUresult free_here(CUdeviceptr ptr)
{
    if (any_capture())
        journal_allow(RULE_R2);
    return CALL(cuMemFree_v2, ptr);
}

static void op_free(void)
{
    int slot = some_block(ANY_BLOCK);
    CUdeviceptr ptr;

    if (slot < 0)
        return;
    ptr = state.blocks[slot].ptr;
    journal_say(" kind %d", state.blocks[slot].kind);
    /* Refused or not, it is not used any more: a block that stays is one that is lost in both runs. */
    block_gone(slot);
    if (free_here(ptr) == CUDA_SUCCESS && one_in(6)) {
        journal_say(" again");
        (void)free_here(ptr);
    }
}

static void op_free_odd(void)
{
    int slot = some_block(ANY_BLOCK);
    CUdeviceptr odd[] = {0, unknown_address(), (CUdeviceptr)(uintptr_t)host_bytes,
            (CUdeviceptr)0xdead0000000, slot < 0 ? 0 : state.blocks[slot].ptr + 256,
            slot < 0 ? 0 : state.blocks[slot].ptr + state.blocks[slot].size / 2};
    unsigned which = chance(6);

    if (odd[which] == 0 || (slot >= 0 && odd[which] == state.blocks[slot].ptr))
        which = 0;
    journal_say(" odd %u", which);
    (void)free_here(odd[which]);
}

/* ---- host memory and arrays ---- */

static void op_host(void)
{
    unsigned slot = chance(HOSTS);
    void **at = &state.hosts[slot];

    if (!*at) {
        void *made = NULL;
        size_t size = one_in(8) ? 0 : chance(20000) + 1;

        if (CALL(cuMemHostAlloc, &made, size, one_in(8) ? 0x80 : chance(4)) == CUDA_SUCCESS)
            *at = made;
        return;
    }
    if (one_in(3)) {
        CUdeviceptr ptr = 0;

        (void)CALL(cuMemHostGetDevicePointer_v2, &ptr, one_in(4) ? host_bytes : *at, 0);
        return;
    }
    (void)CALL(cuMemFreeHost, *at);
    if (one_in(4))
        (void)CALL(cuMemFreeHost, *at);
    *at = NULL;
}

static void op_register(void)
{
    if (CALL(cuMemHostRegister_v2, host_bytes, one_in(6) ? 0 : HOST_BYTES, one_in(6) ? 0x40 : 0)
            == CUDA_SUCCESS) {
        if (one_in(4))
            (void)CALL(cuMemHostRegister_v2, host_bytes, HOST_BYTES, 0);
        (void)CALL(cuMemHostUnregister, host_bytes);
    }
    if (one_in(3))
        (void)CALL(cuMemHostUnregister, host_bytes);
}

static void op_array(void)
{
    CUDA_ARRAY_DESCRIPTOR descriptor = {one_in(6) ? 0 : chance(500) + 1, chance(50),
            CU_AD_FORMAT_UNSIGNED_INT8, one_in(6) ? 3 : 1};
    CUarray array = NULL;

    CUresult r = CALL(cuArrayCreate_v2, &array, &descriptor);

    if (journal_spared())
        QUIET(cuArrayDestroy, array);
    if (r != CUDA_SUCCESS)
        return;
    (void)CALL(cuArrayDestroy, array);
    if (one_in(4))
        (void)CALL(cuArrayDestroy, array);
}

/* ---- copies and sets ---- */

/*
 * The address of a live block, or now and then of nothing. Always on the current context's device: a copy that reaches
 * where it may not is the device's end. While something is captured only what is never freed is named.
 */
static CUdeviceptr place(size_t *ret_size)
{
    int slot = any_capture() ? pinned_block() : touchable();

    *ret_size = 64;
    if (slot >= 0 && state.lazy && state.blocks[slot].context != codes_here)
        slot = -1; /* its free would not wait for this context */
    if (slot < 0 || codes_here < 0 || state.blocks[slot].device != state.contexts[codes_here].device
            || one_in(8))
        return one_in(2) ? 0 : unknown_address();
    *ret_size = state.blocks[slot].size < HOST_BYTES ? state.blocks[slot].size : HOST_BYTES;
    return state.blocks[slot].ptr;
}

/* A stream of the current context's device. */
static CUstream own_stream(void)
{
    int slot;
    CUstream handle = some_stream(&slot);
    int context = slot < 0 ? -1 : state.streams[slot].context;

    if (slot >= 0
            && (codes_here < 0 || context < 0
                    || state.contexts[context].device != state.contexts[codes_here].device))
        return 0;
    return state.lazy && !any_capture() ? 0 : handle;
}

static void op_copy(void)
{
    size_t size, other;
    CUdeviceptr to = place(&size);
    CUdeviceptr from = place(&other);
    size_t least = size < other ? size : other;

    if (one_in(12))
        least = size = 0;
    journal_say(" %zu", size);
    switch (chance(9)) {
    case 0:
        (void)CALL(cuMemcpyHtoD_v2, to, host_bytes, size);
        break;
    case 1:
        (void)CALL(cuMemcpyDtoH_v2, host_bytes, to, size);
        break;
    case 2:
        (void)CALL(cuMemcpyDtoD_v2, to, from, least);
        break;
    case 3:
        (void)CALL(cuMemcpyHtoDAsync_v2, to, host_bytes, size, own_stream());
        break;
    case 4:
        (void)CALL(cuMemcpyDtoHAsync_v2, host_bytes, to, size, own_stream());
        break;
    case 5:
        (void)CALL(cuMemcpyDtoDAsync_v2, to, from, least, own_stream());
        break;
    case 6: /* what is not the device's counts as the host's here: never an unknown address */
        if (to > unknown_address())
            (void)CALL(cuMemcpy, to, (CUdeviceptr)(uintptr_t)host_bytes, size);
        break;
    case 7:
        if (to > unknown_address())
            (void)CALL(cuMemcpyAsync, (CUdeviceptr)(uintptr_t)host_bytes, to, size, own_stream());
        break;
    default: {
        CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                .srcHost = host_bytes,
                .srcPitch = 64,
                .dstMemoryType = one_in(8) ? 77 : CU_MEMORYTYPE_DEVICE,
                .dstDevice = to,
                .dstPitch = one_in(8) ? 8 : 64,
                .WidthInBytes = size < 64 ? size : 32,
                .Height = 1};

        (void)CALL(cuMemcpy2D_v2, one_in(12) ? NULL : &copy);
    }
    }
}

static void op_set(void)
{
    size_t size;
    CUdeviceptr to = place(&size);
    CUdeviceptr odd = to && one_in(6) ? to + 1 : to;

    journal_say(" %zu", size);
    switch (chance(6)) {
    case 0:
        (void)CALL(cuMemsetD8_v2, to, 7, size);
        break;
    case 1:
        (void)CALL(cuMemsetD16_v2, odd, 7, size / 4);
        break;
    case 2:
        (void)CALL(cuMemsetD32_v2, odd, 7, size / 8);
        break;
    case 3:
        (void)CALL(cuMemsetD8Async, to, 7, size, own_stream());
        break;
    case 4:
        (void)CALL(cuMemsetD32Async, odd, 7, size / 8, own_stream());
        break;
    default:
        (void)CALL(cuMemsetD2D8_v2, to, 64, 7, size < 64 ? size : 32, one_in(8) ? 0 : 1);
    }
}

/* ---- questions ---- */

static void ask_info(void)
{
    size_t available = 0;
    size_t total = 0;

    if (CALL(cuMemGetInfo_v2, one_in(8) ? NULL : &available, &total) == CUDA_SUCCESS)
        journal_answer("%zu %s", total, available <= total ? "ok" : "more free than there is");
}

static void ask_attribute(CUdeviceptr ptr)
{
    static const CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_IS_MANAGED,
            CU_POINTER_ATTRIBUTE_MAPPED, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
            (CUpointer_attribute)0, (CUpointer_attribute)999};
    CUpointer_attribute attribute = asked[chance(7)];
    union {
        uint64_t all[8];
        unsigned word;
    } value = {.all = {0}};

    journal_say(" attribute %d", (int)attribute);
    if (CALL(cuPointerGetAttribute, one_in(16) ? NULL : &value, attribute, ptr) == CUDA_SUCCESS)
        journal_answer("%u", value.word);
}

static void ask_attributes(CUdeviceptr ptr)
{
    unsigned type = 0;
    int ordinal = 0;
    CUpointer_attribute asked[] = {
            CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &ordinal};

    if (CALL(cuPointerGetAttributes, one_in(8) ? 0 : 2, asked, values, ptr) == CUDA_SUCCESS)
        journal_answer("%u %d", type, ordinal);
}

static void op_ask(void)
{
    int slot = some_block(ANY_BLOCK);
    CUdeviceptr ptr = slot < 0 || one_in(5) ? unknown_address() : state.blocks[slot].ptr;
    CUdeviceptr base = 0;
    size_t size = 0;

    switch (chance(4)) {
    case 0:
        ask_info();
        break;
    case 1:
        (void)CALL(cuMemGetAddressRange_v2, one_in(4) ? NULL : &base, &size,
                slot >= 0 && ptr != unknown_address() ? ptr + state.blocks[slot].size / 2 : ptr);
        break;
    case 2:
        ask_attribute(ptr);
        break;
    default:
        ask_attributes(ptr);
    }
}

/* Asked about after its free, natively nothing is there. */
static void op_ask_freed(void)
{
    int slot = some_block(1 << BLOCK_SYNC);
    CUdeviceptr ptr, base;
    size_t size;

    if (slot < 0 || any_capture())
        return;
    ptr = state.blocks[slot].ptr;
    block_gone(slot);
    if (free_here(ptr) != CUDA_SUCCESS)
        return;
    journal_allow(RULE_R21);
    (void)CALL(cuMemGetAddressRange_v2, &base, &size, ptr);
}

static void op_ipc(void)
{
    int slot = some_block(ANY_BLOCK);
    CUipcMemHandle handle = {{0}};
    CUdeviceptr ptr = 0;

    switch (chance(4)) {
    case 0:
        (void)CALL(cuIpcOpenMemHandle_v2, &ptr, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
        break;
    case 1:
        (void)CALL(cuIpcCloseMemHandle, unknown_address());
        break;
    default:
        if (slot >= 0)
            journal_allow(RULE_R23);
        (void)CALL(cuIpcGetMemHandle, one_in(8) ? NULL : &handle,
                slot < 0 ? unknown_address() : state.blocks[slot].ptr);
    }
}

const struct op memory_ops[] = {
        {op_alloc, {20, 8, 30, 20}},
        {op_pitch, {3, 2, 4, 3}},
        {op_managed, {2, 1, 2, 2}},
        {op_free, {14, 6, 20, 14}},
        {op_free_odd, {5, 2, 3, 5}},
        {op_host, {4, 1, 1, 3}},
        {op_register, {2, 1, 0, 2}},
        {op_array, {2, 1, 2, 2}},
        {op_copy, {8, 5, 2, 10}},
        {op_set, {6, 5, 2, 6}},
        {op_ask, {8, 3, 3, 8}},
        {op_ask_freed, {2, 1, 1, 0}},
        {op_ipc, {3, 1, 0, 2}},
};
const unsigned memory_ops_count = sizeof memory_ops / sizeof *memory_ops;
