/* SPDX-License-Identifier: MIT */
/*
 * swapset.h - the blocks that may go out to the host: who they are, where they are, and what was decided about them.
 *
 * A set has the blocks of one hint on one device. Its decisions are evict.h's. What they ask for waits in a queue, in the order in
 * which it has to be done; swap.h does it.
 *
 *     handout ─► swapset_add          a call ─► swapcall.h ─► evict_use ─► swapqueue.h ─► swap.h
 *     free    ─► swapset_free         an edge ─► swapstep.h   ─► evict_step
 *
 *     BARE ──used for the first time──► IN ──decided──► LEAVING ──copied, unmapped──► OUT ──mapped, copied──► IN
 *
 * A block is BARE when it is made: it has no content, so it needs no storage yet. While LEAVING the storage is still there. A set in
 * shadow decides on paper: its queue stays empty, and its blocks are where all others are.
 *
 * A rule that releases (rule.keep_content) has a set without a cap: its blocks have their storage from the beginning, go out at their edge,
 * and come back for a call that names them, after which they stay.
 *
 *     IN ──its edge──► LEAVING ──► OUT ──a call names it all the same──► IN, kept
 *
 * A managed block's pages are prefetched one way or the other, in the order of its streams. It counts as stored while it is decided to
 * be in. What no call names brings its pages by itself, so nothing stays in for that; and what was not written goes out all the same.
 *
 * Does not call the driver. Threads: the caller holds the pool lock. Memory: meta.h.
 * Prefixes: swap_.
 */
#ifndef KEDGE_ALLOC_SWAPSET_H
#define KEDGE_ALLOC_SWAPSET_H

#include "alloc/heap/records.h"

#define SWAPS_MAX    HOLDERS_MAX
#define SWAP_STREAMS 4 /* streams that are told apart; more of them are all streams */
#define SWAP_FENCES  (SWAP_STREAMS + 1) /* and one of a copy */

/* Fences that have all to pass; shared by those that wait. */
struct swap_copy {
    struct swap_copy *next; /* of pool->swap_spent */
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
    uint32_t next_free; /* of the slab's, of a record that is not in use */
    /* its index; 0: it is gone, and the record waits for the thread that is busy with it */
    uint32_t block;
    uint32_t unit;          /* in set->evict */
    uint64_t seq;           /* of the block's allocation */
    struct swap_set *set;   /* never changes while the record is in use */
    struct swap_room *room; /* for its content, NULL = none yet */
    uint64_t size;
    uint64_t requested;
    struct swap_copy *copy; /* into it (IN) or out of it (LEAVING), NULL = none is under way */
    uint64_t moves;         /* number of the last move of the queue that names it, 0 = none */
    uint64_t stream[SWAP_STREAMS]; /* that have used it since it came in */
    uint32_t stream_count;         /* SWAP_STREAMS + 1: more, or one that is not known */
    uint32_t refusals;             /* how often the driver did not move it */
    uint64_t used_in;              /* the step in which a call has named it last */
    uint64_t made_in;              /* the step in which it was made */
    enum swap_state state;
    bool has_content; /* a call has named it */
    bool is_saved;    /* the host has its content as it is */
    bool is_mapped;   /* OUT: storage came, but its content did not */
    bool is_managed;  /* its content goes by itself, see below */
    bool is_busy;     /* a thread makes a driver call about it */
    bool is_freed;    /* the program freed it while a thread was busy with it */
    /* reasons why it does not go out, each counted in evict_hold; `is_awaited`: the edge of its rule has not come */
    bool is_kept, is_unused, is_pinned, is_awaited;
};

/* A move that was decided and is not done (swapqueue.h). */
struct swap_move {
    uint32_t swap; /* index of the record, 0 = its block is gone */
    bool in;
};

/* Room on the host for the content of a block, or left behind by one. */
struct swap_room {
    struct swap_room *next; /* of those that were left behind */
    struct swap_copy *copy; /* that still uses such a one */
    void *host;
    uint64_t size;
};

struct swap_step {
    struct swap_step *next;
    struct pool_evict_step what;
};

struct swap_set {
    /* fixed at creation */
    struct swap_set *next; /* of pool->swap_sets; sets stay as long as the pool */
    const struct rule *rule;
    struct device *device;
    int number; /* of the rule */
    bool is_paper;
    bool is_alone; /* nothing is in but what a call names */
    /* guarded by the pool's lock */
    bool is_moving;  /* a thread does the first move of the queue */
    bool is_needed;  /* of a rule that releases: a call has named what was released */
    bool has_unused; /* some blocks stay since no call has named them */
    struct evict *evict;
    uint64_t total;    /* bytes of the device, less what others had of it when the set was made */
    uint64_t cap;      /* in force */
    uint64_t storage;  /* bytes mapped under its blocks */
    uint64_t bytes;    /* of all its blocks */
    uint64_t in_bytes; /* decided to be in */
    uint64_t host;     /* bytes taken on the host, rooms included */
    /* most that the device held for everything else, in the last step and in this one */
    uint64_t other_high, other_now;
    uint32_t *swap_of;              /* by unit */
    uint32_t *units;                /* of the call that is being decided */
    struct swap_move *queue;        /* a ring */
    uint64_t queued, started, done; /* numbers of moves: done <= started <= queued */
    uint32_t swap_of_room, units_room;
    uint32_t queue_room; /* a power of two, or 0 */
    uint32_t calls;      /* blocks that calls on their way hold */
    struct swap_room *rooms;
    struct swap_copy *left; /* the pages that were sent to the host last, NULL = none were */
    struct swap_step *step_first, *step_last; /* that have ended and are not told */
    /* edges that passed before the first one that it has seen: steps are told with these */
    uint64_t before;
    struct pool_evict_step now;
};

