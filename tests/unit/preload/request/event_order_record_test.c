/* SPDX-License-Identifier: MIT */
/* covers: event_order.c */
/* When an event is known, whatever two threads do with it at once: the calls of both, in the order that hurts. */
#include "preload/base/guard.h"
#include "preload/driver/contexts.h"
#include "preload/driver/life.h"
#include "preload/request/event_order.h"
#include "preload/request/quick.h"
#include "tests/check.h"

#define STREAM_A ((CUstream)(uintptr_t)0x1000)
#define STREAM_B ((CUstream)(uintptr_t)0x2000)
#define EVENT    ((CUevent)(uintptr_t)0x40)
#define HANDLES  (1u << 20) /* among so many there is one with the same place */

void *resolve_real[SLOT_COUNT];
__thread struct context_memo context_memo __attribute__((tls_model("initial-exec")));

static struct {
    struct pool_gate gate; /* as the first member of a pool */
    uint64_t told;         /* the stream whose order was told last, 0 = none */
    uint64_t to;
    uint64_t passed; /* the stream that the host has waited for, 0 = none */
} pool;
static bool is_passive;

bool life_is_passive(void)
{
    return is_passive;
}

int stream_here(CUstream handle, bool per_thread_call, struct stream *ret_stream)
{
    (void)per_thread_call;
    *ret_stream = (struct stream){.identity = (uintptr_t)handle};
    return 0;
}

/* An order is of the stream that it was taken on. */
void pool_events_now(struct pool *unused, uint64_t stream, struct pool_order *ret)
{
    (void)unused;
    ret->count = 1;
    ret->upto[0].point = stream;
}

void pool_events_follow(struct pool *unused, uint64_t stream, const struct pool_order *order)
{
    (void)unused;
    pool.told = order->upto[0].point;
    pool.to = stream;
}

void pool_events_passed(struct pool *unused, const struct pool_order *order)
{
    (void)unused;
    pool.passed = order->upto[0].point;
}

static void start(void)
{
    memset(&pool, 0, sizeof pool);
    atomic_store(&pool.gate.orders, 1);
    event_order_start((struct pool *)(void *)&pool);
}

static struct event_order begin(CUevent event, CUstream stream)
{
    struct event_order follow;

    event_order_record_begin(&follow, event, true, stream, false);
    return follow;
}

static void record(CUevent event, CUstream stream)
{
    struct event_order follow = begin(event, stream);

    event_order_record_end(&follow, CUDA_SUCCESS);
}

/* The stream whose order a wait for the event has told, 0 = none. */
static uint64_t told_by(CUevent event)
{
    struct event_order follow;

    pool.told = 0;
    event_order_wait_begin(&follow, event);
    event_order_wait_end(&follow, CUDA_SUCCESS, STREAM_B, false);
    return pool.told;
}

