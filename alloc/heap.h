/* SPDX-License-Identifier: MIT */
/*
 * heap.h - the inside of the pool: blocks, segments, heaps, and the books that are kept on them.
 *
 * Only alloc/ includes this. What is here works on memory of ours alone: nothing calls the driver, so everything may be
 * done in one hold of the pool's lock, and none of it can wait.
 *
 *     struct pool ─► struct heap (kind, owner) ─► segments ─► blocks in address order, without gaps between them
 *                       │
 *                       └─► free blocks by (size, address), one struct bestfit per class of free block:
 *                             small, clean   may be handed to anybody
 *                             per stream     freed on that stream: its own at once, others' when the point has passed
 *                             crumbs         of an arena, clean or of a stream: no whole slot lies inside. Taken first,
 *                                            so that whole slots stay whole and can move (remap.h)
 *                             gaps           addresses of a mapped range that have no storage
 *                             idle           hinted blocks that were freed and still stand on their handle
 *
 * Segments. PLAIN: one cuMemAlloc. ARENA: the reserved range of a mapped heap, storage by handles of one size from the
 * bottom up to `top`. HINT: a reserved range where each block stands on one handle of its own. All begin and end on 2 MiB.
 *
 * States of a block (who holds it, what it waits for):
 *
 *     FREE ─take─► LIVE ─free─► PENDING (in an epoch) ─► FREE            sync, or unknown stream
 *                       ─free─► FREE in the class of the stream          stream
 *                       ─free─► PENDING ─► IDLE ─take─► LIVE             hinted, freed before it was due
 *                       ─due──► LIVE with a holder on its way ─► ... ─► GAP when freed and quiet
 *     BUSY: a driver call about it is under way in some thread; nobody else touches it.
 *
 * Threads: everything here needs the pool's lock, unless it says otherwise. Memory: meta.h.
 */
#ifndef KEDGE_ALLOC_HEAP_H
#define KEDGE_ALLOC_HEAP_H

#include "alloc/bestfit.h"
#include "alloc/fence.h"
#include "alloc/granule.h"
#include "alloc/holder.h"
#include "alloc/lock.h"
#include "alloc/lookup.h"
#include "alloc/pool.h"
#include "alloc/starts.h"

#define POOL_DEVICES_MAX 64
#define BLOCKS_MAX       (1u << 27)
#define SEGMENTS_MAX     (1u << 22)
#define STREAMS_MAX      (1u << 20)
#define HOLDERS_MAX      (1u << 24)

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
    BLOCK_GAP,  /* no storage; in `gaps` */
    BLOCK_IDLE, /* HINT: freed, storage there; in `idle` */
    BLOCK_KEPT, /* freed during a capture, or stuck: never handed out again */
    BLOCK_STATE_COUNT,
};

enum block_flag {
    BLOCK_HINTED = 1 << 0,   /* stands on a handle of its own */
    BLOCK_STREAMED = 1 << 1, /* came through the stream entrance */
    BLOCK_GONE = 1 << 2,     /* PENDING: only the address waits, the storage is gone already */
    /* a trap took the access away: to be unmapped, not to be handed out as it is */
    BLOCK_TRAPPED = 1 << 3,
    BLOCK_RECENT = 1 << 4, /* FREE: in `recent`, not in a bestfit */
    BLOCK_PINNED = 1 << 5, /* LIVE or KEPT: has a record in `pins` */
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
};

