/* SPDX-License-Identifier: MIT */
/*
 * pool_types.h - options, requests and figures that the interface of alloc/ (pool.h) and its rooms
 * share.
 *
 * Plain data only. Includes none of the rooms, so that all of them may include it.
 */
#ifndef KEDGE_ALLOC_POOL_TYPES_H
#define KEDGE_ALLOC_POOL_TYPES_H

#include "alloc/base/driver.h"
#include "alloc/hints/evict.h"
#include "alloc/hints/hint.h"

#include <stdatomic.h>

/* When free segments and handles return to the driver without a request; on a full device they
 * always do. */
enum pool_trim {
    /* when growth would pass the budget; mapped heaps also when the program synchronises (R78, pool
     * attributes); after idleness */
    POOL_TRIM_AUTO,
    POOL_TRIM_NEVER,
    /* as AUTO, and all of them whenever the program has synchronised with the device */
    POOL_TRIM_EAGER,
};

/* When the storage of free slots of a mapped heap moves to where a request needs it (remap.h). */
enum pool_remap {
    POOL_REMAP_AUTO, /* as readily as the time that moves take allows (pace.h) */
    /* when growth would pass the budget; by default before that (commit_move_budget) */
    POOL_REMAP_LAZY,
    POOL_REMAP_EAGER, /* when growth would need memory of the driver */
    POOL_REMAP_NEVER, /* never; only storage outside the arena is reused */
    POOL_REMAP_COUNT,
};

/* How readily storage moves with POOL_REMAP_AUTO (pace.h). */
enum pool_pace {
    POOL_PACE_READY,
    POOL_PACE_LAZY,
    POOL_PACE_SPARING,
    POOL_PACE_COUNT,
};

struct pool_opts {
    /* sizes and addresses: max(512, texture alignment of the devices), a power of two */
    uint64_t quantum;
    /* sync requests of at least this size start on a granule, as with cuMemAlloc (R15, alignment);
     * cuMemAllocAsync promises only the quantum, and 2 MiB would cost streams 5 to 14 % of their
     * held memory on real training steps */
    uint64_t large;
    /* a large sync request takes no block larger than this multiple of its size, unless the device
     * is full: cutting large segments for it would prevent returning them whole */
    uint64_t cut;
    enum pool_trim trim;
    uint64_t idle_ns; /* a program without a call for this time is idle (pool_idle); 0 = never */
    enum pool_remap remap;
    /* with POOL_REMAP_AUTO: the time, in ns, that moves may take in each second; 0 = any */
    uint64_t move_ns;
    /* large sync requests get segments of their own, so that each can be exported (R16, export-safe
     * placement) */
    bool export_safe;
    /* the context's mapped heap, whose storage moves, serves the sync API; its plain heap does
     * where the device has no address range for that */
    bool sync_mapped;
    uint64_t small; /* requests up to this go to small segments of a plain heap */
    uint64_t chunk; /* smallest segment for the others, as long as the budget allows it */
    /* held bytes above which growth first waits and trims; 0 = 1.05 x the high mark of live bytes
     * with storage, a 128th above it for a request to a plain heap (with chunks a 30th). Storage
     * moves before that, from 16 MiB above that mark on; for requests of the sync API with
     * sync_mapped that is the limit, too */
    uint64_t budget;
    /* held bytes that growth never exceeds: a request above it fails as on a full device; 0 =
     * none */
    uint64_t cap;
    /* bytes of the device that growth leaves free while trimming can (R46, memory reserve); 0 =
     * none */
    uint64_t reserve;
    /* an epoch is closed when this many bytes were freed (with sync_mapped fewer, see reclaim.c),
     * or this many blocks */
    uint64_t epoch_bytes;
    uint32_t epoch_count;
    uint32_t fence_timeout_ms; /* the longest wait for one request */
};

/* The steps taken for a request that found no free block: for the report of a failed one (R31,
 * retries before OOM). */
struct pool_ladder {
    uint32_t waits;         /* host waits after which memory was free */
    uint32_t trims;         /* rounds that returned memory to the driver, */
    uint64_t trimmed_bytes; /* and their bytes */
    uint64_t moved_bytes;   /* free storage that was prepared for mapping elsewhere */
    uint32_t attempts;      /* to grow */
};

struct pool_request {
    /* bytes, not 0: the driver answers zero-size requests (R17) */
    uint64_t size;
    uint64_t owner;  /* sync: context generation; stream: memory pool id; not 0 */
    uint64_t stream; /* identity of the stream (R69), 0 = unknown */
    /* stream: the context whose plain memory may serve it on a full device, 0 = none */
    uint64_t context;
    const struct plan *plan; /* the result of hint_plan, NULL = none */
    enum api api;
    int device;
    /* driver calls are allowed. false (a capture is active: R82): serve from existing memory or
     * return -EAGAIN */
    bool may_call;
    bool may_fence;             /* fence and event calls are allowed (R10, no calls in capture) */
    bool may_wait;              /* the host may wait for the device */
    struct pool_ladder *ladder; /* updated on a miss; NULL = not wanted */
};

