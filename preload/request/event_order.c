/* SPDX-License-Identifier: MIT */
#include "preload/request/event_order.h"

#include "preload/base/forklock.h"
#include "preload/base/guard.h"
#include "preload/driver/contexts.h"
#include "preload/driver/life.h"
#include "preload/request/quick.h"

enum {
    EVENTS = 1024, /* slots of the table, a power of two */
};

/* The last record of an event. */
struct record {
    CUevent event;
    uint64_t turn;      /* number of the record that began last; each is unique */
    unsigned under_way; /* records that have not ended */
    bool is_mixed;      /* two records were under way at once: their order is unknown */
    bool is_known;
    struct pool_order order;
};

struct pool *_Atomic event_order_pool;
static atomic_bool has_ended; /* may be set before event_order_start */

FORKLOCK(follow_lock);
static struct record records[EVENTS]; /* guarded by follow_lock, by the handle */
static uint64_t turns;                /* likewise */

void event_order_start(struct pool *pool)
{
    atomic_store(&event_order_pool, pool);
    if (atomic_load(&has_ended))
        atomic_store(&event_order_pool, NULL);
}

void event_order_end(void)
{
    atomic_store(&has_ended, true);
    atomic_store(&event_order_pool, NULL);
}

/* The slot of an event; another event may occupy it. */
static struct record *event_order_place_of(CUevent event)
{
    uint64_t hash = (uint64_t)(uintptr_t)event * UINT64_C(0x9e3779b97f4a7c15);

    return &records[(hash >> 32) % EVENTS];
}

/*
 * May this call be followed? It must be the program's own, and no capture may change the meaning of
 * a record.
 */
static bool may_follow(void)
{
    return event_order_is_on() && !guard_has(GUARD_CAPTURING) && !life_is_passive();
}

static uint64_t identity_of(CUstream stream, bool per_thread)
{
    CUstream named = stream_named(stream, per_thread);
    struct stream here;
    uint64_t identity;

    if (named != CU_STREAM_LEGACY && named != CU_STREAM_PER_THREAD) {
        identity = quick_stream(named);
        if (identity)
            return identity;
    }
    return stream_here(stream, per_thread, &here) == 0 ? here.identity : 0;
}

static struct pool_order event_order_order_now(CUstream stream, bool per_thread)
{
    struct pool_order order = {.count = 0};
    struct pool *pool = atomic_load_explicit(&event_order_pool, memory_order_acquire);
    uint64_t identity;

    guard_push();
    identity = pool ? identity_of(stream, per_thread) : 0;
    if (identity)
        pool_events_now(pool, identity, &order);
    guard_pop();
    return order;
}

void event_order_record_begin(
        struct event_order *follow, CUevent event, bool covers, CUstream stream, bool per_thread)
{
    struct record *record = event_order_place_of(event);

    *follow = (struct event_order){.event = NULL};
    if (!event_order_is_on())
        return;
    if (covers && guard_depth() == 0 && may_follow())
        follow->order = event_order_order_now(stream, per_thread);
    lock_take(&follow_lock);
    if (record->event == event || record->under_way == 0) {
        if (record->event != event)
            *record = (struct record){.event = event};
        record->is_known = false;
        record->is_mixed |= record->under_way > 0;
        record->under_way++;
        record->turn = follow->turn = ++turns;
        follow->event = event;
    }
    lock_drop(&follow_lock);
}

void event_order_record_end(struct event_order *follow, CUresult result)
{
    struct record *record = event_order_place_of(follow->event);

    if (!follow->event)
        return;
    lock_take(&follow_lock);
    record->under_way--;
    record->is_known =
            result == CUDA_SUCCESS && !record->is_mixed && follow->order.count > 0 && may_follow();
    if (record->is_known)
        record->order = follow->order;
    if (record->under_way == 0)
        record->is_mixed = false;
    lock_drop(&follow_lock);
}

void event_order_wait_begin(struct event_order *follow, CUevent event)
{
    const struct record *record = event_order_place_of(event);

    *follow = (struct event_order){.event = NULL};
    if (!event || !may_follow() || guard_depth() > 0)
        return;
    lock_take(&follow_lock);
    if (record->event == event && record->is_known) {
        follow->event = event;
        follow->turn = record->turn;
        follow->order = record->order;
    }
    lock_drop(&follow_lock);
}

/* Was the event not recorded again meanwhile? */
static bool is_the_same(const struct event_order *follow)
{
    const struct record *record = event_order_place_of(follow->event);
    bool is_it;

    lock_take(&follow_lock);
    is_it = record->event == follow->event && record->turn == follow->turn;
    lock_drop(&follow_lock);
    return is_it;
}

void event_order_wait_end(
        struct event_order *follow, CUresult result, CUstream stream, bool per_thread)
{
    struct pool *pool = atomic_load_explicit(&event_order_pool, memory_order_acquire);
    uint64_t identity;

    if (!follow->event || result != CUDA_SUCCESS || !pool || !may_follow() || !is_the_same(follow))
        return;
    guard_push();
    identity = identity_of(stream, per_thread);
    if (identity)
        pool_events_follow(pool, identity, &follow->order);
    guard_pop();
}

void event_order_host_begin(
        struct event_order *follow, CUevent event, CUstream stream, bool per_thread)
{
    follow->order.count = 0;
    if (!event_order_is_on())
        return;
    event_order_wait_begin(follow, event);
    if (!event && guard_depth() == 0 && may_follow())
        follow->order = event_order_order_now(stream, per_thread);
}

void event_order_host_end(const struct event_order *follow, CUresult result)
{
    struct pool *pool = atomic_load_explicit(&event_order_pool, memory_order_acquire);

    if (!follow->order.count || result != CUDA_SUCCESS || !pool || !may_follow()
            || (follow->event && !is_the_same(follow)))
        return;
    guard_push();
    pool_events_passed(pool, &follow->order);
    guard_pop();
}

void event_order_forget(CUevent event)
{
    struct record *record = event_order_place_of(event);

    if (!event_order_is_on())
        return;
    lock_take(&follow_lock);
    if (record->event == event) {
        record->turn = ++turns;
        record->is_known = false;
        record->is_mixed |= record->under_way > 0;
    }
    lock_drop(&follow_lock);
}