struct segment {
    /* of what is used: a multiple of the granule; aligned so that a record is found with a shift */
    _Alignas(256) devptr_t base;
    uint64_t size; /* PLAIN: usable bytes; else reserved bytes of address space */
    devptr_t raw_base;
    uint64_t raw_size; /* what the driver gave; base and size lie inside */
    struct heap *heap;
    uint64_t context;     /* PLAIN: whose memory it is */
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

/* Small free blocks are kept as they are for a moment, since the next request of their size is often near: chains of
 * blocks of one size, in one of two slots by a hash of it, linked through node.left. They are FREE, flagged BLOCK_RECENT,
 * in no bestfit and joined with no neighbour. heap_settle puts them where they belong: before anything is called a miss,
 * and at the beginning of every walk over free blocks. */
#define RECENT_SHIFT 6
#define RECENT_SLOTS (1u << RECENT_SHIFT)
#define RECENT_MAX   (UINT64_C(1) << 20) /* larger ones are where best fit sees them, but for one: */

/*
 * Of the larger blocks of a mapped heap the one that was freed last may be `held`: it is recent as well, in no slot, until a
 * request of 64 KiB or more that it is not for has to be fitted, or a smaller one that would have another fit if it were joined.
 * (To keep more of them was measured to cost up to 0.1 of efficiency.)
 */

/* Free blocks of one stream in one heap. */
struct heap_stream {
    struct heap_stream *next;
    uint32_t stream;
    uint64_t key; /* the stream's */
    struct stream *line_of;
    struct heap *heap;
    uint64_t swept; /* up to this point blocks were made clean */
    uint32_t recent[RECENT_SLOTS];
    struct bestfit fit;
    struct bestfit crumbs;
};

/* Physical handles without a mapping, by size. */
struct shelf {
    uint64_t size;
    uint64_t *handles;
    uint32_t count, room;
    struct shelf *next;
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
    uint64_t limbo;
    uint64_t husk;
    uint64_t cached;
    uint64_t used_high;
    uint64_t stored_high;
    uint64_t reserved_high;
    uint64_t kept_high;
    /* of the driver's own pool behind the heap, as it said last: the marks above count it in (R77, R78) */
    uint64_t native_used, native_reserved;
};

/* Sums over the heaps of a device; those that need marks of their own. */
struct device {
    uint64_t live_requested, live_requested_high;
    uint64_t stored, stored_high;
    uint64_t reserved, reserved_high;
    uint64_t granularity; /* 0 = not asked yet */
    int number;           /* fixed at creation */
};

struct heap {
    /* fixed at creation */
    enum heap_kind kind;
    uint64_t owner;
    struct device *device;
    /* guarded by the pool's lock: */
    struct heap *next; /* of all heaps that have not left */
    struct tally tally;
    uint32_t segments;    /* list */
    uint32_t arena, hint; /* segments of a mapped heap, 0 = not reserved yet */
    uint32_t busy;        /* driver calls under way that will come back to this heap */
    uint32_t stream_count;
    bool strict; /* plain: cut segments have led above the budget, so none is cut any more */
    /* The driver gave no address range: plain segments, or nothing (opts.mapped_only). In the latter case it is asked again
     * after `range_wait` requests more, 0 = never: the device has no VMM. */
    bool no_vmm;
    uint32_t range_wait;
    uint32_t range_errors; /* so often it gave none */
    bool no_hints;         /* the driver has none: hinted blocks cannot be placed */
    bool leaving;          /* its owner is gone: serves nobody, goes when the last block goes */
    bool dropped;          /* its owner is gone at once: goes when nobody is busy with it */
    bool held;             /* counted in busy: its context dies, but work of it still runs */
    struct bestfit small, clean, crumbs, gaps, hint_gaps, idle;
    struct bestfit sealed; /* free blocks of sealed segments: in the books, never looked at */
    uint32_t recent_small[RECENT_SLOTS], recent_clean[RECENT_SLOTS];
    uint32_t recent_count; /* in all of them, those of streams included */
    uint64_t recent_bytes;
    uint32_t large; /* the large block that is held, 0 = none */
    struct heap_stream *streams;
    struct shelf *shelves;
    struct lookup shelf_of; /* by size */
    struct pool_heap_attrs attrs;
    uint64_t allocs, frees, misses, grows;
    struct heap *next_leaving;
};

/* One stream, by identity. Index 0 of the table is never used: 0 = unknown. */
struct stream {
    uint64_t key;
    uint32_t index;
    uint32_t refs;   /* LIVE and FREE blocks that name it */
    uint64_t newest; /* the greatest point that any block needs of it */
    bool gone;
    struct fence_line line;
};

/* Ranges that were marked dead together and wait for the submissions under way (R66). */
struct grace {
    struct grace *next;
    uint64_t snapshot; /* of the submissions under way, once is_asked */
    bool is_asked;
    uint32_t holders; /* chain through holder.next */
};

struct news {
    struct news *next;
    struct outcome outcome;
};

/* What the whole pool counts. */
struct counters {
    uint64_t allocs, frees, misses; /* of heaps that are gone; the others keep their own */
    uint64_t grows, bad_frees;
    uint64_t epochs, points, cross_reuses, point_merges, inserted_waits, host_waits, timeouts;
    uint64_t trims, trimmed_bytes, ooms, remaps, granules_moved;
    uint64_t steps[POOL_STEP_COUNT];
    uint64_t released_count, released_bytes, shadow_count, shadow_bytes, small_count, small_bytes;
    uint64_t fence_errors, range_errors;
};

struct pool {
    struct pool_gate gate; /* first: the inline checks of pool.h read it */
    /* fixed at creation */
    struct driver driver;
    struct pool_opts opts;
    /* any thread */
    _Atomic uint32_t frozen; /* 1 frozen, 2 in a forked child */
    _Atomic uint64_t seq;
    _Atomic uint64_t driver_calls;
    /* when the program made a call last, as far as pool_idle was told; 0 = not yet */
    _Atomic uint64_t seen_ns;
    struct granules granules; /* look-ups without the lock */
    struct lock lock;
    /* guarded by lock: */
    const struct hints *hints;
    struct slab blocks;
    struct slab segments;
    struct slab holders;
    struct slab streams;
    struct heap *heaps;                     /* list */
    struct lookup heap_of[HEAP_KIND_COUNT]; /* by owner */
    struct heap *last[HEAP_KIND_COUNT];     /* the one that was asked for last */
    struct heap *leaving;
    struct lookup stream_of; /* by identity */
    struct stream *last_stream;
    struct heap_stream *last_class; /* of the short forms; NULL = none */
    uint32_t streams_gone;          /* gone and not yet forgotten */
    /* how many contexts have died: growth that was under way then is not kept */
    uint32_t contexts_gone;
    struct device devices[POOL_DEVICES_MAX];
    struct fence_chain open;
    struct fence_line epochs;
    uint64_t waiting_bytes; /* in epochs */
    struct grace *grace_first, *grace_last;
    struct fence_chain removals; /* hinted blocks whose storage can go now */
    struct lookup pins;          /* by block index: pin.c */
    bool eager;                  /* the open chain has blocks in limbo: close the epoch soon */
    struct news *news_first, *news_last;
    uint32_t *due; /* per rule: head of the list of holders that wait for an edge */
    struct counters counters;
};

#define POOL_LOCKED TSA(requires_capability(pool->lock))

/* ── finding ── */

static inline struct block *heap_block(const struct pool *pool, uint32_t index)
{
    /* as slab_at, with a record size that the compiler knows */
    return (struct block *)(void *)pool->blocks.span.base + index;
}

static inline struct segment *heap_segment(const struct pool *pool, uint32_t index)
{
    return (struct segment *)(void *)pool->segments.span.base + index;
}

static inline struct holder *heap_holder(const struct pool *pool, uint32_t index)
{
    return slab_at(&pool->holders, index);
}

static inline struct stream *heap_stream_at(const struct pool *pool, uint32_t index)
{
    return (struct stream *)(void *)pool->streams.span.base + index;
}

static inline struct segment *heap_segment_of(const struct pool *pool, const struct block *block)
{
    return heap_segment(pool, block->segment);
}

static inline uint64_t heap_round(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) & ~(unit - 1);
}

