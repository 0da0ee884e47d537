/* SPDX-License-Identifier: MIT */
/*
 * pool.h - the door of alloc/: device memory for requests, from heaps that are grown from the driver.
 *
 * One pool per process. It holds the heaps (R76), finds them by (kind, owner key), and makes every driver
 * call through driver.h in the shape "ask - drop the lock - call - take it - put".
 *
 *     pool_alloc ─► hint acts? ─ yes ─► hint range: a physical handle of its own ───────────────────────┐
 *          │            no                                                                              │
 *          ├─ sync ──► plain heap of the context ──┐  (sync_mapped: its mapped heap)                    ├─► outcome
 *          └─ stream ► mapped heap of the pool ────┴─ clean or own stream's free block (bestfit.h) ─────┤
 *                                     miss: poll fences · wait above the budget · trim · grow · wait · OOM
 *     pool_free  ─► sync: open epoch (fence.h), no driver call ·  stream: point set, reusable there at once
 *     pool_edge  ─► due hints: dead ─► readers ─► fence ─► unmapped: husk (holder.h); pinned ones are refused (pin.h)
 *
 * What it does not do: look at the environment, log, know CUDA, decide what a hint means (hint.h), write anything down
 * (the outcomes say what to record). Nothing here runs by itself: progress is made inside these calls, or by pool_poll.
 *
 * Results: 0, or the driver's CUresult (> 0) for the application, or -errno (< 0): the caller makes the real call.
 * Threads: every function, any thread, unless it says otherwise; functions marked [driver] may call the driver and may be
 * slow, so no lock may be held around them. One lock inside (LOCK_RANK_POOL), never held across a driver call.
 * Memory: meta.h. Rules: R1 R2 R9 R15 R22 R31 R34 R35 R39 R40 R55 R57 R58 R64 R66 R70-R74 R76 R78 R81 R84 R88.
 */
#ifndef KEDGE_ALLOC_POOL_H
#define KEDGE_ALLOC_POOL_H

#include "alloc/heap/pool_types.h"

struct pool;

/* ── making one ── */

/* Fills in the defaults; pool.c says why each is what it is. */
void pool_opts_init(struct pool_opts *opts);

/* The driver table and the options are copied; the functions in the table must outlive the pool. 0, -ENOMEM, -EINVAL. */
int pool_new(const struct driver *driver, const struct pool_opts *opts, struct pool **ret_pool);

/* [driver] Gives everything back, live blocks included, and frees the pool. For tests and tools: a real process lets the
 * pool be at exit (R40). No other thread may be inside. NULL is fine. */
void pool_free_all(struct pool *pool);

/* The hints that plans and edges speak of; once, before the first request that carries a plan. `hints` stays the
 * caller's and outlives the pool. 0, -EEXIST, -ENOMEM. */
int pool_set_hints(struct pool *pool, struct hints *hints);

/* Nobody compares the numbers (seq) of what happens on different streams, as where nothing is recorded and there are no hints: from now
 * on those of one stream rise, and each is given once. So threads need not meet for a number. */
void pool_is_not_recorded(struct pool *pool);

/* ── allocation and free ── */

/*
 * [driver] A block for a request; ret->kind is OUTCOME_ALLOC.
 * 0: ret->ptr is the program's, aligned to the quantum, and by default to 2 MiB if it is a sync request that large.
 * > 0: the driver's own code after everything was tried (R31), for the application.
 * -EAGAIN: not ours now (frozen, forked, or a driver call would be needed and may_call is false).
 * -ENOSPC: the device is full at our granularity; the driver may still serve the exact size itself.
 * -ENOMEM, -EOVERFLOW, -EINVAL: kedge could not go on. In all negative cases nothing has happened; make the real call.
 */
int pool_alloc(struct pool *pool, const struct pool_request *request, struct outcome *ret);

struct pool_free_request {
    enum api api;
    uint64_t stream; /* of a free on the stream-ordered API; 0 = unknown: as a sync free */
    bool record_now; /* nothing that is recorded later can stand for the free: only its thread can record there, or others wait there (R69) */
    bool may_fence;  /* event calls are allowed; a sync free never makes one */
    bool beside;     /* beside captures of other streams */
};

