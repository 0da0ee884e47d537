/* SPDX-License-Identifier: MIT */
/* covers: capoom.c */
/* Area E: why allocations failed, whatever became of the log and of the process. */
#include "tests/unit/tracker/track_help.h"
#include "tracker/capture/capoom.h"
#include "tracker/stacks/intern.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define MB (UINT64_C(1) << 20)

static char file[TRACK_PATH_MAX];

static void start(enum format_trace trace)
{
    track_path(file, track_scratch(), "oom.kcap");
    track_start(file, trace, 0);
}

static uint32_t stack_number(uint64_t offset)
{
    struct intern_frame frame = {.offset = offset};

    return intern_stack(&frame, 1);
}

static void alloc_at(uint64_t ptr, uint64_t size, uint32_t stack, int device, uint64_t seq)
{
    struct tag tag = {.size = size, .device = device, .stack = stack, .path = ""};
    struct capture_alloc_info info = {.tag = &tag, .ptr = ptr, .seq = seq, .rule = -1};

    CHECK_EQ(capture_alloc(&info), 0);
}

static struct format_oom_holder fail_at(uint64_t size, int device, uint64_t seq)
{
    struct tag tag = {.size = size, .device = device, .stack = stack_number(0x77), .path = ""};
    struct format_oom_holder top;
    struct capture_oom_info info = {.tag = &tag,
            .seq = seq,
            .free_bytes = 3 * MB,
            .total_bytes = 80 * MB,
            .call = "cuMemAlloc_v2",
            .flags = FORMAT_OOM_HEAPS,
            .heaps = {.held = 70 * MB, .live = 50 * MB, .largest_free = 9 * MB},
            .ladder = {.waits = 4, .attempts = 2, .trimmed_bytes = 6 * MB},
            .result = 2};

    CHECK_EQ(capture_oom(&info, &top), 0);
    return top;
}

static struct read_capture *look(void)
{
    struct read_capture *capture = track_read(file);

    REQUIRE(capture != NULL);
    CHECK_EQ(capture->bad_records, 0);
    return capture;
}

TEST(r31_a_failed_allocation_is_recorded_without_a_log)
{
    struct read_capture *capture;
    const struct read_oom *oom;

    start(FORMAT_TRACE_AGG);
    alloc_at(0x1000, 40 * MB, stack_number(1), 0, 1);
    alloc_at(0x2000, 10 * MB, stack_number(2), 0, 2);
    alloc_at(0x3000, 90 * MB, stack_number(3), 1, 3); /* another device's */
    CHECK_EQ(fail_at(20 * MB, 0, 4).stack, stack_number(1));
    CHECK_EQ(track_free(0x1000, 5), 0); /* what is live afterwards says nothing about then */
    capture = look();
    CHECK_EQ(capture->event_count, 0);
    CHECK_EQ(capture->oom_count, 1);
    REQUIRE_EQ(capture->oom_record_count, 1);
    oom = &capture->oom[0];
    CHECK_EQ(oom->number, 1);
    CHECK_STR_EQ(oom->call, "cuMemAlloc_v2");
    CHECK_EQ(oom->what.requested, 20 * MB);
    CHECK_EQ(oom->what.seq, 4);
    CHECK_EQ(oom->what.stack, stack_number(0x77));
    CHECK_EQ(oom->what.result, 2);
    CHECK_EQ(oom->what.heaps.largest_free, 9 * MB);
    CHECK_EQ(oom->what.heaps.held, 70 * MB);
    CHECK_EQ(oom->what.ladder.waits, 4);
    CHECK_EQ(oom->what.ladder.trimmed_bytes, 6 * MB);
    CHECK_EQ(oom->what.free_bytes, 3 * MB);
    REQUIRE_EQ(oom->what.holder_count, 2);
    CHECK_EQ(oom->what.holder[0].bytes, 40 * MB);
    CHECK_EQ(oom->what.holder[1].bytes, 10 * MB);
    CHECK_EQ(oom->what.holder[1].count, 1);
    CHECK_EQ(oom->what.other_bytes, 0);
    read_close(capture);
}

TEST(the_first_and_the_newest_failures_are_kept)
{
    struct read_capture *capture;

    start(FORMAT_TRACE_RING);
    for (uint64_t i = 1; i <= 100; i++)
        (void)fail_at(i * MB, 0, i);
    capture = look();
    CHECK_EQ(capture->oom_count, 100);
    REQUIRE_EQ(capture->oom_record_count, FORMAT_OOM_FIRST + FORMAT_OOM_LAST);
    for (size_t i = 0; i < capture->oom_record_count; i++) {
        uint64_t number = i < 16 ? i + 1 : 100 - 31 + i;

        CHECK_EQ(capture->oom[i].number, number);
        CHECK_EQ(capture->oom[i].what.requested, number * MB);
    }
    read_close(capture);
}

