/* SPDX-License-Identifier: MIT */
/*
 * caplive.h - area A of a capture: the live table.
 *
 * The file has one slot per live allocation and no index: the index is in memory, in 64 shards with
 * a lock each, and a reader only scans. A late record is recognised by its number: an address keeps
 * the seq of its last operation, also after a free, and a lower seq changes nothing.
 *
 *     alloc 9 of P ─► slot {9, live}
 *     alloc 11 before the late free 10 ─► slot {11, live}, 9 counted as freed
 *     then free 10 ─► recognised as counted already; gets the facts about 9
 *
 * Frees can be late because the pool reuses the block before its free is recorded, and another
 * thread may record the next allocation first.
 *
 * Threads: any, no kedge lock held. Memory: meta.h for the index.
 */
#ifndef KEDGE_TRACKER_CAPLIVE_H
#define KEDGE_TRACKER_CAPLIVE_H

#include "alloc/base/types.h"
#include "tracker/capture/capfile.h"
#include "tracker/capture/liveuse.h"

#include <stdbool.h>
#include <stdint.h>

/* Starts on a new file. Frees memory of an earlier start; no other thread may be inside. */
void caplive_init(struct capfile *file);

/* Facts about a block's allocation that are kept beside its slot. */
struct caplive_birth {
    uint32_t place;   /* capplace_find */
    uint32_t thread;  /* the thread that allocated it, */
    uint32_t ordinal; /* and how many blocks it had allocated by then */
    uint64_t context; /* capture_alloc_info.context */
};

/* The changes by a call, for the totals. */
struct caplive_change {
    /* free: of a block that an implied free has counted; gone_device is -1 if that block is not
     * known any more */
    bool is_counted;
    bool is_new;          /* alloc: counted; free: the block was live */
    bool is_implied;      /* alloc: another live block was there, whose free is not yet recorded */
    bool is_over;         /* alloc: its free was recorded first, so it begins and ends here */
    uint64_t gone_size;   /* of the block that ended (free, or implied) */
    uint64_t gone_hinted; /* bytes of it that a hint had released */
    int gone_device;
    enum memclass gone_class;
    struct caplive_birth gone_birth;
    struct use_figures gone_uses; /* of that block, from its slot */
};

/* Records an allocation. `slot` holds all fields, state included (seq << 1 | 1). 0, or -errno once
 * if it got no slot; *ret_change is always filled, gone_* where a block has ended (is_implied,
 * is_over). The header counts blocks without a slot. */
int caplive_alloc(const struct format_live *slot, const struct caplive_birth *birth,
        struct caplive_change *ret_change);

/* Records a free. -ENOENT if no block (of a lower seq) lives there: ret_change says whether it was
 * counted before. */
int caplive_free(uint64_t addr, uint64_t seq, struct caplive_change *ret_change);

/* Records what a hint did to a block that has lived since before `seq`. *ret_size is its size, 0 if
 * none lives there; *ret_first_release is true for the first record that releases it
 * (counts_release). */
void caplive_hint(uint64_t addr, uint64_t seq, unsigned what, int rule, bool counts_release,
        uint64_t *ret_size, bool *ret_first_release, int *ret_device);

/* Where the block that begins at `addr` was allocated; all 0 = no block with a slot lives there. */
struct caplive_origin {
    uint32_t stack, pystack, path;
};
struct caplive_origin caplive_origin(uint64_t addr);

/* The number of the allocation of the block that begins at `addr`; 0 = no block of at most `most`
 * bytes lives there. */
uint64_t caplive_seq(uint64_t addr, uint64_t most);

/* The block under `key` is mapped at an address; size 0: no longer. */
void caplive_mapped(uint64_t key, uint64_t addr, uint64_t size);

/* Lists up to `most` addresses of live blocks that were allocated with `context` before `seq`, in
 * one shard from *io_shard on (0 at first); the next call continues there, with blocks that are
 * still live then. Returns their number, 0 = no more. Takes a shard's lock briefly. */
uint32_t caplive_of_context(
        uint64_t context, uint64_t seq, uint32_t *io_shard, uint64_t *ret_addrs, uint32_t most);

/* As capture_live (capture.h). Takes each shard's lock briefly. */
struct capture_block;
uint32_t caplive_list(int device, struct capture_block *to, uint32_t room, uint64_t *ret_bytes);

/* The live blocks of one stack. */
struct caplive_sum {
    uint32_t stack, pystack; /* both 0 = empty, or blocks without a stack */
    uint64_t bytes, count;
};

/* Adds up the live device memory of a device, by both stacks, into `sums` (`room` entries, a power
 * of two, all zero): a hash table by stack; sums[0] has blocks without a stack or without an entry.
 * Skips blocks without a slot. Takes each shard's lock briefly. */
void caplive_sum(int device, struct caplive_sum *sums, uint32_t room);

#endif
