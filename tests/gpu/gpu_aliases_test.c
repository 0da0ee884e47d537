/* SPDX-License-Identifier: MIT */
/*
 * One physical handle at two addresses (R95): what is written through one is read through the other, wherever a stream or an event
 * puts the read behind the write; the first address may go when the device has left it. And what a map costs while kernels run.
 */
#include "tests/gpu/gpu_device.h"

enum {
    ROUNDS = 32,
    LATE_MS = 5,
    BUSY_MS = 50,
    TIMES = 16, /* maps and unmaps while the device is busy */
};

/* One handle and two addresses. */
struct alias {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at[2], out;
    size_t size;
};

static const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

static void map(const struct alias *alias, CUdeviceptr at)
{
    CUmemAccessDesc access = {
            .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    REQUIRE_EQ(gpu->cuMemMap(at, alias->size, 0, alias->handle, 0), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuMemSetAccess(at, alias->size, &access, 1), CUDA_SUCCESS);
}

static void alias_new(struct alias *ret)
{
    CUdeviceptr range = 0;

    gpu_init();
    if (!gpu->cuMemMap)
        SKIP("the driver has no cuMemMap");
    REQUIRE_EQ(
            gpu->cuMemGetAllocationGranularity(&ret->size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuMemCreate(&ret->handle, ret->size, &prop, 0), CUDA_SUCCESS);
    REQUIRE_EQ(gpu->cuMemAddressReserve(&range, 3 * ret->size, 0, 0, 0), CUDA_SUCCESS);
    ret->at[0] = range;
    ret->at[1] = range + 2 * ret->size;
    for (int i = 0; i < 2; i++)
        map(ret, ret->at[i]);
    REQUIRE_EQ(gpu->cuMemAlloc_v2(&ret->out, 8), CUDA_SUCCESS);
}

static uint64_t sum_now(const struct alias *alias)
{
    uint64_t value = 0;

    GPU_OK(cuCtxSynchronize());
    GPU_OK(cuMemcpyDtoH_v2(&value, alias->out, sizeof value));
    GPU_OK(cuMemsetD8_v2(alias->out, 0, 8));
    GPU_OK(cuCtxSynchronize());
    return value;
}

/* What the sum is when all words are this one, by one address alone. */
static uint64_t sum_of(const struct alias *alias, unsigned word)
{
    (void)sum_now(alias);
    GPU_OK(cuMemsetD32Async(alias->at[0], word, alias->size / 4, NULL));
    gpu_sum(alias->out, alias->at[0], alias->size, NULL);
    return sum_now(alias);
}

/* Late writes through one address, reads through the other, by turns. */
static void write_and_read(const char *name, bool by_event)
{
    struct alias alias;
    CUstream writer, reader;
    CUevent written, read;
    int right = 0;

    alias_new(&alias);
    writer = gpu_stream(CU_STREAM_NON_BLOCKING);
    reader = by_event ? gpu_stream(CU_STREAM_NON_BLOCKING) : writer;
    written = gpu_event();
    read = gpu_event();
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t expected = sum_of(&alias, i + 1);

        GPU_OK(cuMemsetD32Async(alias.at[i % 2], 0, alias.size / 4, writer));
        gpu_hold(writer, LATE_MS);
        GPU_OK(cuMemsetD32Async(alias.at[i % 2], i + 1, alias.size / 4, writer));
        GPU_OK(cuEventRecord(written, writer));
        GPU_OK(cuStreamWaitEvent(reader, written, 0));
        gpu_sum(alias.out, alias.at[1 - i % 2], alias.size, reader);
        GPU_OK(cuEventRecord(read, reader));
        /* and a write behind the read, through the address that was read from */
        GPU_OK(cuStreamWaitEvent(writer, read, 0));
        GPU_OK(cuMemsetD32Async(alias.at[1 - i % 2], 0, alias.size / 4, writer));
        right += sum_now(&alias) == expected;
    }
    CHECK_EQ(right, ROUNDS);
    gpu_fact(name, "%d of %d reads are right", right, ROUNDS);
}

TEST(r95_a_kernel_reads_what_its_stream_has_written_through_another_address)
{
    write_and_read("alias.stream_order", false);
}

TEST(r95_a_kernel_behind_an_event_reads_what_another_stream_has_written_there)
{
    write_and_read("alias.event_order", true);
}

/* What the pool does: a block's storage serves at a new address at once, and its old one goes when the stream has passed the free. */
TEST(r95_the_old_address_goes_behind_the_stream_and_the_content_stays)
{
    struct alias alias;
    CUstream stream;
    int right = 0;

    alias_new(&alias);
    stream = gpu_stream(CU_STREAM_NON_BLOCKING);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t expected = sum_of(&alias, i + 1);
        CUevent passed = gpu_event();

        gpu_hold(stream, LATE_MS);
        GPU_OK(cuMemsetD32Async(alias.at[0], 7, alias.size / 4, stream)); /* the old tenant */
        GPU_OK(cuEventRecord(passed, stream));
        GPU_OK(cuMemsetD32Async(alias.at[1], i + 1, alias.size / 4, stream)); /* the new one */
        GPU_OK(cuEventSynchronize(passed));
        GPU_OK(cuMemUnmap(alias.at[0], alias.size));
        gpu_sum(alias.out, alias.at[1], alias.size, stream);
        right += sum_now(&alias) == expected;
        map(&alias, alias.at[0]);
        GPU_OK(cuEventDestroy_v2(passed));
    }
    CHECK_EQ(right, ROUNDS);
    gpu_fact("alias.unmap_behind_the_stream", "%d of %d reads are right", right, ROUNDS);
}

/* A map with access at a second address, and its unmap, in microseconds. */
static void cost(const struct alias *alias, double *ret_map, double *ret_unmap)
{
    CUdeviceptr between = alias->at[0] + alias->size;

    *ret_map = *ret_unmap = 0;
    for (int i = 0; i < TIMES; i++) {
        double begun = gpu_microseconds();
        double mapped;

        map(alias, between);
        mapped = gpu_microseconds();
        GPU_OK(cuMemUnmap(between, alias->size));
        *ret_map += (mapped - begun) / TIMES;
        *ret_unmap += (gpu_microseconds() - mapped) / TIMES;
    }
}

/* Written down, not judged: whether these calls wait for kernels decides what moves by alias cost. */
TEST(r95_a_map_while_a_kernel_runs_has_its_cost_written_down)
{
    struct alias alias;
    CUstream stream;
    CUevent over;
    double map_us, unmap_us;
    CUresult still;

    alias_new(&alias);
    stream = gpu_stream(CU_STREAM_NON_BLOCKING);
    over = gpu_event();
    cost(&alias, &map_us, &unmap_us);
    gpu_fact("cost.alias_map_us", "%.1f", map_us);
    gpu_fact("cost.alias_unmap_us", "%.1f", unmap_us);
    gpu_hold(stream, BUSY_MS);
    GPU_OK(cuMemsetD32Async(alias.at[0], 1, alias.size / 4, stream));
    GPU_OK(cuEventRecord(over, stream));
    cost(&alias, &map_us, &unmap_us);
    still = gpu->cuEventQuery(over);
    gpu_fact("cost.alias_map_while_busy_us", "%.1f", map_us);
    gpu_fact("cost.alias_unmap_while_busy_us", "%.1f", unmap_us);
    gpu_fact("cost.alias_calls_waited_for_the_kernel", "%s", still == CUDA_SUCCESS ? "yes" : "no");
    CHECK(still == CUDA_SUCCESS || still == CUDA_ERROR_NOT_READY);
    GPU_OK(cuCtxSynchronize());
}