/*
 * The program frees a pointer. ret->kind is OUTCOME_FREE.
 * Sync API, or stream 0: no driver call, ever (R2); safe in captures, host callbacks, after the driver is gone.
 * Stream-ordered API: [driver] one event record if the stream is not the allocating one or record_now is set (R71).
 * 0 · -ENOENT: not ours, make the real call · -EINVAL: ours, but interior or already free (R35).
 */
int pool_free(struct pool *pool, devptr_t ptr, const struct pool_free_request *request,
        struct outcome *ret);

/*
 * The short forms of pool_alloc and pool_free, for callers that have no plan and need to be told little: a block of
 * the very size that was freed a moment ago; an ordinary block that goes where most go. One of each for the two APIs;
 * a free on a stream must be one that records nothing now. Some hundred instructions, however many blocks there are, and no
 * driver call, ever. No address, or false: nothing has happened, use the long form. Not in a pool that is frozen.
 */
struct pool_given pool_alloc_quickly(struct pool *pool, uint64_t owner, uint64_t size);
struct pool_given pool_alloc_on_quickly(
        struct pool *pool, uint64_t owner, uint64_t stream, uint64_t size);
bool pool_free_quickly(struct pool *pool, devptr_t ptr);
bool pool_free_on_quickly(struct pool *pool, devptr_t ptr, uint64_t stream);
/* The same for who has to know: these take a number for the free. */
bool pool_free_told(struct pool *pool, devptr_t ptr, struct pool_taken *ret_taken);
bool pool_free_on_told(
        struct pool *pool, devptr_t ptr, uint64_t stream, struct pool_taken *ret_taken);

/*
 * The block at ptr is about to be shown to another process, which will see all of its segment: from here on no other block
 * comes to stand there, and when the last one is freed and passed, the segment goes back to the driver (R24).
 * 0 · -ENOENT: not ours · -EINVAL: not the beginning of a live block in memory that can be shown · -EBUSY: the segment
 * has other tenants, or begins elsewhere (R23).
 */
int pool_export(struct pool *pool, devptr_t ptr);

/* What is known about an address. */
struct block_info {
    enum heap_kind heap;
    uint64_t owner;   /* key of the heap */
    uint64_t context; /* context generation that the segment belongs to, 0 = none (mapped) */
    devptr_t base;    /* of the block */
    uint64_t size;    /* requested bytes; 0 if the block is not live */
    uint64_t rounded; /* bytes that it takes */
    /* what was got from the driver in one piece; for mapped memory: the handle under `ptr` */
    devptr_t segment_base;
    uint64_t segment_size;
    uint32_t segment_tenants; /* blocks in the segment that the program holds */
    enum holder_state state;  /* HOLDER_GONE = the program does not hold this address */
    enum hint_mode mode;      /* HINT_OFF without a hint */
    int rule;                 /* -1 = none */
    int device;
    uint64_t stream; /* of the allocation */
    uint64_t alloc_seq;
    bool mapped;  /* VMM memory, or managed */
    bool managed; /* the driver takes it for managed memory */
};

/* Looks an address up, interior ones too. 0, or -ENOENT: not inside anything that we hold. */
int pool_find(struct pool *pool, devptr_t ptr, struct block_info *ret);

/* ── hints ── */

/*
 * An anchor edge was passed, or something else that hints wait for: finds the hinted blocks that are due by it and, in a mode
 * that acts (hint_mode_acts), marks them dead. Makes no driver call, since an edge may come in a host function or a capture:
 * pool_poll lets the release go on. Writes one outcome per due block, OUTCOME_SHADOW, OUTCOME_RELEASE, OUTCOME_LET_GO or
 * OUTCOME_REFUSED, and before those of a hint OUTCOME_DRIFT if it has matched something else than it
 * expects (expect.h), at most `max` of them: *ret_count == max means that there may be more, call again with the same edge,
 * which has a seq by then: what is made between the calls is none of it.
 * 0, or -errno (then nothing was released that is not in the outcomes).
 */
int pool_edge(
        struct pool *pool, struct edge *edge, struct outcome *ret, size_t max, size_t *ret_count);

/*
 * The block at ptr is given to a call as its buffer `arg`, before pool_edge is told of that call. True for the first use of it that
 * its hint waits for: from here on the hint's pick fits it. Any thread, no driver call.
 */
