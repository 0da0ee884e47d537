/* SPDX-License-Identifier: MIT */
/* covers: guard.c gate.c */
#include "tests/check.h"

#include "preload/base/gate.h"
#include "preload/base/guard.h"

#include <errno.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

/* ---- reader sections ------------------------------------------------------------------------ */

TEST(a_snapshot_without_readers_has_passed)
{
    CHECK_EQ(guard_readers_passed(guard_readers_snapshot()), 0);
}

TEST(a_snapshot_waits_for_a_section_that_is_open)
{
    uint64_t before, after;

    guard_read_begin();
    before = guard_readers_snapshot();
    CHECK_EQ(guard_readers_passed(before), -EAGAIN);
    guard_read_end();
    CHECK_EQ(guard_readers_passed(before), 0);
    after = guard_readers_snapshot();
    guard_read_begin(); /* began after the snapshot: sees the mark, is not waited for */
    CHECK_EQ(guard_readers_passed(after), 0);
    guard_read_end();
}

TEST(a_suspended_section_is_not_waited_for_however_deep)
{
    uint64_t before, after;
    unsigned suspended;

    CHECK_EQ(guard_read_suspend(), 0);
    guard_read_resume(0);
    CHECK_EQ(guard_thread.reading, 0);
    guard_read_begin();
    guard_read_begin();
    before = guard_readers_snapshot();
    suspended = guard_read_suspend();
    CHECK_EQ(guard_readers_passed(before), 0);
    CHECK_EQ(guard_thread.reading, 0);
    guard_read_resume(suspended);
    CHECK_EQ(guard_thread.reading, 2);
    after = guard_readers_snapshot();
    guard_read_end();
    CHECK_EQ(guard_readers_passed(after), -EAGAIN);
    guard_read_end();
    CHECK_EQ(guard_readers_passed(after), 0);
}

TEST(sections_nest)
{
    uint64_t snapshot;

    guard_read_begin();
    guard_read_begin();
    snapshot = guard_readers_snapshot();
    guard_read_end();
    CHECK_EQ(guard_readers_passed(snapshot), -EAGAIN);
    guard_read_end();
    CHECK_EQ(guard_readers_passed(snapshot), 0);
}

static atomic_int phase;

static void wait_phase(int wanted)
{
    while (atomic_load(&phase) < wanted)
        (void)sched_yield();
}

static void *reader_in_another_thread(void *data)
{
    (void)data;
    guard_read_begin();
    atomic_store(&phase, 1);
    wait_phase(2);
    guard_read_end();
    return NULL;
}

TEST(another_threads_section_is_waited_for)
{
    pthread_t thread;
    uint64_t snapshot;

    REQUIRE(pthread_create(&thread, NULL, reader_in_another_thread, NULL) == 0);
    wait_phase(1);
    snapshot = guard_readers_snapshot();
    CHECK_EQ(guard_readers_passed(snapshot), -EAGAIN);
    atomic_store(&phase, 2);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_EQ(guard_readers_passed(snapshot), 0);
}

/* More threads than one chunk of slots has, and slots are given to later threads. */
static void *short_reader(void *data)
{
    atomic_int *sum = data;

    guard_read_begin();
    atomic_fetch_add(sum, 1);
    guard_read_end();
    return NULL;
}

