/* SPDX-License-Identifier: MIT */
/* covers: hooks_mem.c dispatch.c */
/* Rules about what memory is whose, on the simulated device with two devices; each test is a program of its own. */
#include "tests/preload/client.h"

#include <unistd.h>

#define MB ((size_t)1 << 20)

static CUdeviceptr alloc(size_t size)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, size), CUDA_SUCCESS);
    return ptr;
}

static CUstream new_stream(void)
{
    CUstream stream = NULL;

    REQUIRE_EQ(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
}

static CUmemoryPool new_pool(CUmemAllocationHandleType handle_types)
{
    CUmemPoolProps props;
    CUmemoryPool pool = NULL;

    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = handle_types;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (cu->cuMemPoolCreate(&pool, &props) != CUDA_SUCCESS)
        return NULL;
    return pool;
}

/* ---- allocation APIs -------------------------------------------------------------------------- */

TEST(r9_a_stream_ordered_free_of_a_pooled_block_does_not_reach_the_driver)
{
    CUstream stream;
    CUdeviceptr a, b;

    client_init();
    stream = new_stream();
    a = alloc(64 << 10);
    b = alloc(64 << 10); /* interior, for the driver */
    REQUIRE_EQ(cu->cuMemsetD8Async(b, 1, 64 << 10, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFreeAsync(b, stream), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFreeAsync(a, stream), CUDA_SUCCESS);
    CHECK_EQ(client_calls("cuMemFreeAsync"), 0);
    CHECK_EQ(client_calls("cuMemFree_v2"), 0);
    CHECK_EQ(cu->cuMemFreeAsync(b, stream), CUDA_ERROR_INVALID_VALUE); /* a second time */
    CHECK_EQ(client_calls("cuMemFreeAsync"), 0);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
}

TEST(r17_an_allocation_of_nothing_and_a_free_of_nothing_are_the_drivers)
{
    __typeof__(&cuMemAlloc_v2) real_alloc;
    __typeof__(&cuMemFree_v2) real_free;
    CUdeviceptr ours = 5, drivers = 5;

    client_init();
    real_alloc = (__typeof__(real_alloc))client_driver("cuMemAlloc_v2");
    real_free = (__typeof__(real_free))client_driver("cuMemFree_v2");
    REQUIRE(real_alloc != cu->cuMemAlloc_v2);
    CHECK_EQ(cu->cuMemAlloc_v2(&ours, 0), real_alloc(&drivers, 0));
    CHECK_EQ(ours, drivers);
    CHECK_EQ(cu->cuMemAlloc_v2(NULL, 4096), real_alloc(NULL, 4096));
    CHECK_EQ(cu->cuMemFree_v2(0), real_free(0));
}

TEST(r18_what_is_not_pooled_goes_to_the_driver_as_it_came)
{
    CUDA_ARRAY_DESCRIPTOR desc = {
            .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUmemAllocationProp prop;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr managed;
    CUarray array;
    void *host;

    client_init();
    memset(&prop, 0, sizeof prop);
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    for (int i = 1; i <= 3; i++) { /* each time the driver's, nothing is kept for the next */
        REQUIRE_EQ(cu->cuArrayCreate_v2(&array, &desc), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuArrayDestroy(array), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemHostAlloc(&host, 4096, 0), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemFreeHost(host), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemCreate(&handle, 2 * MB, &prop, 0), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemRelease(handle), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemFree_v2(managed), CUDA_SUCCESS);
        CHECK_EQ(client_calls("cuArrayCreate_v2"), i);
        CHECK_EQ(client_calls("cuArrayDestroy"), i);
        CHECK_EQ(client_calls("cuMemHostAlloc"), i);
        CHECK_EQ(client_calls("cuMemFreeHost"), i);
        CHECK_EQ(client_calls("cuMemCreate"), i);
        CHECK_EQ(client_calls("cuMemRelease"), i);
        CHECK_EQ(client_calls("cuMemAllocManaged"), i);
        CHECK_EQ(client_calls("cuMemFree_v2"), i);
    }
}

/* ---- placement ------------------------------------------------------------------------------ */

static void check_textures(int expected)
{
    static const size_t sizes[] = {
            1, 2, 511, 512, 513, 4095, 65537, 2 * MB - 1, 2 * MB, 2 * MB + 1};
    int texture = 0;
    CUstream stream;
    CUdeviceptr ptr;

    client_init();
    stream = new_stream();
    REQUIRE_EQ(cu->cuDeviceGetAttribute(&texture, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 0),
            CUDA_SUCCESS);
    REQUIRE_EQ(texture, expected);
    for (size_t i = 0; i < 3 * sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i % (sizeof sizes / sizeof *sizes)];

        ptr = alloc(size);
        CHECK_EQ(ptr % (texture > 512 ? (unsigned)texture : 512u), 0);
        REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, size, stream), CUDA_SUCCESS);
        CHECK_EQ(ptr % (texture > 512 ? (unsigned)texture : 512u), 0);
    }
}

