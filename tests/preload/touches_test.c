/* SPDX-License-Identifier: MIT */
/* covers: hooks_copy.c hooks_objects.c */
/*
 * Uses, of the whole library: the test is a program that knows when it uses what, by its own book, and reads the same from
 * its capture. Each entry that R86 names is called, so that one that is forgotten is seen.
 *
 * A time of the test's own is that of an allocation that it makes for the purpose: its event carries the library's clock.
 */
#include "tests/preload/hints_kit.h"
#include "tests/sim/base/sim_abi.h"

#include "preload/driver/resolve.h"

#include <pthread.h>

static CUstream stream;
static unsigned char host[4096];

static void start_with(const char *tail, const char *trace)
{
    kit_files(tail);
    REQUIRE(setenv("KEDGE_TRACE", trace, 1) == 0);
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static void start(const char *tail)
{
    start_with(tail, "full,uses=on");
}

/* ---- the book ------------------------------------------------------------------------------- */

/* What the capture says now of the block that is recorded under `key`. */
static struct read_live look(uint64_t key)
{
    struct read_capture *capture = kit_read();
    struct read_live found = {.seq = 0};

    for (size_t i = 0; i < capture->live_count; i++)
        if (capture->live[i].addr == key)
            found = capture->live[i];
    read_close(capture);
    REQUIRE(found.seq != 0);
    return found;
}

/* Now, by the library's clock. */
static uint64_t now(void)
{
    CUdeviceptr ptr = kit_alloc(512);
    uint64_t time = look(ptr).time_ns;

    CU_OK(cu->cuMemFree_v2(ptr));
    return time;
}

/* Has the block been used this often since `before`, the last time between `from` and `to`? */
static bool was_used(const struct read_live *before, const struct read_live *after, uint64_t times,
        uint64_t from, uint64_t to)
{
    return after->use_count == before->use_count + times && after->uses.last_use >= from
            && after->uses.last_use <= to;
}

/* ---- each entry ----------------------------------------------------------------------------- */

static CUfunction sum_kernel;
static CUdeviceptr block, other;
static CUarray array;

static CUDA_MEMCPY2D copy_2d(void)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_HOST,
            .srcHost = host,
            .srcPitch = 64,
            .dstMemoryType = CU_MEMORYTYPE_DEVICE,
            .dstDevice = block,
            .dstXInBytes = 128,
            .dstPitch = 512,
            .WidthInBytes = 64,
            .Height = 4};
}

static CUDA_MEMCPY3D copy_3d(void)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
            .srcDevice = block,
            .srcPitch = 512,
            .srcHeight = 4,
            .dstMemoryType = CU_MEMORYTYPE_HOST,
            .dstHost = host,
            .dstPitch = 64,
            .dstHeight = 4,
            .WidthInBytes = 64,
            .Height = 2,
            .Depth = 2};
}

static CUDA_MEMCPY3D_PEER copy_peer(void)
{
    CUDA_MEMCPY3D_PEER copy = {.WidthInBytes = 64, .Height = 1, .Depth = 1};

    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = block;
    copy.srcContext = cu->context;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = other;
    copy.dstContext = cu->context;
    return copy;
}

static CUDA_MEMCPY3D_BATCH_OP batch_3d(void)
{
    CUDA_MEMCPY3D_BATCH_OP op = {.extent = {64, 1, 1}, .srcAccessOrder = 1};

    op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.src.op.ptr.ptr = block + 4096;
    op.dst.op.ptr.ptr = other;
    op.src.op.ptr.locHint.type = op.dst.op.ptr.locHint.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return op;
}

static CUDA_FABRIC_COPY_BATCH_OP over_fabric(void)
{
    CUDA_FABRIC_COPY_BATCH_OP op = {.size = 64};

    op.src.type = op.dst.type = CU_FABRIC_COPY_OPERAND_TYPE_POINTER;
    op.src.op.ptr.ptr = block + 4096;
    op.dst.op.ptr.ptr = other;
    return op;
}

static CUmemDecompressParams packed(void)
{
    return (CUmemDecompressParams){.srcNumBytes = 64,
            .dstNumBytes = 64,
            .src = (void *)(uintptr_t)other,
            .dst = (void *)(uintptr_t)block};
}

struct operations {
    CUstreamBatchMemOpParams item[2];
};

static struct operations operations(void)
{
    struct operations both;

