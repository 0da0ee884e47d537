/* SPDX-License-Identifier: MIT */
/* backend: alias in whole programs: small blocks share a physical handle, and no access through an old address meets another's data. */
#include "tests/preload/hints_kit.h"

#define SMALL ((size_t)512 << 10)

static CUstream stream;

static void hint_small(const char *tail, const char *mode)
{
    kit_files(tail);
    kit_write("kedge-hints: 1\n"
              "defaults: {min-size: 64KiB, backend: alias}\n"
              "hints:\n"
              "  - {id: small, do: release, pick: {size: 524288, inside: \"P\"},"
              " when: {anchor: P, edge: exit}}\n");
    REQUIRE(setenv("KEDGE_HINTS_MODE", mode, 1) == 0);
    if (strcmp(mode, "live") == 0)
        kit_allow_live();
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

static CUdeviceptr filled(unsigned char value)
{
    CUdeviceptr ptr = kit_alloc(SMALL);

    CU_OK(cu->cuMemsetD8_v2(ptr, value, SMALL));
    return ptr;
}

static void expect_bytes(CUdeviceptr ptr, unsigned char value)
{
    static unsigned char bytes[SMALL];

    CU_OK(cu->cuMemcpyDtoH_v2(bytes, ptr, SMALL));
    for (size_t i = 0; i < SMALL; i++)
        if (bytes[i] != value) {
            CHECK_EQ(bytes[i], value);
            return;
        }
}

static void settle(void)
{
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 20; i++)
        KEDGE_MARK("poll");
}

static CUdeviceptr looked_at;

static void look(void)
{
    (void)*(volatile unsigned char *)(uintptr_t)looked_at;
}

static bool faults(CUdeviceptr ptr)
{
    looked_at = ptr;
    return run_child(look) > 1000;
}

/* Whether a call names it as the program is told, or a kernel takes it from device memory. */
static void check_dead(CUdeviceptr owner, CUdeviceptr other)
{
    CUdeviceptr base = 0;
    size_t size = 0;

    for (CUdeviceptr at = owner; at < owner + SMALL; at += SMALL / 4) {
        CHECK_EQ(cu->cuMemsetD8_v2(at, 1, 16), CUDA_ERROR_INVALID_VALUE);
        CHECK_EQ(cu->cuMemcpyDtoD_v2(other, at, 16), CUDA_ERROR_INVALID_VALUE);
        CHECK(faults(at));
        CU_OK(cu->cuMemGetAddressRange_v2(&base, &size, at));
        CHECK_EQ(base, owner);
        CHECK_EQ(size, SMALL);
    }
}

static uint64_t handles(void)
{
    return client_calls("cuMemCreate") - client_calls("cuMemRelease");
}

static void owner_and_tenants(const char *mode, bool is_owner_first)
{
    bool is_live = strcmp(mode, "live") == 0;
    CUdeviceptr owner, beside, tenant[4];

    KEDGE_PUSH("Q"); /* what is asked for here the hint does not pick */
    beside = filled(0x11);
    KEDGE_POP();
    KEDGE_PUSH("P");
    owner = filled(0x22);
    CHECK_EQ(handles(), 1);
    KEDGE_POP();
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, owner), 1);
    check_dead(owner, beside);
    KEDGE_PUSH("P");
    for (int i = 0; i < 4; i++)
        tenant[i] = filled((unsigned char)(0x40 + i));
    /* five of them, 2.5 MiB: the released one's part is used again, and a trap keeps it */
    CHECK_EQ(handles(), is_live ? 1 : 2);
    check_dead(owner, beside);
    for (int i = 0; i < 4; i++)
        CHECK(!faults(tenant[i]));
    if (is_owner_first)
        CHECK_EQ(cu->cuMemFree_v2(owner), CUDA_SUCCESS);
    for (int i = 0; i < 4; i++) {
        expect_bytes(tenant[i], (unsigned char)(0x40 + i));
        CHECK_EQ(cu->cuMemFree_v2(tenant[i]), CUDA_SUCCESS);
        CHECK_EQ(cu->cuMemFree_v2(tenant[i]), CUDA_ERROR_INVALID_VALUE);
    }
    if (!is_owner_first)
        CHECK_EQ(cu->cuMemFree_v2(owner), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(owner), CUDA_ERROR_INVALID_VALUE);
    KEDGE_POP();
    expect_bytes(beside, 0x11);
    CU_OK(cu->cuDevicePrimaryCtxReset_v2(cu->device));
    CHECK_EQ(client_calls("cuMemMap"), client_calls("cuMemUnmap"));
    CHECK_EQ(client_calls("cuMemCreate"), client_calls("cuMemRelease"));
    kit_clean_up();
}

TEST(r57_a_small_released_block_faults_while_its_storage_serves_others)
{
    hint_small("aliaslive", "live");
    owner_and_tenants("live", true);
}

TEST(r58_a_late_free_of_the_owner_is_not_its_tenants)
{
    hint_small("aliaslate", "live");
    owner_and_tenants("live", false);
}

TEST(r57_a_trap_takes_one_blocks_access_and_keeps_its_storage)
{
    hint_small("aliastrap", "trap");
    owner_and_tenants("trap", false);
}

/* The device reads the old content while the host has gone on: nobody gets that storage before it is done, on no stream. */
TEST(r57_storage_is_nobody_elses_before_every_stream_is_past_the_edge)
{
    CUdeviceptr owner, copy, next[3];
    uint64_t unmaps;

    REQUIRE(setenv("SIMCUDA_SCHED", "lazy", 1) == 0);
    REQUIRE(setenv("KEDGE_POOL", "budget=1G", 1) == 0); /* within it the host waits for nothing */
    hint_small("aliasfence", "live");
    copy = kit_alloc(SMALL);
    KEDGE_PUSH("P");
    owner = filled(0x22);
    CU_OK(cu->cuCtxSynchronize());
    CU_OK(cu->cuMemcpyDtoDAsync_v2(copy, owner, SMALL, stream)); /* late, by another stream */
    unmaps = client_calls("cuMemUnmap");
    KEDGE_POP();
    KEDGE_PUSH("P");
    for (int i = 0; i < 3; i++)
        next[i] = kit_alloc(SMALL);
    for (int i = 0; i < 3; i++)
        CU_OK(cu->cuMemsetD8Async(next[i], 0x55, SMALL, CU_STREAM_PER_THREAD));
    CHECK_EQ(client_calls("cuMemUnmap"), unmaps);
    KEDGE_POP();
    CU_OK(cu->cuCtxSynchronize());
    expect_bytes(copy, 0x22);
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, owner), 1);
    kit_clean_up();
}

TEST(r84_a_program_with_small_dead_blocks_is_told_what_it_is_told_without_hints)
{
    size_t available[3], total;
    CUdeviceptr p[8];

    hint_small("aliasinfo", "live");
    KEDGE_PUSH("P");
    for (int i = 0; i < 8; i++)
        p[i] = kit_alloc(SMALL);
    CU_OK(cu->cuMemGetInfo_v2(&available[0], &total));
    KEDGE_POP();
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, 0), 8);
    CU_OK(cu->cuMemGetInfo_v2(&available[1], &total));
    CHECK_EQ(available[1], available[0]);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(cu->cuMemFree_v2(p[i]), CUDA_SUCCESS);
    CU_OK(cu->cuMemGetInfo_v2(&available[2], &total));
    CHECK_EQ(available[2], available[0] + 8 * SMALL);
    kit_clean_up();
}
