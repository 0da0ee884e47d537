/* SPDX-License-Identifier: MIT */
/*
 * records.h - what a pool is made of: blocks, segments, heaps, streams, and the pool itself.
 *
 *     struct pool ─► struct heap (kind, owner) ─► segments ─► blocks in address order, without gaps between them
 *                       │
 *                       └─► free blocks by (size, address), one struct bestfit per class of free block (freelist.h)
 *
 * Segments. PLAIN: one cuMemAlloc. ARENA: the reserved range of a mapped heap, storage by handles of one size from the
 * bottom up to `top`. HINT: a reserved range where each block stands on one handle of its own, or shares one (alias.h). MANAGED: one
 * cuMemAllocManaged with one block, which goes back to the driver with it. All begin and end on 2 MiB.
 *
 * States of a block (who holds it, what it waits for):
 *
 *     FREE ─take─► LIVE ─free─► PENDING (in an epoch) ─► FREE            sync, or unknown stream
 *                       ─free─► FREE in the class of the stream          stream
 *                       ─free─► PENDING ─► IDLE ─take─► LIVE             hinted, freed before it was due
 *                       ─due──► LIVE with a holder on its way ─► ... ─► DECOMMITTED when freed and quiet
 *     BUSY: a driver call about it is under way in some thread; nobody else touches it.
 *     VACATED: a slot of an arena whose storage serves elsewhere already (vacate.h).
 *
 * Only alloc/ includes this. Records only: what is done with each kind is in the file of its name. None of that calls the
 * driver but what includes drive.h, so it may be done in one hold of the pool's lock, and none of it can wait.
 * Threads: all of it needs the pool's lock, unless it says otherwise. Memory: meta.h.
 * Prefixes: holder_, segment_.
 */
#ifndef KEDGE_ALLOC_RECORDS_H
#define KEDGE_ALLOC_RECORDS_H

#include "alloc/base/lock.h"
#include "alloc/base/table.h"
#include "alloc/heap/pool_types.h"
#include "alloc/index/bestfit.h"
#include "alloc/index/fence.h"
#include "alloc/index/granule.h"
#include "alloc/index/starts.h"

#define POOL_DEVICES_MAX 64
#define BLOCKS_MAX       (1u << 27)
#define SEGMENTS_MAX     (1u << 22)
#define STREAMS_MAX      (1u << 20)
#define HOLDERS_MAX      (1u << 24)

struct swap_set;
struct swap_copy;

/* Why nothing is handed out any more. */
enum frozen {
    FROZEN_NOT,
    FROZEN_PROCESS, /* the structures are sound, the driver is not to be called */
    FROZEN_CHILD,   /* a forked child: not even the structures may be trusted */
};

enum block_state {
    BLOCK_NONE,
    BLOCK_FREE,    /* in a bestfit of its class */
    BLOCK_LIVE,    /* the program holds it (its storage may be on its way out: see the holder) */
    BLOCK_PENDING, /* freed; in the open chain or an epoch */
    BLOCK_BUSY,
    BLOCK_DECOMMITTED, /* no storage; in `decommitted` */
    BLOCK_IDLE,        /* HINT: freed, storage there; in `idle` */
    BLOCK_KEPT,        /* freed, and stuck for good, or in a capture or pinned (pin.h) */
    BLOCK_MARGIN, /* HINT: addresses in front of a block (grow.c), or beside one with BLOCK_SHARED (alias.h) */
    BLOCK_VACATED, /* ARENA: a slot whose storage has another address too (vacate.h) */
    BLOCK_STATE_COUNT,
};

enum block_flag {
    BLOCK_HINTED = 1 << 0,   /* stands on a handle of its own */
    BLOCK_STREAMED = 1 << 1, /* came through the stream-ordered API */
    BLOCK_GONE = 1 << 2,     /* PENDING: only the address waits, the storage is gone already */
    /* to be unmapped after its free, not to be handed out as it is: a trap took the access away, or it may go out (swapset.h) */
    BLOCK_TRAPPED = 1 << 3,
    BLOCK_RECENT = 1 << 4, /* FREE: in `recent`, not in a bestfit */
    BLOCK_PINNED = 1 << 5, /* LIVE or KEPT: has a record in `pins` */
    /* LIVE: poison was put into it; PENDING: its holder stays until the content was looked at */
    BLOCK_POISONED = 1 << 6,
    BLOCK_SHARED = 1 << 7, /* HINTED, but its handle has other blocks too (alias.h) */
};

