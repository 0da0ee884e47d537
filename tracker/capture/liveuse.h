/* SPDX-License-Identifier: MIT */
/*
 * liveuse.h - the uses of a block in its live slot, from its allocation to its end.
 *
 * The live table (caplive.h) calls this when a slot is filled, emptied or mapped; uses.h counts the
 * uses in between. Figures are those of struct format_live.
 *
 * Threads: any. liveuse_born, _died and _mapped: one thread at a time for one slot (its shard's
 * lock). No malloc.
 */
#ifndef KEDGE_TRACKER_LIVEUSE_H
#define KEDGE_TRACKER_LIVEUSE_H

#include "tracker/capture/usemap.h"
#include "tracker/format/format.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The uses of one allocation. */
struct use_figures {
    struct format_uses times;
    uint64_t count;
    uint32_t flags; /* FORMAT_USE_* */
};

extern atomic_bool liveuse_recorded; /* set by uses_init, false at first */

/* Are uses recorded in this process? */
static inline bool liveuse_on(void)
{
    return atomic_load_explicit(&liveuse_recorded, memory_order_relaxed);
}

/* The file exists. `unseen`: in its header, valid for the file's life. Empties the map. */
void liveuse_open(struct format_unseen *unseen);

/* Counts calls whose memory kedge cannot see, NULL before liveuse_open. */
struct format_unseen *liveuse_unseen(void);

/* While uses are on. *range: the table's pointer for the slot's address, NULL at first; call
 * usemap_drop when the table forgets the address. */
void liveuse_born(struct format_live *slot, struct usemap_range **range);
void liveuse_died(
        struct format_live *slot, struct usemap_range *range, struct use_figures *ret_figures);

/* Memory of a handle is mapped: accesses to [addr, addr + size) are uses of that slot. Size 0: no
 * longer. */
void liveuse_mapped(struct format_live *slot, uint64_t addr, uint64_t size);

/* One figure of a slot that other threads write. */
static inline uint64_t liveuse_load(const uint64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}

/* Sets FORMAT_USE_* flags of a slot; no store if they are set. */
static inline void liveuse_set_flags(struct format_live *slot, uint32_t flags)
{
    if ((__atomic_load_n(&slot->use_flags, __ATOMIC_RELAXED) & flags) != flags)
        (void)__atomic_fetch_or(&slot->use_flags, flags, __ATOMIC_RELAXED);
}

#endif
