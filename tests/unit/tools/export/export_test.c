/* SPDX-License-Identifier: MIT */
/* covers: export_names.c export_ranges.c export_segments.c exporter.c */
/* What the exports stand on: names, phases, and the ranges that blocks are placed in. */
#include "tests/check.h"
#include "tools/export/export_names.h"
#include "tools/export/export_segments.h"
#include "tools/export/exporter.h"
#include "tools/trace/stated_steps.h"

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
    CHECK(export_ranges_find(trace, &ranges));
    CHECK_EQ(ranges.address[0], ranges.address[1]);
    CHECK(ranges.address[2] >= ranges.address[1] + 5 * MB);
    REQUIRE_EQ(ranges.count, 4);
    CHECK_EQ(ranges.order[0], 3u);
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
    CHECK(export_ranges_find(trace, &ranges));
    CHECK_EQ(ranges.address[0], BASE);
    CHECK(ranges.address[1] >= UINT64_C(1) << 48);
    CHECK_EQ(ranges.address[2], BASE + 4 * MB);
    CHECK_EQ(ranges.order[2], 1u); /* by the address that it has now */
    export_ranges_done(&ranges);
    trace_free(trace);
}

TEST(what_needs_too_many_addresses_is_refused)
{
    struct trace *trace = trace_new();
    struct export_ranges ranges;

    (void)born(trace, UINT64_C(5) << 56, UINT64_MAX - 4096, 0);
    CHECK(!export_ranges_find(trace, &ranges));
    export_ranges_done(&ranges);
    trace_free(trace);
    trace = trace_new();
    for (unsigned i = 0; i < 3; i++)
        (void)born(trace, UINT64_C(5) << 56 | i, UINT64_C(1) << 52, 0);
    CHECK(!export_ranges_find(trace, &ranges));
    export_ranges_done(&ranges);
    trace_free(trace);
}

/* ---- segments ---- */

/* A snapshot's segments, played as the steps tell it. */
struct play {
    struct export_ranges ranges;
    struct export_segments segments;
    struct load load;
    size_t next;
    struct export_segment now[256];
    size_t count;
    uint64_t most;
};

static void play_begin(struct play *play, struct trace *trace)
{
    *play = (struct play){.load = {.trace = trace}};
    REQUIRE(export_ranges_find(trace, &play->ranges));
    REQUIRE(export_segments_find(&play->load, &play->ranges, &play->segments));
}

static void play_end(struct play *play)
{
    export_segments_done(&play->segments);
    export_ranges_done(&play->ranges);
    trace_free(play->load.trace);
}

static uint64_t play_sum(const struct play *play, bool is_native)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < play->count; i++)
        sum += play->now[i].is_native == is_native ? play->now[i].size : 0;
    return sum;
}

static void play_step(struct play *play, const struct export_segment_step *step)
{
    size_t i = 0;

    if (step->comes) {
        REQUIRE(play->count < 256);
        for (size_t k = 0; k < play->count; k++)
            REQUIRE(play->now[k].address + play->now[k].size <= step->segment.address
                    || step->segment.address + step->segment.size <= play->now[k].address);
        play->now[play->count++] = step->segment;
    } else {
        while (i < play->count && play->now[i].address != step->segment.address)
            i++;
        REQUIRE(i < play->count);
        REQUIRE_EQ(play->now[i].size, step->segment.size);
        play->now[i] = play->now[--play->count];
    }
    play->most = max_of(play->most, play_sum(play, false));
}

/* All steps up to the one of this event, and after it. */
static void play_to(struct play *play, uint32_t at, bool is_after)
{
    for (; play->next < play->segments.step_count; play->next++) {
        const struct export_segment_step *step = &play->segments.steps[play->next];
        if (step->at > at || (step->at == at && step->is_after && !is_after))
            return;
        play_step(play, step);
    }
}

static bool play_holds(const struct play *play, uint64_t address)
{
    for (size_t i = 0; i < play->count; i++)
        if (play->now[i].address <= address && address < play->now[i].address + play->now[i].size)
            return true;
    return false;
}