/* 64 bytes, one line. */
struct block {
    struct bestfit_node node;
    uint32_t prev, next; /* neighbours by address in the segment, 0 = none */
    uint32_t segment;
    /* LIVE: the allocating stream; FREE: the class, 0 = clean. Index of the stream table */
    uint32_t stream;
    uint32_t holder; /* LIVE: index of its holder, 0 = none */
    uint32_t slack;  /* LIVE: size less what was requested */
    uint64_t seq; /* LIVE: of the allocation; FREE with a class: the point that must have passed */
    uint32_t chain; /* PENDING and those that wait for the driver: next in the chain */
    uint8_t state;
    uint8_t flags;
    /* FREE: low bits of the stream that used it last, 0 = unknown; for the count of cross reuses */
    uint16_t last;
};

enum segment_kind {
    SEGMENT_PLAIN,
    SEGMENT_ARENA,
    SEGMENT_HINT,
    SEGMENT_MANAGED,
};

struct segment {
    /* of what is used: a multiple of the granule; aligned so that a record is found with a shift */
    _Alignas(256) devptr_t base;
    uint64_t size; /* PLAIN, MANAGED: usable bytes; else reserved bytes of address space */
    devptr_t raw_base;
    uint64_t raw_size; /* what the driver gave; base and size lie inside */
    struct heap *heap;
    uint64_t context;     /* PLAIN, MANAGED: whose memory it is */
    uint32_t prev, next;  /* in the heap's list */
    uint32_t first, last; /* blocks */
    uint32_t tenants;     /* LIVE blocks */
    uint64_t top;         /* bytes from the base that have blocks; PLAIN: size */
    uint64_t slot;        /* bytes per entry of `handles` */
    uint64_t *handles;    /* ARENA: per slot, 0 = none; HINT: at a block's first slot */
    struct span handle_span;
    struct starts starts;
    enum segment_kind kind;
    bool small;
    bool sealed; /* shown to another process: nobody gets a block of it any more (R24) */
    bool dead; /* its context is gone: unknown to look-ups, goes when nobody is busy in the heap */
};

/* Memory that the driver has allocated in one piece. */
static inline bool segment_is_piece(const struct segment *segment)
{
    return segment->kind == SEGMENT_PLAIN || segment->kind == SEGMENT_MANAGED;
}

/* Slots of the free cache (freecache.h), one hash table of chains per class of free blocks. */
#define FREECACHE_SHIFT 6
#define FREECACHE_SLOTS (1u << FREECACHE_SHIFT)

/* Free blocks of one stream in one heap. */
struct heap_stream {
    struct heap_stream *next;
    uint32_t stream;
    uint64_t key; /* the stream's */
    struct stream *timeline_of;
    struct heap *heap;
    uint64_t swept; /* up to this point blocks were made clean */
    uint64_t asked; /* heap.allocs when a request of the stream was fitted last */
    /* up to this point nothing is left here that others could take (stream_take.h) */
    uint64_t adopted;
    /* of stream_take.h: */
    uint64_t followed; /* up to this point other streams were seen to come behind */
    uint32_t turn_of;  /* the one that did last, 0 = none has, */
    uint64_t turn_at;  /* and the point from which on its events come behind that */
    uint32_t turns;    /* in a row that were answered */
    bool is_handed;    /* what was free was handed over since the stream's last request */
    uint32_t spared;   /* so many events hand nothing over, */
    uint32_t backoff;  /* and after the next one that does harm about twice as many as this */
    uint32_t vacated;  /* slots that wait for its points */
    uint32_t recent[FREECACHE_SLOTS];
    struct bestfit fit;
    struct bestfit fragments;
};