bool pool_use(struct pool *pool, devptr_t ptr, const struct edge *call, uint32_t arg,
        struct outcome *ret_picked);

/* A block that a call under way is about: it was looked at, and is given to the device later. */
struct pool_collected {
    devptr_t base;
    uint64_t alloc_seq;
    bool is_named;
};

/*
 * The call names the block at ptr (`is_named`), or releases it: its storage does not go before pool_call_made was told of the same. In
 * the reader section in which the call has looked at it, or was its edge. False: no hint would take the storage. No driver call.
 * Meanwhile pool_touch does not find a block that is named, since the work that the call becomes names it, on any thread.
 */
bool pool_collect(struct pool *pool, devptr_t ptr, bool is_named, struct pool_collected *ret);
void pool_call_made(struct pool *pool, const struct pool_collected *collected);
/* Does a block that is due wait for that still? *ret says which, as one that is refused. */
bool pool_waits_for_call(
        struct pool *pool, const struct pool_collected *collected, struct outcome *ret);

/* A released range that something touches. */
struct pool_hit {
    devptr_t base; /* of the block */
    uint64_t size; /* requested bytes */
    uint64_t alloc_seq;
    int rule;
    enum holder_state state; /* DEAD, LIMBO or HUSK */
    enum hint_mode mode;     /* SHADOW: nothing was done to it, only noted */
};

/* ── pins (R80) ── */

struct pool_pinned {
    devptr_t base; /* of the block; with alloc_seq it names it for pool_unpin */
    uint64_t alloc_seq;
    devptr_t end;  /* where the next block begins */
    uint64_t size; /* requested bytes */
    int rule;      /* of the hint that expects an edge for it, -1 = none */
    int device;
    bool first; /* no pin of this kind stood on it before */
};

/*
 * Pins the first block in [lo, lo + len) that the program holds. From then on no hint releases it.
 * 0 and *ret; -ENOENT: there is none; -EBUSY and *ret_hit: a hint that acts has released it, as pool_touch says it;
 * -ENOMEM. Makes no driver call.
 */
int pool_pin(struct pool *pool, devptr_t lo, uint64_t len, enum pool_pin kind,
        struct pool_pinned *ret, struct pool_hit *ret_hit);

/* One more of a block that is pinned already, freed ones that are kept included. 0, -ENOENT, -ENOMEM. */
int pool_repin(struct pool *pool, devptr_t base, uint64_t alloc_seq, enum pool_pin kind);

/* One such pin less. Nothing happens if the block is not there any more. Makes no driver call. */
void pool_unpin(struct pool *pool, devptr_t base, uint64_t alloc_seq, enum pool_pin kind);

/*
 * True once a hinted block was handed out; never goes back. A hooked submission must run inside a reader section (R66)
 * from the moment when this is true: one load and a branch before that. A submission that saw false cannot name a block
 * that was handed out later, so it needs none.
 */
static inline bool pool_is_armed(const struct pool *pool)
{
    const struct pool_gate *gate = (const struct pool_gate *)(const void *)pool;

    return atomic_load_explicit(&gate->armed, memory_order_relaxed) != 0;
}

int pool_touch_slow(struct pool *pool, devptr_t lo, uint64_t len, struct pool_hit *ret);

/*
 * Does [lo, lo + len) touch a released range? 1 and *ret (the lowest such block), or 0. For the guard of R86.
 * One load and a branch while nothing is released; lock-free for readers in trap and live; for ranges released on paper
 * only (shadow) it takes the pool's lock for a moment. Call it inside a reader section, after the full barrier that
 * begins one, else a range that is being marked may be missed.
 */
static inline int pool_touch(struct pool *pool, devptr_t lo, uint64_t len, struct pool_hit *ret)
{
    const struct pool_gate *gate = (const struct pool_gate *)(const void *)pool;

    if (atomic_load_explicit(&gate->released, memory_order_acquire) == 0)
        return 0;
    return pool_touch_slow(pool, lo, len, ret);
}

/* ── blocks that go out and come in (ACTION_EVICT; swap.h) ── */