TEST(slots_of_ended_threads_are_used_again)
{
    atomic_int sum = 0;

    for (int i = 0; i < 2000; i++) {
        pthread_t thread;

        REQUIRE(pthread_create(&thread, NULL, short_reader, &sum) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    CHECK_EQ(atomic_load(&sum), 2000);
    CHECK_EQ(guard_readers_passed(guard_readers_snapshot()), 0);
}

/*
 * The protocol itself: a writer marks, takes a snapshot, waits for it, and only then takes the memory away. Without the
 * wait the reader finds it gone.
 */
static atomic_int marked;
static atomic_int gone;
static atomic_int wrong;
static atomic_bool stop;

static void *protocol_reader(void *data)
{
    (void)data;
    while (!atomic_load(&stop)) {
        guard_read_begin();
        if (!atomic_load_explicit(&marked, memory_order_relaxed)) {
            for (volatile int i = 0; i < 50; i++)
                ;
            if (atomic_load_explicit(&gone, memory_order_relaxed))
                atomic_fetch_add(&wrong, 1);
        }
        guard_read_end();
    }
    return NULL;
}

TEST(what_a_reader_saw_unmarked_is_there_until_it_ends)
{
    pthread_t thread[2];

    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&thread[i], NULL, protocol_reader, NULL) == 0);
    for (int round = 0; round < 3000; round++) {
        uint64_t snapshot;

        atomic_store_explicit(&marked, 1, memory_order_relaxed);
        snapshot = guard_readers_snapshot();
        while (guard_readers_passed(snapshot) != 0)
            (void)sched_yield();
        atomic_store(&gone, 1);
        atomic_store(&gone, 0);
        atomic_store(&marked, 0);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_join(thread[i], NULL) == 0);
    CHECK_EQ(atomic_load(&wrong), 0);
}

TEST(an_idle_word_is_zero)
{
    guard_clear(GUARD_UNBOUND);
    CHECK(guard_is_idle());
    guard_set(GUARD_ACTING);
    CHECK(!guard_is_idle());
    guard_clear(GUARD_ACTING);
    CHECK(guard_is_idle());
}

/* ---- the capture gate ----------------------------------------------------------------------- */

static void begin(uint64_t stream, uint64_t context)
{
    gate_begin_enter();
    gate_begin_leave(true, stream, context, stream * 0x100);
}

/* The graph of the capture that has ended, 0 = there was none. */
static uint64_t end(uint64_t stream)
{
    struct gate_capture capture;

    return gate_ended(stream, false, &capture) ? capture.graph : 0;
}

TEST(a_fence_backs_off_while_a_capture_is_pending_or_runs)
{
    CHECK(gate_fence_enter());
    gate_fence_leave();
    gate_begin_enter();
    CHECK(!gate_fence_enter());
    gate_begin_leave(true, 16, 1, 0x1000);
    CHECK_EQ(gate_captures(), 1);
    CHECK(!gate_fence_enter());
    CHECK_EQ(end(17), 0);
    CHECK_EQ(end(16), 0x1000);
    CHECK_EQ(gate_captures(), 0);
    CHECK(gate_fence_enter());
    gate_fence_leave();
}

TEST(a_begin_that_failed_leaves_nothing)
{
    gate_begin_enter();
    gate_begin_leave(false, 16, 1, 0);
    CHECK_EQ(gate_captures(), 0);
    CHECK_EQ(end(16), 0);
}

TEST(captures_of_a_dead_context_are_gone)
{
    struct gate_capture capture;

    begin(16, 7);
    begin(17, 8);
    begin(18, 7);
    CHECK(gate_context_gone(7, &capture));
    CHECK(gate_context_gone(7, &capture));
    CHECK(!gate_context_gone(7, &capture));
    CHECK_EQ(gate_captures(), 1);
    CHECK_EQ(end(17), 0x1100);
}

TEST(any_number_of_captures_run_at_once)
{
    enum {
        MANY = 1000
    };
    unsigned seen = 0;

    for (uint64_t stream = 1; stream <= MANY; stream++)
        begin(stream, 1);
    for (uint64_t at = gate_next(0); at; at = gate_next(at))
        seen++;
    CHECK_EQ(seen, MANY);
    for (uint64_t stream = 1; stream <= MANY; stream++)
        CHECK_EQ(end(stream), stream * 0x100);
    CHECK_EQ(gate_captures(), 0);
    CHECK_EQ(gate_next(0), 0);
}