/* Physical handles without a mapping, by size. */
struct shelf {
    uint64_t size; /* the key */
    uint64_t *handles;
    uint32_t count, room;
};

/* A handle that is mapped at vacated slots (vacate.h). */
struct vacated {
    uint64_t handle; /* the key */
    devptr_t at;     /* the slot that was vacated last, 0 = it is unmapped */
    uint64_t mappings;
};

/* Sums that are kept for each heap. */
struct tally {
    uint64_t live_count;
    uint64_t live_requested;
    uint64_t live_rounded;
    uint64_t used;
    uint64_t stored;
    uint64_t reserved;
    uint64_t pending;
    uint64_t kept;
    uint64_t held; /* of `kept`: by hints */
    uint64_t limbo;
    uint64_t husk;
    uint64_t cached;
    uint64_t spare; /* handles that count as given back (handles.h) */
    uint64_t going; /* handles that are off their shelf, on their way back to the driver */
    uint64_t used_high;
    uint64_t stored_high;
    uint64_t reserved_high;
    uint64_t kept_high;
    /* of the driver's own pool behind the heap, as it said last: the marks above count it in (R77, R78) */
    uint64_t native_used, native_reserved;
};

/* Sums over the heaps of a device; those that need marks of their own. And what was freed there, and waits for its contexts. */
struct device {
    uint64_t live_requested, live_requested_high;
    uint64_t stored, stored_high;
    uint64_t reserved, reserved_high;
    uint64_t spare;       /* of its heaps */
    uint64_t asked;       /* of the driver at this moment, in calls that add to what is reserved */
    uint64_t granularity; /* 0 = not asked yet */
    /* a handle was mapped at a second address; or the first try was refused, so that there is no other (vacate.h) */
    bool has_aliases, no_aliases;
    /* bytes that there are for the program, 0 = not asked yet: only where blocks may go out */
    uint64_t total;
    int number;      /* fixed at creation */
    bool no_managed; /* it does not use managed memory beside the host */
    bool eager;      /* the open chain has blocks in limbo: close the epoch soon */
    struct fence_chain open;
    /* Contexts that are being ended and may reach the device's memory (pool_ending): so many, and so many there ever were. What was
     * allocated up to this number, or may have been, is in `aside` once it is freed, until none is left. */
    uint32_t ending;
    uint64_t endings, ending_seq;
    struct fence_chain aside;
    uint64_t epoch_bytes; /* the open epoch is closed when so much was freed */
    struct fence_timeline epochs;
    struct fence_timeline events; /* what waits for single streams, in no order */
};

struct heap {
    /* fixed at creation */
    enum heap_kind kind;
    uint64_t owner;
    struct device *device;
    /* guarded by the pool's lock: */
    struct heap *next;  /* of pool->heaps, or of pool->leaving */
    struct heap *after; /* in the list of all (heap_any) */
    struct tally tally;
    uint32_t segments;    /* list */
    uint32_t arena, hint; /* segments of a mapped heap, 0 = not reserved yet */
    uint32_t busy;        /* driver calls under way that will come back to this heap */
    uint32_t stream_count;
    /* The driver gave no address range, so a mapped heap serves nothing. It is asked again after `range_wait` requests more,
     * 0 = never: the device has no VMM. */
    bool no_range;
    uint32_t range_wait;
    uint32_t range_errors; /* so often it gave none */
    bool no_hints;         /* the driver has none: hinted blocks cannot be placed */
    bool leaving;          /* its owner is gone: serves nobody, goes when the last block goes */
    bool dropped;          /* its owner is gone at once: goes when nobody is busy with it */
    bool held;             /* counted in busy: its context dies, but work of it still runs */
    struct bestfit small, clean, fragments, decommitted, hint_decommitted, idle;
    struct bestfit sealed; /* free blocks of sealed segments: in the books, never looked at */
    uint32_t recent_small[FREECACHE_SLOTS], recent_clean[FREECACHE_SLOTS];
    uint32_t recent_count; /* in all of them, those of streams included */
    uint64_t recent_bytes;
    uint32_t large; /* the large block that is held, 0 = none */
    struct heap_stream *streams;
    /* `allocs` and `frees` when an event has handed blocks over last (stream_take.h) */
    uint64_t handed;
    uint32_t looked_at;                  /* the stream whose fences were asked last (reclaim.c) */
    uint64_t looked_frees;               /* `frees` at that time */
    struct table shelves, spares;        /* of struct shelf */
    uint64_t wide;                       /* bytes of its wide slots (grow.c), 0 = it has none */
    struct table aliases, alias_handles; /* of alias.h */
    /* slots that wait for points, of vacate.h; so many are not unmapped yet, those that are ready and in epochs included */
    struct fence_chain vacated;
    uint32_t vacating;
    struct table vacated_handles; /* of struct vacated */
    struct pool_heap_attrs attrs;
    uint64_t allocs, frees, misses, grows;
};

