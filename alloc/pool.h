/* SPDX-License-Identifier: MIT */
/*
 * pool.h - the interface of alloc/: device memory for requests, from heaps that grow from the
 * driver.
 *
 * One pool per process. It holds the heaps (R76, heap owners), finds them by (kind, owner key), and
 * makes every driver call through driver.h: drop the lock, call, take the lock again, store the
 * result.
 *
 *     pool_alloc ─► hint acts? ─ yes ─► hint range: a physical handle of its own ──────┐
 *          │            no                                                             │
 *          ├─ sync ──► plain heap of the context ─┐ (sync_mapped: mapped heap)         ├─► outcome
 *          └─ stream ► mapped heap of the pool ───┴─ free block: idle or own stream's ─┤
 *                         miss: poll fences · wait above budget · trim · grow · wait · OOM
 *     pool_free ─► sync: open epoch (fence.h), no driver call
 *                  stream: point set, reusable there at once
 *     pool_edge ─► due hints: dead ─► readers ─► fence ─► unmapped: husk (holder.h)
 *                  a pinned block is refused (pin.h)
 *
 * The pool does not read the environment, log, know CUDA, interpret hints (hint.h) or write files
 * (outcomes say what to record). It has no thread: work is done inside these calls, or in
 * pool_poll.
 *
 * Results: 0, or the driver's CUresult (> 0) for the application, or -errno (< 0): the caller makes
 * the real call.
 * Threads: every function may be called on any thread unless it says otherwise. Functions marked
 * [driver] may call the driver and may be slow, so the caller holds no lock. One lock inside
 * (LOCK_RANK_POOL), never held across a driver call.
 * Memory: meta.h. Rules: R1 R2 R9 R15 R22 R31 R34 R35 R39 R40 R55 R57 R58 R64 R66 R70-R74 R76 R78
 * R81 R84 R88.
 */
#ifndef KEDGE_ALLOC_POOL_H
#define KEDGE_ALLOC_POOL_H

#include "alloc/heap/pool_types.h"

struct pool;

/* ── creation ── */

/* Fills in the defaults; pool.c gives the reason for each. */
void pool_opts_init(struct pool_opts *opts);

/* Copies the driver table and the options; the functions in the table must outlive the pool. 0,
 * -ENOMEM, -EINVAL. */
int pool_new(const struct driver *driver, const struct pool_opts *opts, struct pool **ret_pool);

/* [driver] Returns all memory to the driver, live blocks included, and frees the pool. For tests
 * and tools: a real process leaves the pool at exit (R40). No other thread may be
 * inside. NULL is allowed. */
void pool_free_all(struct pool *pool);

/* Sets the hints that plans and edges refer to; once, before the first request that carries a plan.
 * The caller keeps `hints`, which must outlive the pool. 0, -EEXIST, -ENOMEM. */
int pool_set_hints(struct pool *pool, struct hints *hints);

/* Sequence numbers (seq) of different streams are not compared any more, as without recording and
 * hints. The numbers of one stream still rise, and each is given once, so threads do not share a
 * counter. */
void pool_is_not_recorded(struct pool *pool);

/* ── allocation and free ── */

/*
 * [driver] Allocates a block for a request; ret->kind is OUTCOME_ALLOC.
 * - 0: ret->ptr belongs to the program. It is aligned to the quantum, and by default to 2 MiB if it
 *   is a sync request that large.
 * - > 0: the driver's code after every attempt (R31, retries before OOM), for the application.
 * - -EAGAIN: not ours now (frozen, forked, or a driver call is needed and may_call is false).
 * - -ENOSPC: the device is full at our granularity; the driver may still serve the exact size
 *   itself.
 * - -ENOMEM, -EOVERFLOW, -EINVAL: kedge could not go on.
 * After a negative result nothing has changed; make the real call.
 */
int pool_alloc(struct pool *pool, const struct pool_request *request, struct outcome *ret);

struct pool_free_request {
    enum api api;
    uint64_t stream; /* stream of a free on the stream-ordered API; 0 = unknown: as a sync free */
    /* Record the event now: a later one cannot replace it, because only this thread can record
     * there, or other streams wait for this one (R69, stream identity). */
    bool record_now;
    bool may_fence; /* event calls are allowed; a sync free makes none */
    bool beside;    /* other streams are being captured */
};