TEST(r15_every_pooled_pointer_suits_a_texture)
{
    check_textures(512);
}

TEST(r15_so_it_is_where_textures_want_more)
{
    REQUIRE_EQ(setenv("SIMCUDA_TEXTURE", "2048", 1), 0);
    check_textures(2048);
}

/* Two into the room of one, so that the second begins inside its segment. */
TEST(r15_large_blocks_begin_at_2_mib_wherever_they_stand)
{
    static const size_t sizes[] = {6 * MB + 512, 3 * MB};
    CUdeviceptr room, ptr;

    REQUIRE(setenv("KEDGE_POOL", "budget=1G", 1) == 0); /* so that the room is kept, and cut */
    client_init();
    room = alloc(12 * MB);
    REQUIRE_EQ(cu->cuMemFree_v2(room), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        ptr = alloc(sizes[i]);
        CHECK_LT(ptr - room, 12 * MB);
        CHECK_EQ(ptr % (2 * MB), 0);
    }
}

/* The segment of a pointer is what the driver calls its range. */
static void check_alone(CUdeviceptr ptr)
{
    CUdeviceptr base = 0;
    size_t size = 0;

    REQUIRE_EQ(cu->cuMemGetAddressRange_v2(&base, &size, ptr), CUDA_SUCCESS);
    CHECK_EQ(base, ptr);
}

TEST(r16_export_safe_blocks_stand_alone_at_the_start_of_their_segments)
{
    CUdeviceptr live[24];
    CUipcMemHandle handle;

    REQUIRE(setenv("KEDGE_POOL", "placement=export-safe,budget=1G", 1) == 0);
    client_init();
    live[0] = alloc(8 * MB);
    REQUIRE_EQ(cu->cuMemFree_v2(live[0]), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) { /* packed, both would stand in the first one's segment */
        live[i] = alloc((4 - (size_t)i) * MB);
        check_alone(live[i]);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(cu->cuIpcGetMemHandle(&handle, live[i]), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemFree_v2(live[i]), CUDA_SUCCESS);
    }
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 24; i++) { /* of many sizes, small ones between them */
            size_t size =
                    i % 3 == 0 ? 300000 : (2 + (size_t)((7 * i + 5 * round) % 9)) * MB + 12345;

            live[i] = alloc(size);
            if (size >= 2 * MB)
                check_alone(live[i]);
        }
        for (int i = 0; i < 24; i++)
            if (i % 3 != 0)
                CHECK_EQ(
                        round < 5 || cu->cuIpcGetMemHandle(&handle, live[i]) == CUDA_SUCCESS, true);
        for (int i = 0; i < 24; i++)
            REQUIRE_EQ(cu->cuMemFree_v2(live[i]), CUDA_SUCCESS);
    }
}