/* True once there is such a block. One load. */
static inline bool pool_evicts(const struct pool *pool)
{
    const struct pool_gate *gate = (const struct pool_gate *)(const void *)pool;

    return atomic_load_explicit(&gate->evicts, memory_order_relaxed) != 0;
}

/*
 * The call names [lo, lo + len). `is_written`: it is a copy or a set that writes there; a kernel may do so, too, but that is for
 * the hint to say (rule_evict.clean). Inside the reader section of the call. 0, or -ENOMEM. No lock where nothing there may be out.
 */
int pool_call_name(
        struct pool *pool, devptr_t lo, uint64_t len, bool is_written, struct pool_call *io_call);

/*
 * [driver] All is named, still inside the reader section. 0: all is in, the stream waits for what is still being copied, and the call
 * can be made. -EAGAIN: end the section, call pool_call_bring, begin another one, and go on: nothing has to be named again.
 */
int pool_call_begin(struct pool *pool, struct pool_call *io_call);

/*
 * [driver] Brings in what the call names, and takes out what has to make room. Outside of every reader section. 0; DRIVER_OUT_OF_MEMORY:
 * it cannot all be in at once, and *ret_short says why; the call must not be made. Any other code of the driver: the same.
 */
int pool_call_bring(struct pool *pool, struct pool_call *io_call, struct pool_short *ret_short);

/* The call was made, or not: its blocks may go out again. No driver call. */
void pool_call_end(struct pool *pool, struct pool_call *io_call);

/* True if there is something to be done ahead of the next calls; one load. And: [driver] does what can be done without waiting. */
static inline bool pool_evict_has_more(const struct pool *pool)
{
    const struct pool_gate *gate = (const struct pool_gate *)(const void *)pool;

    return atomic_load_explicit(&gate->ahead, memory_order_relaxed) != 0;
}
void pool_evict_go_on(struct pool *pool);

/*
 * The block at ptr is used by something that no call names, from now on: it stays in, or stays once it is (the caller names it in a
 * call before that something is made). ptr 0: all that may be out. Told as OUTCOME_KEPT with the next pool_poll. No driver call.
 */
void pool_evict_keep(struct pool *pool, devptr_t ptr, enum pool_kept why);

/* [driver] Another part of the device has no room: up to `want` bytes go out, after what uses them. Bytes that are free now. */
uint64_t pool_evict_make_room(struct pool *pool, int device, uint64_t want);

/* The next one that was not told yet, in order; false: none. Told after pool_edge, which ends steps. */
bool pool_evict_next_step(struct pool *pool, struct pool_evict_step *ret);
/* The step that runs, as it is now; false: no such set. */
bool pool_evict_now(struct pool *pool, int rule, int device, struct pool_evict_step *ret);

/* ── the order that the program gives to its streams (R72; stream_wait.h) ── */

/* True once it matters: memory of one pool was freed on several streams. One load. */
static inline bool pool_wants_orders(const struct pool *pool)
{
    const struct pool_gate *gate = (const struct pool_gate *)(const void *)pool;

    return atomic_load_explicit(&gate->orders, memory_order_relaxed) != 0;
}

/* An event is about to be recorded on the stream: *ret is what has been freed by now on it, and on those that it comes behind. To be called
 * before the driver is asked to record, so that the event covers all of that. No driver call. */
void pool_events_now(struct pool *pool, uint64_t stream, struct pool_order *ret);

/* The driver has made the stream wait for an event of this order. No driver call. */
void pool_events_follow(struct pool *pool, uint64_t stream, const struct pool_order *order);

/* [driver] A capture is about to begin, beside which no fence is asked: what has passed is to be known (R10). */
void pool_settle(struct pool *pool);

/* The host has waited for work of this order: what was freed before is anybody's. No driver call but for events that are given back. */
void pool_events_passed(struct pool *pool, const struct pool_order *order);

/* ── streams that may wait for the host (R104; stall.h) ── */

/* True while there may be one. One load. */
static inline bool pool_has_stalls(const struct pool *pool)
{
    const struct pool_gate *gate = (const struct pool_gate *)(const void *)pool;

    return atomic_load_explicit(&gate->stalls, memory_order_relaxed) != 0;
}