/* Result of the short forms of pool_alloc, in two registers. */
struct pool_given {
    devptr_t ptr; /* 0 = none */
    uint64_t seq; /* as in struct outcome */
};

/* Facts about a block that a short form has freed. */
struct pool_taken {
    uint64_t seq, size; /* as in struct outcome */
    int device;
};

/* How long a pin lasts (pin.h). */
enum pool_pin {
    POOL_PIN_LIVE,  /* as long as the program holds the block */
    POOL_PIN_HINT,  /* the same: a hint that pins */
    POOL_PIN_GRAPH, /* a freed block is kept too, unless the device is full */
    POOL_PIN_SHOWN, /* a freed block is kept too */
    POOL_PIN_HELD,  /* a freed block is kept too: a hint that holds */
    POOL_PIN_COUNT,
};

/* Why an evictable block stays on the device. A pin (pool_pin) is not reported: its caller knows
 * it. */
enum pool_kept {
    POOL_KEPT_POINTER, /* data copied to the device contains a pointer to it */
    /* the driver does not reveal the parameters of a launch: the block may be one of them */
    POOL_KEPT_UNTOLD,
    /* no call has named it in the whole step whose order was learnt; stays until space is needed */
    POOL_KEPT_UNUSED,
    POOL_KEPT_HOST,   /* the host has no memory for its content */
    POOL_KEPT_DRIVER, /* the driver has refused to move it */
    /* of a hint that releases: a call has named it after its release, and it was restored */
    POOL_KEPT_NEEDED,
    POOL_KEPT_COUNT,
};

/* A block that a call names and that may be evicted. */
struct pool_named {
    uint64_t seq;         /* of its allocation */
    uint64_t move;        /* the move of its set's queue that must be done first */
    uint32_t swap;        /* its record, */
    struct swap_set *set; /* and its set */
    bool is_written;
    bool is_held; /* it stays in until the call ends */
};

#define POOL_NAMED_MAX 8 /* blocks without separately allocated memory */

/* A call of the program, and the evictable blocks that it names. Zero-initialised except for the
 * stream; ended by pool_call_end if pool_call_name was called. */
struct pool_call {
    /* identity of the call's stream; 0 = unknown: the host waits for copies in */
    uint64_t stream;
    struct pool_named *more; /* replaces `few` */
    uint32_t count, room;
    bool is_late;   /* a block of it was not in yet, which was counted */
    bool must_wait; /* its stream cannot wait for copies, so the host does */
    struct pool_named few[POOL_NAMED_MAX];
};

/* Why a call cannot be made. */
struct pool_short {
    uint64_t needed, room; /* bytes that must be in at once, and that are available for them */
    uint64_t cap;
    int rule, device;
    bool is_waiting; /* other calls in progress use some of it */
};

/* The figures of one set (a hint's blocks on a device) in a step that has ended. */
struct pool_evict_step {
    int rule, device;
    uint64_t step; /* 0 = before the first edge */
    uint64_t cap, bytes, units;
    uint64_t in_bytes_high;       /* most bytes in at once */
    uint64_t moved_in, moved_out; /* copied bytes */
    uint64_t count_in, count_out;
    uint64_t dropped; /* bytes evicted without a copy, since they were never written */
    uint64_t late;    /* calls that had to wait for a restore */
    uint64_t uses, looks;
    uint64_t bound; /* evict_bound, 0 = not known */
    uint64_t layout_ns, evict_ns,
            stall_ns; /* time spent deciding, moving, waiting; they do not overlap */
    uint64_t state_bytes[EVICT_STATE_COUNT]; /* at the end of the step */
    bool is_planned, is_replayed;
    bool is_paper; /* the hint is in shadow: decided, nothing moved */
};

#define POOL_ORDER_MAX 9 /* a stream, and two sets of streams that it waits for */

/* The work that a program's event covers: streams, up to a point of each. Work that waits for the
 * event runs after all of it. Opaque; may be kept for any time. */
struct pool_order {
    uint32_t count; /* 0: nothing is known */
    struct {
        uint32_t stream;
        /* identifies the stream's record: the record may have another stream by then */
        uint64_t born;
        uint64_t point;
    } upto[POOL_ORDER_MAX];
};