    memset(&both, 0, sizeof both);
    both.item[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    both.item[0].writeValue.address = other;
    both.item[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    both.item[1].waitValue.address = block;
    both.item[1].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
    return both;
}

static CUlaunchConfig shape(void)
{
    return (CUlaunchConfig){.gridDimX = 1,
            .gridDimY = 1,
            .gridDimZ = 1,
            .blockDimX = 1,
            .blockDimY = 1,
            .blockDimZ = 1,
            .hStream = stream};
}

static uint64_t bytes_64 = 64;
static CUdeviceptr inside;
static void *args[] = {&other, &inside, &bytes_64};

/* What each entry is called with. */
#define LAUNCH_SHAPE sum_kernel, 1, 1, 1, 1, 1, 1, 0, stream, args

/* clang-format off */
#define ENTRIES(X, PTDS, PTSZ)                                                                     \
    PTDS(cuMemcpy, (block, other, 64))                                                             \
    PTDS(cuMemcpyDtoD_v2, (other, block, 64))                                                      \
    PTDS(cuMemcpyHtoD_v2, (block, host, 64))                                                       \
    PTDS(cuMemcpyDtoH_v2, (host, block + 100, 64))                                                 \
    PTDS(cuMemcpyPeer, (other, cu->context, block, cu->context, 64))                               \
    PTDS(cuMemcpyDtoA_v2, (array, 0, block, 64))                                                   \
    PTDS(cuMemcpyAtoD_v2, (block, array, 0, 64))                                                   \
    PTDS(cuMemcpy2D_v2, (&(CUDA_MEMCPY2D[]){copy_2d()}[0]))                                        \
    PTDS(cuMemcpy2DUnaligned_v2, (&(CUDA_MEMCPY2D[]){copy_2d()}[0]))                               \
    PTDS(cuMemcpy3D_v2, (&(CUDA_MEMCPY3D[]){copy_3d()}[0]))                                        \
    PTDS(cuMemcpy3DPeer, (&(CUDA_MEMCPY3D_PEER[]){copy_peer()}[0]))                                \
    PTSZ(cuMemcpyAsync, (block, other, 64, stream))                                                \
    PTSZ(cuMemcpyDtoDAsync_v2, (other, block, 64, stream))                                         \
    PTSZ(cuMemcpyHtoDAsync_v2, (block, host, 64, stream))                                          \
    PTSZ(cuMemcpyDtoHAsync_v2, (host, block, 64, stream))                                          \
    PTSZ(cuMemcpyPeerAsync, (block, cu->context, other, cu->context, 64, stream))                  \
    PTSZ(cuMemcpy2DAsync_v2, (&(CUDA_MEMCPY2D[]){copy_2d()}[0], stream))                           \
    PTSZ(cuMemcpy3DAsync_v2, (&(CUDA_MEMCPY3D[]){copy_3d()}[0], stream))                           \
    PTSZ(cuMemcpy3DPeerAsync, (&(CUDA_MEMCPY3D_PEER[]){copy_peer()}[0], stream))                   \
    PTSZ(cuMemcpyBatchAsync, (&other, &block, &(size_t[]){64}[0], 1,                               \
            &(CUmemcpyAttributes[]){{.srcAccessOrder = 1}}[0], &(size_t[]){0}[0], 1, NULL, stream)) \
    PTSZ(cuMemcpyBatchAsync_v2, (&other, &block, &(size_t[]){64}[0], 1,                            \
            &(CUmemcpyAttributes[]){{.srcAccessOrder = 1}}[0], &(size_t[]){0}[0], 1, stream))      \
    PTSZ(cuMemcpy3DBatchAsync, (1, &(CUDA_MEMCPY3D_BATCH_OP[]){batch_3d()}[0], NULL, 0, stream))   \
    PTSZ(cuMemcpy3DBatchAsync_v2, (1, &(CUDA_MEMCPY3D_BATCH_OP[]){batch_3d()}[0], 0, stream))      \
    PTSZ(cuMemcpyWithAttributesAsync, (other, block, 64,                                           \
            &(CUmemcpyAttributes[]){{.srcAccessOrder = 1}}[0], stream))                            \
    PTSZ(cuMemcpy3DWithAttributesAsync, (&(CUDA_MEMCPY3D_BATCH_OP[]){batch_3d()}[0], 0, stream))   \
    PTDS(cuMemsetD8_v2, (block, 1, 64))                                                            \
    PTDS(cuMemsetD16_v2, (block, 1, 64))                                                           \
    PTDS(cuMemsetD32_v2, (block, 1, 64))                                                           \
    PTSZ(cuMemsetD8Async, (block, 1, 64, stream))                                                  \
    PTSZ(cuMemsetD16Async, (block, 1, 64, stream))                                                 \
    PTSZ(cuMemsetD32Async, (block, 1, 64, stream))                                                 \
    PTDS(cuMemsetD2D8_v2, (block, 512, 1, 64, 4))                                                  \
    PTDS(cuMemsetD2D16_v2, (block, 512, 1, 64, 4))                                                 \
    PTDS(cuMemsetD2D32_v2, (block, 512, 1, 64, 4))                                                 \
    PTSZ(cuMemsetD2D8Async, (block, 512, 1, 64, 4, stream))                                        \
    PTSZ(cuMemsetD2D16Async, (block, 512, 1, 64, 4, stream))                                       \
    PTSZ(cuMemsetD2D32Async, (block, 512, 1, 64, 4, stream))                                       \
    PTSZ(cuStreamWriteValue32_v2, (stream, block, 5, 0))                                           \
    PTSZ(cuStreamWriteValue64_v2, (stream, block, 5, 0))                                           \
    PTSZ(cuStreamWaitValue32_v2, (stream, block, 5, CU_STREAM_WAIT_VALUE_GEQ))                     \
    PTSZ(cuStreamWaitValue64_v2, (stream, block, 5, CU_STREAM_WAIT_VALUE_GEQ))                     \
    PTSZ(cuStreamBatchMemOp_v2, (stream, 2, &(struct operations[]){operations()}[0].item[0], 0))   \
    PTSZ(cuLaunchKernel, (LAUNCH_SHAPE, NULL))                                                     \
    PTSZ(cuLaunchKernelEx, (&(CUlaunchConfig[]){shape()}[0], sum_kernel, args, NULL))              \
    PTSZ(cuLaunchCooperativeKernel, (LAUNCH_SHAPE))

/*
 * Before 11.7, and refused unless the driver was told otherwise at its start; and what no simulated device has. A call counts
 * when it is made.
 */
#define REFUSED(X, PTDS, PTSZ)                                                                     \
    PTSZ(cuStreamWriteValue32, (stream, block, 5, 0))                                              \
    PTSZ(cuStreamWriteValue64, (stream, block, 5, 0))                                              \
    PTSZ(cuStreamWaitValue32, (stream, block, 5, CU_STREAM_WAIT_VALUE_GEQ))                        \
    PTSZ(cuStreamWaitValue64, (stream, block, 5, CU_STREAM_WAIT_VALUE_GEQ))                        \
    PTSZ(cuStreamBatchMemOp, (stream, 2, &(struct operations[]){operations()}[0].item[0], 0))      \
    PTSZ(cuFabricCpyBatchAsync, (1, &(CUDA_FABRIC_COPY_BATCH_OP[]){over_fabric()}[0], 0, stream))  \
    PTSZ(cuMemBatchDecompressAsync, (&(CUmemDecompressParams[]){packed()}[0], 1, 0, NULL, stream))

/* Between the host and arrays: no device memory with an address has a part in it. */
#define NO_ADDRESS(X, PTDS, PTSZ)                                                                  \
    PTDS(cuMemcpyHtoA_v2, ) PTDS(cuMemcpyAtoH_v2, )                                                \
    PTSZ(cuMemcpyHtoAAsync_v2, ) PTSZ(cuMemcpyAtoHAsync_v2, )                                      \
    X(cuLaunchCooperativeKernelMultiDevice, ) /* the simulated device does not have it */

/* clang-format on */

#define CALL_ONE(entry, call)                                                                    \
    {                                                                                            \
        struct read_live before = look(block);                                                   \
        uint64_t from = now(), to;                                                               \
        CUresult result = KIT_CU(entry) call;                                                    \
        struct read_live after;                                                                  \
        to = now();                                                                              \
        after = look(block);                                                                     \
        CHECK_EQ(result, CUDA_SUCCESS);                                                          \
        if (result != CUDA_SUCCESS || !was_used(&before, &after, 1, from, to))                   \
            printf("    %s: %lu uses, the last at %lu (%lu to %lu)\n", #entry,                   \
                    (unsigned long)(after.use_count - before.use_count),                         \
                    (unsigned long)after.uses.last_use, (unsigned long)from, (unsigned long)to); \
        CHECK(was_used(&before, &after, 1, from, to));                                           \
        CU_OK(cu->cuCtxSynchronize());                                                           \
    }
#define CALL_REFUSED(entry, call)                               \
    {                                                           \
        uint64_t before = look(block).use_count;                \
        CHECK_EQ(KIT_CU(entry) call, CUDA_ERROR_NOT_SUPPORTED); \
        CHECK_EQ(look(block).use_count, before + 1);            \
    }
#define CALL_REFUSED_PTSZ(entry, call) CALL_REFUSED(entry, call) CALL_REFUSED(entry##_ptsz, call)
#define CALL_PTDS(entry, call)         CALL_ONE(entry, call) CALL_ONE(entry##_ptds, call)
#define CALL_PTSZ(entry, call)         CALL_ONE(entry, call) CALL_ONE(entry##_ptsz, call)

static void new_blocks(void)
{
    CUDA_ARRAY_DESCRIPTOR desc = {
            .Width = 256, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};

    block = kit_alloc(1 * MB);
    other = kit_alloc(1 * MB);
    inside = block + 64;
    sum_kernel = client_sum_kernel();
    CU_OK(cu->cuArrayCreate_v2(&array, &desc));
}

TEST(r86_every_entry_that_names_memory_is_a_use_of_it)
{
    struct read_live idle;
    CUdeviceptr unused;

    start("entries");
    new_blocks();
    unused = kit_alloc(1 * MB);
    ENTRIES(CALL_ONE, CALL_PTDS, CALL_PTSZ)
    REFUSED(CALL_REFUSED, CALL_REFUSED, CALL_REFUSED_PTSZ)
    idle = look(unused); /* and of nothing else */
    CHECK_EQ(idle.use_count, 0);
    CHECK_EQ(idle.uses.first_use, 0);
    CHECK_EQ(idle.use_flags, FORMAT_USE_WATCHED);
    kit_clean_up();
}

#define NAME_ONE(entry, call)  #entry,
#define NAME_PTDS(entry, call) #entry, #entry "_ptds",
#define NAME_PTSZ(entry, call) #entry, #entry "_ptsz",

/* A row of hooks.def that is not called above would be a family that nobody tests. */
TEST(r86_no_entry_is_left_out)
{
    static const char *const called[] = {ENTRIES(NAME_ONE, NAME_PTDS, NAME_PTSZ) REFUSED(
            NAME_ONE, NAME_PTDS, NAME_PTSZ) NO_ADDRESS(NAME_ONE, NAME_PTDS, NAME_PTSZ)};
    static const struct {
        const char *symbol;
        const char *family;
    } rows[] = {
#define HOOK(symbol, name, from, to, per_thread, family, params) {#symbol, #family},
#include "preload/base/hooks.def"
    };

    static const char *const families[] = {"COPY", "SET", "LAUNCH"};
    unsigned seen = 0;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool found = true;

        for (unsigned k = 0; k < 3; k++)
            if (strcmp(rows[i].family, families[k]) == 0) {
                seen |= 1u << k;
                found = false;
            }
        found |= strncmp(rows[i].symbol, "cuGraph", 7) == 0;
        for (size_t j = 0; !found && j < sizeof called / sizeof *called; j++)
            found = strcmp(rows[i].symbol, called[j]) == 0;
        if (!found)
            printf("    %s\n", rows[i].symbol);
        CHECK(found);
    }
    CHECK_EQ(seen, 7); /* no family has another name now */
}

/* ---- what a use is -------------------------------------------------------------------------- */

static const char view_text[] =
        ".version 6.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry kedge_fill_view(.param .align 8 .b8 view[16])\n{\n    ret;\n}\n";

static const char nothing_text[] = ".version 6.0\n.target sm_70\n.address_size 64\n"
                                   ".visible .entry nothing()\n{\n    ret;\n}\n";

TEST(r86_a_word_of_a_larger_parameter_may_be_a_use)
{
    struct {
        CUdeviceptr dst;
        uint64_t bytes;
    } view;
    void *params[] = {&view};
    CUfunction fill = NULL;
    struct read_live live;
    CUmodule module;

    start("view");
    new_blocks();
    CU_OK(cu->cuModuleLoadData(&module, view_text));
    CU_OK(cu->cuModuleGetFunction(&fill, module, "kedge_fill_view"));
    view.dst = block + 256;
    view.bytes = 64;
    CU_OK(cu->cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    live = look(block);
    CHECK_EQ(live.use_count, 1);
    CHECK_EQ(live.use_flags, FORMAT_USE_WATCHED | FORMAT_USE_MAY);
    CHECK_EQ(look(other).use_count, 0);
    kit_clean_up();
}

TEST(r86_a_buffer_of_parameters_is_read_by_its_layout)
{
    struct {
        CUdeviceptr out, src;
        uint64_t bytes;
    } buffer;
    size_t size = sizeof buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
            CU_LAUNCH_PARAM_END};

    start("extra");
    new_blocks();
    buffer.out = other;
    buffer.src = inside;
    buffer.bytes = 64;
    CU_OK(cu->cuLaunchKernel(sum_kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
    CHECK_EQ(look(block).use_count, 1);
    CHECK_EQ(look(block).use_flags, FORMAT_USE_WATCHED);
    kit_clean_up();
}

static void must_be_unseen(void)
{
    struct read_capture *capture;
    CUdeviceptr before;
    CUdeviceptr after;

    new_blocks();
    before = kit_alloc(1 * MB);
    CU_OK(client_sum(sum_kernel, other, inside, 64, stream));
    after = kit_alloc(1 * MB);
    CHECK_EQ(look(block).use_flags, FORMAT_USE_WATCHED | FORMAT_USE_UNSEEN);
    CHECK_EQ(look(before).use_flags, FORMAT_USE_WATCHED | FORMAT_USE_UNSEEN);
    CHECK_EQ(look(after).use_flags, FORMAT_USE_WATCHED);
    CU_OK(cu->cuMemFree_v2(before));
    CU_OK(cu->cuMemFree_v2(after));
    capture = kit_read();
    CHECK_EQ(capture->unseen.count, 1);
    for (size_t i = 0; i < capture->event_count; i++) {
        const struct read_event *event = &capture->event[i];

        if (event->kind == FORMAT_EVENT_FREE && event->addr == before)
            CHECK_EQ(event->use_flags, FORMAT_USE_WATCHED | FORMAT_USE_UNSEEN);
        if (event->kind == FORMAT_EVENT_FREE && event->addr == after)
            CHECK_EQ(event->use_flags, FORMAT_USE_WATCHED);
    }
    read_close(capture);
    kit_clean_up();
}

TEST(r86_what_lives_while_parameters_are_unknown_is_marked)
{
    REQUIRE(setenv("SIMCUDA_FAIL", "cuFuncGetParamInfo:1+:801,cuKernelGetParamInfo:1+:801", 1)
            == 0);
    start("unknown");
    must_be_unseen();
}

static uint64_t unseen_calls(void)
{
    struct read_capture *capture = kit_read();
    uint64_t count = capture->unseen.count;

    read_close(capture);
    return count;
}

TEST(first_last_and_longest_gap_are_those_of_the_book)
{
    struct read_capture *capture;
    uint64_t mark[6];
    uint64_t from;
    bool found = false;

    start("book");
    new_blocks();
    mark[0] = now();
    CU_OK(cu->cuMemsetD8_v2(block, 1, 64));
    mark[1] = now();
    usleep(3000);
    mark[2] = now();
    CU_OK(client_sum(sum_kernel, other, inside, 64, stream));
    mark[3] = now();
    usleep(1000);
    mark[4] = now();
    CU_OK(cu->cuMemcpyDtoH_v2(host, block, 64));
    mark[5] = now();
    CU_OK(cu->cuMemFree_v2(block));
    capture = kit_read();
    for (size_t i = 0; i < capture->event_count; i++) {
        const struct read_event *event = &capture->event[i];

        if (event->kind != FORMAT_EVENT_FREE || event->addr != block)
            continue;
        found = true;
        CHECK_EQ(event->use_count, 3);
        CHECK(event->uses.first_use >= mark[0] && event->uses.first_use <= mark[1]);
        CHECK(event->uses.last_use >= mark[4] && event->uses.last_use <= mark[5]);
        from = event->uses.gap_end - event->uses.longest_gap;
        CHECK((from == event->uses.first_use && event->uses.gap_end >= mark[2]
                      && event->uses.gap_end <= mark[3])
                || (from >= mark[2] && from <= mark[3]
                        && event->uses.gap_end == event->uses.last_use));
        CHECK_GE(event->uses.longest_gap,
                mark[2] - mark[1]); /* whichever it was, it is no less than either */
        CHECK_GE(event->uses.longest_gap, mark[4] - mark[3]);
    }
    CHECK(found);
    read_close(capture);
    kit_clean_up();
}

/* Sets and copies say that they write; a launch may read what they wrote. */
TEST(a_set_that_a_copy_replaces_unread_is_a_dead_write)
{
    static char data[1 << 20];
    CUdeviceptr twice, read, rows, parts;

    start("dead");
    new_blocks();
    twice = kit_alloc(1 * MB);
    read = kit_alloc(1 * MB);
    rows = kit_alloc(1 * MB);
    parts = kit_alloc(1 * MB);
    CU_OK(cu->cuMemsetD8_v2(twice, 0, 1 * MB));
    CU_OK(cu->cuMemcpyHtoD_v2(twice, data, 1 * MB));
    CU_OK(cu->cuMemsetD32_v2(read, 0, MB / 4));
    CU_OK(cu->cuMemcpyDtoD_v2(rows, read, 1 * MB));
    CU_OK(cu->cuMemsetD32_v2(read, 1, MB / 4));
    CU_OK(KIT_CU(cuMemsetD2D8_v2)(rows, 1024, 0, 1024, 1024)); /* without gaps: all of it */
    CU_OK(cu->cuMemcpyHtoD_v2(parts, data, MB / 2));
    CU_OK(cu->cuMemcpyHtoD_v2(parts + MB / 2, data, MB / 2));
    CU_OK(KIT_CU(cuMemsetD2D8_v2)(parts, 1024, 0, 512, 1024)); /* the half of each row */
    CHECK_EQ(look(twice).use_flags, FORMAT_USE_WATCHED | FORMAT_USE_DEAD_WRITE);
    CHECK_EQ(look(read).use_flags, FORMAT_USE_WATCHED);
    CHECK_EQ(look(rows).use_flags, FORMAT_USE_WATCHED | FORMAT_USE_DEAD_WRITE);
    CHECK_EQ(look(parts).use_flags, FORMAT_USE_WATCHED);
    kit_clean_up();
}

/* ---- memory of every kind ------------------------------------------------------------------- */

static void must_use(CUdeviceptr ptr, uint64_t key, uint32_t flags)
{
    uint64_t before = look(key).use_count;

    CU_OK(cu->cuMemsetD8_v2(ptr + 100, 1, 16));
    CHECK_EQ(look(key).use_count, before + 1);
    CHECK_EQ(look(key).use_flags, flags);
}

static void use_all_kinds(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {
            .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr ptr;
    uint64_t key;
    size_t pitch;

    ptr = kit_alloc(5 * MB);
    must_use(ptr + 4 * MB, ptr, FORMAT_USE_WATCHED);
    CU_OK(cu->cuMemAllocAsync(&ptr, 3 * MB, stream));
    must_use(ptr + MB, ptr, FORMAT_USE_WATCHED);
    CU_OK(cu->cuMemAllocPitch_v2(&ptr, &pitch, 1000, 10, 4));
    must_use(ptr + pitch, ptr, FORMAT_USE_WATCHED);
    CU_OK(cu->cuMemAllocManaged(&ptr, 1 * MB, CU_MEM_ATTACH_GLOBAL));
    must_use(ptr, ptr, FORMAT_USE_WATCHED | FORMAT_USE_SHOWN); /* to the host */
    CU_OK(cu->cuMemCreate(&handle, 2 * MB, &prop, 0));
    key = (UINT64_C(1) + MEMCLASS_VMM) << 56 | (handle & ((UINT64_C(1) << 56) - 1));
    CU_OK(cu->cuMemAddressReserve(&ptr, 4 * MB, 0, 0, 0));
    CU_OK(cu->cuMemMap(ptr + 2 * MB, 2 * MB, 0, handle, 0));
    CU_OK(cu->cuMemSetAccess(ptr + 2 * MB, 2 * MB, &access, 1));
    must_use(ptr + 3 * MB, key, FORMAT_USE_WATCHED);
    CU_OK(cu->cuMemUnmap(ptr + 2 * MB, 2 * MB));
    CHECK_EQ(look(key).use_count, 1);
    kit_clean_up();
}

TEST(memory_of_every_kind_is_found_by_its_addresses)
{
    start("kinds");
    use_all_kinds();
}

TEST(memory_of_every_kind_is_found_without_a_pool)
{
    REQUIRE(setenv("KEDGE_MODE", "track", 1) == 0);
    start("track");
    use_all_kinds();
}

TEST(what_is_used_unseen_is_marked)
{
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC texture;
    CUtexObject object;
    CUipcMemHandle handle;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
            .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemPoolPtrExportData exported;
    CUdeviceptr large, pooled;
    CUmemoryPool pool;

    start("shown");
    new_blocks();
    memset(&resource, 0, sizeof resource);
    memset(&texture, 0, sizeof texture);
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = block;
    resource.res.linear.format = CU_AD_FORMAT_FLOAT;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = 4096;
    CU_OK(KIT_CU(cuTexObjectCreate)(&object, &resource, &texture, NULL));
    CHECK_EQ(look(block).use_flags, FORMAT_USE_WATCHED | FORMAT_USE_SHOWN);
    CHECK_EQ(look(other).use_flags, FORMAT_USE_WATCHED);
    large = kit_alloc(64 * MB);
    CU_OK(cu->cuMemPoolCreate(&pool, &props));
    CU_OK(cu->cuMemAllocFromPoolAsync(&pooled, 4096, pool, stream));
    CHECK_EQ(look(pooled).use_flags, FORMAT_USE_WATCHED);
    CU_OK(KIT_CU(cuMemPoolExportPointer)(&exported, pooled));
    CHECK_EQ(look(pooled).use_flags, FORMAT_USE_WATCHED | FORMAT_USE_SHOWN);
    if (cu->cuIpcGetMemHandle(&handle, large) == CUDA_SUCCESS)
        CHECK_EQ(look(large).use_flags, FORMAT_USE_WATCHED | FORMAT_USE_SHOWN);
    CHECK_EQ(look((UINT64_C(1) + MEMCLASS_ARRAY) << 56
                     | ((uintptr_t)array & ((UINT64_C(1) << 56) - 1)))
                     .use_flags,
            FORMAT_USE_WATCHED | FORMAT_USE_SHOWN);
    kit_clean_up();
}

/* ---- graphs --------------------------------------------------------------------------------- */

static CUgraphExec instance_of(CUgraph graph)
{
    CUgraphExec exec = NULL;

    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static CUgraph captured_set(CUdeviceptr ptr)
{
    CUgraph graph = NULL;

    CU_OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU_OK(cu->cuMemsetD8Async(ptr + 64, 1, 64, stream));
    CU_OK(client_sum(sum_kernel, other, ptr + 4096, 64, stream));
    CU_OK(cu->cuStreamEndCapture(stream, &graph));
    return graph;
}

static void launch(CUgraphExec exec)
{
    CU_OK(cu->cuGraphLaunch(exec, stream));
    CU_OK(cu->cuCtxSynchronize());
}

static void use_captured(void)
{
    struct read_live before, after;
    CUdeviceptr second;
    CUgraphExec exec;
    CUgraph graph;
    uint64_t from;

    new_blocks();
    second = kit_alloc(1 * MB);
    graph = captured_set(block);
    exec = instance_of(graph);
    CU_OK(KIT_CU(cuGraphDestroy)(graph));
    CHECK_EQ(look(block).use_count, 0); /* nothing has run */
    for (int i = 0; i < 3; i++) {
        before = look(block);
        from = now();
        launch(exec);
        after = look(block);
        CHECK(was_used(&before, &after, 1, from, now())); /* once, though two nodes name it */
    }
    CHECK_EQ(look(other).use_count, 3);
    CHECK_EQ(look(second).use_count, 0);
    graph = captured_set(second); /* and after an update, what the other graph names */
    {
        CUgraphExecUpdateResultInfo info;

        CU_OK(KIT_CU(cuGraphExecUpdate_v2)(exec, graph, &info));
    }
    launch(exec);
    CHECK_EQ(look(block).use_count, 3);
    CHECK_EQ(look(second).use_count, 1);
    CU_OK(KIT_CU(cuGraphExecDestroy)(exec));
    CHECK_EQ(look(block).use_flags, FORMAT_USE_WATCHED);
    kit_clean_up();
}

TEST(a_launch_of_a_graph_uses_what_was_captured)
{
    start("captured");
    use_captured();
}

TEST(a_launch_of_a_graph_uses_what_was_captured_without_a_pool)
{
    REQUIRE(setenv("KEDGE_MODE", "track", 1) == 0);
    start("captured-track");
    use_captured();
}

static CUDA_MEMSET_NODE_PARAMS set_of(CUdeviceptr ptr)
{
    return (CUDA_MEMSET_NODE_PARAMS){
            .dst = ptr, .value = 3, .elementSize = 1, .width = 64, .height = 1};
}

TEST(a_launch_of_a_graph_uses_what_its_nodes_name)
{
    CUdeviceptr set, from, to, anew, inner;
    CUDA_KERNEL_NODE_PARAMS kernel;
    CUDA_MEMSET_NODE_PARAMS params;
    CUgraphNode node, set_node;
    CUgraph graph, child;
    CUDA_MEMCPY3D copy;
    CUgraphExec exec;

    start("nodes");
    new_blocks();
    set = kit_alloc(1 * MB);
    from = kit_alloc(1 * MB);
    to = kit_alloc(1 * MB);
    anew = kit_alloc(1 * MB);
    inner = kit_alloc(1 * MB);
    CU_OK(KIT_CU(cuGraphCreate)(&graph, 0));
    params = set_of(set);
    CU_OK(KIT_CU(cuGraphAddMemsetNode)(&set_node, graph, NULL, 0, &params, cu->context));
    copy = copy_3d();
    copy.srcDevice = from;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = to;
    CU_OK(KIT_CU(cuGraphAddMemcpyNode)(&node, graph, NULL, 0, &copy, cu->context));
    memset(&kernel, 0, sizeof kernel);
    kernel.func = sum_kernel;
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = 1;
    kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.kernelParams = args;
    CU_OK(KIT_CU(cuGraphAddKernelNode_v2)(&node, graph, NULL, 0, &kernel));
    CU_OK(KIT_CU(cuGraphCreate)(&child, 0));
    params = set_of(inner);
    CU_OK(KIT_CU(cuGraphAddMemsetNode)(&node, child, NULL, 0, &params, cu->context));
    CU_OK(KIT_CU(cuGraphAddChildGraphNode)(&node, graph, NULL, 0, child));
    exec = instance_of(graph);
    launch(exec);
    CHECK_EQ(look(set).use_count, 1);
    CHECK_EQ(look(from).use_count, 1);
    CHECK_EQ(look(to).use_count, 1);
    CHECK_EQ(look(block).use_count, 1);
    CHECK_EQ(look(inner).use_count, 1);
    CHECK_EQ(look(anew).use_count, 0);
    params = set_of(anew);
    CU_OK(KIT_CU(cuGraphExecMemsetNodeSetParams)(exec, set_node, &params, cu->context));
    launch(exec);
    CHECK_EQ(look(set).use_count, 1);
    CHECK_EQ(look(anew).use_count, 1);
    CHECK_EQ(look(from).use_count, 2);
    kit_clean_up();
}

#define ORDER_BLOCKS 70 /* more than are looked at in one go */

/* The allocation's number of each block, in the order of the events of uses; those with another time than the one before begin a call. */
static size_t read_order(uint64_t ret_block[256], bool ret_begins[256])
{
    struct read_capture *capture = kit_read();
    uint64_t time_ns = 0;
    size_t count = 0;

    for (size_t i = 0; i < capture->event_count; i++) {
        const struct read_event *event = &capture->event[i];

        if (event->kind != FORMAT_EVENT_USE || count == 256)
            continue;
        ret_begins[count] = event->time_ns != time_ns;
        time_ns = event->time_ns;
        ret_block[count++] = event->block;
    }
    read_close(capture);
    return count;
}

TEST(with_their_order_uses_are_events_of_their_calls)
{
    CUdeviceptr ptr[ORDER_BLOCKS];
    uint64_t seq[ORDER_BLOCKS], block_of[256];
    bool begins[256], seen[ORDER_BLOCKS] = {false};
    CUgraphExec exec;
    CUgraph graph;
    size_t count;

    start_with("order", "full,uses=order");
    new_blocks();
    for (int i = 0; i < ORDER_BLOCKS; i++) {
        ptr[i] = kit_alloc(2 * MB);
        seq[i] = look(ptr[i]).seq;
    }
    CU_OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < ORDER_BLOCKS; i++)
        CU_OK(cu->cuMemsetD8Async(ptr[i], 1, 64, stream));
    CU_OK(cu->cuStreamEndCapture(stream, &graph));
    exec = instance_of(graph);
    CU_OK(client_sum(sum_kernel, ptr[1], ptr[0], 64, stream));
    CU_OK(cu->cuMemsetD8Async(ptr[0], 1, 64, stream));
    CU_OK(cu->cuMemsetD8Async(block, 1, 64, stream)); /* too small */
    launch(exec);
    count = read_order(block_of, begins);
    REQUIRE_EQ(count, 3 + ORDER_BLOCKS);
    CHECK(begins[0] && !begins[1] && begins[2] && begins[3]);
    CHECK(block_of[0] + block_of[1] == seq[0] + seq[1] && block_of[0] != block_of[1]);
    CHECK_EQ(block_of[2], seq[0]);
    for (size_t i = 3; i < count; i++) {
        CHECK(i == 3 || !begins[i]); /* one launch, one call */
        for (int k = 0; k < ORDER_BLOCKS; k++)
            seen[k] |= block_of[i] == seq[k];
    }
    for (int k = 0; k < ORDER_BLOCKS; k++)
        CHECK(seen[k]);
    CU_OK(KIT_CU(cuGraphExecDestroy)(exec));
    kit_clean_up();
}

TEST(a_graph_with_a_kernel_that_nobody_knows_is_not_seen)
{
    struct read_capture *capture;
    CUgraphExec exec;

    REQUIRE(setenv("SIMCUDA_FAIL", "cuFuncGetParamInfo:1+:801,cuKernelGetParamInfo:1+:801", 1)
            == 0);
    start("unknown-node");
    new_blocks();
    exec = instance_of(captured_set(block));
    CHECK_EQ(look(block).use_flags, FORMAT_USE_WATCHED);
    launch(exec);
    launch(exec);
    CHECK_EQ(look(block).use_count, 2); /* the set */
    CHECK_EQ(look(block).use_flags, FORMAT_USE_WATCHED | FORMAT_USE_UNSEEN);
    capture = kit_read();
    CHECK_EQ(capture->unseen.count, 2);
    read_close(capture);
    kit_clean_up();
}

/* ---- handles that come again ---------------------------------------------------------------- */

static const char sum_text[] =
        ".version 6.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry kedge_sum(.param .u64 a, .param .u64 b, .param .u64 c)\n{\n    ret;\n}\n";

/* Its one parameter is as large as the first two of the sum's: of those, it would find the first alone. */
static void launch_view(CUfunction view, CUstream on)
{
    struct {
        CUdeviceptr dst;
        uint64_t bytes;
    } value = {other, 64};
    void *params[] = {&value};

    CU_OK(cu->cuLaunchKernel(view, 1, 1, 1, 1, 1, 1, 0, on, params, NULL));
    CU_OK(cu->cuCtxSynchronize());
}

static void sum_must_use_the_block(CUfunction sum, const CUfunction was, CUstream on)
{
    struct {
        CUdeviceptr out;
        uint64_t nothing; /* behind it, for whoever takes it for the larger one */
    } first_param = {other, 0};
    void *params[] = {&first_param, &inside, &bytes_64};

    REQUIRE(sum == was);
    CHECK_EQ(look(block).use_count, 0);
    CU_OK(cu->cuLaunchKernel(sum, 1, 1, 1, 1, 1, 1, 0, on, params, NULL));
    CHECK_EQ(look(block).use_count, 1);
    CHECK_EQ(look(block).use_flags, FORMAT_USE_WATCHED);
    kit_clean_up();
}

static CUfunction loaded(const char *text, const char *name, CUmodule *ret_module)
{
    CUfunction function = NULL;

    CU_OK(cu->cuModuleLoadData(ret_module, text));
    CU_OK(cu->cuModuleGetFunction(&function, *ret_module, name));
    return function;
}

TEST(r86_a_kernel_with_the_handle_of_an_unloaded_modules_has_its_own_layout)
{
    CUfunction view;
    CUmodule module;

    start("unloaded-module");
    new_blocks();
    view = loaded(view_text, "kedge_fill_view", &module);
    launch_view(view, stream);
    CU_OK(KIT_CU(cuModuleUnload)(module));
    sum_must_use_the_block(loaded(sum_text, "kedge_sum", &module), view, stream);
}

static CUfunction kernel_of(const char *text, const char *name, CUlibrary *ret_library)
{
    CUkernel kernel = NULL;

    CU_OK(KIT_CU(cuLibraryLoadData)(ret_library, text, NULL, NULL, 0, NULL, NULL, 0));
    CU_OK(KIT_CU(cuLibraryGetKernel)(&kernel, *ret_library, name));
    return (CUfunction)(void *)kernel;
}

TEST(r86_a_kernel_with_the_handle_of_an_unloaded_librarys_has_its_own_layout)
{
    CUlibrary library;
    CUfunction view;

    start("unloaded-library");
    new_blocks();
    view = kernel_of(view_text, "kedge_fill_view", &library);
    launch_view(view, stream);
    CU_OK(KIT_CU(cuLibraryUnload)(library));
    sum_must_use_the_block(kernel_of(sum_text, "kedge_sum", &library), view, stream);
}

/* A launch takes handles of two kinds, and each question only one: a wrong one may end the program in the driver. */
TEST(r86_no_question_is_asked_with_a_handle_of_the_other_kind)
{
    uint64_t of_functions, of_kernels;
    CUlibrary library;
    CUmodule module;
    CUfunction sum, nothing;

    start("kinds");
    new_blocks();
    sum = loaded(sum_text, "kedge_sum", &module);
    of_kernels = client_calls("cuKernelGetParamInfo");
    CU_OK(client_sum(sum, other, block, 64, stream));
    nothing = loaded(nothing_text, "nothing", &module);
    CU_OK(cu->cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){NULL}, NULL));
    CHECK_EQ(client_calls("cuKernelGetParamInfo"), of_kernels);
    of_functions = client_calls("cuFuncGetParamInfo");
    CHECK_GT(of_functions, 0);
    CU_OK(client_sum(kernel_of(sum_text, "kedge_sum", &library), other, block, 64, stream));
    CHECK_EQ(client_calls("cuFuncGetParamInfo"), of_functions);
    CHECK_GT(client_calls("cuKernelGetParamInfo"), of_kernels);
}

/* The end of a context unloads its modules; the program makes no call for them. */
TEST(r86_a_kernel_with_the_handle_of_a_dead_contexts_has_its_own_layout)
{
    CUcontext context = NULL;
    CUfunction view;
    CUmodule module;

    start("dead-context");
    new_blocks();
    CU_OK(cu->cuCtxCreate_v2(&context, 0, 0));
    view = loaded(view_text, "kedge_fill_view", &module);
    launch_view(view, NULL);
    CU_OK(cu->cuCtxDestroy_v2(context));
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    sum_must_use_the_block(loaded(sum_text, "kedge_sum", &module), view, stream);
}

static uint64_t layouts_asked(void)
{
    return client_calls("cuFuncGetParamInfo") + client_calls("cuKernelGetParamInfo");
}

static void *end_in_a_while(void *dying)
{
    ((__typeof__(&simcuda_park_next))client_sim("simcuda_park_next"))("cuCtxDestroy_v2", NULL);
    CHECK_EQ(cu->cuCtxDestroy_v2(dying), CUDA_SUCCESS);
    return NULL;
}

/* Before, since its handles may be another kernel's as soon as the driver has ended it, and this thread is not back by then. */
TEST(r86_layouts_are_forgotten_before_a_context_ends)
{
    CUcontext dying = NULL;
    pthread_t thread;
    uint64_t asked;
    CUfunction sum;

    start("ending-context");
    new_blocks();
    sum = client_sum_kernel();
    CU_OK(client_sum(sum, other, block, 64, stream));
    asked = layouts_asked();
    CU_OK(client_sum(sum, other, block, 64, stream));
    CHECK_EQ(layouts_asked(), asked);
    CU_OK(cu->cuCtxCreate_v2(&dying, 0, 0));
    CU_OK(cu->cuCtxSetCurrent(cu->context));
    REQUIRE(pthread_create(&thread, NULL, end_in_a_while, dying) == 0);
    REQUIRE(((__typeof__(&simcuda_wait_parked))client_sim("simcuda_wait_parked"))(1));
    CU_OK(client_sum(sum, other, block, 64, stream));
    CHECK_GT(layouts_asked(), asked);
    ((__typeof__(&simcuda_unpark))client_sim("simcuda_unpark"))();
    REQUIRE(pthread_join(thread, NULL) == 0);
}

static void end_primary(CUresult (*how)(CUdevice))
{
    CUcontext context = NULL;
    CUfunction view;
    CUmodule module;

    other = kit_alloc(1 * MB);
    view = loaded(view_text, "kedge_fill_view", &module);
    launch_view(view, NULL);
    CU_OK(how(0));
    CU_OK(cu->cuDevicePrimaryCtxRetain(&context, 0));
    CU_OK(cu->cuCtxSetCurrent(context));
    block = kit_alloc(1 * MB);
    other = kit_alloc(1 * MB);
    inside = block + 64;
    sum_must_use_the_block(loaded(sum_text, "kedge_sum", &module), view, NULL);
}

TEST(r86_a_kernel_with_a_handle_from_before_a_reset_has_its_own_layout)
{
    start("reset");
    end_primary(KIT_CU(cuDevicePrimaryCtxReset_v2));
}

TEST(r86_a_kernel_with_a_handle_from_before_the_last_release_has_its_own_layout)
{
    start("released");
    end_primary(KIT_CU(cuDevicePrimaryCtxRelease_v2));
}

/* Uses of `ptr` that a launch makes. */
static uint64_t uses_of_a_launch(CUgraphExec exec, CUdeviceptr ptr)
{
    uint64_t before = look(ptr).use_count;

    launch(exec);
    return look(ptr).use_count - before;
}

TEST(r86_words_that_nodes_write_and_wait_for_are_uses_of_each_launch)
{
    CUstreamBatchMemOpParams items[2]; /* waits for a word of the block, writes one of the other */
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {.count = 2, .paramArray = items};
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
    CUgraphNode node, second_node;
    CUdeviceptr third;
    CUgraphExec exec;
    CUgraph graph;

    start("words");
    new_blocks();
    third = kit_alloc(1 * MB);
    items[0] = operations().item[1];
    items[1] = operations().item[0];
    CU_OK(KIT_CU(cuGraphCreate)(&graph, 0));
    CU_OK(KIT_CU(cuGraphAddBatchMemOpNode)(&node, graph, NULL, 0, &batch));
    exec = instance_of(graph);
    CHECK_EQ(uses_of_a_launch(exec, block), 1);
    CHECK_EQ(uses_of_a_launch(exec, other), 1);
    items[0].waitValue.address = third;
    CU_OK(KIT_CU(cuGraphExecBatchMemOpNodeSetParams)(exec, node, &batch));
    CHECK_EQ(uses_of_a_launch(exec, block), 0);
    CHECK_EQ(uses_of_a_launch(exec, third), 1);
    CHECK_EQ(uses_of_a_launch(instance_of(graph), third), 0); /* the graph has the block still */
    CU_OK(KIT_CU(cuGraphBatchMemOpNodeSetParams)(node, &batch));
    CHECK_EQ(uses_of_a_launch(instance_of(graph), block), 0);
    CHECK_EQ(uses_of_a_launch(instance_of(graph), third), 1);
    any.memOp.count = 1;
    any.memOp.paramArray = items;
    items[0].waitValue.address = block;
    CU_OK(KIT_CU(cuGraphAddNode)(&second_node, graph, NULL, 0, &any));
    CHECK_EQ(uses_of_a_launch(instance_of(graph), block), 1);
    CHECK_EQ(unseen_calls(), 0);
    kit_clean_up();
}

/* A later driver's operation: what it names nobody knows. */
TEST(r86_an_operation_on_words_that_is_not_known_is_unseen)
{
    CUstreamBatchMemOpParams item = {.operation = (CUstreamBatchMemOpType)77};

    start("other-words");
    new_blocks();
    CHECK_EQ(KIT_CU(cuStreamBatchMemOp_v2)(stream, 1, &item, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(unseen_calls(), 1);
    item.operation = CU_STREAM_MEM_OP_BARRIER;
    CU_OK(KIT_CU(cuStreamBatchMemOp_v2)(stream, 1, &item, 0));
    CHECK_EQ(unseen_calls(), 1);
    kit_clean_up();
}

/* ---- NCCL ----------------------------------------------------------------------------------- */

typedef int (*all_reduce_fn)(const void *, void *, size_t, int, int, void *, void *);
typedef int (*rooted_fn)(const void *, void *, size_t, int, int, int, void *, void *);
typedef int (*root_fn)(const void *, void *, size_t, int, int, void *, void *);
typedef int (*gather_fn)(const void *, void *, size_t, int, void *, void *);
typedef int (*peer_fn)(void *, size_t, int, int, void *, void *);

static void *at(CUdeviceptr ptr)
{
    return (void *)(uintptr_t)ptr;
}

TEST(r66_buffers_of_every_nccl_call_are_uses)
{
    CUgraphExec exec;
    CUgraph graph;
    int *calls;

    start("nccl");
    new_blocks();
    calls = kit_nccl("nccl_calls");
    CHECK_EQ(
            ((all_reduce_fn)kit_nccl("ncclAllReduce"))(at(block), at(other), 8, 7, 0, host, stream),
            0);
    CHECK_EQ(((all_reduce_fn)kit_nccl("ncclReduceScatter"))(
                     at(block), at(other), 8, 7, 0, host, stream),
            0);
    CHECK_EQ(((rooted_fn)kit_nccl("ncclReduce"))(
                     at(block + 64), at(other), 8, 7, 0, 0, host, stream),
            0);
    CHECK_EQ(((root_fn)kit_nccl("ncclBroadcast"))(at(block), at(other), 8, 7, 0, host, stream), 0);
    CHECK_EQ(((gather_fn)kit_nccl("ncclAllGather"))(at(block), at(other), 8, 7, host, stream), 0);
    CHECK_EQ(look(block).use_count, 5);
    CHECK_EQ(look(other).use_count, 5);
    CHECK_EQ(((peer_fn)kit_nccl("ncclBcast"))(at(block), 8, 7, 0, host, stream), 0);
    CHECK_EQ(((peer_fn)kit_nccl("ncclSend"))(at(block), 8, 7, 0, host, stream), 0);
    CHECK_EQ(((peer_fn)kit_nccl("ncclRecv"))(at(block), 8, 7, 0, host, stream), 0);
    CHECK_EQ(look(block).use_count, 8);
    CHECK_EQ(look(other).use_count, 5);
    CHECK_EQ(*calls, 8);
    /* captured, it is the graph's */
    CU_OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_EQ(((peer_fn)kit_nccl("ncclSend"))(at(block), 8, 7, 0, host, stream), 0);
    CU_OK(cu->cuMemsetD8Async(other, 1, 64, stream));
    CU_OK(cu->cuStreamEndCapture(stream, &graph));
    exec = instance_of(graph);
    CHECK_EQ(look(block).use_count, 8);
    launch(exec);
    CHECK_EQ(look(block).use_count, 9);
    CHECK_EQ(look(other).use_count, 6);
    kit_clean_up();
}

/* Two neighbours: a buffer that begins in the first and has more bytes is a use of both. */
static CUdeviceptr first, second;

enum {
    ELEMENTS = (1 << 20) / 4, /* of the type 7, as many as the first has room for */
};

static void used(const char *call, unsigned firsts, unsigned seconds)
{
    static uint64_t before[2];
    uint64_t now[2] = {look(first).use_count, look(second).use_count};

    if (now[0] - before[0] != firsts || now[1] - before[1] != seconds)
        printf("%s:\n", call);
    CHECK_EQ(now[0] - before[0], firsts);
    CHECK_EQ(now[1] - before[1], seconds);
    before[0] = now[0];
    before[1] = now[1];
}

TEST(r66_as_much_of_a_buffer_as_its_rank_uses_is_used)
{
    all_reduce_fn all_reduce, scatter_sum;
    gather_fn all_gather, all_to_all;
    root_fn broadcast, gather, scatter;
    rooted_fn reduce;
    int *rank;

    start("sizes");
    rank = kit_nccl("nccl_rank");
    all_reduce = (all_reduce_fn)kit_nccl("ncclAllReduce");
    scatter_sum = (all_reduce_fn)kit_nccl("ncclReduceScatter");
    all_gather = (gather_fn)kit_nccl("ncclAllGather");
    all_to_all = (gather_fn)kit_nccl("ncclAlltoAll");
    broadcast = (root_fn)kit_nccl("ncclBroadcast");
    gather = (root_fn)kit_nccl("ncclGather");
    scatter = (root_fn)kit_nccl("ncclScatter");
    reduce = (rooted_fn)kit_nccl("ncclReduce");
    first = kit_alloc(1 * MB);
    second = kit_alloc(1 * MB);
    REQUIRE_EQ(second, first + 1 * MB);
    CHECK_EQ(all_reduce(at(first), host, ELEMENTS, 7, 0, host, stream), 0);
    used("a call with as much as there is", 1, 0);
    CHECK_EQ(all_reduce(host, at(first), ELEMENTS + 1, 7, 0, host, stream), 0);
    used("one element more", 1, 1);
    CHECK_EQ(all_reduce(at(first), host, ELEMENTS, 8, 0, host, stream), 0);
    used("doubles", 1, 1);
    CHECK_EQ(all_reduce(at(first), host, SIZE_MAX / 2, 8, 0, host, stream), 0);
    CHECK_EQ(all_reduce(at(first), host, ELEMENTS, 99, 0, host, stream), 0);
    used("what cannot be counted", 2, 0);
    CHECK_EQ(all_reduce(at(first), at(second), 0, 7, 0, host, stream), 0);
    used("nothing", 0, 0);
    CHECK_EQ(scatter_sum(at(first), host, ELEMENTS, 7, 0, host, stream), 0);
    CHECK_EQ(all_gather(host, at(first), ELEMENTS, 7, host, stream), 0);
    CHECK_EQ(all_to_all(at(first), host, ELEMENTS, 7, host, stream), 0);
    CHECK_EQ(all_to_all(host, at(first), ELEMENTS, 7, host, stream), 0);
    used("the ends that all ranks have a part in", 4, 4);
    CHECK_EQ(scatter_sum(host, at(first), ELEMENTS, 7, 0, host, stream), 0);
    CHECK_EQ(all_gather(at(first), host, ELEMENTS, 7, host, stream), 0);
    used("the ends of one rank", 2, 0);
    CHECK_EQ(gather(host, at(first), ELEMENTS, 7, 0, host, stream), 0);
    CHECK_EQ(scatter(at(first), host, ELEMENTS, 7, 0, host, stream), 0);
    used("the root", 2, 2);
    *rank = 1;
    CHECK_EQ(gather(host, at(first), ELEMENTS, 7, 0, host, stream), 0);
    CHECK_EQ(scatter(at(first), host, ELEMENTS, 7, 0, host, stream), 0);
    CHECK_EQ(broadcast(at(first), host, ELEMENTS, 7, 0, host, stream), 0);
    CHECK_EQ(reduce(host, at(first), ELEMENTS, 7, 0, 0, host, stream), 0);
    used("the others, where only the root has a buffer", 0, 0);
    CHECK_EQ(gather(at(first), host, ELEMENTS, 7, 0, host, stream), 0);
    CHECK_EQ(scatter(host, at(first), ELEMENTS, 7, 0, host, stream), 0);
    CHECK_EQ(broadcast(host, at(first), ELEMENTS, 7, 0, host, stream), 0);
    CHECK_EQ(reduce(at(first), host, ELEMENTS, 7, 0, 0, host, stream), 0);
    used("the others, where all have one", 4, 0);
    kit_clean_up();
}

static void let_release_go_on(void)
{
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 4; i++) {
        KEDGE_PUSH("edge");
        KEDGE_POP();
    }
}

/* A call inside a group is made by the group's end: until then the driver has not been told of it. */
TEST(r66_a_groups_buffers_stay_until_its_end)
{
    int (*group_start)(void), (*group_end)(void), (*simulate_end)(void *);
    unsigned before;
    CUdeviceptr ptr;
    peer_fn send;

    kit_hint("nccl-group", "trap");
    client_init();
    group_start = (int (*)(void))kit_nccl("ncclGroupStart");
    group_end = (int (*)(void))kit_nccl("ncclGroupEnd");
    simulate_end = (int (*)(void *))kit_nccl("ncclGroupSimulateEnd");
    send = (peer_fn)kit_nccl("ncclSend");
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CHECK_EQ(group_start(), 0);
    CHECK_EQ(group_start(), 0);
    CHECK_EQ(send(at(ptr), 8, 7, 0, host, NULL), 0);
    CHECK_EQ(group_end(), 0); /* the inner one */
    KEDGE_POP();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    let_release_go_on();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), 0);
    CHECK_EQ(group_end(), 0);
    let_release_go_on();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), 1);
    CHECK_EQ(group_end(), 0); /* one too many */
    /* what is only simulated ends a group as well */
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CHECK_EQ(group_start(), 0);
    CHECK_EQ(send(at(ptr), 8, 7, 0, host, NULL), 0);
    KEDGE_POP();
    let_release_go_on();
    before = kit_told(FORMAT_HINT_UNMAPPED, 0);
    CHECK_EQ(simulate_end(NULL), 0);
    let_release_go_on();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, 0), before + 1);
    kit_clean_up();
}