/* No whole slot of an arena lies inside. */
static inline bool heap_is_crumb(const struct segment *segment, const struct block *block)
{
    devptr_t end = block->node.base + block->node.size;

    return segment->kind == SEGMENT_ARENA
            && (end & ~(segment->slot - 1)) <= heap_round(block->node.base, segment->slot);
}

/* Free blocks of a stream. */
static inline uint32_t heap_class_count(const struct heap_stream *class)
{
    return class->fit.count + class->crumbs.count;
}

static inline struct heap_stream *heap_class(const struct heap *heap, uint32_t stream)
{
    struct heap_stream *at = heap->streams;

    while (at && at->stream != stream)
        at = at->next;
    return at;
}

/* The heap of this key; made if `device` >= 0 and there is none. NULL: none, or no memory. */
struct heap *heap_get(
        struct pool *pool, enum heap_kind kind, uint64_t owner, int device) POOL_LOCKED;

/* The stream of this identity, made if need be; 0 = unknown (also where there is no memory). */
uint32_t heap_find_stream(struct pool *pool, uint64_t key) POOL_LOCKED;
static inline uint32_t heap_stream_index(struct pool *pool, uint64_t key) POOL_LOCKED
{
    const struct stream *last = pool->last_stream;

    return last && last->key == key ? last->index : heap_find_stream(pool, key);
}

