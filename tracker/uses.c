/* SPDX-License-Identifier: MIT */
#include "tracker/uses.h"

#include "alloc/types.h"
#include "tracker/capture.h"
#include "tracker/counter.h"
#include "tracker/usemap.h"

#include <stddef.h>
#include <time.h>

atomic_bool uses_recorded, uses_ordered;

static uint64_t start_ns; /* fixed by uses_open */
static struct format_unseen *
        unseen_calls; /* of the file's header; fixed by uses_open, before any range is in the map */

void uses_init(bool on)
{
    atomic_store(&uses_recorded, on);
}

void uses_keep_order(bool on)
{
    atomic_store(&uses_ordered, on);
}

void uses_open(uint64_t start, struct format_unseen *unseen)
{
    usemap_init();
    start_ns = start;
    __atomic_store_n(&unseen_calls, unseen, __ATOMIC_RELEASE);
    unseen->is_on = uses_on();
}

static __attribute__((noinline)) uint64_t now(uint64_t *moment)
{
    struct timespec time = {0};

    if (*moment == 0) {
        (void)clock_gettime(CLOCK_MONOTONIC, &time);
        *moment = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec - start_ns;
        *moment = *moment ? *moment : 1;
    }
    return *moment;
}

/* ---- one use -------------------------------------------------------------------------------- */

/*
 * A gap's two ends change together, or a reader would see one of this gap and the other of that. Two threads meet here only
 * when both end the longest gap so far.
 */
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

static uint64_t load(const uint64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}

static void set_flags(struct format_live *slot, uint32_t flags)
{
    if ((__atomic_load_n(&slot->use_flags, __ATOMIC_RELAXED) & flags) != flags)
        (void)__atomic_fetch_or(&slot->use_flags, flags, __ATOMIC_RELAXED);
}

/* Returns its number among the uses of the block. */
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

/* What is to be said of a use besides its time. */
static __attribute__((noinline)) void say_more(
        struct format_live *slot, enum use_how how, uint64_t time)
{
    uint32_t flags = how == USE_MAY ? FORMAT_USE_MAY : 0;

    set_flags(slot, flags);
    if (uses_have_order() && load(&slot->size) >= FORMAT_USE_BYTES && load(&slot->state) != 0)
        capture_use(load(&slot->state) >> 1, time, flags);
}

static inline uint64_t count_use(struct format_live *slot, enum use_how how, uint64_t *moment)
{
    uint64_t number = use(slot, *moment ? *moment : now(moment));

    if (((unsigned)how | uses_have_order()) != 0) /* one branch: each use pays for it */
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

    while (range) {
        uint64_t next = usemap_end(range);

        uses_of(range, how, moment);
        if (next >= end || next <= ptr)
            return;
        ptr = next;
        range = usemap_first(ptr, end - ptr);
    }
}

/*
 * Use `number` of the block is a copy or set into it. Was what another one wrote used before this one replaced it? If the flags change
 * meanwhile the write is not noted, and the next one is not held against it.
 */
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

    while (range) {
        struct format_live *slot = __atomic_load_n(&range->slot, __ATOMIC_RELAXED);
        uint64_t lo = __atomic_load_n(&range->lo, __ATOMIC_RELAXED);
        uint64_t next = usemap_end(range);
        bool is_whole = begin <= lo && next <= end && next - lo == load(&slot->size);

        note_write(slot, count_use(slot, USE_SURE, moment), is_whole);
        if (next >= end || next <= ptr)
            return;
        ptr = next;
        range = usemap_first(ptr, end - ptr);
    }
}

void uses_write(uint64_t ptr, uint64_t size, uint64_t *moment)
{
    uint64_t room;
    uintptr_t node;
    const struct usemap_range *range = usemap_look(ptr, &room, &node);

    if (__builtin_expect(room >= size, 1)) {
        struct format_live *slot = __atomic_load_n(&range->slot, __ATOMIC_RELAXED);
        bool is_whole = size == load(&slot->size); /* of one block, and as long as it */

        note_write(slot, count_use(slot, USE_SURE, moment), is_whole);
    } else if (node != 0 || size > 1) {
        write_stretch(ptr, size, moment);
    }
}

