/* SPDX-License-Identifier: MIT */
/* covers: inorder.c */
/* Peaks where threads come to the capture in another order than that of the pool's numbers. */
#include "tests/unit/tracker/track_help.h"

#include "tools/load/inorder.h"
#include "tools/load/load.h"

#include <pthread.h>
#include <stddef.h>

#define MB UINT64_C(1048576)

/* What FORMAT.md says about the header. */
_Static_assert(offsetof(struct format_header, counted_seq) == 6776, "the newest change");
_Static_assert(offsetof(struct format_header, counted_late) == 6784, "late ones");

static char path[TRACK_PATH_MAX];

static void begin(enum format_trace trace, uint64_t ring_bytes)
{
    track_path(path, track_scratch(), "order.kcap");
    track_start(path, trace, ring_bytes);
}

static void make(const char *anchor, int device, devptr_t ptr, uint64_t size, uint64_t seq)
{
    struct edge enter, leave;
    struct tag tag = track_tag(size);
    struct capture_alloc_info info = {.tag = &tag, .ptr = ptr, .seq = seq, .rule = -1};

    REQUIRE_EQ(anchor_push(NULL, anchor, &enter), 0);
    tag.anchor = enter.anchor;
    tag.path = enter.path;
    tag.device = device;
    REQUIRE_EQ(capture_alloc(&info), 0);
    REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
}

static void end(devptr_t ptr, uint64_t seq)
{
    REQUIRE_EQ(track_free(ptr, seq), 0);
}

/* `a` is gone before `b` is there, and `c` before that: 11 MB at most, of which `a` has 10. */
static void story(bool is_late)
{
    make("a", 0, 0x1000, 10 * MB, 1);
    make("c", 0, 0x3000, 1 * MB, 2);
    if (!is_late)
        end(0x1000, 3);
    make("b", 0, 0x2000, 8 * MB, 4);
    if (is_late)
        end(0x1000, 3); /* its thread slept between the pool and the capture */
    make("d", 1, 0x4000, 2 * MB, 5);
}

static const struct read_place *place(const struct read_capture *capture, const char *anchor)
{
    for (size_t i = 0; i < capture->place_count; i++)
        if (strcmp(capture->place[i].path, anchor) == 0)
            return &capture->place[i];
    return NULL;
}

static uint64_t shares(const struct read_capture *capture, int device)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < capture->place_count; i++)
        bytes += capture->place[i].device == device ? capture->place[i].high_bytes : 0;
    return bytes;
}

/* All that a capture says of its peak says the same. */
static void check_one_peak(const struct read_capture *capture, uint64_t peak)
{
    CHECK_EQ(capture->device_total[0].peak_bytes, peak);
    CHECK_EQ(capture->high[0].bytes, peak);
    CHECK_EQ(shares(capture, 0), peak);
    CHECK_EQ(capture->total.peak_bytes, peak);
    CHECK_EQ(capture->total.peak_hinted_bytes, peak);
    CHECK_EQ(capture->class_total[MEMCLASS_POOLED].peak_bytes, peak);
    CHECK_EQ(capture->peak_stored_512, peak);
    CHECK_EQ(capture->high[1].bytes, 2 * MB);
    CHECK_EQ(shares(capture, 1), 2 * MB);
}

TEST(where_all_came_in_order_nothing_is_counted_again)
{
    struct load load;

    begin(FORMAT_TRACE_FULL, 0);
    story(false);
    REQUIRE_EQ(load_open(path, &load), 0);
    CHECK_EQ(load.capture->counted_late, 0);
    CHECK(!inorder_is_needed(load.capture));
    check_one_peak(load.capture, 11 * MB);
    load_close(&load);
}