/* The same, but none is made; 0 = there is none. */
static inline uint32_t heap_known_stream(struct pool *pool, uint64_t key) POOL_LOCKED
{
    struct stream *stream = pool->last_stream;

    if (stream && stream->key == key)
        return stream->index;
    stream = key ? lookup_find(&pool->stream_of, key) : NULL;
    if (stream)
        pool->last_stream = stream;
    return stream ? stream->index : 0;
}

/* The block that contains `ptr`, whatever its state; 0 = none. */
uint32_t heap_find(const struct pool *pool, devptr_t ptr) POOL_LOCKED;

/* ── segments ── */

/* Adds what the driver gave, as one BUSY block over all of it (PLAIN), or as a range with no blocks yet. 0, -ENOMEM. */
int heap_add_segment(struct pool *pool, struct heap *heap, const struct segment *like,
        uint32_t *ret_segment) POOL_LOCKED;

/* Takes a segment out of every structure: blocks, look-up, lists. No block of it may be LIVE or in a chain. The driver's
 * part is the caller's. */
void heap_remove_segment(struct pool *pool, uint32_t number) POOL_LOCKED;

/* A segment's owner is gone: look-ups do not know it any more, its blocks are counted as freed and leave all chains and
 * indices (KEPT), but the records stay, for threads that are busy with them, until heap_remove_segment. */
void heap_kill_segment(struct pool *pool, uint32_t number) POOL_LOCKED;

/* Extends the blocks of a range by `size` bytes at its top: a BUSY block. 0 = no memory or no addresses left. */
uint32_t heap_extend(struct pool *pool, uint32_t number, uint64_t size) POOL_LOCKED;

/* ── blocks ── */

/* Cuts a block that is in no index: it keeps `size` bytes, the rest becomes a new block in the same state and class,
 * whose index is returned. Needs one record (slab_prepare). */
uint32_t heap_cut(struct pool *pool, uint32_t index, uint64_t size) POOL_LOCKED;

/* Joins a block with the one after it, neither in an index: sizes add up, the greater point stays. */
void heap_join(struct pool *pool, uint32_t index) POOL_LOCKED;

/* Makes sure that blocks can have this class in this heap; false: no memory. */
struct heap_stream *heap_new_class(
        struct pool *pool, struct heap *heap, uint32_t stream) POOL_LOCKED;
static inline bool heap_prepare_stream(
        struct pool *pool, struct heap *heap, uint32_t stream) POOL_LOCKED
{
    return heap_class(heap, stream) || heap_new_class(pool, heap, stream);
}

/* Puts a block that is in no index into state FREE with class `stream` and `point`, joined with the free neighbours of
 * its class, and into its index. Returns the block that it is now part of. */
uint32_t heap_put(struct pool *pool, uint32_t index, uint32_t stream, uint64_t point) POOL_LOCKED;

/* Names or un-names a stream in a block, so that a stream that is gone is forgotten when nobody names it. */
static inline void heap_name_stream(struct pool *pool, struct block *block, uint32_t stream)
{
    if (block->stream == stream)
        return;
    if (block->stream)
        ((struct stream *)heap_stream_at(pool, block->stream))->refs--;
    if (stream)
        ((struct stream *)heap_stream_at(pool, stream))->refs++;
    block->stream = stream;
}

