/* SPDX-License-Identifier: MIT */
#include "tracker/capture/uses.h"

#include "tracker/base/counter.h"
#include "tracker/capture/capstate.h"
#include "tracker/capture/capture.h"

#include <stddef.h>

atomic_bool uses_ordered;

void uses_init(bool on)
{
    atomic_store(&liveuse_recorded, on);
}

void uses_keep_order(bool on)
{
    atomic_store(&uses_ordered, on);
}

static __attribute__((noinline)) uint64_t now(uint64_t *moment)
{
    uint64_t time;

    if (*moment == 0) {
        time = capstate_time();
        *moment = time ? time : 1;
    }
    return *moment;
}

/* ---- one use -------------------------------------------------------------------------------- */

/* The two ends of a gap are stored together, or a reader would see ends of two gaps. Two threads
 * meet here only when both end the longest gap so far. */
static __attribute__((noinline)) void raise_gap(
        struct format_live *slot, uint64_t begin, uint64_t end)
{
    __extension__ typedef unsigned __int128 pair;
    pair *at = (pair *)(void *)&slot->uses.gap_end;
    pair fresh = (pair)begin << 64 | end;
    pair old = (pair)__atomic_load_n(&slot->gap_begin, __ATOMIC_RELAXED) << 64
            | __atomic_load_n(&slot->uses.gap_end, __ATOMIC_RELAXED);

    while ((uint64_t)old - (uint64_t)(old >> 64) < end - begin) {
        pair was = __sync_val_compare_and_swap(at, old, fresh);

        if (was == old)
            break;
        old = was;
    }
    counter_raise(&slot->uses.longest_gap, end - begin);
}

_Static_assert(offsetof(struct format_live, uses.gap_end) % 16 == 0
                && offsetof(struct format_live, gap_begin)
                        == offsetof(struct format_live, uses.gap_end) + 8,
        "the ends of a gap are changed as one");

/* Records a use; returns its number among the uses of the block. */
static uint64_t use(struct format_live *slot, uint64_t time)
{
    uint64_t last = __atomic_load_n(&slot->uses.last_use, __ATOMIC_RELAXED);
    uint64_t number = __atomic_add_fetch(&slot->use_count, 1, __ATOMIC_RELAXED);

    do {
        if (last >= time)
            return number;
    } while (!__atomic_compare_exchange_n(
            &slot->uses.last_use, &last, time, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    if (last == 0)
        __atomic_store_n(&slot->uses.first_use, time, __ATOMIC_RELAXED);
    else if (time - last > __atomic_load_n(&slot->uses.longest_gap, __ATOMIC_RELAXED))
        raise_gap(slot, last, time);
    return number;
}

/* Records the facts about a use other than its time. */
static __attribute__((noinline)) void say_more(
        struct format_live *slot, enum use_how how, uint64_t time)
{
    uint32_t flags = how == USE_MAY ? FORMAT_USE_MAY : 0;

    liveuse_set_flags(slot, flags);
    if (uses_have_order() && liveuse_load(&slot->size) >= FORMAT_USE_BYTES
            && liveuse_load(&slot->state) != 0)
        capture_use(liveuse_load(&slot->state) >> 1, time, flags);
}

static inline uint64_t count_use(struct format_live *slot, enum use_how how, uint64_t *moment)
{
    uint64_t number = use(slot, *moment ? *moment : now(moment));

    if (((unsigned)how | uses_have_order()) != 0) /* one branch: each use executes it */
        say_more(slot, how, *moment);
    return number;
}

void uses_of(const struct usemap_range *range, enum use_how how, uint64_t *moment)
{
    (void)count_use(__atomic_load_n(&range->slot, __ATOMIC_RELAXED), how, moment);
}

void uses_of_stretch(uint64_t ptr, uint64_t size, enum use_how how, uint64_t *moment)
{
    const struct usemap_range *range = usemap_first(ptr, size);
    uint64_t end = ptr + size;

    for (; range; range = usemap_next(range, &ptr, end))
        uses_of(range, how, moment);
}

/* Use `number` of the block is a copy or set into it. Detects whether the previous write was used
 * before this one replaced it. If the flags change meanwhile the write is not recorded, and the
 * next one is not judged by it. */
static inline void note_write(struct format_live *slot, uint64_t number, bool is_whole)
{
    uint32_t old = __atomic_load_n(&slot->use_flags, __ATOMIC_RELAXED);
    uint32_t before = (uint32_t)(number - 1) << FORMAT_USE_WROTE_SHIFT;
    uint32_t fresh = (uint32_t)number << FORMAT_USE_WROTE_SHIFT | (old & FORMAT_USE_FLAGS);

    if (is_whole && before != 0 && (old & ~FORMAT_USE_FLAGS) == before)
        fresh |= FORMAT_USE_DEAD_WRITE;
    (void)__atomic_compare_exchange_n(
            &slot->use_flags, &old, fresh, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static __attribute__((noinline)) void write_stretch(uint64_t ptr, uint64_t size, uint64_t *moment)
{
    const struct usemap_range *range = usemap_first(ptr, size);
    uint64_t begin = ptr;
    uint64_t end = ptr + size;

    for (; range; range = usemap_next(range, &ptr, end)) {
        struct format_live *slot = __atomic_load_n(&range->slot, __ATOMIC_RELAXED);
        uint64_t lo = __atomic_load_n(&range->lo, __ATOMIC_RELAXED);
        uint64_t next = usemap_end(range);
        bool is_whole = begin <= lo && next <= end && next - lo == liveuse_load(&slot->size);

        note_write(slot, count_use(slot, USE_SURE, moment), is_whole);
    }
}

void uses_write(uint64_t ptr, uint64_t size, uint64_t *moment)
{
    uint64_t room;
    uintptr_t node;
    const struct usemap_range *range = usemap_look(ptr, &room, &node);

    if (__builtin_expect(room >= size, 1)) {
        struct format_live *slot = __atomic_load_n(&range->slot, __ATOMIC_RELAXED);
        bool is_whole = size == liveuse_load(&slot->size); /* it covers one whole block */

        note_write(slot, count_use(slot, USE_SURE, moment), is_whole);
    } else if (node != 0 || size > 1) {
        write_stretch(ptr, size, moment);
    }
}

void uses_unseen(uint64_t *moment)
{
    struct format_unseen *unseen = liveuse_unseen();

    if (!uses_on() || !unseen)
        return;
    counter_raise(&unseen->last_ns, now(moment));
    counter_add(&unseen->count, 1);
}

void uses_shown(uint64_t ptr, uint64_t size)
{
    const struct usemap_range *range = uses_on() ? usemap_first(ptr, size ? size : 1) : NULL;
    uint64_t end = ptr + size;

    for (; range; range = usemap_next(range, &ptr, end))
        liveuse_set_flags(__atomic_load_n(&range->slot, __ATOMIC_RELAXED), FORMAT_USE_SHOWN);
}

uint64_t uses_base(uint64_t ptr)
{
    const struct usemap_range *range = usemap_find(ptr);

    return range ? __atomic_load_n(&range->lo, __ATOMIC_RELAXED) : ptr;
}