TEST(an_event_is_known_from_the_end_of_its_record)
{
    struct event_order follow;

    start();
    CHECK_EQ(told_by(EVENT), 0);
    follow = begin(EVENT, STREAM_A);
    CHECK_EQ(told_by(EVENT), 0);
    event_order_record_end(&follow, CUDA_SUCCESS);
    CHECK_EQ(told_by(EVENT), (uintptr_t)STREAM_A);
    CHECK_EQ(pool.to, (uintptr_t)STREAM_B);
    follow = begin(EVENT, STREAM_B);
    CHECK_EQ(told_by(EVENT), 0);
    event_order_record_end(&follow, CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQ(told_by(EVENT), 0);
}

TEST(of_two_records_at_once_nobody_knows_the_last)
{
    for (int order = 0; order < 2; order++) {
        struct event_order one, two;

        start();
        one = begin(EVENT, STREAM_A);
        two = begin(EVENT, STREAM_B);
        event_order_record_end(order ? &one : &two, CUDA_SUCCESS);
        CHECK_EQ(told_by(EVENT), 0);
        event_order_record_end(order ? &two : &one, CUDA_SUCCESS);
        CHECK_EQ(told_by(EVENT), 0);
        record(EVENT, STREAM_A);
        CHECK_EQ(told_by(EVENT), (uintptr_t)STREAM_A);
    }
}

TEST(a_wait_that_a_record_overtakes_tells_nothing)
{
    struct event_order waits;

    start();
    record(EVENT, STREAM_A);
    event_order_wait_begin(&waits, EVENT);
    record(EVENT, STREAM_B);
    event_order_wait_end(&waits, CUDA_SUCCESS, STREAM_B, false);
    CHECK_EQ(pool.told, 0);
    event_order_wait_begin(&waits, EVENT);
    event_order_forget(EVENT);
    event_order_wait_end(&waits, CUDA_SUCCESS, STREAM_B, false);
    CHECK_EQ(pool.told, 0);
    record(EVENT, STREAM_A);
    event_order_wait_begin(&waits, EVENT);
    event_order_wait_end(&waits, CUDA_ERROR_INVALID_VALUE, STREAM_B, false);
    CHECK_EQ(pool.told, 0);
}

/* The stream of which the pool has heard that it has come so far. */
static uint64_t waited_for(CUevent event, CUstream stream, CUresult result)
{
    struct event_order follow;

    pool.passed = 0;
    event_order_host_begin(&follow, event, stream, false);
    event_order_host_end(&follow, result);
    return pool.passed;
}

TEST(what_the_host_has_waited_for_is_told)
{
    struct event_order follow;

    start();
    CHECK_EQ(waited_for(NULL, STREAM_A, CUDA_SUCCESS), (uintptr_t)STREAM_A);
    CHECK_EQ(waited_for(NULL, STREAM_A, CUDA_ERROR_INVALID_HANDLE), 0);
    CHECK_EQ(waited_for(EVENT, NULL, CUDA_SUCCESS), 0); /* nobody knows it */
    record(EVENT, STREAM_B);
    CHECK_EQ(waited_for(EVENT, NULL, CUDA_SUCCESS), (uintptr_t)STREAM_B);
    pool.passed = 0;
    event_order_host_begin(&follow, EVENT, NULL, false);
    record(EVENT, STREAM_A); /* which record was waited for? */
    event_order_host_end(&follow, CUDA_SUCCESS);
    CHECK_EQ(pool.passed, 0);
    is_passive = true;
    CHECK_EQ(waited_for(NULL, STREAM_A, CUDA_SUCCESS), 0);
    is_passive = false;
    atomic_store(&pool.gate.orders, 0);
    CHECK_EQ(waited_for(NULL, STREAM_A, CUDA_SUCCESS), 0);
}

TEST(a_record_that_covers_less_leaves_the_event_unknown)
{
    struct event_order follow;

    start();
    record(EVENT, STREAM_A);
    event_order_record_begin(&follow, EVENT, false, STREAM_A, false);
    event_order_record_end(&follow, CUDA_SUCCESS);
    CHECK_EQ(told_by(EVENT), 0);
}

/* A library that kedge has called records it: that is no order of the program's, but its record is not known any more. */
TEST(a_record_from_inside_of_kedge_leaves_the_event_unknown)
{
    start();
    record(EVENT, STREAM_A);
    guard_push();
    CHECK_EQ(told_by(EVENT), 0);
    record(EVENT, STREAM_B);
    guard_pop();
    CHECK_EQ(told_by(EVENT), 0);
}

TEST(an_event_whose_place_is_taken_is_unknown_and_no_record_is_mixed_up)
{
    CUevent other = NULL;
    struct event_order follow;

    start();
    for (uintptr_t i = 2; i < HANDLES && !other; i++) {
        record(EVENT, STREAM_A);
        record((CUevent)(i * 0x40), STREAM_B);
        if (!told_by(EVENT))
            other = (CUevent)(i * 0x40);
    }
    REQUIRE(other != NULL);
    CHECK_EQ(told_by(other), (uintptr_t)STREAM_B);
    /* one that is being recorded keeps its place */
    follow = begin(EVENT, STREAM_A);
    record(other, STREAM_B);
    CHECK_EQ(told_by(other), 0);
    event_order_record_end(&follow, CUDA_SUCCESS);
    CHECK_EQ(told_by(EVENT), (uintptr_t)STREAM_A);
}

TEST(nothing_is_told_in_a_capture_or_when_it_has_ended)
{
    struct event_order follow;

    start();
    record(EVENT, STREAM_A);
    guard_set(GUARD_CAPTURING);
    CHECK_EQ(told_by(EVENT), 0);
    guard_clear(GUARD_CAPTURING);
    CHECK_EQ(told_by(EVENT), (uintptr_t)STREAM_A);
    follow = begin(EVENT, STREAM_A);
    guard_set(GUARD_CAPTURING); /* which has begun meanwhile */
    event_order_record_end(&follow, CUDA_SUCCESS);
    guard_clear(GUARD_CAPTURING);
    CHECK_EQ(told_by(EVENT), 0);
    record(EVENT, STREAM_A);
    is_passive = true;
    CHECK_EQ(told_by(EVENT), 0);
    is_passive = false;
    event_order_wait_begin(&follow, EVENT);
    event_order_end();
    pool.told = 0;
    event_order_wait_end(&follow, CUDA_SUCCESS, STREAM_B, false);
    CHECK_EQ(pool.told, 0);
    CHECK(!event_order_is_on());
}

TEST(what_has_ended_before_it_begins_does_not_begin)
{
    event_order_end();
    start();
    CHECK(!event_order_is_on());
    record(EVENT, STREAM_A);
    CHECK_EQ(told_by(EVENT), 0);
}
