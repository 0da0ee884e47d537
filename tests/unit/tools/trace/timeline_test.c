/* SPDX-License-Identifier: MIT */
/* covers: timeline.c */
#include "tests/check.h"

#include "tests/unit/tools/story.h"
#include "tools/trace/timeline.h"

#define BINS 8

/* The last event's time; all that came before it and have none keep none. */
static void story_time(struct story *story, uint64_t time_ns)
{
    story->trace->events[story->trace->event_count - 1].time_ns = time_ns;
}

static uint32_t alloc_at(struct story *story, uint64_t size, uint64_t time_ns)
{
    uint32_t block = story_alloc(story, 1, size);

    story_time(story, time_ns);
    return block;
}

static void free_at(struct story *story, uint32_t block, uint64_t time_ns)
{
    story_free(story, block);
    story_time(story, time_ns);
}

static void reserve_at(struct story *story, uint64_t bytes, uint64_t time_ns)
{
    trace_add_reserved(story->trace, 0, bytes);
    story_time(story, time_ns);
}

static struct timeline_job whole(const struct story *story, size_t bins)
{
    return (struct timeline_job){
            .trace = story->trace, .window = model_whole(story->trace), .bins = bins};
}

/* What must hold of every timeline: bins follow one another, parts add up, no bin is above the peak and one is at it. */
static void check_sound(const struct timeline_job *job, const struct timeline *timeline)
{
    uint64_t live = 0;
    uint64_t reserved = 0;
    uint32_t next = job->window.first;

    CHECK(timeline->bin_count <= job->bins);
    for (size_t bin = 0; bin < timeline->bin_count; bin++) {
        const struct timeline_bin *of = &timeline->bins[bin];
        uint64_t sum = 0;

        for (size_t i = 0; i <= timeline->top_count; i++)
            sum += timeline_part(timeline, bin, i);
        CHECK_EQ(sum, of->live);
        CHECK_EQ(of->first, next);
        next = of->behind;
        live = of->live > live ? of->live : live;
        reserved = of->reserved > reserved ? of->reserved : reserved;
        for (uint32_t at = of->first; at < of->behind; at++)
            CHECK_EQ(timeline_bin_of(timeline, at), bin);
    }
    CHECK_EQ(next, job->window.last);
    CHECK_EQ(live, timeline->live.bytes);
    CHECK_EQ(reserved, timeline->reserved.bytes);
}

TEST(bins_have_the_most_that_was_live_and_reserved_in_them)
{
    struct story s = story_begin();
    reserve_at(&s, 4096, 1000);
    uint32_t a = alloc_at(&s, 100, 1000);
    uint32_t b = alloc_at(&s, 50, 1010);
    free_at(&s, b, 1015);
    free_at(&s, a, 1120);
    (void)alloc_at(&s, 30, 1159);
    struct timeline_job job = whole(&s, 4);
    struct timeline t = timeline_make(&job);

    REQUIRE_EQ(t.bin_count, 4);
    CHECK_EQ(t.axis, TIMELINE_BY_TIME);
    CHECK_EQ(t.begin, 1000);
    CHECK_EQ(t.width, 40);
    CHECK_EQ(t.bins[0].live, 150);
    CHECK_EQ(t.bins[1].live, 100); /* no event: carried */
    CHECK_EQ(t.bins[2].live, 100);
    CHECK_EQ(t.bins[3].live, 100); /* it begins with them */
    CHECK_EQ(t.bins[3].reserved, 4096);
    CHECK_EQ(t.bins[1].behind - t.bins[1].first, 0);
    check_sound(&job, &t);
    timeline_done(&t);
    story_end(&s);
}

