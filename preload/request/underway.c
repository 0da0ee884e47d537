/* SPDX-License-Identifier: MIT */
#include "preload/request/underway.h"

#include "alloc/base/meta.h"
#include "preload/base/forklock.h"
#include "preload/base/guard.h"
#include "preload/base/msg.h"
#include "preload/driver/life.h"
#include "preload/driver/session.h"
#include "tracker/capture/capture.h"

#include <errno.h>
#include <stdatomic.h>

/* A block, or storage brought in for a call. */
struct underway_entry {
    struct underway_entry *next;
    const void *comm;
    uint64_t number; /* order in which entries were parked */
    struct pool_collected block;
    bool is_call;
    struct pool_call call[];
};

FORKLOCK(parked_lock);
static struct underway_entry *parked; /* guarded by parked_lock */
static _Atomic(uint64_t) park_number; /* of the last one; changed with parked_lock */

static size_t underway_size_of(bool is_call)
{
    return sizeof(struct underway_entry) + (is_call ? sizeof(struct pool_call) : 0);
}

/* Adds an entry; NULL = out of memory. */
static struct underway_entry *underway_add(struct underway *underway, bool is_call)
{
    struct underway_entry *entry = meta_get(underway_size_of(is_call));

    if (!entry)
        return NULL;
    entry->comm = underway->comm;
    entry->is_call = is_call;
    entry->next = underway->first;
    underway->first = entry;
    return entry;
}

void underway_collect(struct underway *underway, devptr_t ptr, bool is_named)
{
    struct pool_collected block;
    struct underway_entry *entry;

    if (underway->reads || !pool_collect(session_pool, ptr, is_named, &block))
        return;
    entry = underway_add(underway, false);
    if (entry) {
        entry->block = block;
        return;
    }
    pool_call_made(session_pool, &block);
    guard_read_begin();
    underway->reads = true;
}

bool underway_bring(struct underway *underway, struct evict_in *bring)
{
    struct underway_entry *entry;

    if (evict_in_ready_slowly(bring) != CUDA_SUCCESS)
        return false;
    if (bring->call.count == 0)
        return true;
    entry = underway_add(underway, true);
    if (!entry)
        return false;
    entry->call[0] = bring->call;
    bring->call = (struct pool_call){.count = 0};
    return true;
}

static void underway_let_go(struct underway_entry *first)
{
    if (__builtin_expect(!first, 1) || !life_begin_edge())
        return;
    while (first) {
        struct underway_entry *entry = first;

        first = entry->next;
        if (entry->is_call)
            pool_call_end(session_pool, entry->call);
        else
            pool_call_made(session_pool, &entry->block);
        meta_put(entry, underway_size_of(entry->is_call));
    }
    session_go_on_later();
    life_leave();
}

void underway_over(struct underway *underway)
{
    struct underway_entry *first = underway->first;

    if (underway->reads)
        guard_read_end();
    underway->reads = false;
    underway->first = NULL;
    underway_let_go(first);
}

void underway_park(struct underway *underway)
{
    struct underway_entry **at = &underway->first;
    uint64_t number;

    underway->reads = false; /* the section stays open: no other thread can end it */
    if (!*at)
        return;
    lock_take(&parked_lock);
    number = atomic_load(&park_number) + 1;
    for (; *at; at = &(*at)->next)
        (*at)->number = number;
    *at = parked;
    parked = underway->first;
    atomic_store(&park_number, number);
    lock_drop(&parked_lock);
    underway->first = NULL;
}

uint64_t underway_parked(void)
{
    return atomic_load(&park_number);
}

void underway_given(const void *comm, uint64_t number)
{
    struct underway_entry **at = &parked, *given = NULL;

    if (number == 0)
        return;
    lock_take(&parked_lock);
    while (*at) {
        struct underway_entry *entry = *at;

        if (entry->comm != comm || entry->number > number) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        entry->next = given;
        given = entry;
    }
    lock_drop(&parked_lock);
    underway_let_go(given);
}

/* Was the block reported already? It may be parked for several calls. */
static bool underway_is_told(const struct underway_entry *first, const struct underway_entry *at)
{
    while (first != at && (first->is_call || first->block.base != at->block.base))
        first = first->next;
    return first != at;
}

void underway_end(void)
{
    struct underway_entry *first;
    struct outcome kept;
    unsigned count = 0;

    lock_take(&parked_lock);
    first = parked; /* no other thread reads them now: they stay unchanged */
    parked = NULL;
    lock_drop(&parked_lock);
    for (const struct underway_entry *at = first; at; at = at->next) {
        if (at->is_call || underway_is_told(first, at)
                || !pool_waits_for_call(session_pool, &at->block, &kept))
            continue;
        session_report(capture_hint(&(struct capture_hint_info){.what = FORMAT_HINT_REFUSED,
                .mode = kept.mode,
                .rule = kept.rule,
                .ptr = kept.ptr,
                .size = kept.size,
                .seq = kept.seq,
                .device = kept.device,
                .result = EINPROGRESS}));
        count++;
    }
    if (count > 0)
        msg_warn("%u blocks that hints release were kept to the end: their call of NCCL came back "
                 "in "
                 "progress, and ncclCommGetAsyncError was not asked whether it was given to the "
                 "device",
                count);
}
