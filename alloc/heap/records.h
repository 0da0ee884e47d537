/* SPDX-License-Identifier: MIT */
/*
 * records.h - the records of a pool: blocks, segments, heaps, streams, and the pool itself.
 *
 *     struct pool ─► struct heap (kind, owner) ─► segments ─► blocks in address order, without gaps
 *                       │
 *                       └─► free blocks by (size, address), a bestfit per class (freelist.h)
 *
 * Segments. PLAIN: one cuMemAlloc. ARENA: the reserved range of a mapped heap, with storage by
 * handles of one size from the bottom up to `top`. HINT: a reserved range where each block has one
 * handle of its own, or shares one (alias.h). MANAGED: one cuMemAllocManaged with one block,
 * returned to the driver with it. All begin and end on 2 MiB.
 *
 * States of a block:
 *
 *     FREE ─take─► LIVE ─free─► PENDING (in an epoch) ─► FREE       sync, or unknown stream
 *                       ─free─► FREE in the class of the stream     stream
 *                       ─free─► PENDING ─► IDLE ─take─► LIVE        hinted, freed before it was due
 *                       ─due──► LIVE, releasing ─► ... ─► DECOMMITTED when freed and quiet
 *     BUSY: a thread makes a driver call about it; no other thread touches it.
 *     VACATED: a slot of an arena whose storage is already used elsewhere (vacate.h).
 *
 * Only alloc/ includes this. Records only: the functions of each kind are in the file of its name.
 * Only files that include drive.h call the driver; the others work under one hold of the pool's
 * lock and cannot wait.
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
#include "alloc/index/order.h"
#include "alloc/index/starts.h"

#define POOL_DEVICES_MAX 64
#define BLOCKS_MAX       (1u << 27)
#define SEGMENTS_MAX     (1u << 22)
#define STREAMS_MAX      (1u << 20)
#define HOLDERS_MAX      (1u << 24)

struct swap_set;
struct swap_copy;

/* Why the pool serves no more requests. */
enum frozen {
    FROZEN_NOT,
    FROZEN_PROCESS, /* the structures are sound; the driver must not be called */
    FROZEN_CHILD,   /* a forked child: the structures may be inconsistent */
};

enum block_state {
    BLOCK_NONE,
    BLOCK_FREE,    /* in a bestfit of its class */
    BLOCK_LIVE,    /* the program holds it (its storage may be in release: see the holder) */
    BLOCK_PENDING, /* freed; in the open chain or an epoch */
    BLOCK_BUSY,
    BLOCK_DECOMMITTED, /* no storage; in index `decommitted` */
    BLOCK_IDLE,        /* HINT: freed, still has storage; in index `idle` */
    BLOCK_KEPT,        /* freed but not reusable: for good, in a capture, or pinned (pin.h) */
    /* HINT: addresses before a block (grow.c), or beside one with BLOCK_SHARED (alias.h) */
    BLOCK_MARGIN,
    BLOCK_VACATED, /* ARENA: a slot whose storage has another address, too (vacate.h) */
    BLOCK_STATE_COUNT,
};

enum block_flag {
    BLOCK_HINTED = 1 << 0,   /* has a handle of its own */
    BLOCK_STREAMED = 1 << 1, /* allocated through the stream-ordered API */
    BLOCK_GONE = 1 << 2,     /* PENDING: only the address waits, the storage is already released */
    /* unmap after its free, do not reuse as it is: a trap removed the access, or it may be evicted
     * (swapset.h) */
    BLOCK_TRAPPED = 1 << 3,
    BLOCK_RECENT = 1 << 4, /* FREE: in `recent`, not in a bestfit */
    BLOCK_PINNED = 1 << 5, /* LIVE or KEPT: has a record in `pins` */
    /* LIVE: filled with poison; PENDING: its holder stays until the content was checked */
    BLOCK_POISONED = 1 << 6,
    BLOCK_SHARED = 1 << 7, /* HINTED, but its handle has other blocks too (alias.h) */
};