TEST(the_peaks_are_those_of_the_figures_to_the_event)
{
    struct story s = story_begin();
    uint32_t blocks[64];
    struct model_figures figures;

    for (uint32_t i = 0; i < 64; i++) {
        blocks[i] = alloc_at(&s, 1000 + i * 7919 % 640, i + 1);
        reserve_at(&s, (i / 4 + 1) * 8192, i + 1);
        if (i % 3 == 2)
            free_at(&s, blocks[i - 1], i + 1);
    }
    free_at(&s, blocks[0], 65);
    reserve_at(&s, 4096, 66);
    for (size_t bins = 1; bins < 200; bins += 13) {
        struct timeline_job job = whole(&s, bins);
        struct timeline t = timeline_make(&job);
        model_figure(s.trace, job.window, NULL, &figures);
        CHECK_EQ(t.live.bytes, figures.peak_live);
        CHECK_EQ(t.live.at, figures.max_at);
        CHECK_EQ(t.reserved.bytes, figures.peak_reserved);
        check_sound(&job, &t);
        timeline_done(&t);
    }
    story_end(&s);
}

TEST(a_window_counts_blocks_from_before_it)
{
    struct story s = story_begin();
    (void)alloc_at(&s, 500, 10);
    uint32_t early = alloc_at(&s, 400, 20);
    uint32_t first = (uint32_t)s.trace->event_count;
    free_at(&s, early, 30);
    (void)alloc_at(&s, 100, 40);
    struct timeline_job job = whole(&s, BINS);
    job.window.first = first;
    struct timeline t = timeline_make(&job);

    CHECK_EQ(t.begin, 30);
    CHECK_EQ(t.live.bytes, 900); /* as the window begins */
    CHECK_EQ(t.live.at, TRACE_NEVER);
    CHECK_EQ(t.bins[t.bin_count - 1].live, 600);
    check_sound(&job, &t);
    timeline_done(&t);
    story_end(&s);
}

TEST(the_largest_keys_are_named_and_the_rest_is_one)
{
    /* key 0 holds 100 always, key 1 at most 70 and nothing at the peak, key 2 at most 300, key 3 and 4 little */
    const uint64_t sizes[] = {100, 70, 300, 10, 5};
    const uint32_t keys[] = {0, 1, 2, 3, 4};
    struct story s = story_begin();

    (void)alloc_at(&s, sizes[0], 1);
    free_at(&s, alloc_at(&s, sizes[1], 2), 3);
    for (unsigned i = 2; i < 5; i++)
        (void)alloc_at(&s, sizes[i], i + 2);
    struct timeline_job job = whole(&s, 100);
    job.keys = keys;
    job.key_count = 5;
    job.top = 3;
    struct timeline t = timeline_make(&job);

    REQUIRE_EQ(t.top_count, 3);
    CHECK_EQ(t.tops[0], 2);
    CHECK_EQ(t.tops[1], 0);
    CHECK_EQ(t.tops[2], 1);
    REQUIRE_EQ(t.bin_count, 6);
    CHECK_EQ(timeline_part(&t, 1, 2), 70);
    CHECK_EQ(timeline_part(&t, 5, 0), 300);
    CHECK_EQ(timeline_part(&t, 5, 2), 0);
    CHECK_EQ(timeline_part(&t, 5, 3), 15);
    check_sound(&job, &t);
    timeline_done(&t);

    job.top = 100; /* more than there are: all have their own, and the rest is nothing */
    t = timeline_make(&job);
    CHECK_EQ(t.top_count, 5);
    CHECK_EQ(timeline_part(&t, 5, 5), 0);
    check_sound(&job, &t);
    timeline_done(&t);
    story_end(&s);
}

TEST(blocks_without_a_key_are_of_the_rest)
{
    const uint32_t keys[] = {TRACE_NONE, 0, 1};
    struct story s = story_begin();
    for (unsigned i = 0; i < 3; i++)
        (void)alloc_at(&s, 1000 >> i, i + 1);
    struct timeline_job job = whole(&s, 10);
    job.keys = keys;
    job.key_count = 1;
    job.top = 5;
    struct timeline t = timeline_make(&job);

    REQUIRE_EQ(t.top_count, 1);
    CHECK_EQ(timeline_part(&t, 2, 0), 500);
    CHECK_EQ(timeline_part(&t, 2, 1), 1250);
    check_sound(&job, &t);
    timeline_done(&t);
    story_end(&s);
}

