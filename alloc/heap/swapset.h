/* SPDX-License-Identifier: MIT */
/*
 * swapset.h - the blocks that may be evicted to the host: their state, and the decisions about
 * them.
 *
 * A set has the blocks of one hint on one device. evict.h decides. The moves wait in a queue, in
 * the required order; swap.h makes them.
 *
 *     commit ─► swapset_add          a call ─► swapcall.h ─► evict_use ─► swapqueue.h ─► swap.h
 *     free   ─► swapset_free         an edge ─► swapstep.h  ─► evict_step
 *
 *     BARE ──first use──► IN ──decided──► LEAVING ──copied, unmapped──► OUT ──mapped, copied──► IN
 *
 * A new block is BARE: it has no content, so it needs no storage yet. While LEAVING it still has
 * storage. A set in shadow only records decisions: its queue stays empty, and its blocks have
 * ordinary storage.
 *
 * A rule that releases (rule.keep_content) has a set without a cap: its blocks have their storage
 * from the beginning, are evicted at their edge, and are restored for a call that names them, after
 * which they stay.
 *
 *     IN ──its edge──► LEAVING ──► OUT ──a call names it──► IN, kept
 *
 * A managed block's pages are prefetched in either direction, in the order of its streams. It
 * counts as stored while it is decided to be in. A use that no call names fetches its pages itself,
 * so it is no reason to stay in; and an unwritten block is evicted like others.
 *
 * Does not call the driver.
 * Threads: the caller holds the pool lock. Memory: meta.h.
 * Prefixes: swap_.
 */
#ifndef KEDGE_ALLOC_SWAPSET_H
#define KEDGE_ALLOC_SWAPSET_H

#include "alloc/heap/records.h"

#define SWAPS_MAX    HOLDERS_MAX
#define SWAP_STREAMS 4                  /* streams recorded one by one; more count as all streams */
#define SWAP_FENCES  (SWAP_STREAMS + 1) /* and one of a copy */

/* Fences that must all pass; shared by their waiters. */
struct swap_copy {
    struct swap_copy *next; /* in pool->swap_spent */
    uint64_t fence[SWAP_FENCES];
    uint32_t count;
    uint32_t users;
    bool is_over; /* all have passed */
};

enum swap_state {
    SWAP_BARE,
    SWAP_IN,
    SWAP_LEAVING,
    SWAP_OUT,
};

/* One block. */
struct swap {
    uint32_t next_free; /* next unused record of the slab */
    /* index of the block; 0: freed, and the record waits for the thread that is busy with it */
    uint32_t block;
    uint32_t unit;          /* in set->evict */
    uint64_t seq;           /* of the block's allocation */
    struct swap_set *set;   /* never changes while the record is in use */
    struct swap_room *room; /* host memory for its content, NULL = none yet */
    uint64_t size;
    uint64_t requested;
    /* a copy in progress into it (IN) or out of it (LEAVING), NULL = none */
    struct swap_copy *copy;
    uint64_t moves; /* number of the last move of the queue that names it, 0 = none */
    uint64_t stream[SWAP_STREAMS]; /* streams that have used it since it came in */
    uint32_t stream_count;         /* SWAP_STREAMS + 1: more, or an unknown one */
    uint32_t refusals;             /* times the driver failed to move it */
    uint64_t used_in;              /* the step in which a call named it last */
    uint64_t made_in;              /* the step in which it was allocated */
    enum swap_state state;
    bool has_content; /* a call has named it */
    bool is_saved;    /* the host copy is up to date */
    bool is_mapped;   /* OUT: it has storage, but not its content yet */
    bool is_managed;  /* the driver moves its content, see above */
    bool is_busy;     /* a thread makes a driver call about it */
    bool is_freed;    /* the program freed it while a thread was busy with it */
    /* reasons why it is not evicted, each counted in evict_hold; `is_awaited`: the edge of its rule
     * has not come */
    bool is_kept, is_unused, is_pinned, is_awaited;
};