void uses_unseen(uint64_t *moment)
{
    struct format_unseen *unseen = __atomic_load_n(&unseen_calls, __ATOMIC_ACQUIRE);

    if (!uses_on() || !unseen)
        return;
    counter_raise(&unseen->last_ns, now(moment));
    counter_add(&unseen->count, 1);
}

void uses_shown(uint64_t ptr, uint64_t size)
{
    const struct usemap_range *range = uses_on() ? usemap_first(ptr, size ? size : 1) : NULL;
    uint64_t end = ptr + size;

    while (range) {
        uint64_t next = usemap_end(range);

        set_flags(__atomic_load_n(&range->slot, __ATOMIC_RELAXED), FORMAT_USE_SHOWN);
        if (next >= end || next <= ptr)
            return;
        ptr = next;
        range = usemap_first(ptr, end - ptr);
    }
}

uint64_t uses_base(uint64_t ptr)
{
    const struct usemap_range *range = usemap_find(ptr);

    return range ? __atomic_load_n(&range->lo, __ATOMIC_RELAXED) : ptr;
}

/* ---- slots ---------------------------------------------------------------------------------- */

bool uses_has_address(unsigned memclass)
{
    return memclass < MEMCLASS_DEVICE_END && memclass != MEMCLASS_VMM && memclass != MEMCLASS_ARRAY
            && memclass != MEMCLASS_ARRAY_GUESS;
}

void uses_born(struct format_live *slot, struct usemap_range **range)
{
    unsigned memclass = slot->flags >> FORMAT_ALLOC_CLASS_SHIFT;
    uint32_t flags = FORMAT_USE_WATCHED;

    if (memclass >= MEMCLASS_DEVICE_END)
        return;
    /* named by a handle, and used through textures and surfaces; what the host reads and writes without a call */
    if (memclass == MEMCLASS_ARRAY || memclass == MEMCLASS_ARRAY_GUESS
            || memclass == MEMCLASS_MANAGED)
        flags |= FORMAT_USE_SHOWN;
    /* nobody finds the slot yet */
    __atomic_store_n(&slot->use_flags, flags, __ATOMIC_RELAXED);
    if (uses_has_address(memclass) && usemap_enter(range, slot->addr, slot->size, slot) < 0)
        set_flags(slot, FORMAT_USE_LOST);
}

/*
 * Of what dies nobody else writes any more, unless the program uses what it frees, or launches a graph that names it: that
 * use counts or does not, and each figure is one that the block had.
 */
void uses_died(
        struct format_live *slot, struct usemap_range *range, struct use_figures *ret_figures)
{
    const struct format_unseen *unseen = __atomic_load_n(&unseen_calls, __ATOMIC_ACQUIRE);

    *ret_figures = (struct use_figures){.times = {.first_use = load(&slot->uses.first_use),
                                                .last_use = load(&slot->uses.last_use),
                                                .longest_gap = load(&slot->uses.longest_gap),
                                                .gap_end = load(&slot->uses.gap_end)},
            .count = load(&slot->use_count),
            .flags = __atomic_load_n(&slot->use_flags, __ATOMIC_RELAXED) & FORMAT_USE_FLAGS};
    if (!(ret_figures->flags & FORMAT_USE_WATCHED))
        return;
    if (range)
        usemap_leave(range);
    if (unseen && __atomic_load_n(&unseen->count, __ATOMIC_RELAXED) > 0
            && __atomic_load_n(&unseen->last_ns, __ATOMIC_RELAXED) >= slot->time_ns)
        ret_figures->flags |= FORMAT_USE_UNSEEN;
}

void uses_mapped(struct format_live *slot, uint64_t addr, uint64_t size)
{
    if (size == 0)
        usemap_remove(addr, slot);
    else if (uses_on() && usemap_add(addr, size, slot) < 0)
        set_flags(slot, FORMAT_USE_LOST);
}
