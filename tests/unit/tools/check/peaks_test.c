/* SPDX-License-Identifier: MIT */
/* covers: peaks.c */
#include "tests/check.h"

#include "tests/unit/tools/story.h"
#include "tools/check/peaks.h"

#define MB (UINT64_C(1) << 20)

/* A run that came to its end, with all its events. */
struct run {
    struct story story;
    struct read_capture capture;
    struct load load;
    bool has_end;
    struct model_window window;
};

static void begin(struct run *run)
{
    *run = (struct run){.story = story_begin(), .has_end = true};
    run->capture.state = FORMAT_STATE_CLEAN;
}

static uint32_t take(struct run *run, uint64_t size, int device)
{
    uint32_t block = story_alloc(&run->story, 1, size);

    run->story.trace->blocks[block].device = (int16_t)device;
    return block;
}

static struct peaks compared(struct run *good, struct run *bad)
{
    struct run *runs[] = {good, bad};
    struct peaks_run of[2];
    struct peaks peaks;

    for (unsigned i = 0; i < 2; i++) {
        runs[i]->load.trace = runs[i]->story.trace;
        runs[i]->load.capture = &runs[i]->capture;
        if (runs[i]->window.last == 0)
            runs[i]->window = model_whole(runs[i]->story.trace);
        of[i] = (struct peaks_run){&runs[i]->load, runs[i]->window, runs[i]->has_end};
    }
    peaks_find(&of[0], &of[1], &peaks);
    return peaks;
}

static void end(struct run *good, struct run *bad)
{
    story_end(&good->story);
    story_end(&bad->story);
}

/* What is printed; the caller frees it. */
static char *printed(const struct peaks *peaks)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    REQUIRE(out);
    peaks_print(out, peaks);
    REQUIRE_EQ(fclose(out), 0);
    return text;
}

static void check_printed(const struct peaks *peaks, const char *wanted)
{
    char *text = printed(peaks);

    CHECK_STR_EQ(text, wanted);
    free(text);
}

TEST(equal_peaks_are_equal_whatever_the_order)
{
    struct run good, bad;
    begin(&good);
    begin(&bad);
    story_free(&good.story, take(&good, 3 * MB, 0));
    story_free(&good.story, take(&good, MB, 0));
    story_free(&bad.story, take(&bad, MB, 0));
    story_free(&bad.story, take(&bad, 3 * MB, 0));
    struct peaks peaks = compared(&good, &bad);
    CHECK_EQ(peaks_are_equal(&peaks), CLAIM_YES);
    check_printed(&peaks,
            "Peak live: 3.00 MiB in bad, 3.00 MiB in good\n"
            "Peak reserved: 0.00 B in bad, 0.00 B in good\n");
    peaks_done(&peaks);
    end(&good, &bad);
}

TEST(a_peak_that_is_higher_or_lower_by_a_byte_differs)
{
    for (uint64_t more = 1; more <= 2; more++) {
        struct run good, bad;
        begin(&good);
        begin(&bad);
        story_free(&good.story, take(&good, MB + 2 - more, 0));
        story_free(&bad.story, take(&bad, MB + more - 1, 0));
        struct peaks peaks = compared(&good, &bad);
        CHECK_EQ(peaks_are_equal(&peaks), CLAIM_NO);
        char *text = printed(&peaks);
        CHECK(strstr(text,
                more == 1 ? "Peak live: 1048576 B in bad, 1048577 B in good"
                          : "Peak live: 1048577 B in bad, 1048576 B in good"));
        free(text);
        peaks_done(&peaks);
        end(&good, &bad);
    }
}

TEST(reserved_alone_differs)
{
    struct run good, bad;
    begin(&good);
    begin(&bad);
    trace_add_reserved(good.story.trace, 0, 2 * MB);
    trace_add_reserved(bad.story.trace, 0, 4 * MB);
    trace_add_reserved(bad.story.trace, 0, 2 * MB); /* given back before the first block */
    story_free(&good.story, take(&good, MB, 0));
    story_free(&bad.story, take(&bad, MB, 0));
    struct peaks peaks = compared(&good, &bad);
    CHECK_EQ(peaks_are_equal(&peaks), CLAIM_NO);
    CHECK_EQ(peaks.all.good.reserved.low, 2 * MB);
    CHECK_EQ(peaks.all.bad.reserved.low, 4 * MB);
    peaks_done(&peaks);
    end(&good, &bad);
}

