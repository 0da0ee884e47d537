/* SPDX-License-Identifier: MIT */
/* covers: captotal.c */
/* Memory by class, from the writer through the file to the report's rows. */
#include "tests/unit/tracker/track_help.h"

#include "tools/report/sources.h"

#include <stddef.h>

#define MB UINT64_C(1048576)

/* What FORMAT.md says about the header's end. */
_Static_assert(offsetof(struct format_header, class_count) == 5040, "classes");
_Static_assert(offsetof(struct format_header, memclass) == 5048, "figures of classes");
_Static_assert(offsetof(struct format_header, look) == 5688, "looks");

static char path[TRACK_PATH_MAX];

static void begin(enum format_trace trace)
{
    struct capture_opts opts = {.trace = trace};

    track_path(path, track_scratch(), "classes.kcap");
    opts.file = path;
    REQUIRE_EQ(capture_init(&opts), 0);
}

static void make(enum memclass memclass, devptr_t ptr, uint64_t size, uint64_t seq)
{
    struct tag tag = track_tag(size);
    struct capture_alloc_info info = {.tag = &tag,
            .ptr = ptr,
            .seq = seq,
            .memclass = memclass,
            .native = memclass != MEMCLASS_POOLED,
            .rule = -1};

    REQUIRE_EQ(capture_alloc(&info), 0);
}

static void end(devptr_t ptr, uint64_t seq)
{
    struct capture_free_info info = {.ptr = ptr, .seq = seq, .device = -1, .native = true};

    REQUIRE_EQ(capture_free(&info), 0);
}

static void story(void)
{
    make(MEMCLASS_POOLED, 0x1000, 10 * MB, 1);
    make(MEMCLASS_HOST, 0x2000, 100 * MB, 2);
    make(MEMCLASS_ARRAY_GUESS, 0x3000, 3 * MB, 3);
    make(MEMCLASS_HOST, 0x4000, 50 * MB, 4);
    end(0x2000, 5);
    make(MEMCLASS_PITCHED, 0x5000, 7 * MB, 6);
    end(0x5000, 7);
    make(MEMCLASS_HOST, 0x2000, 1 * MB, 8);
}

static void check_rows(const struct sources_figures *rows)
{
    CHECK_EQ(rows[MEMCLASS_POOLED].live, 10 * MB);
    CHECK_EQ(rows[MEMCLASS_HOST].allocated, 151 * MB);
    CHECK_EQ(rows[MEMCLASS_HOST].allocated_count, 3);
    CHECK_EQ(rows[MEMCLASS_HOST].live, 51 * MB);
    CHECK_EQ(rows[MEMCLASS_HOST].live_count, 2);
    CHECK_EQ(rows[MEMCLASS_HOST].peak, 150 * MB);
    CHECK_EQ(rows[MEMCLASS_ARRAY_GUESS].live_count, 1);
    CHECK_EQ(rows[MEMCLASS_PITCHED].live, 0);
    CHECK_EQ(rows[MEMCLASS_PITCHED].peak, 7 * MB);
    CHECK_EQ(rows[MEMCLASS_DRIVER].allocated_count, 0);
}

static void figure(const struct load *load, struct model_window window, struct sources *ret)
{
    struct symbols *symbols = symbols_new(load->trace);

    sources_figure(load, window, symbols, ret);
    symbols_free(symbols);
}

TEST(what_is_no_device_memory_is_in_its_row_and_in_no_figure)
{
    struct sources sources;
    struct model_figures figures;
    struct load load;

    begin(FORMAT_TRACE_FULL);
    story();
    REQUIRE_EQ(load_open(path, &load), 0);
    figure(&load, model_whole(load.trace), &sources);
    check_rows(sources.classes);
    sources_done(&sources);
    model_figure(load.trace, model_whole(load.trace), NULL, &figures);
    CHECK_EQ(figures.allocated_count, 3);
    CHECK_EQ(figures.max, 20 * MB);
    CHECK_EQ(figures.remaining, 13 * MB);
    CHECK_EQ(load.capture->total.peak_bytes, 20 * MB);
    CHECK_EQ(load.capture->total.live_bytes, 13 * MB);
    CHECK_EQ(load.trace->block_count, 3);
    CHECK_EQ(load.other_count, 3);
    CHECK_EQ(load.capture->lost.unknown_frees, 0);
    load_close(&load);
}

