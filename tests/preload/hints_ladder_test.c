/* SPDX-License-Identifier: MIT */
/* How a hint in live is tried with care: canary, fallback. */
#include "tests/preload/hints_kit.h"

static void start(const char *tail, const char *defaults)
{
    char text[400];

    kit_files(tail);
    snprintf(text, sizeof text,
            "kedge-hints: 1\n"
            "defaults: {mode: live%s}\n"
            "hints:\n"
            "  - {id: first, do: release, pick: {size: 8388608, inside: \"PHASE_*\"},\n"
            "     when: {anchor: \"PHASE_*\", edge: exit}}\n"
            "  - {id: second, do: release, pick: {size: 4194304, inside: \"PHASE_*\"},\n"
            "     when: {anchor: \"PHASE_*\", edge: exit}}\n",
            defaults);
    kit_write(text);
    kit_allow_live();
    client_init();
}

static CUdeviceptr phase(size_t size)
{
    CUdeviceptr ptr;

    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(size);
    KEDGE_POP();
    return ptr;
}

static void touch_first(const char *tail, const char *defaults, bool falls_back)
{
    CUdeviceptr ptr, other, later;

    start(tail, defaults);
    ptr = phase(KIT_BYTES);
    other = phase(4 * MB);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr) + kit_told(FORMAT_HINT_DEAD, other), 2);
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 1, KIT_BYTES), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(kit_told(FORMAT_HINT_VIOLATION, ptr), 1);
    for (int i = 0; i < 2; i++) { /* of the hint that was touched, and of the other one */
        later = phase(i ? 4 * MB : KIT_BYTES);
        CHECK_EQ(kit_told(FORMAT_HINT_WOULD_RELEASE, later), falls_back ? 1 : 0);
        CHECK_EQ(kit_told(FORMAT_HINT_DEAD, later), falls_back ? 0 : 1);
        CHECK_EQ(cu->cuMemsetD8_v2(later, 1, 4 * MB),
                falls_back ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
    }
    /* What is gone is gone. */
    CHECK_EQ(cu->cuMemsetD8_v2(other, 1, 4 * MB), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    CHECK_EQ(cu->cuMemFree_v2(other), CUDA_SUCCESS);
    kit_clean_up();
}

TEST(with_fallback_the_first_stopped_call_puts_all_hints_into_shadow)
{
    touch_first("fallback", ", fallback: yes", true);
}

TEST(without_fallback_hints_go_on)
{
    touch_first("nofallback", "", false);
}

/* A block that is due when the call is stopped stays too. */
TEST(with_fallback_what_waits_for_its_edge_stays)
{
    CUdeviceptr ptr, waits;

    start("fallwaits", ", fallback: yes");
    ptr = phase(KIT_BYTES);
    KEDGE_PUSH("PHASE_1");
    waits = kit_alloc(KIT_BYTES);
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 1, KIT_BYTES), CUDA_ERROR_INVALID_VALUE);
    KEDGE_POP();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, waits), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_SKIPPED, waits), 1);
    CHECK_EQ(cu->cuMemsetD8_v2(waits, 1, KIT_BYTES), CUDA_SUCCESS);
    kit_clean_up();
}

/* One hint by the file's default, one by its own. */
TEST(a_canary_releases_each_fourth_until_it_has_released_64)
{
    start("canary", ", canary: 1/4");
    for (int i = 0; i < 64 * 4 + 10; i++)
        CU_OK(cu->cuMemFree_v2(phase(KIT_BYTES)));
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 64 + 10);
    CHECK_EQ(kit_told(FORMAT_HINT_WOULD_RELEASE, 0), 64 * 3);
    CU_OK(cu->cuMemFree_v2(phase(4 * MB))); /* each hint has its own */
    CHECK_EQ(kit_told(FORMAT_HINT_WOULD_RELEASE, 0), 64 * 3 + 1);
    kit_clean_up();
}

TEST(a_canary_is_for_live_alone)
{
    REQUIRE(setenv("KEDGE_HINTS_MODE", "trap", 1) == 0);
    start("canarytrap", ", canary: 1/4");
    for (int i = 0; i < 8; i++)
        CU_OK(cu->cuMemFree_v2(phase(KIT_BYTES)));
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), 8);
    kit_clean_up();
}