TEST(the_largest_holders_stand_in_order_and_the_rest_is_summed)
{
    struct read_capture *capture;
    const struct format_oom *what;
    uint64_t seq = 0;
    uint64_t sum = 0;

    start(FORMAT_TRACE_AGG);
    for (uint64_t i = 0; i < 200; i++) { /* 100 stacks, two blocks each, in no order of size */
        alloc_at(0x1000 + i * 0x1000, (i * 37 % 100 + 1) * MB, stack_number(100 + i * 37 % 100), 0,
                ++seq);
        sum += (i * 37 % 100 + 1) * MB;
    }
    CHECK_EQ(fail_at(MB, 0, ++seq).bytes, 200 * MB);
    capture = look();
    what = &capture->oom[0].what;
    REQUIRE_EQ(what->holder_count, FORMAT_OOM_HOLDERS);
    for (uint64_t i = 0; i < FORMAT_OOM_HOLDERS; i++) {
        CHECK_EQ(what->holder[i].bytes, 2 * (100 - i) * MB);
        CHECK_EQ(what->holder[i].stack, stack_number(199 - i));
        CHECK_EQ(what->holder[i].count, 2);
        sum -= what->holder[i].bytes;
    }
    CHECK_EQ(what->other_bytes, sum);
    read_close(capture);
}

TEST(a_second_failure_sees_what_was_freed_in_between)
{
    start(FORMAT_TRACE_AGG);
    alloc_at(0x1000, 40 * MB, stack_number(1), 0, 1);
    alloc_at(0x2000, 10 * MB, stack_number(2), 0, 2);
    CHECK_EQ(fail_at(MB, 0, 3).bytes, 40 * MB);
    CHECK_EQ(fail_at(MB, 0, 4).bytes, 40 * MB);
    CHECK_EQ(fail_at(MB, 1, 5).bytes, 0); /* nothing lives there */
    CHECK_EQ(track_free(0x1000, 6), 0);
    CHECK_EQ(fail_at(MB, 0, 7).bytes, 10 * MB);
}

TEST(r47_the_record_survives_sigkill)
{
    struct read_capture *capture;
    pid_t child;
    int status;

    start(FORMAT_TRACE_AGG);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        alloc_at(0x1000, 40 * MB, stack_number(1), 0, 1);
        (void)fail_at(20 * MB, 0, 2);
        (void)raise(SIGKILL);
    }
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status));
    capture = look();
    CHECK_EQ(capture->state, FORMAT_STATE_OOM);
    REQUIRE_EQ(capture->oom_record_count, 1);
    CHECK_EQ(capture->oom[0].what.holder[0].bytes, 40 * MB);
    read_close(capture);
}

static void *many_failures(void *arg)
{
    uint64_t thread = (uintptr_t)arg;

    for (uint64_t i = 0; i < 200; i++) {
        (void)fail_at((thread * 1000 + i) * MB, 0, 0);
        if (i % 8 == 0)
            alloc_at((thread + 1) << 32 | i << 12, MB, stack_number(thread + 1), 0,
                    thread * 1000 + i + 1);
    }
    return NULL;
}

TEST(threads_that_fail_at_once_leave_whole_records)
{
    struct read_capture *capture;
    pthread_t threads[4];

    start(FORMAT_TRACE_AGG);
    for (uintptr_t i = 0; i < 4; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, many_failures, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(pthread_join(threads[i], NULL), 0);
    capture = look();
    CHECK_EQ(capture->oom_count, 800);
    CHECK_EQ(capture->oom_record_count, FORMAT_OOM_FIRST + FORMAT_OOM_LAST);
    for (size_t i = 0; i < capture->oom_record_count; i++) {
        CHECK(i < 16 ? capture->oom[i].number == i + 1 : capture->oom[i].number > 768);
        CHECK_EQ(capture->oom[i].what.heaps.held, 70 * MB);
    }
    read_close(capture);
}

/* The same number of allocations and frees: the holders are those of the last look. */
TEST(holders_are_looked_up_again_when_something_has_changed)
{
    static const struct {
        uint64_t generation;
        int device;
        unsigned holders;
    } asked[] = {{7, 0, 1}, {7, 0, 1}, {7, 1, 0}, {7, 0, 2}, {8, 0, 2}, {8, 1, 0}};

    start(FORMAT_TRACE_AGG);
    alloc_at(0x1000, 5 * MB, stack_number(0x11), 0, 1);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct format_oom record = {.device = asked[i].device};

        capoom_holders(&record, asked[i].generation);
        CHECK_EQ(record.holder_count, asked[i].holders);
        if (i == 0)
            alloc_at(0x2000, 9 * MB, stack_number(0x22), 0, 2);
    }
}
