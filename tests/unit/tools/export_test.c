/* SPDX-License-Identifier: MIT */
/* What the exports stand on: names, phases, and the ranges that blocks are placed in. */
#include "tests/check.h"
#include "tools/export_names.h"
#include "tools/export_ranges.h"
#include "tools/exporter.h"

#include <stdlib.h>
#include <string.h>

#define MB   (UINT64_C(1) << 20)
#define BASE UINT64_C(0x7f0000000000)

static uint32_t born(struct trace *trace, uint64_t address, uint64_t size, int device)
{
    return trace_add_alloc(trace,
            &(struct trace_block){
                    .address = address, .size = size, .device = (int16_t)device, .rule = -1});
}

/* Places all blocks; the caller ends both. */
static bool placed(const struct trace *trace, struct export_ranges *ret)
{
    bool has[16];

    REQUIRE(trace->block_count <= 16);
    memset(has, true, sizeof(has));
    return export_ranges_find(trace, has, ret);
}

TEST(blocks_without_a_gap_between_them_are_in_one_range)
{
    struct trace *trace = trace_new();
    struct export_ranges ranges;

    (void)born(trace, BASE + 512, MB, 0);
    (void)born(trace, BASE + 5 * MB, 3 * MB, 0); /* in the third granule, the one between is free */
    (void)born(trace, BASE + 2 * MB, MB, 0);     /* the one between */
    (void)born(trace, BASE + 64 * MB, MB, 0);
    (void)born(trace, BASE + MB, 4 * MB, 1); /* the same addresses on another device */
    CHECK(placed(trace, &ranges));
    REQUIRE(ranges.count == 3);
    CHECK_EQ(ranges.ranges[0].address, BASE);
    CHECK_EQ(ranges.ranges[0].size, 8 * MB);
    CHECK_EQ(ranges.ranges[1].address, BASE + 64 * MB);
    CHECK_EQ(ranges.ranges[2].device, 1u);
    CHECK_EQ(ranges.ranges[2].size, 6 * MB);
    REQUIRE(ranges.live_count == 5);
    CHECK_EQ(ranges.live[0], 0u);
    CHECK_EQ(ranges.live[1], 2u);
    CHECK_EQ(ranges.live[2], 1u);
    CHECK_EQ(ranges.address[1], BASE + 5 * MB);
    export_ranges_done(&ranges);
    trace_free(trace);
}

TEST(a_handle_has_one_place_for_all_of_its_blocks)
{
    const uint64_t handle = UINT64_C(5) << 56 | 7;
    struct trace *trace = trace_new();
    struct export_ranges ranges;

    (void)born(trace, handle, 3 * MB, 0);
    (void)trace_add_free(trace, handle, 0);
    (void)born(trace, handle, 5 * MB, 0);
    (void)born(trace, handle + 1, MB, 0); /* another handle, which is not beside it */
    (void)born(trace, BASE, MB, 0);
    CHECK(placed(trace, &ranges));
    CHECK_EQ(ranges.address[0], ranges.address[1]);
    CHECK(ranges.address[2] >= ranges.address[1] + 5 * MB);
    REQUIRE(ranges.count == 3);
    CHECK_EQ(ranges.ranges[0].address, BASE);
    CHECK_EQ(ranges.ranges[1].size, 6 * MB);
    export_ranges_done(&ranges);
    trace_free(trace);
}

TEST(a_block_over_another_live_one_is_put_elsewhere)
{
    struct trace *trace = trace_new();
    struct export_ranges ranges;

    (void)born(trace, BASE, 4 * MB, 0); /* its free was lost */
    (void)born(trace, BASE + MB, MB, 0);
    (void)born(trace, BASE + 4 * MB, MB, 0);
    CHECK(placed(trace, &ranges));
    CHECK_EQ(ranges.address[0], BASE);
    CHECK(ranges.address[1] >= UINT64_C(1) << 48);
    CHECK_EQ(ranges.address[2], BASE + 4 * MB);
    REQUIRE(ranges.count == 2);
    CHECK_EQ(ranges.live[2], 1u); /* by the address that it has now */
    export_ranges_done(&ranges);
    trace_free(trace);
}

TEST(what_needs_too_many_addresses_is_refused)
{
    struct trace *trace = trace_new();
    struct export_ranges ranges;

    (void)born(trace, UINT64_C(5) << 56, UINT64_MAX - 4096, 0);
    CHECK(!placed(trace, &ranges));
    export_ranges_done(&ranges);
    trace_free(trace);
    trace = trace_new();
    for (unsigned i = 0; i < 3; i++)
        (void)born(trace, UINT64_C(5) << 56 | i, UINT64_C(1) << 52, 0);
    CHECK(!placed(trace, &ranges));
    export_ranges_done(&ranges);
    trace_free(trace);
}

TEST(devices_that_are_not_known_are_the_first)
{
    CHECK_EQ(export_ranges_device(-1), 0u);
    CHECK_EQ(export_ranges_device(3), 3u);
    CHECK_EQ(export_ranges_device(INT32_MAX), 1023u);
}

TEST(calls_are_numbered_by_function_file_and_line)
{
    struct export_names names = {0};
    struct symbols_line line = {.function = "step", .file = "a.py", .line = 3, .module = ""};
    bool is_new;

    CHECK_EQ(export_names_call(&names, &line, &is_new), 0u);
    CHECK(is_new);
    CHECK_EQ(export_names_call(&names, &line, &is_new), 0u);
    CHECK(!is_new);
    line.line = 4;
    CHECK_EQ(export_names_call(&names, &line, &is_new), 1u);
    line.function = "a.py";
    line.file = "step";
    CHECK_EQ(export_names_call(&names, &line, &is_new), 2u);
    CHECK(is_new);
    line.function = line.file = "same";
    CHECK_EQ(export_names_call(&names, &line, &is_new), 3u);
    line.function = line.file = "twin"; /* equal texts do not cancel each other out */
    CHECK_EQ(export_names_call(&names, &line, &is_new), 4u);
    export_names_done(&names);
}

static void check_text(const char *from, const char *wanted)
{
    char *text = export_names_utf8(from);

    CHECK_STR_EQ(text, wanted);
    free(text);
}

TEST(what_is_no_text_is_replaced)
{
    check_text("caf\xc3\xa9", "caf\xc3\xa9");
    check_text("\xff"
               "a\xc3",
            "\xef\xbf\xbd"
            "a\xef\xbf\xbd");
    check_text("\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); /* a surrogate */
    check_text("", "");
}

static void check_phase(const char *path, const char *wanted)
{
    char *phase = exporter_phase(path);

    CHECK_STR_EQ(phase, wanted);
    free(phase);
}

TEST(phases_differ_in_more_than_digits)
{
    check_phase("step 12/layer_3/attention", "step #/layer_#/attention");
    check_phase("007", "#");
    check_phase("", "");
}