TEST(growth_is_one_segment_where_the_first_block_needs_it)
{
    struct trace *trace = trace_new();
    struct play play;

    trace_add_reserved(trace, 0, 8 * MB);
    (void)born(trace, BASE, MB, 0);
    (void)born(trace, BASE + 3 * MB, MB, 0);
    play_begin(&play, trace);
    REQUIRE_EQ(play.segments.step_count, 1);
    CHECK_EQ(play.segments.steps[0].at, 1);
    REQUIRE_EQ(play.segments.devices[0].count, 1);
    CHECK_EQ(play.segments.devices[0].segments[0].address, BASE);
    CHECK_EQ(play.segments.devices[0].segments[0].size, 8 * MB);
    CHECK_EQ(play.segments.over, 0);
    play_end(&play);
}

/* The record tells of growth behind the block that it was made for. */
TEST(growth_that_is_told_late_is_there_in_time)
{
    struct trace *trace = trace_new();
    struct play play;

    (void)born(trace, BASE, MB, 0);
    (void)born(trace, BASE + MB, MB, 0);
    trace_add_reserved(trace, 0, 2 * MB);
    (void)born(trace, BASE + 2 * MB, MB, 0);
    trace_add_reserved(trace, 0, 4 * MB);
    play_begin(&play, trace);
    play_to(&play, 0, true);
    CHECK_EQ(play_sum(&play, false), 2 * MB);
    play_to(&play, 5, true);
    CHECK_EQ(play_sum(&play, false), 4 * MB);
    CHECK_EQ(play.segments.over, 0);
    play_end(&play);
}

TEST(growth_that_is_given_back_at_once_is_shown)
{
    struct trace *trace = trace_new();
    struct play play;

    trace_add_reserved(trace, 0, 2 * MB);
    (void)born(trace, BASE, MB, 0);
    trace_add_reserved(trace, 0, 34 * MB);
    trace_add_reserved(trace, 0, 2 * MB);
    (void)born(trace, BASE + MB, MB, 0);
    play_begin(&play, trace);
    play_to(&play, 5, true);
    CHECK_EQ(play.most, 34 * MB);
    CHECK_EQ(play_sum(&play, false), 2 * MB);
    CHECK_EQ(play.segments.devices[0].segments[0].size, 2 * MB);
    play_end(&play);
}

TEST(what_the_driver_serves_is_a_segment_for_each_block)
{
    struct trace *trace = trace_new();
    struct play play;
    struct trace_block native = {
            .address = BASE + 4 * MB, .size = 1000, .native = true, .rule = -1};

    trace_add_reserved(trace, 0, 8 * MB);
    (void)born(
            trace, BASE, MB, 0); /* the segment seems to reach to where the driver puts its own */
    (void)trace_add_alloc(trace, &native);
    (void)trace_add_free(trace, native.address, 0);
    play_begin(&play, trace);
    play_to(&play, 2, true);
    CHECK_EQ(play_sum(&play, false), 8 * MB);
    CHECK_EQ(play_sum(&play, true), 1000);
    play_to(&play, 3, false);
    CHECK_EQ(play_sum(&play, true), 1000); /* until its block is gone */
    play_to(&play, 3, true);
    CHECK_EQ(play_sum(&play, true), 0);
    CHECK_EQ(play_sum(&play, false), 8 * MB);
    play_end(&play);
}

/* A live hint released it: what is held is less than what lives. */
TEST(of_a_block_whose_storage_has_gone_the_first_bytes_stay)
{
    struct trace *trace = trace_new();
    struct play play;

    trace_add_reserved(trace, 0, 12 * MB);
    (void)born(trace, BASE, 8 * MB, 0);
    (void)born(trace, BASE + 8 * MB, 4 * MB, 0);
    (void)trace_add_release(trace, BASE, 0, 0, HINT_LIVE);
    trace_add_reserved(trace, 0, 5 * MB);
    play_begin(&play, trace);
    play_to(&play, 4, true);
    CHECK_EQ(play_sum(&play, false), 5 * MB);
    CHECK(play_holds(&play, BASE) && play_holds(&play, BASE + 8 * MB));
    CHECK_EQ(play.segments.over, 0);
    play_end(&play);
}