/* A decided move that is not done yet (swapqueue.h). */
struct swap_move {
    uint32_t swap; /* index of the record, 0 = its block was freed */
    bool in;
};

/* Host memory for the content of a block, or left by a block. */
struct swap_room {
    struct swap_room *next; /* in the list of those left */
    struct swap_copy *copy; /* the copy that still uses it after its block left */
    void *host;
    uint64_t size;
};

struct swap_step {
    struct swap_step *next;
    struct pool_evict_step what;
};

struct swap_set {
    /* fixed at creation */
    struct swap_set *next; /* in pool->swap_sets; sets live as long as the pool */
    const struct rule *rule;
    struct device *device;
    int number; /* of the rule */
    bool is_paper;
    bool is_alone; /* only blocks that a call names are in */
    /* guarded by the pool's lock */
    bool is_moving;  /* a thread makes the first move of the queue */
    bool is_needed;  /* of a rule that releases: a call has named a released block */
    bool has_unused; /* some blocks stay since no call has named them */
    struct evict *evict;
    uint64_t total;    /* bytes of the device, minus those that others used when the set was made */
    uint64_t cap;      /* in force */
    uint64_t storage;  /* bytes mapped under its blocks */
    uint64_t bytes;    /* of all its blocks */
    uint64_t in_bytes; /* bytes decided to be in */
    uint64_t host;     /* bytes of host memory, unused buffers included */
    /* most bytes that the device held for everything else, in the last step and in this one */
    uint64_t other_high, other_now;
    uint32_t *swap_of;              /* index: unit */
    uint32_t *units;                /* units of the call being decided */
    struct swap_move *queue;        /* a ring */
    uint64_t queued, started, done; /* numbers of moves: done <= started <= queued */
    uint32_t swap_of_room, units_room;
    uint32_t queue_room; /* a power of two, or 0 */
    uint32_t calls;      /* blocks that calls in progress hold */
    struct swap_room *rooms;
    struct swap_copy *left;                   /* the pages sent to the host last, NULL = none */
    struct swap_step *step_first, *step_last; /* ended steps, not yet reported */
    /* edges that passed before the set saw its first one; steps are reported including these */
    uint64_t before;
    struct pool_evict_step now;
};

static inline struct swap *swap_at(const struct pool *pool, uint32_t index)
{
    return slab_at(&pool->swaps, index);
}

/* A waiting move; its number is in (done, queued]. */
static inline struct swap_move *swapset_move(const struct swap_set *set, uint64_t number)
{
    return &set->queue[number & (set->queue_room - 1)];
}

static inline uint64_t swapset_pending(const struct swap_set *set)
{
    return set->queued - set->done;
}

/* The record of a block, NULL = it is not evictable. */
struct swap *swapset_of(const struct pool *pool, const struct block *block) POOL_LOCKED;

/* The set of a rule on a device, NULL = none. */
struct swap_set *swapset_find(
        const struct pool *pool, int rule, int device, bool is_paper) POOL_LOCKED;

/* The same; creates it. `total`: bytes that the device has for the program. NULL = no memory. */
struct swap_set *swapset_get(
        struct pool *pool, int rule, int device, bool is_paper, uint64_t total) POOL_LOCKED;

/* Creates the record of a block that is about to be made with this many bytes; 0 = no memory.
 * swapset_drop: the block was not made. */
uint32_t swapset_add(struct pool *pool, struct swap_set *set, uint64_t size) POOL_LOCKED;
void swapset_drop(struct pool *pool, uint32_t index) POOL_LOCKED;

/* True for the set of a rule that releases. */
static inline bool swapset_releases(const struct swap_set *set)
{
    return set->rule->action == ACTION_RELEASE;
}

/* True if the content of blocks that such a rule releases is currently kept. */
bool swapset_keeps_content(const struct swap_set *set);