/* ── recent blocks: inline, since they are the hot path ── */

/* Puts the blocks of one slot where they belong. */
void heap_settle_slot(struct pool *pool, struct heap *heap, uint32_t *slot) POOL_LOCKED;

/* The slots of a class; NULL if there is no such class. */
static inline uint32_t *heap_recent_slots(struct heap *heap, uint32_t stream, bool small)
{
    struct heap_stream *class;

    if (!stream)
        return small ? heap->recent_small : heap->recent_clean;
    class = heap_class(heap, stream);
    return class ? class->recent : NULL;
}

static inline uint32_t *heap_recent_home(uint32_t *slots, uint64_t size)
{
    return &slots[(uint32_t)(size / BESTFIT_QUANTUM) * UINT32_C(0x9e3779b1) >> (32 - RECENT_SHIFT)];
}

/* The other slot where blocks of a size may be. */
static inline uint32_t *heap_recent_other(uint32_t *slots, const uint32_t *home)
{
    return &slots[(uint32_t)(home - slots) ^ 1];
}

/* The slot that holds blocks of this size, NULL if there are none. */
static inline uint32_t *heap_recent_slot(
        const struct pool *pool, uint32_t *slots, uint64_t size) POOL_LOCKED
{
    const struct block *blocks = heap_block(pool, 0); /* which has no size */
    uint32_t *slot = heap_recent_home(slots, size);

    if (blocks[*slot].node.size == size)
        return slot;
    slot = heap_recent_other(slots, slot);
    return blocks[*slot].node.size == size ? slot : NULL;
}

/* A slot for a size that has none; what stood there is settled. */
uint32_t *heap_new_slot(
        struct pool *pool, struct heap *heap, uint32_t *slots, uint64_t size) POOL_LOCKED;

/* The first block of a slot leaves it. */
static inline uint32_t heap_pop_recent(
        struct pool *pool, struct heap *heap, uint32_t *slot) POOL_LOCKED
{
    uint32_t index = *slot;
    struct block *block = heap_block(pool, index);

    *slot = block->node.left;
    block->flags = 0;
    heap->recent_count--;
    heap->recent_bytes -= block->node.size;
    return index;
}

/* The class that a free block belongs to: once its point has passed, nothing comes to fetch it from its stream. */
static inline uint32_t heap_class_of(
        const struct pool *pool, uint32_t stream, uint64_t point) POOL_LOCKED
{
    return stream && point <= heap_stream_at(pool, stream)->line.passed ? 0 : stream;
}

/* Puts a block, whose stream is that of the class already, on top of its size; the point of a clean one is 0. */
static inline void heap_push_recent(struct pool *pool, struct heap *heap, uint32_t *slots,
        struct block *block, uint32_t index, uint64_t point) POOL_LOCKED
{
    uint64_t size = block->node.size;
    uint32_t *slot = heap_recent_slot(pool, slots, size);

    if (__builtin_expect(!slot, 0))
        slot = heap_new_slot(pool, heap, slots, size);
    block->state = BLOCK_FREE;
    block->flags = BLOCK_RECENT;
    block->seq = point;
    block->node.left = *slot;
    *slot = index;
    heap->recent_count++;
    heap->recent_bytes += size;
}

/* The large block that is held goes where it belongs. */
void heap_settle_large(struct pool *pool, struct heap *heap) POOL_LOCKED;

/* As heap_push_recent for a block of more than RECENT_MAX bytes, instead of the one that was held so far. */
static inline void heap_hold(struct pool *pool, struct heap *heap, struct block *block,
        uint32_t index, uint64_t point) POOL_LOCKED
{
    if (heap->large)
        heap_settle_large(pool, heap);
    block->state = BLOCK_FREE;
    block->flags = BLOCK_RECENT;
    block->seq = point;
    heap->large = index;
    heap->recent_count++;
    heap->recent_bytes += block->node.size;
}

/* It leaves. */
static inline void heap_unhold(struct pool *pool, struct heap *heap) POOL_LOCKED
{
    struct block *block = heap_block(pool, heap->large);

    block->flags = 0;
    heap->large = 0;
    heap->recent_count--;
    heap->recent_bytes -= block->node.size;
}