/* What a hint has to do with a block (holder.h). */
struct holder {
    uint32_t block; /* index of the block record */
    int rule;
    struct hint_wait wait;
    /* its block goes out and comes in: the record of that (swapset.h), 0 = it does not */
    uint32_t swap;
    uint64_t due; /* seq of the edge that has found it due, 0 = none */

    /* calls under way that name or release the block: once DEAD or LET_GO, it waits for them */
    uint32_t collected, named; /* and those of them that name it, not only release it */
    uint32_t prev,
            next; /* list of the rule's holders that are not due yet; `next` also links those under grace */
    enum holder_state state;
    enum hint_mode mode;
    bool hold;  /* it waits for nothing before the free: `due` lists it from then on */
    bool freed; /* the program's free has come */
    bool drifted; /* its instance, or one shortly before it, is not what the hint expects: it is not released */
    bool waited;    /* a fence that covers its edge has passed */
    bool is_listed; /* in the list of its rule's that wait */
};

/* One stream, by identity. Index 0 of the table is never used: 0 = unknown. */
struct stream {
    uint64_t key;
    uint32_t index;
    uint32_t refs;   /* LIVE and FREE blocks that name it */
    uint64_t newest; /* the greatest point that any block needs of it */
    uint64_t born;   /* no other stream has or had this number */
    /* the point behind the last call that may wait for the host (stall.h), 0 = it has passed; counted in refs */
    uint64_t stalled;
    bool gone;
    struct fence_timeline timeline;
    struct fence_set behind, told; /* whose work it comes behind, of stream_wait.h */
};

/* Ranges that were marked dead, or let go, together and wait for the submissions under way (R66). */
struct grace {
    struct grace *next;
    uint64_t snapshot; /* of the submissions under way, once is_asked */
    bool is_asked;
    bool is_held_up;  /* calls that are still to be made name all that is left of it */
    uint32_t holders; /* chain through holder.next */
    uint64_t stream;  /* they wait for what was given to this one alone; 0 = to all */
};

/* Bytes that a lane's heap and device do not know of yet. */
struct lane_debt {
    int64_t requested, rounded, used;
};

#define LANES_SHIFT 6
#define LANES       (1u << LANES_SHIFT) /* at most 64: bits of pool.lanes_open */

/* What is lent of a class of free blocks (lane.h). */
struct lane {
    _Alignas(128) struct lock lock; /* lines of its own, two since processors fetch them in pairs */
    /* changed with the pool's lock and this one: */
    struct heap_stream *class; /* NULL: it is closed */
    _Atomic uint64_t key;      /* the stream's, 0: it is closed; looked at without a lock */
    uint64_t owner;            /* the heap's */
    uint64_t point;            /* that must have passed for what is freed now */
    int64_t credit;            /* bytes that were booked when it was opened */
    uint32_t segment;          /* whose blocks it has */
    uint32_t numbers; /* that it takes at once, 0 = each by itself (pool_is_not_recorded) */
    /* with the pool's lock alone: */
    uint32_t wait, backoff; /* so often it is not opened, now and after the next time in vain */
    /* with this one: */
    struct lane_debt owed;
    uint64_t allocs, frees;
    uint64_t seq, last_seq; /* numbers that were taken for the lane: those above `seq` are left */
};

