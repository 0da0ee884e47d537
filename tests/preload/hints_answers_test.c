/* SPDX-License-Identifier: MIT */
/*
 * What the driver says of an address must not depend on kedge or on hints: every pointer attribute and the address range,
 * native against kedge, in every state of the storage (R79). A child asks the driver with kedge switched off; the answers
 * are compared byte by byte, so that a boolean is as wide as the driver's.
 */
#include "tests/preload/hints_kit.h"

enum {
    ATTRIBUTES = 24, /* beyond the last that there is: unknown ones are refused alike */
    INTERIOR = 5000,
    UNTOUCHED = 0xa5,
};

/* How an answer is made comparable between two processes. */
static uint64_t relative(int attribute, uint64_t value, CUdeviceptr ptr, CUmemoryPool mempool)
{
    if (value == 0 || value == UNTOUCHED * UINT64_C(0x0101010101010101))
        return value;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        return value - ptr;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        return value == (uintptr_t)cu->context ? 1 : value;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        return value == (uintptr_t)mempool ? 1 : value;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        return value != 0;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: /* of what lies below: the driver's own affair, but it holds the address */
        return value <= ptr;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        return value > INTERIOR;
    default:
        return value;
    }
}

struct answer {
    int code;
    uint64_t value;
    uint64_t plural; /* by the call for several */
};

struct answers {
    struct answer of[ATTRIBUTES];
    int range_code;
    uint64_t range_base, range_size; /* base: distance from the pointer */
};

static struct answers ask(CUdeviceptr ptr)
{
    struct answers all;
    CUmemoryPool mempool = NULL;
    CUdeviceptr base = 0;
    size_t size = 0;

    memset(&all, 0, sizeof all);
    CU_OK(cu->cuDeviceGetDefaultMemPool(&mempool, 0));
    for (int i = 0; i < ATTRIBUTES; i++) {
        CUpointer_attribute which = (CUpointer_attribute)i;
        uint64_t value, plural;
        void *values[] = {&plural};

        memset(&value, UNTOUCHED, sizeof value);
        memset(&plural, UNTOUCHED, sizeof plural);
        all.of[i].code = (int)cu->cuPointerGetAttribute(&value, which, ptr);
        CU_OK(cu->cuPointerGetAttributes(1, &which, values, ptr));
        all.of[i].value = relative(i, value, ptr, mempool);
        all.of[i].plural = relative(i, plural, ptr, mempool);
    }
    all.range_code = (int)cu->cuMemGetAddressRange_v2(&base, &size, ptr);
    all.range_base = all.range_code ? 0 : ptr - base;
    all.range_size = size;
    return all;
}

/* live, interior, freed */
struct native {
    struct answers live, interior, freed;
};

static struct native native_sync, native_async;

