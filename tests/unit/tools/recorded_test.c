/* SPDX-License-Identifier: MIT */
#include "tests/check.h"

#include "tools/recorded.h"
#include "tools/trace.h"

#define STREAM 7

struct kind {
    int device;
    bool native, stream;
    uint64_t on;
    enum memclass memclass;
};

static const struct kind plain = {.stream = true, .on = STREAM};

static uint32_t birth(struct trace *trace, uint64_t address, uint64_t size, struct kind kind)
{
    uint32_t id = trace_add_alloc(trace,
            &(struct trace_block){.address = address,
                    .size = size,
                    .site = address * 10,
                    .rule = -1,
                    .device = (int16_t)kind.device,
                    .memclass = kind.memclass,
                    .native = kind.native,
                    .stream = kind.stream});
    trace_set_stream(trace, kind.on, kind.stream);
    return id;
}

static void death(struct trace *trace, uint64_t address)
{
    (void)trace_add_free(trace, address, 0);
}

static void expect_left(struct trace_sum left, uint64_t count, uint64_t bytes)
{
    CHECK_EQ(left.count, count);
    CHECK_EQ(left.bytes, bytes);
}

/* Addresses 1 to 9 are one of each kind, all freed in the window but 1 (before) and 2 (after). */
static struct trace *make_trace(struct model_window *ret_window)
{
    struct trace *trace = trace_new();
    uint32_t anchor = trace_add_anchor(trace, "a", TRACE_NONE);

    /* Gone before it, and born behind it: not of this window at all. */
    (void)birth(trace, 11, 1100, plain);
    death(trace, 11);
    (void)birth(trace, 1, 100, plain);
    ret_window->first = (uint32_t)trace->event_count;
    trace_add_edge(trace, TRACE_ENTER, anchor, 0);
    (void)birth(trace, 2, 200, plain);
    (void)birth(trace, 3, 300,
            (struct kind){
                    .native = true, .stream = true, .on = STREAM, .memclass = MEMCLASS_DRIVER});
    trace->blocks[birth(trace, 4, 400, plain)].shared = true;
    (void)birth(trace, 5, 500, plain);
    (void)trace_add_release(trace, 5, anchor, 0, HINT_LIVE);
    (void)birth(trace, 6, 600, (struct kind){.device = 1, .stream = true, .on = STREAM});
    (void)birth(trace, 7, 700, (struct kind){.stream = false});
    (void)birth(trace, 8, 800, (struct kind){.stream = true, .on = STREAM + 1});
    (void)birth(trace, 9, 900, plain);
    (void)birth(trace, 10, 1, plain);
    for (uint64_t address = 10; address > 2; address--)
        death(trace, address);
    death(trace, 1);
    trace_add_edge(trace, TRACE_EXIT, anchor, 0);
    ret_window->last = (uint32_t)trace->event_count;
    (void)birth(trace, 12, 1200, plain);
    death(trace, 2);
    return trace;
}

TEST(the_device_is_the_one_with_most_bytes)
{
    struct model_window window;
    struct trace *trace = make_trace(&window);
    struct recorded r;
    (void)birth(trace, 20, 5000, (struct kind){.device = 1, .stream = false});
    death(trace, 20);
    recorded_from_trace(trace,
            (struct model_window){.first = window.first, .last = (uint32_t)trace->event_count}, &r);
    REQUIRE_EQ(r.count, 2);
    CHECK_EQ(r.spans[0].size, 1024);
    CHECK_EQ(r.spans[1].size, 5120);
    expect_left(r.native, 1, 300);
    expect_left(r.other_device, 9, 100 + 200 + 400 + 500 + 700 + 800 + 900 + 1 + 1200);
    recorded_done(&r);
    trace_free(trace);
}

TEST(a_window_has_all_blocks_of_the_device)
{
    struct model_window window;
    struct trace *trace = make_trace(&window);
    struct recorded r;
    recorded_from_trace(trace, window, &r);
    REQUIRE_EQ(r.count, 8);
    /* Alive from before, and until after: as long as the window and no longer. */
    CHECK_EQ(r.spans[0].begin, 0);
    CHECK_LT(r.spans[0].end, r.spans[1].end);
    CHECK_EQ(r.spans[1].end, window.last - window.first + 1);
    expect_left(r.native, 1, 300);
    expect_left(r.other_device, 1, 600);
    recorded_done(&r);
    trace_free(trace);
}

TEST(of_a_run_that_was_only_tracked_the_drivers_blocks_are_taken)
{
    struct trace *trace = trace_new();
    struct recorded r;
    (void)birth(trace, 1, 100, (struct kind){.native = true, .memclass = MEMCLASS_DRIVER});
    (void)birth(trace, 2, 200, (struct kind){.native = true, .memclass = MEMCLASS_MANAGED});
    death(trace, 2);
    death(trace, 1);
    recorded_from_trace(trace, model_whole(trace), &r);
    REQUIRE_EQ(r.count, 1);
    CHECK_EQ(r.spans[0].size, 512);
    expect_left(r.native, 1, 200);
    recorded_done(&r);
    trace_free(trace);
}

TEST(a_window_without_blocks_is_no_fault)
{
    struct trace *trace = trace_new();
    struct recorded r;
    recorded_from_trace(trace, model_whole(trace), &r);
    CHECK_EQ(r.count, 0);
    recorded_done(&r);
    trace_free(trace);
}
