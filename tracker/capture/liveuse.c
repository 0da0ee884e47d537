/* SPDX-License-Identifier: MIT */
#include "tracker/capture/liveuse.h"

#include "alloc/base/types.h"

atomic_bool liveuse_recorded;

/* in the file's header; set by liveuse_open, before any range is in the map */
static struct format_unseen *unseen_calls;

void liveuse_open(struct format_unseen *unseen)
{
    usemap_init();
    __atomic_store_n(&unseen_calls, unseen, __ATOMIC_RELEASE);
    unseen->is_on = liveuse_on();
}

struct format_unseen *liveuse_unseen(void)
{
    return __atomic_load_n(&unseen_calls, __ATOMIC_ACQUIRE);
}

/* Is memory of this class found by address? */
static bool liveuse_has_address(unsigned memclass)
{
    return memclass < MEMCLASS_DEVICE_END && memclass != MEMCLASS_VMM && memclass != MEMCLASS_ARRAY
            && memclass != MEMCLASS_ARRAY_GUESS;
}

void liveuse_born(struct format_live *slot, struct usemap_range **range)
{
    unsigned memclass = slot->flags >> FORMAT_ALLOC_CLASS_SHIFT;
    uint32_t flags = FORMAT_USE_WATCHED;

    if (memclass >= MEMCLASS_DEVICE_END)
        return;
    /* arrays are named by a handle, and used through textures and surfaces; the host accesses
     * managed memory without a call */
    if (memclass == MEMCLASS_ARRAY || memclass == MEMCLASS_ARRAY_GUESS
            || memclass == MEMCLASS_MANAGED)
        flags |= FORMAT_USE_SHOWN;
    /* no other thread finds the slot yet */
    __atomic_store_n(&slot->use_flags, flags, __ATOMIC_RELAXED);
    if (liveuse_has_address(memclass) && usemap_enter(range, slot->addr, slot->size, slot) < 0)
        liveuse_set_flags(slot, FORMAT_USE_LOST);
}

/* No other thread writes a block that has ended, unless the program uses freed memory, or launches
 * a graph that names it: then that use counts or not, and each figure is one that the block had. */
void liveuse_died(
        struct format_live *slot, struct usemap_range *range, struct use_figures *ret_figures)
{
    const struct format_unseen *unseen = liveuse_unseen();

    *ret_figures = (struct use_figures){
            .times = {.first_use = liveuse_load(&slot->uses.first_use),
                    .last_use = liveuse_load(&slot->uses.last_use),
                    .longest_gap = liveuse_load(&slot->uses.longest_gap),
                    .gap_end = liveuse_load(&slot->uses.gap_end)},
            .count = liveuse_load(&slot->use_count),
            .flags = __atomic_load_n(&slot->use_flags, __ATOMIC_RELAXED) & FORMAT_USE_FLAGS};
    if (!(ret_figures->flags & FORMAT_USE_WATCHED))
        return;
    if (range)
        usemap_leave(range);
    if (unseen && __atomic_load_n(&unseen->count, __ATOMIC_RELAXED) > 0
            && __atomic_load_n(&unseen->last_ns, __ATOMIC_RELAXED) >= slot->time_ns)
        ret_figures->flags |= FORMAT_USE_UNSEEN;
}

void liveuse_mapped(struct format_live *slot, uint64_t addr, uint64_t size)
{
    if (size == 0)
        usemap_remove(addr, slot);
    else if (liveuse_on() && usemap_add(addr, size, slot) < 0)
        liveuse_set_flags(slot, FORMAT_USE_LOST);
}