/* A stream is destroyed while it captures, and its handle is another's, which captures, before the driver has come back. */
TEST(a_capture_of_a_stream_that_goes_is_not_that_of_the_next_with_its_handle)
{
    begin(18, 1);
    gate_move(18, 19);
    CHECK_EQ(gate_captures(), 1);
    begin(18, 1);
    CHECK_EQ(gate_captures(), 2);
    CHECK_EQ(end(19), 18 * 0x100);
    CHECK_EQ(gate_captures(), 1);
    gate_move(18, 19); /* the driver refuses */
    gate_move(19, 18);
    CHECK_EQ(gate_captures(), 1);
    CHECK_EQ(end(18), 18 * 0x100);
    gate_move(18, 19);
    CHECK_EQ(gate_captures(), 0);
}

TEST(a_capture_that_is_about_to_begin_does_not_run)
{
    uint64_t first;

    begin(16, 1);
    first = gate_next(0);
    gate_begin_enter();
    CHECK_EQ(gate_next(first), 0);
    gate_begin_leave(true, 17, 1, 0);
    CHECK(gate_next(first) > first);
    CHECK_EQ(end(16), 0x1000);
    CHECK(gate_next(0) > first);
    CHECK_EQ(gate_next(first - 1), gate_next(0)); /* the first one does not run */
    CHECK_EQ(end(17), 0);
    CHECK_EQ(gate_captures(), 0);
}

TEST(a_capture_that_ended_unseen_is_not_counted_twice)
{
    uint64_t number;

    begin(16, 1);
    number = gate_next(0);
    begin(16, 2);
    CHECK_EQ(gate_captures(), 1);
    CHECK_EQ(gate_next(0), number);
    CHECK_EQ(end(16), 0x1000);
    CHECK_EQ(gate_captures(), 0);
}

TEST(without_memory_a_capture_is_counted_until_one_ends)
{
    struct gate_capture capture;
    const uint64_t stream = 0; /* has no row */

    gate_begin_enter();
    gate_begin_leave(true, stream, 1, 0x1000);
    CHECK_EQ(gate_captures(), 1);
    CHECK_EQ(gate_next(0), GATE_UNLISTED);
    CHECK(!gate_ended(18, false, &capture));
    REQUIRE(gate_ended(18, true, &capture));
    CHECK_EQ(capture.number, GATE_UNLISTED);
    CHECK_EQ(gate_captures(), 0);
    CHECK_EQ(gate_next(0), 0);
}

static void *begin_in_another_thread(void *data)
{
    (void)data;
    atomic_store(&phase, 1);
    gate_begin_enter();
    atomic_store(&phase, 2);
    gate_begin_leave(false, 0, 0, 0);
    return NULL;
}

TEST(a_begin_waits_for_a_fence_call_in_flight)
{
    struct timespec pause = {0, 20000000};
    pthread_t thread;

    REQUIRE(gate_fence_enter());
    REQUIRE(pthread_create(&thread, NULL, begin_in_another_thread, NULL) == 0);
    wait_phase(1);
    (void)nanosleep(&pause, NULL);
    CHECK_EQ(atomic_load(&phase), 1);
    CHECK(!gate_fence_enter()); /* the other side waits: nobody new */
    gate_fence_leave();
    wait_phase(2);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

/* R67: a fence call and a capture never overlap. */
static atomic_int capturing_now;

static void *many_captures(void *data)
{
    (void)data;
    for (int i = 0; i < 10000; i++) {
        gate_begin_enter();
        atomic_store(&capturing_now, 1);
        gate_begin_leave(true, 99, 1, 0);
        atomic_store(&capturing_now, 0);
        (void)end(99);
    }
    atomic_store(&stop, true);
    return NULL;
}

TEST(ten_thousand_captures_meet_no_fence)
{
    pthread_t thread;
    int fences = 0;

    atomic_store(&stop, false);
    REQUIRE(pthread_create(&thread, NULL, many_captures, NULL) == 0);
    while (!atomic_load(&stop) || fences == 0) {
        if (!gate_fence_enter())
            continue;
        for (int i = 0; i < 20; i++)
            CHECK_EQ(atomic_load(&capturing_now), 0);
        fences++;
        gate_fence_leave();
    }
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK_EQ(gate_captures(), 0);
    CHECK_GT(fences, 0);
}