TEST(r66_an_nccl_call_does_not_touch_released_storage)
{
    CUdeviceptr ptr;
    int *calls;

    kit_hint("nccl-released", "trap");
    client_init();
    calls = kit_nccl("nccl_calls");
    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CHECK_EQ(((peer_fn)kit_nccl("ncclSend"))(at(ptr), 8, 7, 0, host, NULL), 0);
    KEDGE_POP();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    CHECK_EQ(((peer_fn)kit_nccl("ncclSend"))(at(ptr), 8, 7, 0, host, NULL), 4);
    CHECK_EQ(*calls, 1);
    CHECK_EQ(kit_told(FORMAT_HINT_VIOLATION, ptr), 1);
    kit_clean_up();
}

/* ---- off, and by itself --------------------------------------------------------------------- */

static void must_be_off(void)
{
    struct read_capture *capture;

    new_blocks();
    CU_OK(client_sum(sum_kernel, other, inside, 64, stream));
    CU_OK(cu->cuMemsetD8_v2(block, 1, 64));
    launch(instance_of(captured_set(block)));
    CHECK_EQ(look(block).use_count, 0);
    CHECK_EQ(look(block).use_flags, 0);
    CHECK_EQ(look(block).uses.last_use, 0);
    capture = kit_read();
    CHECK_EQ(capture->unseen.is_on, 0);
    read_close(capture);
    kit_clean_up();
}