/* The other half of the rule: packed, they may share, and are then refused. */
TEST(r16_packed_blocks_may_share_and_r23_guards_them)
{
    CUdeviceptr a, b, c, base = 0;
    CUipcMemHandle handle;
    size_t size;

    /* so that the first one's segment is kept, and cut */
    REQUIRE(setenv("KEDGE_POOL", "budget=1G", 1) == 0);
    client_init();
    a = alloc(8 * MB);
    REQUIRE_EQ(cu->cuMemFree_v2(a), CUDA_SUCCESS);
    b = alloc(4 * MB);
    c = alloc(3 * MB);
    CHECK_EQ(b, a);
    REQUIRE_EQ(cu->cuMemGetAddressRange_v2(&base, &size, c), CUDA_SUCCESS);
    CHECK_EQ(base, b);
    CHECK_EQ(cu->cuIpcGetMemHandle(&handle, c), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQ(cu->cuIpcGetMemHandle(&handle, b), CUDA_ERROR_NOT_SUPPORTED);
}

/* Growth of one heap gives back what another one keeps, before it takes what is to stay free. */
static size_t left_after_growth(const char *settings)
{
    __typeof__(&cuMemGetInfo_v2) real;
    CUdeviceptr ptr = 0;
    size_t available = 0, total = 0;
    CUstream stream;

    REQUIRE(setenv("SIMCUDA_MEMORY", "1G", 1) == 0);
    REQUIRE(setenv("KEDGE_POOL", settings, 1) == 0);
    client_init();
    stream = new_stream();
    ptr = alloc(500 * MB);
    REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemAllocAsync(&ptr, 400 * MB, stream), CUDA_SUCCESS);
    real = (__typeof__(real))client_driver("cuMemGetInfo_v2");
    REQUIRE_EQ(real(&available, &total), CUDA_SUCCESS);
    return available;
}

TEST(r46_the_reserve_is_left_for_the_driver)
{
    CHECK_GE(left_after_growth("reserve=256M,budget=2G"), 256 * MB);
}

TEST(r46_without_a_reserve_growth_takes_what_there_is)
{
    CHECK(left_after_growth("reserve=0,budget=2G") < 256 * MB);
}

/* ---- questions ------------------------------------------------------------------------------ */

TEST(r21_on_the_plain_heap_every_answer_is_the_drivers)
{
    static const CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT,
            CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
            CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
            CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_IS_MANAGED,
            CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
            CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
            CU_POINTER_ATTRIBUTE_MAPPED, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
            CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    __typeof__(&cuPointerGetAttribute) real_one;
    __typeof__(&cuMemGetAddressRange_v2) real_range;
    CUdeviceptr ptrs[3], base = 0, real_base = 0;
    size_t size = 0, real_size = 0;

    client_init();
    real_one = (__typeof__(real_one))client_driver("cuPointerGetAttribute");
    real_range = (__typeof__(real_range))client_driver("cuMemGetAddressRange_v2");
    (void)alloc(4096);
    ptrs[0] = alloc(4096); /* inside a segment */
    ptrs[1] = ptrs[0] + 100;
    ptrs[2] = alloc(4 * MB);
    for (int i = 0; i < 3; i++) {
        for (size_t k = 0; k < sizeof attributes / sizeof *attributes; k++) {
            uint64_t ours[8] = {0}, drivers[8] = {0};

            CHECK_EQ(cu->cuPointerGetAttribute(ours, attributes[k], ptrs[i]),
                    real_one(drivers, attributes[k], ptrs[i]));
            CHECK(memcmp(ours, drivers, sizeof ours) == 0);
        }
        CHECK_EQ(cu->cuMemGetAddressRange_v2(&base, &size, ptrs[i]),
                real_range(&real_base, &real_size, ptrs[i]));
        CHECK_EQ(base, real_base);
        CHECK_EQ(size, real_size);
    }
    CHECK(ptrs[0] != base);
}