/*
 * [driver] Around a call that gives the stream an operation which may wait for what the device does not do by itself. Before it what was freed
 * gets its fence: on the stream, also beside captures of other streams; if `may_fence`, and by the sync API. `at_once`: the fence behind
 * the call is recorded now, because only the calling thread can (R69), or because a later one would put other streams behind each other (the
 * default stream's).
 */
void pool_stall_begin(struct pool *pool, uint64_t stream, bool may_fence);
void pool_stall_end(struct pool *pool, uint64_t stream, bool at_once);

/* [driver] May some stream be waiting for the host now? `own`: calls that the calling thread is about to make, which do not count yet. */
bool pool_stall_goes_on(struct pool *pool, unsigned own);

/* [driver] What was freed gets its fence, because what the stream is given next may be behind a stalled one; or, on all streams, because
 * from now on some may have an order with others. */
void pool_settle_stream(struct pool *pool, uint64_t stream);
void pool_settle_streams(struct pool *pool);

/* ── progress, trim, ends ── */

/*
 * [driver] Moves everything that can move without waiting: closes an epoch if due, asks fences, removes storage whose
 * limbo is over. Tells (at most `max`) OUTCOME_HUSKs: storage that has really gone since the last call, wherever that
 * happened; OUTCOME_REFUSED if the driver did not take it; OUTCOME_CLEAN or OUTCOME_WRITTEN of poison that was looked at.
 * may_fence as in pool_request. Cheap when there is no news (pool_has_news) and the timelines are empty.
 */
int pool_poll(
        struct pool *pool, bool may_fence, struct outcome *ret, size_t max, size_t *ret_count);

/* True while what is due waits for submissions under way (R66): pool_poll has more to do as soon as they have ended. */
bool pool_waits_for_readers(struct pool *pool);

static inline bool pool_has_news(const struct pool *pool)
{
    const struct pool_gate *gate = (const struct pool_gate *)(const void *)pool;

    return atomic_load_explicit(&gate->news, memory_order_relaxed) != 0;
}

/* [driver] Gives back what is free in one heap until it holds no more than `keep` bytes; asks fences a few times, does not
 * wait for the device. *ret_bytes = what was given back. 0, or -ENOENT: no such heap. For cuMemPoolTrimTo (R78). */
int pool_trim(
        struct pool *pool, enum heap_kind kind, uint64_t owner, uint64_t keep, uint64_t *ret_bytes);

/* [driver] Gives back all that is free on a device: idle segments and granules of all heaps, cached handles. With
 * may_wait it first waits for pending frees and limbo (R31, R81). Returns the bytes given back. Call after an OOM of a
 * forwarded call, then retry that once. */
uint64_t pool_trim_device(struct pool *pool, int device, bool may_wait);

/* [driver] Could the device have so many bytes once all that was freed there is over? If not, no wait helps (R104). True where nobody can
 * say. */
bool pool_could_have(struct pool *pool, int device, uint64_t bytes);

/* [driver] The program has waited for the device (any synchronise): heaps that hold more than their release threshold
 * are trimmed to it (R78). Cheap if none does. */
void pool_synchronised(struct pool *pool);

/*
 * [driver] The program has made a call, at `now_ns` of a clock that the caller has chosen. If it had made none for
 * opts.idle_ns before, and more than an eighth of what a device's heaps hold is free, that goes back to the driver until an
 * eighth is left. Returns the bytes given back. Need not be told of every call. Nothing happens in a process that stays
 * idle: there is no thread of ours.
 */
uint64_t pool_idle(struct pool *pool, uint64_t now_ns);

/* Before a stream is destroyed, [driver] so that its timeline is recorded in time (R5); its number may come back as another
 * stream's only after this call. */
void pool_stream_gone(struct pool *pool, uint64_t stream_key);

/* A stream went without a word, or cannot be asked any more: a thread's own stream ends with the thread. No driver call:
 * what no fence covers yet waits for a full one. */
void pool_stream_lost(struct pool *pool, uint64_t stream_key);

/*
 * The driver is about to be asked to end a context that may have work (R1, R26), or is back (`begins` false). Nothing is submitted there any
 * more, so what is allocated from now on has nothing to do with that work, and is free once all other contexts are past it.
 * `devices`: whose memory that work may reach, as bits; the same at both times. No driver call.
 */