TEST(r66_off_no_use_is_recorded)
{
    start_with("off", "full,uses=off");
    must_be_off();
}

/* No question is asked about a kernel, and none at all of a launch. */
TEST(r66_off_a_submission_makes_no_other_call)
{
    static const char *const questions[] = {"cuFuncGetParamInfo", "cuKernelGetParamInfo",
            "cuStreamGetCaptureInfo", "cuStreamIsCapturing", "cuCtxGetCurrent", "cuStreamGetId"};
    uint64_t before = 0;
    uint64_t after = 0;

    start_with("calls", "full,uses=off");
    new_blocks();
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        before += client_calls(questions[i]);
    CU_OK(client_sum(sum_kernel, other, inside, 64, stream));
    CU_OK(cu->cuMemsetD8Async(block, 1, 64, stream));
    CU_OK(cu->cuMemcpyDtoH_v2(host, block, 64));
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        after += client_calls(questions[i]);
    CHECK_EQ(after, before);
    kit_clean_up();
}

TEST(a_capture_with_a_name_has_uses)
{
    struct read_capture *capture;

    start_with("auto", "ring");
    new_blocks();
    CU_OK(cu->cuMemsetD8_v2(block, 1, 64));
    CHECK_EQ(look(block).use_count, 1);
    capture = kit_read();
    CHECK_EQ(capture->unseen.is_on, 1);
    read_close(capture);
    kit_clean_up();
}