/* 64 bytes, one cache line. */
struct block {
    struct bestfit_node node;
    uint32_t prev, next; /* neighbours by address in the segment, 0 = none */
    uint32_t segment;
    /* LIVE: the allocating stream; FREE: the class, 0 = idle. Index of the stream table */
    uint32_t stream;
    uint32_t holder; /* LIVE: index of its holder, 0 = none */
    union {
        uint32_t slack; /* LIVE: size less what was requested */
        uint32_t later; /* in an index of a class: the next one by point, 0 = none */
    };
    uint64_t seq; /* LIVE: of the allocation; FREE with a class: the point that must pass */
    union {
        uint32_t chain;   /* PENDING or waiting for the driver: next in the chain */
        uint32_t earlier; /* in an index of a class: the one before by point, 0 = none */
    };
    uint8_t state;
    uint8_t flags;
    /* FREE: low bits of the last stream that used it, 0 = unknown; counts cross-stream reuses */
    uint16_t last;
};

enum segment_kind {
    SEGMENT_PLAIN,
    SEGMENT_ARENA,
    SEGMENT_HINT,
    SEGMENT_MANAGED,
};

struct segment {
    /* of the usable part: a multiple of the granule; aligned so that a record is found with a
     * shift */
    _Alignas(256) devptr_t base;
    uint64_t size; /* PLAIN, MANAGED: usable bytes; else reserved bytes of address space */
    devptr_t raw_base;
    uint64_t raw_size; /* as the driver returned it; base and size lie inside */
    struct heap *heap;
    struct order_node place; /* PLAIN, all of it free and in an index: in heap.whole */
    uint64_t context;        /* PLAIN, MANAGED: the context of the memory */
    uint32_t prev, next;     /* in the heap's list */
    uint32_t first, last;    /* blocks */
    uint32_t tenants;        /* LIVE blocks */
    uint64_t top;            /* bytes from the base that are divided into blocks; PLAIN: size */
    uint64_t slot;           /* bytes per entry of `handles` */
    uint64_t *handles;       /* ARENA: per slot, 0 = none; HINT: at a block's first slot */
    struct span handle_span;
    struct starts starts;
    enum segment_kind kind;
    bool small;
    /* exported to another process: no more blocks of it are allocated (R24) */
    bool sealed;
    /* its context has ended: lookups skip it; removed when no thread is busy in the heap */
    bool dead;
};

/* True for memory that the driver allocated in one piece. */
static inline bool segment_is_piece(const struct segment *segment)
{
    return segment->kind == SEGMENT_PLAIN || segment->kind == SEGMENT_MANAGED;
}

/* Slots of the free cache (freecache.h): one hash table of chains per class of free blocks. At most
 * 64. */
#define FREECACHE_SHIFT 6
#define FREECACHE_SLOTS (1u << FREECACHE_SHIFT)

/* The recent blocks of one class. */
struct freecache {
    struct freecache *next, **link; /* in heap.recent, and what points there */
    uint64_t used; /* bits of the slots that may have blocks; 0: not in that list */
    uint32_t slot[FREECACHE_SLOTS];
};

/* Free blocks of one stream in one heap. */
struct heap_stream {
    struct heap_stream *next, **link; /* in heap.streams, and what points there */
    /* in stream.waiting or heap.moved, and what points there; NULL: in neither */
    struct heap_stream *next_moved, **moved_link;
    struct order_node place;  /* in heap.filled, if is_filled */
    bool is_filled;           /* it may have free blocks in an index, or `vacated` slots */
    struct order_node beside; /* in stream.classes, by heap */
    uint32_t stream;
    uint64_t key; /* the stream's */
    struct stream *timeline_of;
    struct heap *heap;
    uint64_t asked; /* heap.allocs at the stream's last request served by best fit */
    /* do not rescan blocks up to this point for other streams (stream_take.h) */
    uint64_t adopted;
    /* of stream_take.h: */
    uint64_t followed; /* up to this point other streams were seen to wait for it */
    uint32_t turn_of;  /* the last stream that did, 0 = none, */
    uint64_t turn_at;  /* and the point from which on its events wait for that stream */
    uint32_t turns;    /* answered ones in a row */
    bool is_handed;    /* its free blocks were handed over since the stream's last request */
    uint32_t spared;   /* events left that hand nothing over, */
    uint32_t backoff;  /* and the next harmful one skips about twice this many */
    uint32_t vacated;  /* slots that wait for points of this stream */
    struct freecache recent;
    struct bestfit fit;
    struct bestfit fragments;
    /* the blocks of both by point: the ends of the list, and where it was changed last
     * (freelist.c) */
    uint32_t earliest, latest, near;
};