/* A block of such a rule was made, with its storage. Binds its record, if it has one. */
void swapset_add_stored(struct pool *pool, struct swap_set *set, uint32_t number) POOL_LOCKED;

/* The block's edge has come: it may be evicted (swapqueue_send). */
void swapset_is_due(struct swap *swap);

/* A call has named the block, and it was restored. */
void swapset_came_back(struct pool *pool, struct swap *swap) POOL_LOCKED;

/* The block was made: from here on calls that name it are noticed. */
void swapset_bind(struct pool *pool, uint32_t index, uint32_t number) POOL_LOCKED;

/* The program frees the block. True: a thread is busy with it, and frees it when done (swap.c).
 * False: the caller drops its holder, and the block's flags say what its end needs. */
bool swapset_free(struct pool *pool, uint32_t number) POOL_LOCKED;

/* The block is unknown from here on. Called by holder_drop. */
void swapset_forget(struct pool *pool, uint32_t index) POOL_LOCKED;

/* The thread that was busy with the block has finished: frees the record. */
void swapset_leave(struct pool *pool, uint32_t index) POOL_LOCKED;

/* True if the block needs device storage now. */
static inline bool swapset_is_stored(const struct swap *swap)
{
    return swap->set->is_paper || swap->state == SWAP_IN || swap->state == SWAP_LEAVING
            || swap->is_mapped;
}

/* Does a block of managed memory, live or freed, count as held from the driver? */
bool swapset_is_held(const struct pool *pool, const struct block *block) POOL_LOCKED;

/* A pin was added to the block, or the last one was removed (pin.h). */
void swapset_pin(struct pool *pool, const struct block *block, bool is_pinned) POOL_LOCKED;

/* The block is not evicted from here on. Reported once. */
void swapset_keep(struct pool *pool, struct swap *swap, enum pool_kept why) POOL_LOCKED;

/* Ends the reason "no call has named it in a step". */
void swapset_let_go(struct swap *swap);

/* The same for all blocks of the set, before a call is refused. False: there is no such block. */
bool swapset_let_unused_go(struct pool *pool, struct swap_set *set) POOL_LOCKED;

/* ── caps ── */

void swapset_put_cap(struct swap_set *set, uint64_t cap);

/* Applies the cap that the hint states, with current figures. */
void swapset_restate_cap(struct swap_set *set);

/* Limits the bytes that are in until the next step. */
void swapset_limit(struct swap_set *set, uint64_t cap);

/* Records the bytes that the device holds outside the sets: the maximum in a step counts
 * (cap.less). */
void swapset_see_others(struct pool *pool, struct swap_set *set) POOL_LOCKED;

/* ── copies ── */

struct swap_copy *swap_copy_use(struct swap_copy *copy);

/* Removes one user. After the last one the fences wait to be destroyed (swap_flush). NULL is
 * allowed. */
void swap_copy_drop(struct pool *pool, struct swap_copy *copy) POOL_LOCKED;

/* Should one more host buffer of this size be allocated, since not all blocks fit under the cap?
 * Host memory covers the bytes above the cap, and one block more, because one is evicted while
 * another is restored: then a step allocates none (R89, eviction costs). */
bool swapset_lacks_room(const struct swap_set *set, uint64_t size);
/* Leaves the host memory of a block's content to another block, once the copy that uses it has
 * completed. */
void swapset_leave_room(struct swap *swap);
void swapset_put_room(struct swap_set *set, struct swap_room *room);

/* A host buffer of this size that a block has left and no copy uses, NULL = none. */
struct swap_room *swapset_take_room(
        struct pool *pool, struct swap_set *set, uint64_t size) POOL_LOCKED;

/* The pool is being freed: frees everything except host memory, which the caller has freed. */
void swapset_done(struct pool *pool) POOL_LOCKED;

/* The first broken invariant, NULL = none. */
const char *swapset_check(struct pool *pool) POOL_LOCKED;

#endif