static inline struct swap *swap_at(const struct pool *pool, uint32_t index)
{
    return slab_at(&pool->swaps, index);
}

/* A move that waits; its number is in (done, queued]. */
static inline struct swap_move *swapset_move(const struct swap_set *set, uint64_t number)
{
    return &set->queue[number & (set->queue_room - 1)];
}

static inline uint64_t swapset_pending(const struct swap_set *set)
{
    return set->queued - set->done;
}

/* The record of a block, NULL = it does not go out. */
struct swap *swapset_of(const struct pool *pool, const struct block *block) POOL_LOCKED;

/* The set of a rule on a device, NULL = it was not made. */
struct swap_set *swapset_find(
        const struct pool *pool, int rule, int device, bool is_paper) POOL_LOCKED;

/* The same; makes it. `total`: bytes that the device has for the program. NULL = no memory. */
struct swap_set *swapset_get(
        struct pool *pool, int rule, int device, bool is_paper, uint64_t total) POOL_LOCKED;

/* A block of so many bytes is about to be made. Its record, 0 = no memory. And: it was not made. */
uint32_t swapset_add(struct pool *pool, struct swap_set *set, uint64_t size) POOL_LOCKED;
void swapset_drop(struct pool *pool, uint32_t index) POOL_LOCKED;

/* The set of a rule that releases. */
static inline bool swapset_releases(const struct swap_set *set)
{
    return set->rule->action == ACTION_RELEASE;
}

/* Is the content of what such a rule releases now kept? */
bool swapset_keeps_content(const struct swap_set *set);

/* A block of such a rule was made, with its storage. Its record is bound to it, or it has none. */
void swapset_add_stored(struct pool *pool, struct swap_set *set, uint32_t number) POOL_LOCKED;

/* Its edge has come: it may go out (swapqueue_send). */
void swapset_is_due(struct swap *swap);

/* A call has named it, and it has come back. */
void swapset_came_back(struct pool *pool, struct swap *swap) POOL_LOCKED;

/* It was made: from here on calls that name it are noticed. */
void swapset_bind(struct pool *pool, uint32_t index, uint32_t number) POOL_LOCKED;

/*
 * The program frees the block, which is not its any more. True: a thread is busy with it, and swapset_settle goes on with the free.
 * False: its holder is to be dropped, and the block's flags say what its end needs.
 */
bool swapset_free(struct pool *pool, uint32_t number) POOL_LOCKED;

/* The block is unknown from here on. Of holder_drop. */
void swapset_forget(struct pool *pool, uint32_t index) POOL_LOCKED;

/* A thread was busy with it then and is no more: the record goes. */
void swapset_leave(struct pool *pool, uint32_t index) POOL_LOCKED;

/* What a block needs of the device now. */
static inline bool swapset_is_stored(const struct swap *swap)
{
    return swap->set->is_paper || swap->state == SWAP_IN || swap->state == SWAP_LEAVING
            || swap->is_mapped;
}

/* Does a block of managed memory, live or freed, count as held from the driver? */
bool swapset_is_held(const struct pool *pool, const struct block *block) POOL_LOCKED;

/* Somebody relies on the block, or nobody any more (pin.h). */
void swapset_pin(struct pool *pool, const struct block *block, bool is_pinned) POOL_LOCKED;

/* It does not go out from here on. Told once. */
void swapset_keep(struct pool *pool, struct swap *swap, enum pool_kept why) POOL_LOCKED;

/* What it stays in for since no call had named it in a step, it stays in for no more. */
void swapset_let_go(struct swap *swap);

/* The same of all blocks of the set, before a call is refused. False: there is no such block. */
bool swapset_let_unused_go(struct pool *pool, struct swap_set *set) POOL_LOCKED;

/* ── caps ── */

void swapset_put_cap(struct swap_set *set, uint64_t cap);

/* The cap that the hint states, as things are now. */
void swapset_restate_cap(struct swap_set *set);

/* No more than so many bytes in until the next step. */
void swapset_limit(struct swap_set *set, uint64_t cap);

/* What the device holds beside the sets: the most of it in a step counts (cap.less). */
void swapset_see_others(struct pool *pool, struct swap_set *set) POOL_LOCKED;

/* ── copies ── */

struct swap_copy *swap_copy_use(struct swap_copy *copy);

/* One user less. After the last one its fences wait to be put (swap_flush). NULL is fine. */
void swap_copy_drop(struct pool *pool, struct swap_copy *copy) POOL_LOCKED;

/*
 * Is there to be one more room of this size, since not all blocks fit under the cap? So many bytes of the host as are over it, and a
 * blocks more, of which one goes out while another one comes in: then a step takes none (R89).
 */
bool swapset_lacks_room(const struct swap_set *set, uint64_t size);
/* The host memory of a block's content is another block's from here on, once the copy that uses it is over. */
void swapset_leave_room(struct swap *swap);
void swapset_put_room(struct swap_set *set, struct swap_room *room);

/* Room of this size that some block has left behind and that no copy uses, NULL = none. */
struct swap_room *swapset_take_room(
        struct pool *pool, struct swap_set *set, uint64_t size) POOL_LOCKED;

/* The pool is being freed: all but host memory, which the caller has given back. */
void swapset_done(struct pool *pool) POOL_LOCKED;

/* First thing that is wrong, NULL = nothing. */
const char *swapset_check(struct pool *pool) POOL_LOCKED;

#endif