TEST(r22_free_memory_never_exceeds_the_total_and_comes_back)
{
    size_t start = 0, total = 0, now = 0;
    CUdeviceptr live[32];
    CUstream stream;

    client_init();
    stream = new_stream();
    REQUIRE_EQ(cu->cuMemGetInfo_v2(&start, &total), CUDA_SUCCESS);
    for (int round = 0; round < 4; round++) {
        for (unsigned i = 0; i < 32; i++) {
            size_t size = (size_t)(i + 1) * 100000 * (size_t)(round + 1);

            if (i % 2)
                live[i] = alloc(size);
            else
                REQUIRE_EQ(cu->cuMemAllocAsync(&live[i], size, stream), CUDA_SUCCESS);
            REQUIRE_EQ(cu->cuMemGetInfo_v2(&now, &total), CUDA_SUCCESS);
            CHECK(now <= total && now < start);
        }
        for (int i = 0; i < 32; i++)
            REQUIRE_EQ(i % 3 ? cu->cuMemFree_v2(live[i]) : cu->cuMemFreeAsync(live[i], stream),
                    CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemGetInfo_v2(&now, &total), CUDA_SUCCESS);
        CHECK_EQ(now, start);
    }
}

/* ---- peers ---------------------------------------------------------------------------------- */

TEST(r29_peer_access_counts_for_what_was_there_and_for_what_comes)
{
    CUcontext peer = NULL;
    CUdeviceptr before, after, out;
    uint64_t sum = 0;
    CUfunction kernel;

    client_init();
    before = alloc(1 * MB);
    REQUIRE_EQ(cu->cuMemsetD8_v2(before, 1, 1 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&peer, 1), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(peer), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxEnablePeerAccess(cu->context, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    after = alloc(1 * MB);
    REQUIRE_EQ(cu->cuMemsetD8_v2(after, 2, 1 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(peer), CUDA_SUCCESS);
    kernel = client_sum_kernel();
    out = alloc(8);
    REQUIRE_EQ(client_sum(kernel, out, before, 1 * MB, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    REQUIRE_EQ(client_sum(kernel, out, after, 1 * MB, NULL), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemcpyDtoH_v2(&sum, out, sizeof sum), CUDA_SUCCESS);
    CHECK_NE(sum, 0);
}

/* Memory of cudaMalloc is reached by every copy, whoever has access to what. */
TEST(r85_copies_between_devices_need_no_peer_access)
{
    CUdeviceptr near, far;
    CUcontext second = NULL;
    CUstream stream;

    client_init();
    near = alloc(3 * MB);
    REQUIRE_EQ(cu->cuMemsetD8_v2(near, 0x44, 3 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&second, 1), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(second), CUDA_SUCCESS);
    stream = new_stream();
    far = alloc(3 * MB);
    REQUIRE_EQ(cu->cuMemsetD8_v2(far, 0, 3 * MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemcpyDtoD_v2(far, near, MB), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemcpyDtoDAsync_v2(far + MB, near, MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemcpyDtoD_v2(near + 2 * MB, far + MB, 64), CUDA_SUCCESS); /* and back */
    REQUIRE_EQ(cu->cuCtxSynchronize(), CUDA_SUCCESS);
    for (int i = 0; i < 3; i++) {
        unsigned char bytes[64] = {0};

        REQUIRE_EQ(cu->cuCtxSetCurrent(i < 2 ? second : cu->context), CUDA_SUCCESS);
        REQUIRE_EQ(cu->cuMemcpyDtoH_v2(bytes, i < 2 ? far + (size_t)i * MB : near + 2 * MB, 64),
                CUDA_SUCCESS);
        CHECK_EQ(bytes[0], 0x44);
        CHECK_EQ(bytes[63], 0x44);
    }
}

/* ---- pools ---------------------------------------------------------------------------------- */

TEST(r8_memory_of_an_exportable_pool_never_enters_ours)
{
    CUmemoryPool pool;
    CUdeviceptr ptr;
    CUstream stream;

    client_init();
    stream = new_stream();
    pool = new_pool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (!pool)
        SKIP("this device has no exportable pools");
    for (int i = 1; i <= 3; i++) {
        REQUIRE_EQ(cu->cuMemAllocFromPoolAsync(&ptr, 3 * MB, pool, stream), CUDA_SUCCESS);
        CHECK_EQ(client_calls("cuMemAllocFromPoolAsync"), i);
        REQUIRE_EQ(i == 3 ? cu->cuMemFree_v2(ptr) : cu->cuMemFreeAsync(ptr, stream), CUDA_SUCCESS);
    }
    CHECK_EQ(client_calls("cuMemFreeAsync"), 2);
    CHECK_EQ(client_calls("cuMemFree_v2"), 1);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemPoolDestroy(pool), CUDA_SUCCESS);
}

/* The heap of a pool is nobody's context: a reset takes the plain heap, and leaves this one. */
/* Stream-ordered memory is a pool's: no allocation handle, no dma-buf, no legacy IPC, in any arrangement of our handles (R79). */
static void ask_of_both(CUdeviceptr ours, CUdeviceptr drivers, size_t size)
{
    static const struct {
        size_t offset, size;
        unsigned type, flags;
        bool has_place;
    } ranges[] = {{0, 4096, 1, 0, true}, {4096, 4096, 1, 0, true}, {0, 512, 1, 0, true},
            {512, 4096, 1, 0, true}, {0, 0, 1, 0, true}, {0, 4096, 2, 0, true},
            {0, 4096, 1, 1, true}, {0, 4096, 1, 2, true}, {0, 4096, 1, 0, false},
            {0, 64 * MB, 1, 0, true}};
    __typeof__(&cuMemGetHandleForAddressRange) range =
            (__typeof__(range))client_sim("cuMemGetHandleForAddressRange");
    CUmemGenericAllocationHandle handle;
    CUipcMemHandle shared;
    int fd;

    CHECK_EQ(cu->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)ours),
            cu->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)drivers));
    CHECK_EQ(cu->cuMemRetainAllocationHandle(NULL, (void *)(uintptr_t)ours),
            cu->cuMemRetainAllocationHandle(NULL, (void *)(uintptr_t)drivers));
    CHECK_EQ(cu->cuIpcGetMemHandle(&shared, ours), cu->cuIpcGetMemHandle(&shared, drivers));
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        void *place = ranges[i].has_place ? &fd : NULL;
        size_t asked = ranges[i].size == 4096 && size >= MB ? size & ~(size_t)4095 : ranges[i].size;

        if (ranges[i].offset > 0 && asked > 4096)
            asked -= ranges[i].offset;
        CHECK_EQ(range(place, ours + ranges[i].offset, asked, ranges[i].type, ranges[i].flags),
                range(place, drivers + ranges[i].offset, asked, ranges[i].type, ranges[i].flags));
    }
}

TEST(r79_stream_ordered_memory_is_shown_as_a_pools_is)
{
    static const size_t sizes[] = {8192, 2 * MB, 4 * MB, 6 * MB, 2 * MB + 4096};
    __typeof__(&cuMemAllocAsync) real_alloc;

    client_init();
    real_alloc = (__typeof__(real_alloc))client_driver("cuMemAllocAsync");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CUdeviceptr ours, drivers;

        REQUIRE_EQ(cu->cuMemAllocAsync(&ours, sizes[i], NULL), CUDA_SUCCESS);
        REQUIRE_EQ(real_alloc(&drivers, sizes[i], NULL), CUDA_SUCCESS);
        ask_of_both(ours, drivers, sizes[i]);
    }
}

TEST(r76_a_reset_takes_the_plain_heap_and_leaves_the_pools)
{
    CUcontext context = NULL;
    CUdeviceptr plain, pooled;
    unsigned char byte = 0;
    CUstream stream;

    client_init();
    stream = new_stream();
    plain = alloc(4 * MB);
    REQUIRE_EQ(cu->cuMemAllocAsync(&pooled, 4 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemsetD8Async(pooled, 0x77, 4 * MB, stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuStreamSynchronize(stream), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
    REQUIRE_EQ(cu->cuMemcpyDtoH_v2(&byte, pooled + 4 * MB - 1, 1), CUDA_SUCCESS);
    CHECK_EQ(byte, 0x77);
    CHECK_EQ(cu->cuMemFree_v2(plain), CUDA_ERROR_INVALID_VALUE); /* gone with its context */
    stream = new_stream();
    CHECK_EQ(cu->cuMemFreeAsync(pooled, stream), CUDA_SUCCESS); /* from any context */
    CHECK_EQ(client_calls("cuMemFreeAsync"), 0);
}