/*
 * Frees a pointer of the program. ret->kind is OUTCOME_FREE.
 * - Sync API, or stream 0: makes no driver call (R2, no driver call in free); safe in captures,
 *   host callbacks, and after
 *   the driver is shut down.
 * - Stream-ordered API: [driver] records one event if the stream is not the allocating one or
 *   record_now is set (R71, event of a free).
 * 0 · -ENOENT: not ours, make the real call · -EINVAL: ours, but interior or already free (R35,
 * invalid frees).
 */
int pool_free(struct pool *pool, devptr_t ptr, const struct pool_free_request *request,
        struct outcome *ret);

/* The short forms of pool_alloc and pool_free, for callers without a plan that need few results.
 * They serve a block of exactly the size of a recent free, or an ordinary block by best fit. One of
 * each for the two APIs; a free on a stream must not need an event now. Some hundred instructions
 * whatever the number of blocks, and no driver call. No address, or false: nothing has changed, use
 * the long form. Not in a frozen pool. */
struct pool_given pool_alloc_quickly(struct pool *pool, uint64_t owner, uint64_t size);
struct pool_given pool_alloc_on_quickly(
        struct pool *pool, uint64_t owner, uint64_t stream, uint64_t size);
bool pool_free_quickly(struct pool *pool, devptr_t ptr);
bool pool_free_on_quickly(struct pool *pool, devptr_t ptr, uint64_t stream);
/* The same for callers that record the free: these take a sequence number. */
bool pool_free_told(struct pool *pool, devptr_t ptr, struct pool_taken *ret_taken);
bool pool_free_on_told(
        struct pool *pool, devptr_t ptr, uint64_t stream, struct pool_taken *ret_taken);

/* The block at ptr is about to be exported to another process, which sees its whole segment. No
 * other block is placed in the segment from now on, and when its last block is freed and its fence
 * has passed, the segment returns to the driver (R24, exported blocks). 0 · -ENOENT: not ours ·
 * -EINVAL: not the beginning of a live block in memory that can be exported · -EBUSY: the segment
 * has other live blocks, or begins elsewhere (R23, shared exports). */
int pool_export(struct pool *pool, devptr_t ptr);

/* What pool_find reports about an address. */
struct block_info {
    enum heap_kind heap;
    uint64_t owner;   /* key of the heap */
    uint64_t context; /* generation of the context that owns the segment, 0 = none (mapped) */
    devptr_t base;    /* of the block */
    uint64_t size;    /* requested bytes; 0 if the block is not live */
    uint64_t rounded; /* bytes that the block occupies */
    /* the piece that one driver call returned; for mapped memory: the handle under `ptr` */
    devptr_t segment_base;
    uint64_t segment_size;
    uint32_t segment_tenants; /* live blocks in the segment */
    enum holder_state state;  /* HOLDER_GONE = the program does not hold this address */
    enum hint_mode mode;      /* HINT_OFF without a hint */
    int rule;                 /* -1 = none */
    int device;
    uint64_t stream; /* of the allocation */
    uint64_t alloc_seq;
    bool mapped;  /* VMM or managed memory */
    bool managed; /* the driver reports it as managed memory */
};

/* Looks up an address, interior ones too. 0, or -ENOENT: not inside our memory. */
int pool_find(struct pool *pool, devptr_t ptr, struct block_info *ret);

/* ── hints ── */

/* An anchor edge (or another event that hints wait for) was passed. Finds the hinted blocks that
 * are due and, in a mode that acts (hint_mode_acts), marks them dead. Makes no driver call, since
 * an edge may come in a host function or a capture: pool_poll continues the release. Writes one
 * outcome per due block, OUTCOME_SHADOW, OUTCOME_RELEASE, OUTCOME_LET_GO or OUTCOME_REFUSED, and
 * before those of a hint OUTCOME_DRIFT if the hint has matched something else than it expects
 * (expect.h). Writes at most `max` of them: if *ret_count == max there may be more; call again with
 * the same edge. Its seq is set by then, so blocks allocated between the calls do not count. 0, or
 * -errno (every block released so far has its outcome). */
int pool_edge(
        struct pool *pool, struct edge *edge, struct outcome *ret, size_t max, size_t *ret_count);

