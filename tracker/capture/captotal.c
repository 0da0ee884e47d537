/* SPDX-License-Identifier: MIT */
#include "tracker/capture/captotal.h"

#include "tracker/base/counter.h"
#include "tracker/capture/capstate.h"
#include "tracker/capture/capture.h"

struct lock captotal_figures = LOCK_INIT(LOCK_RANK_CAPTURE);

/* ---- totals ---- */

/* The most live bytes since it was asked for with a restart; UINT64_MAX: it never was. */
static uint64_t recent_peak = UINT64_MAX;

uint64_t captotal_recent_peak(const struct format_header *header, bool restart)
{
    uint64_t peak = recent_peak == UINT64_MAX ? header->total.peak_bytes : recent_peak;

    if (restart)
        recent_peak = header->total.live_bytes <= INT64_MAX ? header->total.live_bytes : 0;
    return peak;
}

struct format_totals *captotal_of(struct format_header *header, int device)
{
    return device >= 0 && device < (int)FORMAT_DEVICES_MAX ? &header->device[device] : NULL;
}

static void total_alloc(struct format_totals *totals, uint64_t size)
{
    if (!totals)
        return;
    (void)counter_grow(&totals->allocated_bytes, size);
    (void)counter_grow(&totals->allocated_count, 1);
    counter_lift(&totals->live_bytes, &totals->peak_bytes, size);
    counter_lift(&totals->live_hinted_bytes, &totals->peak_hinted_bytes, size);
}

static void total_free(struct format_totals *totals, uint64_t size, uint64_t hinted)
{
    if (!totals)
        return;
    (void)counter_grow(&totals->freed_bytes, size);
    (void)counter_grow(&totals->freed_count, 1);
    (void)counter_grow(&totals->live_bytes, 0 - size);
    (void)counter_grow(&totals->live_hinted_bytes, 0 - (size - hinted));
}

static void total_release(struct format_totals *totals, uint64_t size)
{
    if (!totals)
        return;
    (void)counter_grow(&totals->hinted_freed_bytes, size);
    (void)counter_grow(&totals->hinted_freed_count, 1);
    (void)counter_grow(&totals->live_hinted_bytes, 0 - size);
}

static uint64_t in_units(uint64_t size)
{
    return (size + 511) & ~UINT64_C(511);
}

void captotal_released(struct format_header *header, int device, uint64_t size)
{
    (void)counter_grow(&header->stored_512_bytes, 0 - in_units(size));
    total_release(&header->total, size);
    total_release(captotal_of(header, device), size);
}

/* ---- classes ---- */

/* True for classes that the driver serves one by one; memory in the driver's own pools is looked up
 * instead. */
static bool is_native_class(enum memclass memclass)
{
    return memclass == MEMCLASS_DRIVER || memclass == MEMCLASS_PITCHED || memclass == MEMCLASS_VMM
            || memclass == MEMCLASS_ARRAY || memclass == MEMCLASS_ARRAY_GUESS;
}

static void native_moved(
        struct format_header *header, enum memclass memclass, int device, uint64_t by)
{
    if (is_native_class(memclass) && device >= 0 && device < (int)FORMAT_DEVICES_MAX)
        (void)counter_grow(&header->look[device].native_live, by);
}

/* Counts the change of a thread as late if a change with a higher number was counted before it. */
void captotal_comes(struct format_header *header, uint64_t seq)
{
    if (__builtin_expect(seq < header->counted_seq, 0))
        (void)counter_grow(&header->counted_late, 1);
    else
        __atomic_store_n(&header->counted_seq, seq, __ATOMIC_RELAXED);
}

void captotal_born(struct format_header *header, enum memclass memclass, int device, uint64_t size)
{
    struct format_class *of = &header->memclass[memclass % FORMAT_CLASSES_MAX];

    (void)counter_grow(&of->allocated_bytes, size);
    (void)counter_grow(&of->allocated_count, 1);
    (void)counter_grow(&of->live_count, 1);
    counter_lift(&of->live_bytes, &of->peak_bytes, size);
    native_moved(header, memclass, device, size);
    if (memclass >= MEMCLASS_DEVICE_END)
        return;
    if (memclass == MEMCLASS_POOLED)
        counter_lift(&header->stored_512_bytes, &header->peak_stored_512_bytes, in_units(size));
    total_alloc(&header->total, size);
    if (header->total.live_bytes > recent_peak && header->total.live_bytes <= INT64_MAX)
        recent_peak = header->total.live_bytes;
    total_alloc(captotal_of(header, device), size);
}

void captotal_died(struct format_header *header, const struct caplive_change *change)
{
    struct format_class *of = &header->memclass[change->gone_class % FORMAT_CLASSES_MAX];

    (void)counter_grow(&of->live_count, UINT64_MAX);
    (void)counter_grow(&of->live_bytes, 0 - change->gone_size);
    native_moved(header, change->gone_class, change->gone_device, 0 - change->gone_size);
    if (change->gone_class >= MEMCLASS_DEVICE_END)
        return;
    if (change->gone_class == MEMCLASS_POOLED && change->gone_hinted == 0)
        (void)counter_grow(&header->stored_512_bytes, 0 - in_units(change->gone_size));
    total_free(&header->total, change->gone_size, change->gone_hinted);
    total_free(captotal_of(header, change->gone_device), change->gone_size, change->gone_hinted);
}

uint64_t captotal_native(const struct format_header *header, int device)
{
    if (device < 0 || device >= (int)FORMAT_DEVICES_MAX)
        return 0;
    return __atomic_load_n(&header->look[device].native_live, __ATOMIC_RELAXED);
}

int capture_look(const struct capture_look_info *info)
{
    struct format_look *look;
    struct format_inside *inside;
    int r;
    struct format_header *header = capstate_begin(true, &r);

    if (!header || info->device < 0 || info->device >= (int)FORMAT_DEVICES_MAX)
        return r;
    look = &header->look[info->device];
    /* Two threads may look at once: each figure is from one of them, and the next look corrects
     * it. */
    __atomic_store_n(&look->free_bytes, info->free_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&look->total_bytes, info->total_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&look->held_bytes, info->held_bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&look->native_bytes, __atomic_load_n(&look->native_live, __ATOMIC_RELAXED),
            __ATOMIC_RELAXED);
    __atomic_store_n(&look->graph_reserved, info->graph_reserved, __ATOMIC_RELAXED);
    counter_raise(&look->graph_high, info->graph_high);
    inside = &header->inside[info->device];
    __atomic_store_n(&inside->live, info->live, __ATOMIC_RELAXED);
    __atomic_store_n(&inside->used, info->used, __ATOMIC_RELAXED);
    __atomic_store_n(&inside->dead, info->dead, __ATOMIC_RELAXED);
    __atomic_store_n(
            &inside->seq, __atomic_load_n(&header->last_seq, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
    __atomic_store_n(&inside->time_ns, capstate_time(), __ATOMIC_RELAXED);
    counter_add(&look->looks, 1);
    return r;
}