TEST(parts_are_those_of_the_moment_when_most_was_live_in_the_bin)
{
    const uint32_t keys[] = {0, 1};
    struct story s = story_begin();
    uint32_t a = alloc_at(&s, 100, 1);
    free_at(&s, a, 2);
    (void)alloc_at(&s, 90, 3); /* key 1 never lives beside key 0 */
    struct timeline_job job = whole(&s, 1);
    job.keys = keys;
    job.key_count = 2;
    job.top = 2;
    struct timeline t = timeline_make(&job);

    CHECK_EQ(t.bins[0].live, 100);
    CHECK_EQ(timeline_part(&t, 0, 0), 100);
    CHECK_EQ(timeline_part(&t, 0, 1), 0);
    check_sound(&job, &t);
    timeline_done(&t);
    story_end(&s);
}

TEST(a_run_without_events_has_no_bins)
{
    struct story s = story_begin();
    struct timeline_job job = whole(&s, BINS);
    struct timeline t = timeline_make(&job);

    CHECK_EQ(t.bin_count, 0);
    CHECK_EQ(t.live.bytes, 0);
    timeline_done(&t);
    story_end(&s);
}

TEST(one_event_is_one_bin)
{
    struct story s = story_begin();
    (void)alloc_at(&s, 77, 123);
    struct timeline_job job = whole(&s, BINS);
    struct timeline t = timeline_make(&job);

    CHECK_EQ(t.bin_count, 1);
    CHECK_EQ(t.axis, TIMELINE_BY_EVENT);
    CHECK_EQ(t.bins[0].live, 77);
    CHECK_EQ(t.live.at, 0);
    check_sound(&job, &t);
    timeline_done(&t);
    story_end(&s);
}

TEST(events_of_one_time_or_of_none_are_laid_out_in_order)
{
    for (uint64_t time = 0; time < 2; time++) {
        struct story s = story_begin();
        for (unsigned i = 0; i < 20; i++)
            (void)alloc_at(&s, 1, time * 1000);
        struct timeline_job job = whole(&s, 10);
        struct timeline t = timeline_make(&job);

        CHECK_EQ(t.axis, TIMELINE_BY_EVENT);
        REQUIRE_EQ(t.bin_count, 10);
        CHECK_EQ(t.bins[0].live, 2);
        CHECK_EQ(t.bins[9].live, 20);
        check_sound(&job, &t);
        timeline_done(&t);
        story_end(&s);
    }
}

TEST(events_without_a_time_stand_beside_the_one_before)
{
    struct story s = story_begin();
    (void)alloc_at(&s, 1, 0); /* from before the log's beginning */
    (void)alloc_at(&s, 2, 100);
    (void)alloc_at(&s, 4, 0);
    (void)alloc_at(&s, 8, 90); /* another thread's clock was read a little earlier */
    (void)alloc_at(&s, 16, 179);
    struct timeline_job job = whole(&s, 9);
    struct timeline t = timeline_make(&job);

    CHECK_EQ(t.begin, 90);
    REQUIRE_EQ(t.bin_count, 9);
    CHECK_EQ(t.bins[0].live, 1);
    CHECK_EQ(t.bins[1].live, 15);
    CHECK_EQ(t.bins[8].live, 31);
    check_sound(&job, &t);
    timeline_done(&t);
    story_end(&s);
}

TEST(a_time_that_makes_no_sense_breaks_nothing)
{
    struct story s = story_begin();
    (void)alloc_at(&s, 1, 1);
    (void)alloc_at(&s, 2, UINT64_MAX);
    (void)alloc_at(&s, 4, 2);
    struct timeline_job job = whole(&s, 1000);
    struct timeline t = timeline_make(&job);

    CHECK_EQ(t.live.bytes, 7);
    check_sound(&job, &t);
    timeline_done(&t);
    story_end(&s);
}