/* The block at ptr is passed to a call as its buffer `arg`, before pool_edge gets that call. True
 * for the first use that the block's hint waits for: from then on the hint's pick matches the
 * block. Any thread, no driver call. */
bool pool_use(struct pool *pool, devptr_t ptr, const struct edge *call, uint32_t arg,
        struct outcome *ret_picked);

/* A block of a call in progress: it was checked, and the device gets it later. */
struct pool_collected {
    devptr_t base;
    uint64_t alloc_seq;
    bool is_named;
};

/* The call names the block at ptr (`is_named`), or releases it: the block keeps its storage until
 * pool_call_made gets the same record. Call it in the reader section in which the call was checked,
 * or which was its edge. False: no hint would take the storage. No driver call. Meanwhile
 * pool_touch does not report a named block, on any thread, since the work of the call names it. */
bool pool_collect(struct pool *pool, devptr_t ptr, bool is_named, struct pool_collected *ret);
void pool_call_made(struct pool *pool, const struct pool_collected *collected);
/* True while a due block still waits for that call; *ret names the block as for OUTCOME_REFUSED. */
bool pool_waits_for_call(
        struct pool *pool, const struct pool_collected *collected, struct outcome *ret);

/* A released range that a submission touches. */
struct pool_hit {
    devptr_t base; /* of the block */
    uint64_t size; /* requested bytes */
    uint64_t alloc_seq;
    int rule;
    enum holder_state state; /* DEAD, LIMBO or HUSK */
    enum hint_mode mode;     /* SHADOW: the release was only recorded */
};

/* ── pins (R80) ── */

struct pool_pinned {
    devptr_t base; /* base of the block; with alloc_seq it identifies the block for pool_unpin */
    uint64_t alloc_seq;
    devptr_t end;  /* beginning of the next block */
    uint64_t size; /* requested bytes */
    int rule;      /* of the hint that expects an edge for the block, -1 = none */
    int device;
    bool first; /* the block had no pin of this kind before */
};

/* Pins the first block in [lo, lo + len) that the program holds. From then on no hint releases it.
 * 0 and *ret; -ENOENT: none; -EBUSY and *ret_hit: a hint that acts has released it, as pool_touch
 * reports it; -ENOMEM. Makes no driver call. */
int pool_pin(struct pool *pool, devptr_t lo, uint64_t len, enum pool_pin kind,
        struct pool_pinned *ret, struct pool_hit *ret_hit);

/* Adds one pin to a block that is pinned already; it may be freed but kept. 0, -ENOENT, -ENOMEM. */
int pool_repin(struct pool *pool, devptr_t base, uint64_t alloc_seq, enum pool_pin kind);

/* Removes one such pin. Does nothing if the block no longer exists. Makes no driver call. */
void pool_unpin(struct pool *pool, devptr_t base, uint64_t alloc_seq, enum pool_pin kind);

/* True once a hinted block was allocated; stays true. From then on a hooked submission must run
 * inside a reader section (R66); until then the check costs one load and a
 * branch. A submission that saw false cannot name a block that was allocated later, so it needs
 * no section. */
static inline bool pool_is_armed(const struct pool *pool)
{
    const struct pool_gate *gate = (const struct pool_gate *)(const void *)pool;

    return atomic_load_explicit(&gate->armed, memory_order_relaxed) != 0;
}

int pool_touch_slow(struct pool *pool, devptr_t lo, uint64_t len, struct pool_hit *ret);

/* Checks whether [lo, lo + len) touches a released range: 1 and *ret (the lowest such block), or 0.
 * For the guard of R86. Costs one load and a branch while nothing is released. Lock-free for
 * readers in trap and live; for ranges that are only recorded as released (shadow) it takes the
 * pool's lock briefly. Call it inside a reader section, after the full barrier that begins the
 * section, else it may miss a range that is being marked. */
static inline int pool_touch(struct pool *pool, devptr_t lo, uint64_t len, struct pool_hit *ret)
{
    const struct pool_gate *gate = (const struct pool_gate *)(const void *)pool;

    if (atomic_load_explicit(&gate->released, memory_order_acquire) == 0)
        return 0;
    return pool_touch_slow(pool, lo, len, ret);
}

/* ── evictable blocks (ACTION_EVICT; swap.h) ── */