/* Unmapped physical handles of one size. */
struct shelf {
    uint64_t size; /* the key */
    uint64_t *handles;
    uint32_t count, room;
};

/* A handle that is mapped at vacated slots, too (vacate.h). */
struct vacated {
    uint64_t handle; /* the key */
    devptr_t at;     /* the slot vacated last, 0 = it was unmapped */
    uint64_t mappings;
};

/* Sums of each heap. */
struct tally {
    uint64_t live_count;
    uint64_t live_requested;
    uint64_t live_rounded;
    uint64_t used;
    uint64_t stored;
    uint64_t reserved;
    uint64_t pending;
    uint64_t kept;
    uint64_t held; /* part of `kept`: by hints */
    uint64_t limbo;
    uint64_t husk;
    uint64_t cached;
    uint64_t spare; /* handles that count as returned (handles.h) */
    uint64_t going; /* handles taken off their shelf that are being returned to the driver */
    uint64_t used_high;
    uint64_t stored_high;
    uint64_t reserved_high;
    uint64_t kept_high;
    /* last figures of the driver's own pool behind the heap: the marks above include them (R77,
     * R78) */
    uint64_t native_used, native_reserved;
};

/* Lists of the heaps of a device, the newest first. A heap that is not in one has nothing of the
 * kind; one that is in it may have. */
enum heap_list {
    HEAPS_GIVING, /* they have memory that can be returned (trim.c) */
    /* they have blocks or slots that wait for points, or recent blocks (reclaim.c) */
    HEAPS_WAITING,
    HEAP_LIST_COUNT,
};

/* Sums over the heaps of a device that need high marks of their own; and the pending frees of its
 * contexts. */
struct device {
    uint64_t live_requested, live_requested_high;
    uint64_t stored, stored_high;
    uint64_t reserved, reserved_high;
    uint64_t spare;       /* sum over its heaps */
    uint64_t asked;       /* bytes of driver calls in progress that will add to `reserved` */
    uint64_t granularity; /* 0 = not queried yet */
    /* a handle was mapped at a second address; or the first try was refused, so none will be
     * (vacate.h) */
    bool has_aliases, no_aliases;
    /* bytes available to the program, 0 = not queried yet; only where blocks may be evicted */
    uint64_t total;
    struct order_node *heaps[HEAP_LIST_COUNT];
    int number;      /* fixed at creation */
    bool no_managed; /* it does not use managed memory concurrently with the host */
    bool eager;      /* the open chain has blocks in limbo: close the epoch soon */
    struct fence_chain open;
    /* Contexts that are being ended and may reach the device's memory (pool_ending): their number
     * now, and in total. Blocks allocated up to `ending_seq`, or possibly so, go to `aside` when
     * freed, until no such context is left. */
    uint32_t ending;
    uint64_t endings, ending_seq;
    struct fence_chain aside;
    uint64_t epoch_bytes; /* the open epoch is closed when this many bytes were freed */
    struct fence_timeline epochs;
    struct fence_timeline events; /* frees that wait for single streams, unordered */
};

/* An address in a mapped heap where a request lacks little storage (spot.h). */
struct spot {
    uint32_t segment;
    uint32_t first;   /* the block in which it begins, 0 = at the top */
    uint64_t skip;    /* bytes of the first gap that are not part of it, whole slots */
    uint64_t bytes;   /* from its beginning to the end of the request */
    uint64_t missing; /* part of these without storage: whole slots */
};

