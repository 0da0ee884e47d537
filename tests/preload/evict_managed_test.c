/* SPDX-License-Identifier: MIT */
/* Blocks that go out and come in as pages of managed memory: contents, what the program is told, and a device that has no such thing. */
#include "tests/preload/evict_kit.h"
#include "tests/sim/base/simcuda.h"

#define MANAGED "    backing: managed\n"

static struct simcuda_stats stats(void)
{
    struct simcuda_stats stats = {.size = sizeof stats};

    REQUIRE_EQ(KIT_CU(simcuda_stats)(&stats), 0);
    return stats;
}

/* Steps in which each block is looked at and set, twice the cap in turn. */
static void play_steps(void)
{
    for (int step = 0; step < EVICT_STEPS; step++) {
        KEDGE_PUSH("step");
        for (unsigned i = 0; i < EVICT_BLOCKS; i++) {
            evict_check(i);
            evict_set(i, (unsigned char)(step * 16 + (int)i));
        }
        KEDGE_POP();
    }
    evict_check_all();
}

TEST(pages_move_within_the_cap_and_nothing_is_mapped)
{
    struct simcuda_stats now;

    evict_start_as("pages", "poison", MANAGED);
    play_steps();
    now = stats();
    CHECK_EQ(now.maps, 0);
    CHECK_EQ(now.pinned_peak, 0);
    CHECK_EQ(now.page_faults, 0);
    CHECK_EQ(now.pages_evicted, 0);
    CHECK_EQ(now.peak[0], EVICT_FIT * EVICT_BYTES);
    CHECK_GT(now.migrated_in_bytes, EVICT_STEPS * EVICT_BYTES);
    for (unsigned i = 0; i < EVICT_BLOCKS; i++) {
        CHECK_EQ(cu->cuMemFree_v2(evict_block[i] + 512), CUDA_ERROR_INVALID_VALUE);
        CU_OK(cu->cuMemFree_v2(evict_block[i]));
        CHECK_EQ(cu->cuMemFree_v2(evict_block[i]), CUDA_ERROR_INVALID_VALUE);
    }
    kit_clean_up();
}

/* What the driver says of memory that is the program's own cuMemAlloc. */
TEST(r84_no_answer_tells_that_a_block_is_managed)
{
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
            CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
            CU_POINTER_ATTRIBUTE_DEVICE_POINTER};
    unsigned type = 0;
    void *host = &type;
    unsigned char is_managed = 7;
    CUdeviceptr device = 0;
    CUdeviceptr base = 0;
    size_t size = 0;
    void *values[] = {&type, &host, &is_managed, &device};

    evict_start_as("answers", "poison", MANAGED);
    for (unsigned i = 0; i < EVICT_BLOCKS; i++) {
        CUdeviceptr at = evict_block[i] + 4096;

        CU_OK(KIT_CU(cuPointerGetAttributes)(4, which, values, at));
        CHECK_EQ(type, CU_MEMORYTYPE_DEVICE);
        CHECK(host == NULL);
        CHECK_EQ(is_managed, 0);
        CHECK_EQ(device, at);
        CHECK_EQ(KIT_CU(cuPointerGetAttribute)(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, at),
                CUDA_ERROR_INVALID_VALUE);
        CU_OK(KIT_CU(cuPointerGetAttribute)(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at));
        CHECK_EQ(is_managed, 0);
        CU_OK(KIT_CU(cuMemGetAddressRange_v2)(&base, &size, at));
        CHECK_EQ(base, evict_block[i]);
        CHECK_EQ(size, EVICT_BYTES);
    }
    kit_clean_up();
}

TEST(an_address_in_data_keeps_nothing_in)
{
    uint64_t data[64] = {0};
    CUdeviceptr table;

    evict_start_as("data", "poison", MANAGED);
    table = kit_alloc(sizeof data);
    data[7] = evict_block[0] + 4096;
    CU_OK(cu->cuMemcpyHtoD_v2(table, data, sizeof data));
    play_steps();
    KEDGE_MARK("tell");
    CHECK_EQ(evict_told_kept(0, FORMAT_KEPT_POINTER), 0);
    CHECK_EQ(stats().page_faults, 0);
    kit_clean_up();
}

TEST(a_device_without_managed_memory_has_its_content_on_the_host)
{
    struct simcuda_stats now;

    REQUIRE(setenv("SIMCUDA_MANAGED", "off", 1) == 0);
    evict_start_as("without", "poison", MANAGED);
    play_steps();
    now = stats();
    CHECK_GT(now.maps, 0);
    CHECK_GE(now.pinned_peak, EVICT_FIT * EVICT_BYTES);
    CHECK_EQ(now.migrated_in_bytes, 0);
    kit_clean_up();
}

TEST(r23_an_export_is_refused_and_the_blocks_go_on)
{
    CUipcMemHandle handle;

    evict_start_as("export", "poison", MANAGED);
    CHECK_NE(KIT_CU(cuIpcGetMemHandle)(&handle, evict_block[0]), CUDA_SUCCESS);
    play_steps();
    CHECK_EQ(stats().peak[0], EVICT_FIT * EVICT_BYTES);
    kit_clean_up();
}