/* As heap_put, but a small block may stay by itself for a moment. */
static inline void heap_put_recent(
        struct pool *pool, uint32_t index, uint32_t stream, uint64_t point) POOL_LOCKED
{
    struct block *block = heap_block(pool, index);
    const struct segment *segment = heap_segment_of(pool, block);
    struct heap *heap = segment->heap;

    if (block->node.size > RECENT_MAX || segment->sealed) {
        (void)heap_put(pool, index, stream, point);
        return;
    }
    stream = heap_class_of(pool, stream, point);
    heap_name_stream(pool, block, stream);
    heap_push_recent(pool, heap, heap_recent_slots(heap, stream, segment->small), block, index,
            stream ? point : 0);
}

/* Takes a block of exactly this size that is recent, BUSY; 0 = none. */
static inline uint32_t heap_take_recent(struct pool *pool, struct heap *heap, uint32_t stream,
        bool small, uint64_t size) POOL_LOCKED
{
    uint32_t *slots = heap_recent_slots(heap, stream, small);
    uint32_t *slot = slots ? heap_recent_slot(pool, slots, size) : NULL;

    if (!slot)
        return 0;
    heap_block(pool, *slot)->state = BLOCK_BUSY;
    return heap_pop_recent(pool, heap, slot);
}

/* No block of the heap is `recent` any more. */
void heap_settle(struct pool *pool, struct heap *heap) POOL_LOCKED;

/* The same for GAP; a gap at the top of its range leaves the range. */
void heap_put_gap(struct pool *pool, uint32_t index) POOL_LOCKED;

/* Takes a FREE, GAP or IDLE block out of its index; it is BUSY then. */
void heap_pull(struct pool *pool, uint32_t index) POOL_LOCKED;

/* What heap_take may use. */
struct heap_want {
    uint64_t size; /* rounded */
    uint64_t align;
    uint32_t stream; /* whose free blocks are allowed beside clean ones; 0 = none */
    bool small;      /* from the small segments of a plain heap */
    bool whole;      /* a segment of its own, all of it (R16) */
    uint64_t most;   /* no larger block is cut for it, 0 = any */
};

/* A best-fit block of exactly want->size, BUSY, cut free of what is around it; 0 = none. Needs two records. */
uint32_t heap_take(struct pool *pool, struct heap *heap, const struct heap_want *want) POOL_LOCKED;

/* Cuts a BUSY block down to the wanted piece; what is left over goes back as FREE of its class. Needs two records. */
uint32_t heap_carve(struct pool *pool, uint32_t index, const struct heap_want *want) POOL_LOCKED;

/* A run of free neighbours that together fit: of `want->stream` and clean ones (any = false), or of all classes (any).
 * Writes the first and the last block of the shortest such run. 0, or -ENOENT. Walks all blocks of the heap. */
int heap_run(struct pool *pool, struct heap *heap, const struct heap_want *want, bool any,
        uint32_t *ret_first, uint32_t *ret_last) POOL_LOCKED;

/* Makes one BUSY block of a run. */
uint32_t heap_join_run(struct pool *pool, uint32_t first, uint32_t last) POOL_LOCKED;

/* Free blocks whose points have passed become clean. Returns how many did. */
uint32_t heap_sweep(struct pool *pool, struct heap *heap) POOL_LOCKED;

/* ── books ── */

/* Adds to a sum of the heap, and of its device where that has it. */
void heap_count_reserved(struct heap *heap, int64_t by);
void heap_count_stored(struct heap *heap, int64_t by);
void heap_count_pending(struct heap *heap, int64_t by);
void heap_count_kept(struct heap *heap, int64_t by);
void heap_count_limbo(struct heap *heap, int64_t by);
void heap_count_husk(struct heap *heap, int64_t by);

static inline void heap_raise(uint64_t *high, uint64_t value)
{
    if (value > *high)
        *high = value;
}