/* The spot with the least missing among the gaps, for what was asked for last. */
struct spot_memo {
    uint64_t changes; /* of the heap when it was found */
    uint64_t size, align;
    uint32_t stream;
    struct spot spot;
};

struct heap {
    /* fixed at creation */
    enum heap_kind kind;
    uint64_t owner;
    uint64_t number; /* of all heaps ever made */
    struct device *device;
    /* guarded by the pool's lock: */
    struct heap *next;                         /* in pool->heaps, or in pool->leaving */
    struct heap *after;                        /* in the list of all (heap_any) */
    struct order_node listed[HEAP_LIST_COUNT]; /* in device.heaps */
    struct tally tally;
    uint32_t segments;        /* list, the newest first */
    uint64_t segments_added;  /* number of segments that it ever had */
    struct order_node *whole; /* plain segments that are one free block, the newest first */
    uint32_t arena, hint;     /* segments of a mapped heap, 0 = not reserved yet */
    uint32_t busy;            /* driver calls in progress that will return to this heap */
    uint32_t stream_count;
    /* The driver gave no address range, so the mapped heap serves nothing. It asks again after
     * `range_wait` more requests, 0 = never: the device has no VMM. */
    bool no_range;
    uint32_t range_wait;
    uint32_t range_errors; /* times the driver gave none */
    bool no_hints;         /* the driver gave no range for hints: hinted blocks cannot be placed */
    bool leaving; /* its owner was destroyed: serves no requests, freed with its last block */
    bool dropped; /* its owner ended at once: freed when no thread is busy with it */
    bool held;    /* counted in busy: its context ends, but its work still runs */
    bool is_over; /* about to be freed: in no list from here on */
    bool is_listed[HEAP_LIST_COUNT]; /* by `listed` */
    struct bestfit small, clean, fragments, decommitted, hint_decommitted, idle;
    struct bestfit sealed; /* free blocks of sealed segments: counted, never searched */
    struct freecache recent_small, recent_clean;
    struct freecache *recent; /* list: those of `used` slots */
    uint64_t changes;         /* of free blocks, gaps and tops of arenas */
    struct spot_memo spot_memo;
    uint64_t recent_bytes; /* of recent blocks in all slots, those of streams included */
    uint32_t recent_count;
    uint32_t large;              /* the large block that is held, 0 = none */
    struct heap_stream *streams; /* list, the newest first, */
    struct table class_of;       /* and by the stream's index */
    uint64_t classes_made;       /* number of classes that it ever had */
    struct order_node *filled;   /* the filled ones, the newest first */
    /* list: filled classes whose streams have passed a point since the last sweep (reclaim.c) */
    struct heap_stream *moved;
    /* `allocs` and `frees` at the last event that handed blocks over (stream_take.h) */
    uint64_t handed;
    /* blocks that streams may take with a wait, and `allocs` and `frees` when it was counted */
    uint64_t credit, credit_at;
    uint64_t looked_frees;               /* `frees` when fences were queried last (reclaim.c), */
    uint32_t looked_at;                  /* and the stream whose fences these were */
    uint32_t vacating;                   /* slots that are unmapped only later: below */
    struct table shelves, spares;        /* of struct shelf */
    struct table aliases, alias_handles; /* of alias.h */
    /* slots that wait for points, of vacate.h; `vacating` counts all that are still mapped, ready
     * ones and those in epochs included */
    struct fence_chain vacated;
    struct table vacated_handles; /* of struct vacated */
    struct pool_heap_attrs attrs;
    uint64_t allocs, frees, misses, grows;
};

/* The state of a hint on one block (holder.h). */
struct holder {
    uint32_t block; /* index of the block record */
    int rule;
    struct hint_wait wait;
    /* its block may be evicted: the index of that record (swapset.h), 0 = not */
    uint32_t swap;
    uint64_t due; /* seq of the edge that found it due, 0 = none */