/* ---- threads -------------------------------------------------------------------------------- */

enum {
    THREADS = 4,
    ROUNDS = 300,
};

static void *work(void *data)
{
    CUdeviceptr own = 0;
    (void)data;

    CHECK_EQ(cu->cuCtxSetCurrent(cu->context), CUDA_SUCCESS);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_EQ(cu->cuMemAlloc_v2(&own, 4096), CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemsetD8_v2(own, 1, 64), CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemsetD8_v2(own + 64, 1, 64), CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemsetD8_v2(block, 1, 64), CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemFree_v2(own), CUDA_SUCCESS);
    }
    return NULL;
}

/* Blocks come and go in one segment while all threads use them: each has its own uses, and no other's. */
TEST(threads_that_churn_lose_no_use_and_get_no_others)
{
    struct read_capture *capture;
    pthread_t thread[THREADS];
    unsigned frees = 0;

    start("threads");
    new_blocks();
    for (int t = 0; t < THREADS; t++)
        REQUIRE_EQ(pthread_create(&thread[t], NULL, work, NULL), 0);
    for (int t = 0; t < THREADS; t++)
        REQUIRE_EQ(pthread_join(thread[t], NULL), 0);
    CHECK_EQ(look(block).use_count, THREADS * ROUNDS);
    capture = kit_read();
    for (size_t i = 0; i < capture->event_count; i++) {
        const struct read_event *event = &capture->event[i];

        if (event->kind != FORMAT_EVENT_FREE || event->size != 4096)
            continue;
        frees++;
        CHECK_EQ(event->use_count, 2);
        CHECK_EQ(event->uses.longest_gap, event->uses.last_use - event->uses.first_use);
        CHECK_EQ(event->use_flags, FORMAT_USE_WATCHED);
        CHECK(event->uses.last_use <= event->time_ns);
    }
    CHECK_EQ(frees, THREADS * ROUNDS);
    read_close(capture);
    kit_clean_up();
}
