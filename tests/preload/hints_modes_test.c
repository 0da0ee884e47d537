/* SPDX-License-Identifier: MIT */
/* covers: hints_run.c hit.c */
/* How far each hint of a file goes, as file, KEDGE_HINTS_MODE, rank and receipt have it; and hints that evict once one has failed. */
#include "tests/preload/hints_kit.h"

static const char all_actions[] =
        "kedge-hints: 1\n"
        "defaults: {mode: live}\n"
        "hints:\n"
        "  - {id: early, do: restore, of: params, when: {anchor: step, edge: enter}}\n"
        "  - {id: params, do: evict, pick: {size: 8388608}, when: {anchor: step, edge: enter},\n"
        "     cap: {device: 1GiB}}\n"
        "  - {id: late, do: release, pick: {size: 4194304}, when: {anchor: step, edge: exit}}\n"
        "  - {id: held, do: hold, pick: {size: 2097152}, when: {anchor: step, edge: exit}}\n"
        "  - {id: others, do: evict, pick: {size: 16777216, rank: \"7\"},\n"
        "     when: {anchor: step, edge: enter}, policy: cpu}\n"
        "  - {id: others-early, do: restore, of: others, when: {anchor: step, edge: enter}}\n";

/* As the capture has them; those for another rank are off. */
static void check_modes(const char *tail, const char *word, bool has_receipt, enum hint_mode evict,
        enum hint_mode release, enum hint_mode hold)
{
    const enum hint_mode wanted[] = {evict, evict, release, hold, HINT_OFF, HINT_OFF};
    struct read_capture *capture;

    kit_files(tail);
    kit_write(all_actions);
    if (word)
        REQUIRE(setenv("KEDGE_HINTS_MODE", word, 1) == 0);
    if (has_receipt)
        kit_allow_live();
    client_init();
    (void)kit_alloc(KIT_BYTES);
    capture = kit_read();
    REQUIRE_EQ(capture->rule_count, 6);
    for (size_t i = 0; i < 6; i++)
        CHECK_EQ(capture->rule[i].mode, wanted[i]);
    read_close(capture);
    kit_clean_up();
}

TEST(r87_without_a_receipt_what_evicts_in_live_is_in_shadow)
{
    check_modes("noreceipt", NULL, false, HINT_SHADOW, HINT_SHADOW, HINT_LIVE);
}

TEST(r87_with_a_receipt_evictions_are_live)
{
    check_modes("receipt", NULL, true, HINT_LIVE, HINT_LIVE, HINT_LIVE);
}

TEST(a_trial_evicts_and_holds_and_releases_nothing)
{
    check_modes("trial", "trial", false, HINT_POISON, HINT_SHADOW, HINT_TRAP);
}

TEST(the_mode_of_the_environment_is_that_of_evict_and_restore_too)
{
    check_modes("trap", "trap", false, HINT_TRAP, HINT_TRAP, HINT_TRAP);
}

/* How often the driver was asked for a physical handle: what may go out gets one when it is used first. */
static unsigned long creates_for(size_t bytes)
{
    unsigned long before = client_calls("cuMemCreate");

    CHECK_EQ(cu->cuMemsetD8_v2(kit_alloc(bytes), 1, bytes), CUDA_SUCCESS);
    return client_calls("cuMemCreate") - before;
}

static void stop_a_call(const char *tail, const char *fallback, bool goes_on)
{
    char text[400];
    CUdeviceptr ptr;

    kit_files(tail);
    (void)snprintf(text, sizeof text,
            "kedge-hints: 1\ndefaults: {mode: live%s}\nhints:\n"
            "  - {id: late, do: release, pick: {size: 8388608}, when: {anchor: PHASE, edge: "
            "exit}}\n"
            "  - {id: params, do: evict, pick: {size: 4194304}, when: {anchor: step, edge: "
            "enter}, cap: {device: 1GiB}}\n",
            fallback);
    kit_write(text);
    kit_allow_live();
    client_init();
    CHECK_EQ(creates_for(4 * MB), 1);
    KEDGE_PUSH("PHASE");
    ptr = kit_alloc(KIT_BYTES);
    KEDGE_POP();
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 1, KIT_BYTES), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQ(creates_for(4 * MB), goes_on ? 1 : 0); /* placed as any other block is */
    kit_clean_up();
}

TEST(with_fallback_nothing_more_is_placed_to_be_evicted)
{
    stop_a_call("fallback", ", fallback: yes", false);
}

TEST(without_fallback_evictions_go_on)
{
    stop_a_call("nofallback", "", true);
}