    /* calls in progress that name or release the block: once DEAD or LET_GO, it waits for them */
    uint32_t collected, named; /* and the part of them that name it */
    uint32_t prev,
            /* list of the rule's holders that are not yet due; `next` also links those under
             * grace */
            next;
    enum holder_state state;
    enum hint_mode mode;
    bool hold;  /* it waits for nothing before the free, and is in the list of `due` from then on */
    bool freed; /* the program's free has come */
    bool drifted;   /* its instance, or a recent one, was not as expected: it is not released */
    bool waited;    /* a fence that covers its edge has passed */
    bool is_listed; /* in the list of its rule's waiting holders */
};

/* One stream, by identity. Index 0 of the table is unused: 0 = unknown. */
struct stream {
    uint64_t key;
    uint32_t index;
    uint32_t refs;   /* LIVE and FREE blocks that name it */
    uint64_t newest; /* the greatest point that a block needs of it */
    uint64_t born;   /* unique over all streams */
    uint64_t look;   /* the last look that has queried it (reclaim_begin_look) */
    /* numbers up to this one are of earlier streams with this record; all are if it has none */
    uint64_t since;
    struct order_node *classes;  /* its classes, the newest heap's first */
    struct heap_stream *waiting; /* list: the filled ones that are not in heap.moved */
    struct order_node leaving;   /* in pool.gone, if `gone`; by `born` */
    /* the point after the last call that may wait for the host (stall.h), 0 = it has passed;
     * counted in refs */
    uint64_t stalled;
    bool gone;
    struct fence_timeline timeline;
    struct fence_set behind, told; /* streams that it waits for (stream_wait.h) */
};

/* Ranges that were marked dead, or let go, together and wait for submissions in progress (R66,
 * reader sections). */
struct grace {
    struct grace *next;
    uint64_t snapshot; /* of the submissions in progress, once is_asked */
    bool is_asked;
    bool is_held_up;  /* calls that are still to be made name all remaining blocks */
    uint32_t holders; /* chain through holder.next */
    uint64_t stream;  /* they wait only for work of this stream; 0 = of all */
};

/* Byte changes that the lane has not yet added to its heap and device. */
struct lane_debt {
    int64_t requested, rounded, used;
};

#define LANES_SHIFT 6
#define LANES       (1u << LANES_SHIFT) /* at most 64: bits of pool.lanes_open */

/* The lent part of a class of free blocks (lane.h). */
struct lane {
    /* separate cache lines, two since processors fetch them in pairs */
    _Alignas(128) struct lock lock;
    /* changed with both the pool's lock and this one: */
    struct heap_stream *class; /* NULL: closed */
    _Atomic uint64_t key;      /* of the stream, 0: closed; read without a lock */
    uint64_t owner;            /* the heap's */
    uint64_t point;            /* must pass for blocks freed now */
    int64_t credit;            /* bytes booked when it was opened */
    uint32_t segment;          /* the segment of its blocks */
    uint32_t numbers;          /* numbers taken at once, 0 = one by one (pool_is_not_recorded) */
    /* with the pool's lock alone: */
    /* times it is not opened, now and after the next unprofitable opening */
    uint32_t wait, backoff;
    /* with the lane's lock: */
    struct lane_debt owed;
    uint64_t allocs, frees;
    uint64_t seq, last_seq; /* numbers taken for the lane: those above `seq` are unused */
};

struct news {
    struct news *next;
    struct outcome outcome;
};

/* What waits for the edges of a rule. */
struct rule_due {
    uint32_t first;   /* list of the holders that are not yet due */
    uint32_t counted; /* instances of its anchor being counted (expect.h) */
    uint32_t judged;  /* the last judged instance, 0 = none */
    /* of a rule that counts: blocks that the driver has served (expect.h) */
    struct rule_seen forwarded;
    struct hint_counts passed; /* counts of its events; they stop while no holder waits */
    /* the unexpected result of the last edge, until it is reported */
    struct rule_seen drift;
    uint64_t drift_seq;  /* seq of that edge, 0 = reported */
    bool is_first_drift; /* the unreported drift is the rule's first */
    bool has_drifted;
    /* expected instances still required before the rule acts again, the next one included */
    uint32_t distrust;
};