/* Without a log the writer's own figures are the rows. */
TEST(without_events_the_rows_are_the_writers)
{
    struct sources sources;
    struct load load;

    begin(FORMAT_TRACE_AGG);
    story();
    REQUIRE_EQ(load_open(path, &load), 0);
    figure(&load, model_whole(load.trace), &sources);
    check_rows(sources.classes);
    sources_done(&sources);
    CHECK_EQ(load.capture->live_count, 2);
    CHECK_EQ(load.capture->other_count, 2);
    load_close(&load);
}

/* A free whose allocation is still on its way does not say what it frees. */
TEST(a_late_allocation_ends_in_its_own_class)
{
    struct read_capture *capture;

    begin(FORMAT_TRACE_FULL);
    make(MEMCLASS_POOLED, 0x1000, 10 * MB, 1);
    end(0x2000, 3);
    make(MEMCLASS_REGISTERED, 0x2000, 100 * MB, 2);
    REQUIRE_EQ(read_open_parts(path, READ_ALL, &capture, NULL), 0);
    CHECK_EQ(capture->class_total[MEMCLASS_REGISTERED].allocated_count, 1);
    CHECK_EQ(capture->class_total[MEMCLASS_REGISTERED].live_bytes, 0);
    CHECK_EQ(capture->class_total[MEMCLASS_REGISTERED].live_count, 0);
    CHECK_EQ(capture->total.allocated_count, 1);
    CHECK_EQ(capture->total.freed_count, 0);
    CHECK_EQ(capture->lost.unknown_frees, 0);
    read_close(capture);
}

TEST(only_what_was_allocated_in_the_window_is_in_the_rows)
{
    struct sources sources;
    struct model_window window;
    struct load load;

    begin(FORMAT_TRACE_FULL);
    story();
    REQUIRE_EQ(load_open(path, &load), 0);
    window = (struct model_window){.first = 3, .last = (uint32_t)load.trace->event_count};
    figure(&load, window, &sources);
    CHECK_EQ(sources.classes[MEMCLASS_POOLED].allocated_count, 0);
    CHECK_EQ(sources.classes[MEMCLASS_HOST].allocated, 51 * MB);
    CHECK_EQ(sources.classes[MEMCLASS_HOST].peak, 51 * MB);
    sources_done(&sources);
    load_close(&load);
}

TEST(overhead_is_what_is_left_over)
{
    struct capture_look_info info = {
            .device = 0, .total_bytes = 1000 * MB, .free_bytes = 600 * MB, .held_bytes = 200 * MB};
    struct read_capture *capture;
    struct sources_overhead overhead;

    CHECK(!sources_overhead(&(struct format_look){.looks = 0}).is_known);
    begin(FORMAT_TRACE_FULL);
    make(MEMCLASS_DRIVER, 0x1000, 30 * MB, 1);
    make(MEMCLASS_MANAGED, 0x2000, 500 * MB, 2); /* perhaps on the host: not taken off */
    make(MEMCLASS_HOST, 0x3000, 70 * MB, 3);
    info.graph_reserved = 20 * MB;
    info.graph_high = 60 * MB;
    REQUIRE_EQ(capture_look(&info), 0);
    make(MEMCLASS_VMM, 0x4000, 100 * MB, 4); /* after the look: not in it */
    REQUIRE_EQ(read_open_parts(path, READ_ALL, &capture, NULL), 0);
    CHECK_EQ(capture->look[0].native_bytes, 30 * MB);
    overhead = sources_overhead(&capture->look[0]);
    CHECK(overhead.is_known && !overhead.is_short);
    CHECK_EQ(overhead.bytes, (1000 - 600 - 200 - 30 - 20) * MB);
    read_close(capture);
    info.held_bytes = 900 * MB;
    REQUIRE_EQ(capture_look(&info), 0);
    REQUIRE_EQ(read_open_parts(path, READ_ALL, &capture, NULL), 0);
    CHECK(sources_overhead(&capture->look[0]).is_short);
    CHECK_EQ(capture->look[0].looks, 2);
    read_close(capture);
}