/* The sums are equal: 3 MiB at one time, on one device or on two. */
TEST(devices_that_differ_are_told_although_the_sums_are_equal)
{
    struct run good, bad;
    begin(&good);
    begin(&bad);
    (void)take(&good, MB, 0);
    (void)take(&good, 2 * MB, 1);
    (void)take(&bad, 2 * MB, 0);
    (void)take(&bad, MB, 1);
    trace_add_reserved(good.story.trace, 1, 4 * MB);
    trace_add_reserved(bad.story.trace, 0, 4 * MB);
    struct peaks peaks = compared(&good, &bad);
    CHECK_EQ(peaks_are_equal(&peaks), CLAIM_NO);
    check_printed(&peaks,
            "Peak live: 3.00 MiB in bad, 3.00 MiB in good\n"
            "Peak reserved: 4.00 MiB in bad, 4.00 MiB in good\n"
            "  device 0: live 2.00 MiB in bad, 1.00 MiB in good; reserved 4.00 MiB in bad,\n"
            "            0.00 B in good\n"
            "  device 1: live 1.00 MiB in bad, 2.00 MiB in good; reserved 0.00 B in bad,\n"
            "            4.00 MiB in good\n");
    peaks_done(&peaks);
    end(&good, &bad);
}

TEST(of_a_run_that_was_cut_off_the_peak_is_a_least_value)
{
    struct run good, bad;
    begin(&good);
    begin(&bad);
    (void)take(&good, MB, 0);
    (void)take(&bad, MB, 0);
    bad.has_end = false;
    struct peaks peaks = compared(&good, &bad);
    CHECK_EQ(peaks_are_equal(&peaks), CLAIM_UNKNOWN);
    check_printed(&peaks,
            "Peak live: at least 1.00 MiB in bad, 1.00 MiB in good\n"
            "Peak reserved: not known in bad, 0.00 B in good\n");
    peaks_done(&peaks);
    (void)take(&bad, 1, 0); /* what is more already stays more */
    bad.window = model_whole(bad.story.trace);
    peaks = compared(&good, &bad);
    CHECK_EQ(peaks_are_equal(&peaks), CLAIM_NO);
    peaks_done(&peaks);
    end(&good, &bad);
}

/*
 * A ring that has lost its beginning: of the whole run the writer's totals are known, of a part
 * nothing is.
 */
TEST(where_events_are_missing_the_writers_totals_stand_or_nothing_does)
{
    struct run good, bad;
    begin(&good);
    begin(&bad);
    story_enter(&bad.story, "A");
    (void)take(&good, 5 * MB, 0);
    (void)take(&good, 2 * MB, 1);
    (void)take(&bad, MB, 0);
    story_exit(&bad.story);
    bad.load.complete_from = 1;
    bad.capture.total.peak_bytes = 7 * MB;
    bad.capture.total.peak_hinted_bytes = 7 * MB;
    bad.capture.device_total[0].peak_bytes = bad.capture.device_total[0].peak_hinted_bytes = 5 * MB;
    bad.capture.device_total[1].peak_bytes = bad.capture.device_total[1].peak_hinted_bytes = 2 * MB;
    struct peaks peaks = compared(&good, &bad);
    CHECK_EQ(peaks_are_equal(&peaks), CLAIM_YES);
    peaks_done(&peaks);
    bad.window = (struct model_window){0, (uint32_t)bad.story.trace->event_count, true};
    peaks = compared(&good, &bad);
    CHECK_EQ(peaks_are_equal(&peaks), CLAIM_UNKNOWN);
    char *text = printed(&peaks);
    CHECK(strstr(text, "Peak live: not known in bad, 7.00 MiB in good"));
    CHECK(strstr(text, "  device 1: live not known in bad, 2.00 MiB in good"));
    free(text);
    peaks_done(&peaks);
    end(&good, &bad);
}

TEST(what_the_driver_holds_for_itself_is_not_known)
{
    struct run good, bad;
    begin(&good);
    begin(&bad);
    (void)take(&good, MB, 0);
    (void)take(&bad, MB, 0);
    bad.capture.class_total[MEMCLASS_DRIVER].peak_bytes = MB;
    struct peaks peaks = compared(&good, &bad);
    CHECK_EQ(peaks_are_equal(&peaks), CLAIM_UNKNOWN);
    char *text = printed(&peaks);
    CHECK(strstr(text, "Peak reserved: not known in bad, 0.00 B in good"));
    free(text);
    peaks_done(&peaks);
    end(&good, &bad);
}

/*
 * The program's books are the same; a live hint releases one block of bad before the other comes.
 */
TEST(with_hints_the_peaks_differ)
{
    struct run good, bad;
    begin(&good);
    begin(&bad);
    for (unsigned i = 0; i < 2; i++) {
        struct run *run = i ? &bad : &good;
        uint32_t anchor = story_enter(&run->story, "A");
        uint32_t first = take(run, MB, 0);
        story_exit(&run->story);
        if (i)
            story_release(&run->story, first, anchor, HINT_LIVE);
        story_free(&run->story, take(run, MB, 0));
        story_free(&run->story, first);
    }
    struct peaks peaks = compared(&good, &bad);
    CHECK_EQ(peaks_are_equal(&peaks), CLAIM_NO);
    check_printed(&peaks,
            "Peak live: 2.00 MiB in bad, 2.00 MiB in good\n"
            "Peak live with hints: 1.00 MiB in bad, 2.00 MiB in good\n"
            "Peak reserved: 0.00 B in bad, 0.00 B in good\n");
    peaks_done(&peaks);
    end(&good, &bad);
}