/* True once a block may be evicted. One load. */
static inline bool pool_evicts(const struct pool *pool)
{
    const struct pool_gate *gate = (const struct pool_gate *)(const void *)pool;

    return atomic_load_explicit(&gate->evicts, memory_order_relaxed) != 0;
}

/* The call names [lo, lo + len). `is_written`: the call is a copy or a set that writes there; for a
 * kernel the hint says so (rule_evict.clean). Call it inside the reader section of the call. 0, or
 * -ENOMEM. Takes no lock where no block may be evicted. */
int pool_call_name(
        struct pool *pool, devptr_t lo, uint64_t len, bool is_written, struct pool_call *io_call);

/* [driver] All blocks of the call are named; still inside the reader section. 0: all of them are in
 * device memory, the stream waits for copies in progress, and the call can be made. -EAGAIN: end
 * the section, call pool_call_bring, begin a new section, and call this again; nothing has to be
 * named again. */
int pool_call_begin(struct pool *pool, struct pool_call *io_call);

/* [driver] Copies in the blocks that the call names, and evicts others to make space. Outside every
 * reader section. 0; DRIVER_OUT_OF_MEMORY: the blocks do not fit at once, *ret_short says why, and
 * the call must not be made. Any other driver error: likewise. */
int pool_call_bring(struct pool *pool, struct pool_call *io_call, struct pool_short *ret_short);

/* The call was made, or was given up: its blocks may be evicted again. No driver call. */
void pool_call_end(struct pool *pool, struct pool_call *io_call);

/* True if copies can be made ahead of the next calls; one load. pool_evict_go_on: [driver] makes
 * those that need no wait. */
static inline bool pool_evict_has_more(const struct pool *pool)
{
    const struct pool_gate *gate = (const struct pool_gate *)(const void *)pool;

    return atomic_load_explicit(&gate->ahead, memory_order_relaxed) != 0;
}
void pool_evict_go_on(struct pool *pool);

/* From now on something that no call names uses the block at ptr: the block stays in device
 * memory, or stays once it is there (the caller names it in a call before it creates that user).
 * ptr 0: every block that may be evicted. Reported as OUTCOME_KEPT by the next pool_poll. No
 * driver call. */
void pool_evict_keep(struct pool *pool, devptr_t ptr, enum pool_kept why);

/* [driver] Another part of the device has no space: evicts up to `want` bytes after the work that
 * uses them. Returns the bytes that are free now. */
uint64_t pool_evict_make_room(struct pool *pool, int device, uint64_t want);

/* The next step not yet reported, in order; false: none. Call it after pool_edge, which ends
 * steps. */
bool pool_evict_next_step(struct pool *pool, struct pool_evict_step *ret);
/* The current state of the running step; false: no such set. */
bool pool_evict_now(struct pool *pool, int rule, int device, struct pool_evict_step *ret);

/* ── waits of the program between streams (R72; stream_wait.h) ── */

/* True once stream order matters: memory of one pool was freed on several streams. One load. */
static inline bool pool_wants_orders(const struct pool *pool)
{
    const struct pool_gate *gate = (const struct pool_gate *)(const void *)pool;

    return atomic_load_explicit(&gate->orders, memory_order_relaxed) != 0;
}

/* An event is about to be recorded on the stream: *ret is the frees so far on the stream and on the
 * streams that it waits for. Call it before the driver records, so that the event covers all of
 * them. No driver call. */
void pool_events_now(struct pool *pool, uint64_t stream, struct pool_order *ret);

/* The driver has made the stream wait for an event of this order. No driver call. */
void pool_events_follow(struct pool *pool, uint64_t stream, const struct pool_order *order);

/* [driver] A capture is about to begin. During a capture no fence is queried, so query them now
 * (R10, no calls in capture). */
void pool_settle(struct pool *pool);

/* The host has waited for work of this order: earlier frees are available to every stream. No
 * driver call except to destroy events. */
void pool_events_passed(struct pool *pool, const struct pool_order *order);

/* ── streams that may wait for the host (R104; stall.h) ── */

/* True while a stream may be stalled. One load. */
static inline bool pool_has_stalls(const struct pool *pool)
{
    const struct pool_gate *gate = (const struct pool_gate *)(const void *)pool;

    return atomic_load_explicit(&gate->stalls, memory_order_relaxed) != 0;
}