struct news {
    struct news *next;
    struct outcome outcome;
};

/* What waits for the edges of a rule. */
struct rule_due {
    uint32_t first;             /* list of the holders that are not due yet */
    uint32_t counted;           /* instances of its anchor that are being counted (expect.h) */
    uint32_t judged;            /* the instance that was judged last, 0 = none */
    struct rule_seen forwarded; /* of a rule that counts: what the driver has served (expect.h) */
    struct hint_counts passed;  /* of its events; they stand still while nobody waits */
    /* what the last edge has found that is not what the rule expects, until it is told */
    struct rule_seen drift;
    uint64_t drift_seq;  /* of that edge, 0 = all is told */
    bool is_first_drift; /* what is to be told is the rule's first one */
    bool has_drifted;
    /* instances that must be as expected before the rule acts again, the next one counted */
    uint32_t distrust;
};

struct pool {
    /* what all threads read, and what all threads write, have lines of their own */
    struct {
        _Alignas(128) struct pool_gate gate; /* first: the inline checks of pool.h read it */
        /* fixed at creation */
        struct driver driver;
        struct pool_opts opts;
        enum heap_kind sync_kind; /* of the heaps that serve the sync API where they can */
        /* any thread */
        _Atomic uint32_t frozen;     /* 1 frozen, 2 in a forked child */
        struct granules granules;    /* look-ups without the lock */
        _Atomic uint64_t lanes_open; /* bits; changed with the lock */
    };
    struct {
        _Alignas(128) _Atomic uint64_t seq;
        _Atomic uint64_t driver_calls;
        /* when the program made a call last, as far as pool_idle was told; 0 = not yet */
        _Atomic uint64_t seen_ns;
    };
    struct lane lanes[LANES]; /* guarded by lock, and by locks of their own */
    struct lock lock;
    /* guarded by lock: */
    struct hints *hints;
    struct slab blocks;
    struct slab segments;
    struct slab holders;
    struct slab streams;
    struct slab swaps;                     /* of swapset.h */
    struct swap_set *swap_sets;            /* list */
    struct swap_copy *swap_spent;          /* whose fences are to be put */
    struct heap *heaps;                    /* list */
    struct heap *all;                      /* list: those above, and those that leave */
    struct table heap_of[HEAP_KIND_COUNT]; /* by owner */
    struct heap *last[HEAP_KIND_COUNT];    /* the one that was asked for last */
    struct heap *leaving;
    struct table stream_of; /* by identity */
    struct stream *last_stream;
    struct heap_stream *last_class; /* of the short forms; NULL = none */
    uint32_t streams_gone;          /* gone and not yet forgotten */
    uint32_t gone_at;               /* whose fences were asked last of those */
    uint32_t forgot_at;             /* the record that heap_forget_streams has looked at last */
    uint64_t streams_born;
    /* how many contexts have died: growth that was under way then is not kept */
    uint32_t contexts_gone;
    struct device devices[POOL_DEVICES_MAX];
    int devices_top; /* those from this number on have never had a heap */
    struct grace *grace_first, *grace_last;
    struct fence_chain removals; /* hinted blocks that wait for a driver call about their storage */
    struct fence_chain vacant;   /* slots that are ready to be unmapped (vacate.h) */
    struct table pins;           /* by block index: pin.c */
    bool unrecorded;             /* numbers rise within a stream, that is enough */
    struct news *news_first, *news_last;
    struct rule_due *due; /* per rule */
    struct table matched; /* expect.c */
    /* what the whole pool counts, of heaps those that are gone; its sizes stay 0 */
    struct pool_stats counters;
    uint64_t run_looks; /* blocks that searches for runs looked at */
};

#define POOL_LOCKED TSA(requires_capability(pool->lock))

static inline struct holder *holder_at(const struct pool *pool, uint32_t index)
{
    return slab_at(&pool->holders, index);
}

/* The next number of the order that outcomes carry. */
static inline uint64_t records_next_seq(struct pool *pool)
{
    return atomic_fetch_add_explicit(&pool->seq, 1, memory_order_relaxed) + 1;
}

#endif