TEST(where_a_thread_came_late_the_peaks_are_those_of_the_events)
{
    struct read_capture *plain;
    struct load load;

    begin(FORMAT_TRACE_FULL, 0);
    story(true);
    plain = track_read(path);
    REQUIRE(plain != NULL);
    CHECK_EQ(plain->counted_late, 1);
    check_one_peak(plain, 19 * MB);
    REQUIRE_EQ(load_open(path, &load), 0);
    check_one_peak(load.capture, 11 * MB);
    CHECK_EQ(load.capture->high[0].seq, 2);
    CHECK_EQ(place(load.capture, "a")->high_bytes, 10 * MB);
    CHECK_EQ(place(load.capture, "a")->high_count, 1);
    CHECK_EQ(place(load.capture, "b")->high_bytes, 0);
    CHECK_EQ(place(load.capture, "b")->peak_bytes, 8 * MB);
    CHECK_STR_EQ(load.places[0].what->path, "a");
    CHECK_STR_EQ(load.places[1].what->path, "d");
    read_close(plain);
    plain = inorder_totals(path);
    REQUIRE(plain != NULL);
    CHECK_EQ(plain->total.peak_bytes, 11 * MB);
    CHECK_EQ(plain->class_total[MEMCLASS_POOLED].peak_bytes, 11 * MB);
    read_close(plain);
    load_close(&load);
}

TEST(without_events_the_runs_own_figures_stay_and_agree)
{
    struct load load;

    begin(FORMAT_TRACE_AGG, 0);
    story(true);
    REQUIRE_EQ(load_open(path, &load), 0);
    CHECK_EQ(load.capture->counted_late, 1);
    check_one_peak(load.capture, 19 * MB);
    load_close(&load);
}

/* Its free was written before the allocation was. */
TEST(a_block_that_is_over_before_it_is_written_is_no_peak_of_others)
{
    struct load load;

    begin(FORMAT_TRACE_FULL, 0);
    make("a", 0, 0x1000, 10 * MB, 1);
    end(0x2000, 3);
    make("c", 0, 0x3000, 1 * MB, 4);
    make("b", 0, 0x2000, 8 * MB, 2);
    make("d", 1, 0x4000, 2 * MB, 5);
    REQUIRE_EQ(load_open(path, &load), 0);
    CHECK(load.capture->counted_late > 0);
    check_one_peak(load.capture, 18 * MB);
    load_close(&load);
}

/* ---- threads ---- */

#define THREADS 8
#define ROUNDS  3000

static _Atomic uint64_t numbers;

static void *worker(void *arg)
{
    uint64_t mine = (uint64_t)(uintptr_t)arg;
    uint64_t random = mine * 7919 + UINT64_C(88172645463325252);

    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct tag tag = track_tag(1 + (random >> 20) % 300000);
        devptr_t ptr = (mine << 32) + (i % 16) * MB;
        struct capture_alloc_info info = {.tag = &tag, .ptr = ptr, .rule = -1};

        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        tag.stack = 0;
        if (i >= 16) {
            uint64_t seq = ++numbers;
            if (track_free(ptr, seq) != 0)
                return arg;
        }
        info.seq = ++numbers;
        if (capture_alloc(&info) != 0)
            return arg;
    }
    return NULL;
}

static void race(void)
{
    pthread_t threads[THREADS];
    void *failed;

    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, worker, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        REQUIRE_EQ(pthread_join(threads[i], &failed), 0);
        CHECK(failed == NULL);
    }
}

static void check_race(const struct read_capture *capture)
{
    uint64_t peak = capture->total.peak_bytes;

    CHECK(peak > 0);
    CHECK_EQ(capture->total.allocated_count, THREADS * ROUNDS);
    CHECK_EQ(capture->total.live_bytes, track_live_bytes(capture));
    CHECK_EQ(capture->device_total[0].peak_bytes, peak);
    CHECK_EQ(capture->class_total[MEMCLASS_POOLED].peak_bytes, peak);
    CHECK_EQ(capture->high[0].bytes, peak);
    CHECK_EQ(shares(capture, 0), peak);
}

TEST(threads_that_do_not_wait_for_each_other_have_one_peak_in_every_mode)
{
    for (int i = 0; i < 3; i++) {
        static const enum format_trace traces[] = {
                FORMAT_TRACE_FULL, FORMAT_TRACE_AGG, FORMAT_TRACE_RING};
        struct load load;

        begin(traces[i], UINT64_C(256) << 10);
        race();
        REQUIRE_EQ(load_open(path, &load), 0);
        check_race(load.capture);
        CHECK(i == 2 || load.capture->has_all_events == (i == 0));
        load_close(&load);
    }
}