/* [driver] Call these around a call that gives the stream an operation which may wait for the host.
 * Before it, pending frees get their fence: those on the stream, also while other streams are
 * captured; and, if `may_fence`, those by the sync API. `at_once`: record the fence after the call
 * now, because only the calling thread can (R69), or because a later one would make other streams
 * wait for each other (the default stream's). */
void pool_stall_begin(struct pool *pool, uint64_t stream, bool may_fence);
void pool_stall_end(struct pool *pool, uint64_t stream, bool at_once);

/* [driver] True if some stream may be waiting for the host now. `own`: calls that the calling
 * thread is about to make, which do not count yet. */
bool pool_stall_goes_on(struct pool *pool, unsigned own);

/* [driver] Records the fences of pending frees on one stream, because its next work may wait for a
 * stalled stream; or on all streams, because some of them may wait for others from now on. */
void pool_settle_stream(struct pool *pool, uint64_t stream);
void pool_settle_streams(struct pool *pool);

/* ── progress, trim, ends ── */

/* [driver] Does all work that needs no wait: closes an epoch if due, queries fences, unmaps storage
 * whose limbo is over. Reports (at most `max`) OUTCOME_HUSK for storage released since the last
 * call, wherever that happened; OUTCOME_REFUSED if the driver refused; OUTCOME_CLEAN or
 * OUTCOME_WRITTEN for checked poison. may_fence as in pool_request. Cheap while no outcome is
 * queued (pool_has_news) and the timelines are empty. */
int pool_poll(
        struct pool *pool, bool may_fence, struct outcome *ret, size_t max, size_t *ret_count);

/* True while due blocks wait for submissions in progress (R66): pool_poll can go on as soon as
 * those end. */
bool pool_waits_for_readers(struct pool *pool);

static inline bool pool_has_news(const struct pool *pool)
{
    const struct pool_gate *gate = (const struct pool_gate *)(const void *)pool;

    return atomic_load_explicit(&gate->news, memory_order_relaxed) != 0;
}

/* [driver] Returns free memory of one heap to the driver until the heap holds at most `keep` bytes;
 * queries fences a few times, does not wait for the device. *ret_bytes = bytes returned. 0, or
 * -ENOENT: no such heap. For cuMemPoolTrimTo (R78, pool attributes). */
int pool_trim(
        struct pool *pool, enum heap_kind kind, uint64_t owner, uint64_t keep, uint64_t *ret_bytes);

/* [driver] Returns all free memory of a device: idle segments and granules of all heaps, cached
 * handles. With may_wait it first waits for pending frees and limbo (R31; R81, shared fate).
 * Returns the bytes. Call it after a forwarded call failed with OOM, then retry that call once. */
uint64_t pool_trim_device(struct pool *pool, int device, bool may_wait);

/* [driver] Could the device have this many free bytes once all pending frees there have completed?
 * If not, no wait helps (R104, no useless waits). True if unknown. */
bool pool_could_have(struct pool *pool, int device, uint64_t bytes);

/* [driver] The program has synchronised with the device: trims heaps that hold more than their
 * release threshold to that threshold (R78). Cheap if none does. */
void pool_synchronised(struct pool *pool);

/* [driver] The program has made a call, at `now_ns` on a clock that the caller chooses. If it had
 * made none for opts.idle_ns before, and more than an eighth of the memory in a device's heaps is
 * free, returns free memory to the driver until an eighth is free. Returns the bytes. Not every
 * call need be reported. An idle process is not trimmed: kedge has no thread. */
uint64_t pool_idle(struct pool *pool, uint64_t now_ns);

/* Call it before a stream is destroyed. [driver] Records its timeline in time (R5). Its number may
 * be used for another stream only after this call. */
void pool_stream_gone(struct pool *pool, uint64_t stream_key);

/* A stream ended without a call, or can no longer be used: a thread's own stream ends with the
 * thread. No driver call: frees without a fence wait for the next full fence. */
void pool_stream_lost(struct pool *pool, uint64_t stream_key);

/* The driver is about to end a context that may have work (R1, reuse after use; R26, ended
 * contexts), or has returned (`begins` false). Nothing is submitted there any more, so later
 * allocations are independent of that work, and are free once all other contexts have passed.
 * `devices`: bits of the devices whose memory the work may reach; the same in both calls. No driver
 * call. */