struct pool {
    /* fields that all threads read, and fields that all threads write, have separate cache lines */
    struct {
        _Alignas(128) struct pool_gate gate; /* first: the inline checks of pool.h read it */
        /* fixed at creation */
        struct driver driver;
        struct pool_opts opts;
        enum heap_kind sync_kind; /* kind of the heaps that serve the sync API where possible */
        /* any thread */
        _Atomic uint32_t frozen;     /* 1 frozen, 2 in a forked child */
        struct granules granules;    /* lookups without the lock */
        _Atomic uint64_t lanes_open; /* bits; changed with the lock */
    };
    struct {
        _Alignas(128) _Atomic uint64_t seq;
        _Atomic uint64_t driver_calls;
        /* time of the program's last call, as reported to pool_idle; 0 = none yet */
        _Atomic uint64_t seen_ns;
    };
    struct lane lanes[LANES]; /* guarded by lock, and by their own locks */
    struct lock lock;
    /* guarded by lock: */
    struct hints *hints;
    struct slab blocks;
    struct slab segments;
    struct slab holders;
    struct slab streams;
    struct slab swaps;                     /* of swapset.h */
    struct swap_set *swap_sets;            /* list */
    struct swap_copy *swap_spent;          /* copies whose fences have to be destroyed */
    struct heap *heaps;                    /* list */
    struct heap *all;                      /* list: those above, and leaving ones */
    struct table heap_of[HEAP_KIND_COUNT]; /* by owner */
    struct heap *last[HEAP_KIND_COUNT];    /* the last one looked up */
    struct heap *leaving;
    struct table stream_of; /* by identity */
    struct stream *last_stream;
    struct heap_stream *last_class; /* last one used by the short forms; NULL = none */
    struct order_node *gone;        /* streams destroyed and not yet forgotten, the newest first */
    uint64_t gone_at;               /* `born` of the one whose fences were queried last, */
    uint64_t forgot_at;             /* and of the one that heap_forget_streams checked last */
    uint64_t streams_born, heaps_made;
    uint64_t points_given; /* no forgotten stream has given a greater number */
    uint32_t streams_gone; /* their number */
    /* number of contexts that have ended: memory of a growth during that time is not kept */
    uint32_t contexts_gone;
    struct device devices[POOL_DEVICES_MAX];
    int devices_top; /* no device from this number on has had a heap */
    bool unrecorded; /* numbers need only rise within a stream */
    struct grace *grace_first, *grace_last;
    struct fence_chain removals; /* hinted blocks that wait for a driver call about their storage */
    struct fence_chain vacant;   /* slots ready to be unmapped (vacate.h) */
    struct table pins;           /* by block index: pin.c */
    struct news *news_first, *news_last;
    struct rule_due *due; /* per rule */
    struct table matched; /* expect.c */
    struct pace {
        uint64_t at_ns, moved; /* the time of the last look; moved_bytes by then */
        uint64_t debt_ns;      /* what moves have taken and time has not paid back */
        enum pool_pace now;
    } pace; /* pace.h */
    /* counters of the whole pool; those of heaps cover freed heaps; its sizes stay 0 */
    struct pool_stats counters;
    uint64_t looks;     /* begun (reclaim_begin_look) */
    uint64_t run_looks; /* blocks examined by searches for runs */
};

#define POOL_LOCKED TSA(requires_capability(pool->lock))

static inline struct holder *holder_at(const struct pool *pool, uint32_t index)
{
    return slab_at(&pool->holders, index);
}

/* The next sequence number of outcomes. */
static inline uint64_t records_next_seq(struct pool *pool)
{
    return atomic_fetch_add_explicit(&pool->seq, 1, memory_order_relaxed) + 1;
}

#endif
