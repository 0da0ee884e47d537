/* SPDX-License-Identifier: MIT */
/*
 * caplive.h - area A of a capture: the live table.
 *
 * The file has one slot per live allocation and no index: the index is ours, in 64 shards with a lock each, and a reader
 * only scans. A late record is recognised by its number: an address keeps the seq of its last operation, also after a
 * free, and a lower seq changes nothing.
 *
 *     alloc 9 of P ─► slot {9, live}      free 10 late, alloc 11 first ─► slot {11, live}, 9 counted as freed;
 *                                         then free 10 ─► known to be counted already, and told what 9 was
 *
 * Frees can come late because the pool has the block back before its free is recorded, and another thread may record the
 * next allocation first.
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

/* A fresh start on a new file. Memory of an earlier start is given back; no other thread may be inside. */
void caplive_init(struct capfile *file);

/* What is kept of a block's birth beside its slot. */
struct caplive_birth {
    uint32_t place;   /* capplace_find */
    uint32_t thread;  /* that allocated it, */
    uint32_t ordinal; /* how many blocks that thread had allocated by then */
    uint64_t context; /* capture_alloc_info.context */
};

/* What a call changed, for the totals. */
struct caplive_change {
    /* free: of a block that an implied free has counted; gone_device is -1 where it is not known any more what has gone */
    bool is_counted;
    bool is_new;          /* alloc: counted; free: this block was live */
    bool is_implied;      /* alloc: another block lived there, and its free was not seen yet */
    bool is_over;         /* alloc: its free came first, so it begins and ends here */
    uint64_t gone_size;   /* of the block that is no longer live (free, or implied) */
    uint64_t gone_hinted; /* of that, bytes that a hint had released */
    int gone_device;
    enum memclass gone_class;
    struct caplive_birth gone_birth;
    struct use_figures gone_uses; /* of that block, as its slot had them */
};

/*
 * Enters an allocation. `slot` holds all fields, state included (seq << 1 | 1). 0, or -errno once if it found no slot;
 * *ret_change is filled in any case, gone_* where a block has gone (is_implied, is_over). What found no slot is counted in the header.
 */
int caplive_alloc(const struct format_live *slot, const struct caplive_birth *birth,
        struct caplive_change *ret_change);

/* Takes one out. -ENOENT if nothing lives there (with seq above): ret_change says whether it was counted before. */
int caplive_free(uint64_t addr, uint64_t seq, struct caplive_change *ret_change);

/*
 * Notes on a block that lives since before `seq` what a hint did to it. *ret_size is its size, 0 if none lives there; *ret_first_release
 * is true when this is the first record that releases it (counts_release).
 */
void caplive_hint(uint64_t addr, uint64_t seq, unsigned what, int rule, bool counts_release,
        uint64_t *ret_size, bool *ret_first_release, int *ret_device);

/* Where what begins at `addr` was allocated, all 0 = nothing with a slot lives there. */
struct caplive_origin {
    uint32_t stack, pystack, path;
};
struct caplive_origin caplive_origin(uint64_t addr);

/* What lives under `key` is mapped at an address; size 0: no more. */
void caplive_mapped(uint64_t key, uint64_t addr, uint64_t size);

/*
 * Up to `most` addresses of what is live and was allocated with `context` before `seq`, of one shard from *io_shard on (0 at first), which is where
 * the next call goes on, for what is still live then; how many, 0 = no more. Takes a shard's lock for a moment.
 */
uint32_t caplive_of_context(
        uint64_t context, uint64_t seq, uint32_t *io_shard, uint64_t *ret_addrs, uint32_t most);

/* One stack's part of what is live. */
struct caplive_sum {
    uint32_t stack, pystack; /* both 0 = empty, or what has no stack */
    uint64_t bytes, count;
};

/*
 * Adds up the device memory that is live on a device, by both stacks, into `sums` (`room` of them, a power of two, all zero): a
 * hash table by stack, and in sums[0] what has no stack or found no place. Blocks without a slot are not seen. Takes each
 * shard's lock for a moment.
 */
void caplive_sum(int device, struct caplive_sum *sums, uint32_t room);

#endif