void pool_ending(struct pool *pool, uint64_t devices, bool begins);

/* The driver is about to end a context. It may then give the context's addresses to others before
 * we learn of the end, so lookups do not find them as ours meanwhile. `hidden` false: the driver
 * refused, and lookups find them again. No driver call. */
void pool_context_hide(struct pool *pool, uint64_t context, bool hidden);

/* A context is about to end. Its plain heap is forgotten. Its private heap serves no more requests
 * but stays allocated: work that uses it runs until the context has ended. No driver call. */
void pool_context_going(struct pool *pool, uint64_t context);

/* A context has ended (destroyed, reset). Forgets its plain heap without a driver call, returns its
 * private heap [driver], and counts its pending blocks and fences as passed. Its blocks that the
 * program still holds become unknown. */
void pool_context_gone(struct pool *pool, uint64_t context);

/* The driver gave this range to the program itself. If we still have a segment there, its context
 * has ended unnoticed (R26). Any thread, no driver call. */
void pool_foreign(struct pool *pool, devptr_t ptr, uint64_t size);

/* The driver has served a request of this plan: the hint has matched a block that is not ours. Any
 * thread, no driver call. */
void pool_forwarded(struct pool *pool, const struct plan *plan, uint64_t size);

/* [driver] A memory pool is destroyed: returns its heap. Live blocks keep the heap until the last
 * of them is freed, as documented for cuMemPoolDestroy. 0, or -ENOENT. */
int pool_heap_gone(struct pool *pool, uint64_t owner);

/* In a forked child, before anything else: frees of our pointers succeed, requests get -EAGAIN, the
 * driver is never called again (R39, forked child). The child has only one thread then. */
void pool_forget(struct pool *pool);

/* After a sticky error, or when the driver is shut down (R34, R40): as pool_forget,
 * for the whole process, from any thread. */
void pool_freeze(struct pool *pool);
bool pool_is_frozen(const struct pool *pool);

/* ── figures ── */

/* Both create the heap if it does not exist. 0 or -ENOMEM. */
int pool_heap_attrs(struct pool *pool, uint64_t owner, int device, struct pool_heap_attrs *ret);
int pool_set_heap_attrs(
        struct pool *pool, uint64_t owner, int device, const struct pool_heap_attrs *attrs);

/* All heaps (device -1) or those of one device. */
void pool_stats(struct pool *pool, int device, struct pool_stats *ret);
/* Only range_errors of pool_stats, at the cost of one lock. */
uint64_t pool_range_errors(struct pool *pool);
/* One heap; 0 or -ENOENT. */
int pool_heap_stats(struct pool *pool, enum heap_kind kind, uint64_t owner, struct pool_stats *ret);

/* Walks all blocks of the device's mapped heaps with the lock held: for out-of-memory reports. */
void pool_room(struct pool *pool, int device, struct pool_room *ret);

/* Bytes that the device has for the program: one request of that size, through either allocation
 * API, succeeds if no other thread allocates meanwhile. Counts the driver's free memory and the
 * memory returned to it before a request is refused: segments and slots without a live byte (freed
 * blocks count although a fence is pending), idle and cached handles. Free pieces beside live
 * blocks do not count. Storage that a hint has taken from a live block is not free (R84, answers
 * without hints). Rounded down to whole slots. Walks blocks with the lock held. No driver call.
 * Rules: R22 R84. */
uint64_t pool_available(struct pool *pool, int device, const struct pool_memory *memory);

/* Resets the high marks of one heap to the current values. 0 or -ENOENT. */
int pool_reset_high(
        struct pool *pool, enum heap_kind kind, uint64_t owner, bool used, bool reserved);

/* Records the used and held bytes that the driver reports of its own pool behind a mapped heap,
 * after it has served or freed a request for us (R77, pools served). The heap's high marks include
 * both from now on. */
void pool_note_native(
        struct pool *pool, uint64_t owner, int device, uint64_t used, uint64_t reserved);

/* The next sequence number, for events that do not pass through the pool. */
uint64_t pool_seq_next(struct pool *pool);

/* Checks every invariant of every structure; 0, or -EINVAL and *ret_what names the first broken
 * one. Slow; for tests. */
int pool_check(struct pool *pool, const char **ret_what);

#endif