TEST(a_record_that_says_nothing_of_what_is_held_has_segments_for_its_blocks)
{
    struct trace *trace = trace_new();
    struct play play;

    (void)born(trace, BASE, 3 * MB, 0);
    (void)born(trace, BASE + 3 * MB, MB, 0);
    play_begin(&play, trace);
    CHECK(!play.segments.is_known);
    REQUIRE_EQ(play.segments.devices[0].count, 1);
    CHECK_EQ(play.segments.devices[0].segments[0].size, 4 * MB);
    play_end(&play);
}

/*
 * A pool of chunks, as one might be: blocks at random places in them, chunks come and go, whole or
 * from their ends.
 */
struct chunks {
    struct {
        uint64_t address, size;
        bool is_used[16]; /* by MB */
    } chunk[16];
    size_t count;
    uint64_t next, held;
    unsigned seed;
};

static unsigned chance(struct chunks *chunks, unsigned of)
{
    chunks->seed = chunks->seed * 1103515245u + 12345u;
    return chunks->seed / 65536u % of;
}

static void chunk_comes(struct chunks *chunks, struct trace *trace)
{
    if (chunks->count == 16)
        return;
    uint64_t size = (1 + chance(chunks, 16)) * MB;
    memset(&chunks->chunk[chunks->count], 0, sizeof(chunks->chunk[0]));
    chunks->chunk[chunks->count].address = chunks->next;
    chunks->chunk[chunks->count++].size = size;
    chunks->next += size + chance(chunks, 2) * 2 * MB;
    chunks->held += size;
    trace_add_reserved(trace, 0, chunks->held);
}

static void chunk_goes(struct chunks *chunks, struct trace *trace)
{
    size_t i = chunks->count ? chance(chunks, (unsigned)chunks->count) : 0;

    if (chunks->count == 0)
        return;
    for (unsigned k = 0; k < 16; k++)
        if (chunks->chunk[i].is_used[k])
            return;
    chunks->held -= chunks->chunk[i].size;
    chunks->chunk[i] = chunks->chunk[--chunks->count];
    trace_add_reserved(trace, 0, chunks->held);
}

static void block_changes(struct chunks *chunks, struct trace *trace)
{
    if (chunks->count == 0)
        return;
    size_t i = chance(chunks, (unsigned)chunks->count);
    unsigned k = chance(chunks, (unsigned)(chunks->chunk[i].size / MB));
    uint64_t address = chunks->chunk[i].address + k * MB;

    if (chunks->chunk[i].is_used[k])
        (void)trace_add_free(trace, address, 0);
    else
        (void)born(trace, address, MB - chance(chunks, 2) * 4000, 0);
    chunks->chunk[i].is_used[k] = !chunks->chunk[i].is_used[k];
}

static void check_played(struct trace *trace)
{
    struct play play;
    uint64_t held = 0;

    play_begin(&play, trace);
    for (uint32_t at = 0; at < trace->event_count; at++) {
        const struct trace_event *event = &trace->events[at];

        play_to(&play, at, false);
        if (event->kind == TRACE_RESERVED) {
            held = trace_value(trace, event);
            continue;
        }
        CHECK_EQ(play_sum(&play, false), held);
        for (size_t i = 0; i < trace->block_count; i++)
            if (trace->blocks[i].born <= at && trace->blocks[i].died > at)
                REQUIRE(play_holds(&play, trace->blocks[i].address));
    }
    play_to(&play, (uint32_t)trace->event_count, true);
    CHECK_EQ(play_sum(&play, false), held);
    CHECK_EQ(play.segments.over, 0);
    play_end(&play);
}

TEST(segments_are_what_was_held_at_every_moment)
{
    for (unsigned seed = 1; seed <= 60; seed++) {
        struct chunks chunks = {.next = BASE, .seed = seed};
        struct trace *trace = trace_new();

        for (unsigned i = 0; i < 300; i++) {
            unsigned what = chance(&chunks, 20);
            if (what == 0)
                chunk_comes(&chunks, trace);
            else if (what < 3)
                chunk_goes(&chunks, trace);
            else
                block_changes(&chunks, trace);
        }
        check_played(trace);
    }
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
    char *phase = stated_steps_fold(path);

    CHECK_STR_EQ(phase, wanted);
    free(phase);
}

TEST(phases_differ_in_more_than_digits)
{
    check_phase("step 12/layer_3/attention", "step #/layer_#/attention");
    check_phase("007", "#");
    check_phase("", "");
}