void pool_ending(struct pool *pool, uint64_t devices, bool begins);

/* The driver is being asked to end a context. Once it has, it may give the addresses of its memory to somebody else, before
 * we hear of the end: so they are not looked up as ours meanwhile. `hidden` false: it was refused, they are ours as before.
 * No driver call. */
void pool_context_hide(struct pool *pool, uint64_t context, bool hidden);

/* A context is about to die. Its plain heap is forgotten, and its private heap serves nobody any more but stays as it is:
 * work that uses it runs until the context is dead. No driver call. */
void pool_context_going(struct pool *pool, uint64_t context);

/* A context is dead (destroyed, reset). Its plain heap is forgotten without a driver call, its private heap is given back
 * [driver], pending blocks and fences of it count as done. Blocks of it that the program still holds become unknown. */
void pool_context_gone(struct pool *pool, uint64_t context);

/*
 * The driver gave this range to the program itself. Where we still have a segment there, its context has ended and nobody
 * has told us yet (R26). Any thread, no driver call.
 */
void pool_foreign(struct pool *pool, devptr_t ptr, uint64_t size);

/* The driver has served a request of this plan: its hint has matched a block that is not ours. Any thread, no driver call. */
void pool_forwarded(struct pool *pool, const struct plan *plan, uint64_t size);

/* [driver] A memory pool is destroyed: its heap is given back. Blocks that are still live keep it until the last of them
 * is freed, as documented for cuMemPoolDestroy. 0, or -ENOENT. */
int pool_heap_gone(struct pool *pool, uint64_t owner);

/* In a forked child, before anything else: frees of our pointers succeed, requests get -EAGAIN, the driver is never called
 * again (R39). Only thread-safe in that there is one thread then. */
void pool_forget(struct pool *pool);

/* A sticky error, or the driver is shut down (R34, R40): as pool_forget, for the whole process, from any thread. */
void pool_freeze(struct pool *pool);
bool pool_is_frozen(const struct pool *pool);

/* ── figures ── */

/* Both create the heap if it is new. 0 or -ENOMEM. */
int pool_heap_attrs(struct pool *pool, uint64_t owner, int device, struct pool_heap_attrs *ret);
int pool_set_heap_attrs(
        struct pool *pool, uint64_t owner, int device, const struct pool_heap_attrs *attrs);

/* All heaps (device -1) or those of one device. */
void pool_stats(struct pool *pool, int device, struct pool_stats *ret);
/* Its range_errors alone, at the cost of one lock. */
uint64_t pool_range_errors(struct pool *pool);
/* One heap; 0 or -ENOENT. */
int pool_heap_stats(struct pool *pool, enum heap_kind kind, uint64_t owner, struct pool_stats *ret);

/* Walks all blocks of the device's mapped heaps, with the lock held: for the moment when nothing else helps. */
void pool_room(struct pool *pool, int device, struct pool_room *ret);

/*
 * How many bytes the device has for the program: one request of so many, through either allocation API, finds its place as
 * long as no other thread asks meanwhile. What the driver has free, and what goes back to it before a request is refused:
 * segments and slots without a live byte (freed blocks count although a fence is awaited), idle and cached handles. Free
 * pieces beside live blocks are not in it. Storage that a hint has taken from a live block is not free (R84). Rounded
 * down to whole slots. Walks blocks with the lock held. No driver call. Rules: R22 R84.
 */
uint64_t pool_available(struct pool *pool, int device, const struct pool_memory *memory);

/* High marks fall to the current values: those of one heap. 0 or -ENOENT. */
int pool_reset_high(
        struct pool *pool, enum heap_kind kind, uint64_t owner, bool used, bool reserved);

/* What the driver's own pool behind a mapped heap says that it has in use and holds, after it has served a request of ours or
 * taken one back (R77): the heap's high marks are of both together from here on. */
void pool_note_native(
        struct pool *pool, uint64_t owner, int device, uint64_t used, uint64_t reserved);

/* The next number of the order that outcomes carry, for events that do not go through the pool. */
uint64_t pool_seq_next(struct pool *pool);

/* Walks every invariant of every structure; 0, or -EINVAL and *ret_what names the first that is broken. Slow; tests. */
int pool_check(struct pool *pool, const char **ret_what);

#endif