/* Read by the inline checks of pool.h; the first member of struct pool. */
struct pool_gate {
    _Atomic uint32_t armed;    /* a hinted block exists or has existed */
    _Atomic uint32_t released; /* currently released ranges, shadow ones included */
    _Atomic uint32_t news;     /* outcomes that pool_poll has to report */
    _Atomic uint32_t evicts;   /* an evictable block exists or has existed */
    _Atomic uint32_t ahead;    /* moves have begun, or may begin, ahead of calls */
    _Atomic uint32_t orders;   /* a heap has served several streams */
    /* streams that may wait for the host, and calls in progress that make one wait (stall.h) */
    _Atomic uint32_t stalls;
};

/* Attributes of a mapped heap, set by the program (R72, order of supply; R78). Defaults: threshold
 * 0, reuse all on. */
struct pool_heap_attrs {
    uint64_t release_threshold;
    /* FOLLOW_EVENT_DEPENDENCIES: blocks of streams that the request's stream waits for
     * (stream_wait.h) */
    bool reuse_follow;
    bool reuse_opportunistic;         /* ALLOW_OPPORTUNISTIC: blocks whose points have passed */
    bool reuse_internal_dependencies; /* ALLOW_INTERNAL_DEPENDENCIES: kedge may insert a wait */
};

/* Current sizes. "requested": as the program asked; "rounded": as the blocks occupy. */
struct pool_stats {
    uint64_t live_count;
    /* allocated and not freed by the program, whatever hints did (R84, answers without hints) */
    uint64_t live_requested;
    uint64_t live_rounded;
    uint64_t used; /* live_requested with each block rounded to 512: USED of R78 */
    /* storage that live blocks and blocks held by hints need; blocks that hints marked dead need
     * none. The budget is measured by this, not by the whole granules that the driver would give
     * each block: that would allow a fifth more where sizes are odd. */
    uint64_t stored;
    uint64_t reserved; /* held from the driver, cached handles and limbo included */
    uint64_t pending;  /* freed, waiting for an epoch or a point */
    /* freed while pinned or during a capture: kept (R12, frees in capture; R24, exported blocks;
     * R80, pins) */
    uint64_t quarantined;
    uint64_t held;   /* part of that: kept by hints that hold */
    uint64_t limbo;  /* marked dead by a hint, storage not yet released */
    uint64_t husk;   /* address held, storage released */
    uint64_t free;   /* ready for allocation */
    uint64_t cached; /* handles without a mapping */
    /* marks; reset by pool_reset_high */
    uint64_t live_requested_high; /* of devices; unknown for one heap */
    uint64_t used_high;
    uint64_t stored_high;
    uint64_t reserved_high;
    uint64_t quarantined_high; /* of all heaps: the sum of theirs */
    /* counters over the pool's life; for one heap, those of that heap where it makes sense, else
     * 0 */
    uint64_t allocs, frees, hits, misses, grows;
    uint64_t bad_frees;    /* interior or double */
    uint64_t driver_calls; /* all calls through the table, fence calls included */
    uint64_t epochs;       /* closed */
    uint64_t points;       /* events recorded */
    uint64_t cross_reuses; /* a block of one stream was allocated to another */
    uint64_t point_merges; /* sets of different streams were merged */
    /* requests served with blocks of streams that their stream waits for already */
    uint64_t followed;
    uint64_t inserted_waits;
    uint64_t host_waits;
    uint64_t timeouts;
    uint64_t trims, trimmed_bytes;
    uint64_t ooms;           /* returned to the application */
    uint64_t remaps;         /* cached handles that were mapped again */
    uint64_t granules_moved; /* handles of arenas that were moved to where a request needed them, */
    /* and of these, those that the device was still using (R95, aliases) */
    uint64_t granules_aliased;
    uint64_t moved_bytes;                    /* the bytes of those that were moved, */
    uint64_t paces[POOL_PACE_COUNT];         /* and how often each pace was chosen (pace.h) */
    uint64_t released_count, released_bytes; /* storage that hints released, trap included */
    uint64_t shadow_count, shadow_bytes;     /* only recorded */
    uint64_t small_count, small_bytes;       /* matched but below min_size */
    uint64_t fence_errors;                   /* fence calls that failed or were refused */
    /* times that a mapped heap got no address range: it then serves nothing until its next try */
    uint64_t range_errors;
};

/* Why a request failed on a device: the memory there is, and how it is fragmented. */
struct pool_room {
    struct pool_stats stats; /* of the device */
    uint64_t free_sync;      /* of stats.free, in heaps that serve the sync API */
    /* largest free block that some request could get, of any heap and stream */
    uint64_t largest_free;
    /* whole handles inside free memory, idle ones of hinted blocks included: of blocks whose work
     * has completed, */
    uint64_t remappable;
    uint64_t remappable_waiting; /* and of blocks with pending work */
};

/* The driver's figures of a device, and what a request there may do now. */
struct pool_memory {
    uint64_t driver_free, total; /* bytes, of the device */
    /* as in pool_request, with may_call and may_fence; false: nothing returns to the driver */
    bool may_wait;
};

#endif