/* Does the block need storage, as far as the books go? What a hint has marked dead does not, from then on. */
static inline bool heap_is_stored(const struct pool *pool, const struct block *block)
{
    const struct holder *holder;

    if (!block->holder)
        return true;
    holder = heap_holder(pool, block->holder);
    return holder->mode == HINT_SHADOW || holder->state == HOLDER_LIVE;
}

/* A block becomes the program's, or ceases to be. */
static inline void heap_count_birth(struct pool *pool, struct heap *heap, const struct block *block)
{
    struct segment *segment = heap_segment(pool, block->segment);
    struct tally *tally = &heap->tally;
    struct device *device = heap->device;
    uint64_t size = block->node.size;
    uint64_t requested = size - block->slack;

    segment->tenants++;
    tally->live_count++;
    tally->live_rounded += size;
    tally->live_requested += requested;
    tally->used += heap_round(requested, 512);
    tally->stored += size;
    device->live_requested += requested;
    device->stored += size;
    heap_raise(&tally->used_high, tally->used + tally->native_used);
    heap_raise(&tally->stored_high, tally->stored);
    heap_raise(&device->live_requested_high, device->live_requested);
    heap_raise(&device->stored_high, device->stored);
}

static inline void heap_count_death(struct pool *pool, struct heap *heap, const struct block *block)
{
    struct segment *segment = heap_segment(pool, block->segment);
    struct tally *tally = &heap->tally;
    struct device *device = heap->device;
    uint64_t size = block->node.size;
    uint64_t requested = size - block->slack;

    segment->tenants--;
    tally->live_count--;
    tally->live_rounded -= size;
    tally->live_requested -= requested;
    tally->used -= heap_round(requested, 512);
    device->live_requested -= requested;
    if (heap_is_stored(pool, block)) {

        tally->stored -= size;
        device->stored -= size;
    }
}

/* Forgets streams that are gone and that nobody names. */
void heap_forget_streams(struct pool *pool) POOL_LOCKED;

/* How many handles of this size are on the shelf. */
uint32_t heap_shelved(const struct heap *heap, uint64_t size);
/* Puts a handle on the shelf of its size, counted as held; or takes one, 0 = none. -ENOMEM: not taken in. */
int heap_shelve(struct heap *heap, uint64_t size, uint64_t handle);
uint64_t heap_unshelve(struct heap *heap, uint64_t size);

/* Appends a block to a chain; to the open one: PENDING from now on. */
static inline void heap_chain(
        struct pool *pool, struct fence_chain *chain, uint32_t index) POOL_LOCKED
{
    struct block *block = heap_block(pool, index);
    uint32_t *tail = &heap_block(pool, chain->tail)->chain;

    fence_chain_push(chain, index, block->node.size, &block->chain, tail);
}

static inline void heap_push_open(struct pool *pool, uint32_t index) POOL_LOCKED
{
    struct block *block = heap_block(pool, index);

    block->state = BLOCK_PENDING;
    if (!(block->flags & BLOCK_GONE))
        heap_segment_of(pool, block)->heap->tally.pending += block->node.size;
    heap_chain(pool, &pool->open, index);
}

/* Holders: the list of those that wait for an edge. */
void heap_expect(struct pool *pool, uint32_t index) POOL_LOCKED;
void heap_unexpect(struct pool *pool, uint32_t index) POOL_LOCKED;
/* The address is quiet, or the block unknown: the holder goes. */
void heap_drop_holder(struct pool *pool, struct block *block) POOL_LOCKED;
/* Marks the range of a holder's block as released for pool_touch, or not any more. */
void heap_mark_released(struct pool *pool, const struct block *block, int by) POOL_LOCKED;

/* The next number of the order. */
static inline uint64_t heap_seq(struct pool *pool)
{
    return atomic_fetch_add_explicit(&pool->seq, 1, memory_order_relaxed) + 1;
}

/* Takes a heap out of the table; it goes when nothing holds it any more (pool->leaving). */
void heap_retire(struct pool *pool, struct heap *heap) POOL_LOCKED;

/* The record of a heap whose segments are all gone and that no list names any more. */
void heap_free(struct pool *pool, struct heap *heap) POOL_LOCKED;

#endif