static void ask_native(void)
{
    struct native *shared = &native_sync;
    CUdeviceptr ptr;
    CUstream stream;
    int fd = open(kit_hints, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    REQUIRE(setenv("KEDGE_MODE", "off", 1) == 0);
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU_OK(cu->cuMemAlloc_v2(&ptr, KIT_BYTES));
    shared->live = ask(ptr);
    shared->interior = ask(ptr + INTERIOR);
    CU_OK(cu->cuMemFree_v2(ptr));
    shared->freed = ask(ptr);
    CU_OK(cu->cuMemAllocAsync(&ptr, KIT_BYTES, stream));
    native_async.live = ask(ptr);
    native_async.interior = ask(ptr + INTERIOR);
    CU_OK(cu->cuMemFreeAsync(ptr, stream));
    CU_OK(cu->cuStreamSynchronize(stream));
    native_async.freed = ask(ptr);
    REQUIRE(write(fd, &native_sync, sizeof native_sync) == (ssize_t)sizeof native_sync);
    REQUIRE(write(fd, &native_async, sizeof native_async) == (ssize_t)sizeof native_async);
    REQUIRE(close(fd) == 0);
}

/* The driver's own answers, before this process has used CUDA. */
static void learn(const char *tail)
{
    int fd;

    kit_files(tail);
    REQUIRE_EQ(run_child(ask_native), 0);
    fd = open(kit_hints, O_RDONLY | O_CLOEXEC);
    REQUIRE(read(fd, &native_sync, sizeof native_sync) == (ssize_t)sizeof native_sync);
    REQUIRE(read(fd, &native_async, sizeof native_async) == (ssize_t)sizeof native_async);
    REQUIRE(close(fd) == 0);
    CHECK_EQ(native_sync.live.of[CU_POINTER_ATTRIBUTE_RANGE_SIZE].value, KIT_BYTES);
    CHECK_EQ(native_async.live.of[CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE].value, 1);
    CHECK_NE(native_sync.freed.of[CU_POINTER_ATTRIBUTE_MEMORY_TYPE].code, 0);
}

static void same(
        const char *state, const struct answers *got, const struct answers *want, bool hinted)
{
    for (int i = 0; i < ATTRIBUTES; i++) {
        /* hinted memory cannot be exported the old way, and says so */
        bool less = hinted && i == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
                && want->of[i].code == 0;
        uint64_t value = less ? want->of[i].value & ~(uint64_t)1 : want->of[i].value;
        uint64_t plural = less ? want->of[i].plural & ~(uint64_t)1 : want->of[i].plural;

        if ((got->of[i].code != 0) != (want->of[i].code != 0) || got->of[i].value != value
                || got->of[i].plural != plural)
            printf("%s: attribute %d\n", state, i);
        if (want->of[i].code == CUDA_ERROR_NOT_SUPPORTED) /* no such question on this device */
            CHECK_NE(got->of[i].code, 0);
        else
            CHECK_EQ(got->of[i].code, want->of[i].code);
        CHECK_EQ(got->of[i].value, value);
        CHECK_EQ(got->of[i].plural, plural);
    }
    CHECK_EQ(got->range_code, want->range_code);
    CHECK_EQ(got->range_base, want->range_base);
    CHECK_EQ(got->range_size, want->range_size);
}

static void same_at(const char *state, CUdeviceptr ptr, const struct native *native, bool hinted)
{
    struct answers at_base = ask(ptr);
    struct answers inside = ask(ptr + INTERIOR);

    same(state, &at_base, &native->live, hinted);
    same(state, &inside, &native->interior, hinted);
}

TEST(r79_stream_ordered_memory_answers_as_natively)
{
    CUdeviceptr a, b;
    struct answers freed;
    CUstream stream;

    learn("r79async");
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU_OK(cu->cuMemAllocAsync(&a, KIT_BYTES, stream));
    CU_OK(cu->cuMemAllocAsync(&b, KIT_BYTES, stream)); /* neither is alone in its segment */
    CHECK_EQ(client_calls("cuMemAllocAsync"), 0);
    same_at("live", a, &native_async, false);
    same_at("live", b, &native_async, false);
    CU_OK(cu->cuMemFreeAsync(a, stream));
    freed = ask(a);
    same("freed", &freed, &native_async.freed, false);
    CU_OK(cu->cuStreamSynchronize(stream));
    freed = ask(a);
    same("freed and waited for", &freed, &native_async.freed, false);
    kit_clean_up();
}

static enum hint_mode told_mode(CUdeviceptr ptr, enum format_hint_what what)
{
    return kit_told(what, ptr) ? HINT_LIVE : HINT_OFF;
}

/* One hinted block through all of its states. */
static void all_states(const char *mode)
{
    struct answers freed;
    CUdeviceptr ptr;
    CUstream stream;

    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    same_at("live", ptr, &native_sync, true);
    CU_OK(cu->cuMemsetD8Async(ptr, 1, KIT_BYTES, stream)); /* has not run */
    KEDGE_POP();
    CHECK_EQ(told_mode(ptr, FORMAT_HINT_DEAD), HINT_LIVE);
    CHECK_EQ(told_mode(ptr, FORMAT_HINT_UNMAPPED), HINT_OFF);
    same_at("limbo", ptr, &native_sync, true);
    CU_OK(cu->cuStreamSynchronize(stream));
    for (int i = 0; i < 20; i++)
        KEDGE_MARK("poll");
    (void)kit_alloc(512);
    CHECK_EQ(told_mode(ptr, FORMAT_HINT_UNMAPPED), HINT_LIVE);
    same_at(mode, ptr, &native_sync, true);
    CU_OK(cu->cuMemFree_v2(ptr));
    freed = ask(ptr);
    same("freed", &freed, &native_sync.freed, true);
    kit_clean_up();
}

TEST(r79_hinted_memory_answers_in_every_state_of_a_trap)
{
    learn("r79trap");
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    kit_hint("r79trap", "trap");
    all_states("trap");
}

TEST(r79_hinted_memory_answers_in_every_state_of_a_release)
{
    learn("r79live");
    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    kit_hint("r79live", "live");
    kit_allow_live();
    all_states("husk");
}

/* A range is asked for one answer at a time too: NULL for what is not wanted. */
TEST(r79_either_half_of_a_range_may_be_asked_for)
{
    CUdeviceptr ptr, base = 0;
    CUstream stream;
    size_t size = 0;

    kit_files("r79half");
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU_OK(cu->cuMemAllocAsync(&ptr, 10000, stream));
    CU_OK(cu->cuMemGetAddressRange_v2(&base, NULL, ptr + 5));
    CU_OK(cu->cuMemGetAddressRange_v2(NULL, &size, ptr + 5));
    CHECK_EQ(base, ptr);
    CHECK_EQ(size, 10000);
    kit_clean_up();
}

/* ---- R84 ------------------------------------------------------------------------------------ */

static size_t free_now(void)
{
    size_t available, total;

    CU_OK(cu->cuMemGetInfo_v2(&available, &total));
    CHECK_LE(available, total);
    return available;
}

static void figures(const char *mode)
{
    CUdeviceptr ptr[4], natively;
    size_t before, pitch;

    client_init();
    (void)kit_alloc(512);
    CU_OK(cu->cuMemAllocPitch_v2(
            &natively, &pitch, 1 * MB, 100, 4)); /* not all that is used is ours */
    before = free_now();
    for (int i = 0; i < 4; i++) {
        KEDGE_PUSH("PHASE_0");
        ptr[i] = kit_alloc(KIT_BYTES);
        CHECK_EQ(free_now(), before - (size_t)(i + 1) * KIT_BYTES);
        KEDGE_POP();
        CHECK_EQ(free_now(), before - (size_t)(i + 1) * KIT_BYTES); /* whatever became of it */
    }
    CU_OK(cu->cuCtxSynchronize());
    KEDGE_MARK("poll");
    CHECK_EQ(free_now(), before - 4 * KIT_BYTES);
    if (strcmp(mode, "hold") != 0)
        CHECK_EQ(
                kit_told(strcmp(mode, "shadow") == 0 ? FORMAT_HINT_WOULD_RELEASE : FORMAT_HINT_DEAD,
                        0),
                4);
    for (int i = 0; i < 4; i++) {
        CU_OK(cu->cuMemFree_v2(ptr[i]));
        CHECK_EQ(free_now(), before - (size_t)(3 - i) * KIT_BYTES);
    }
    CHECK_EQ(kit_told(FORMAT_HINT_HELD, 0), strcmp(mode, "hold") == 0 ? 4 : 0);
    kit_clean_up();
}

TEST(r84_free_memory_is_the_same_in_shadow)
{
    kit_hint("r84shadow", "shadow");
    figures("shadow");
}

TEST(r84_free_memory_is_the_same_in_trap)
{
    kit_hint("r84trap", "trap");
    figures("trap");
}

TEST(r84_free_memory_is_the_same_in_live)
{
    kit_hint("r84live", "live");
    kit_allow_live();
    figures("live");
}

TEST(r84_free_memory_is_the_same_while_blocks_are_held)
{
    kit_hint_to("hold", "r84hold", "trap");
    figures("hold");
}

/* On the stream API the pool's own figure of what is used counts the program's frees only, in every mode. */
static void used_counts_frees(void)
{
    CUmemoryPool mempool;
    cuuint64_t used;
    CUdeviceptr ptr;
    CUstream stream;

    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU_OK(cu->cuDeviceGetDefaultMemPool(&mempool, 0));
    KEDGE_PUSH("PHASE_0");
    CU_OK(cu->cuMemAllocAsync(&ptr, KIT_BYTES, stream));
    KEDGE_POP();
    CU_OK(cu->cuCtxSynchronize());
    CU_OK(cu->cuMemPoolGetAttribute(mempool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    CHECK_EQ(used, KIT_BYTES);
    CU_OK(cu->cuMemFreeAsync(ptr, stream));
    CU_OK(cu->cuMemPoolGetAttribute(mempool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    CHECK_EQ(used, 0);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr) + kit_told(FORMAT_HINT_HELD, ptr), 1);
    kit_clean_up();
}

TEST(r84_used_of_a_pool_counts_the_programs_frees_only)
{
    kit_hint("r84used", "trap");
    used_counts_frees();
}

TEST(r84_used_of_a_pool_does_not_count_what_is_held)
{
    kit_hint_to("hold", "r84usedhold", "trap");
    used_counts_frees();
}
