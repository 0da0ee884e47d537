/* SPDX-License-Identifier: MIT */
/*
 * pool_types.h - what goes through the door of alloc/ (pool.h) and is needed behind it: options, requests, figures.
 *
 * Plain data only. Includes nothing of what stands behind the door, so that all of it may include this.
 */
#ifndef KEDGE_ALLOC_POOL_TYPES_H
#define KEDGE_ALLOC_POOL_TYPES_H

#include "alloc/base/driver.h"
#include "alloc/hints/evict.h"
#include "alloc/hints/hint.h"

#include <stdatomic.h>

/* When free segments and handles go back to the driver by themselves; on a full device they always do. */
enum pool_trim {
    /* growth would pass the budget; mapped heaps also at the program's waits (R78); after idleness */
    POOL_TRIM_AUTO,
    POOL_TRIM_NEVER,
    POOL_TRIM_EAGER, /* as AUTO, and all of them, whenever the program has waited for the device */
};

/* When the storage of free slots of a mapped heap moves to where a request needs it (remap.h). */
enum pool_remap {
    POOL_REMAP_LAZY, /* growth would pass the budget; by default before that (commit_move_budget) */
    POOL_REMAP_EAGER, /* growth would ask the driver for memory */
    POOL_REMAP_NEVER, /* only what is held beside the arena is used again */
    POOL_REMAP_COUNT,
};

struct pool_opts {
    /* sizes and addresses: max(512, texture alignment of the devices), a power of two */
    uint64_t quantum;
    /* sync requests of so many bytes start on a granule, as with cuMemAlloc (R15); cuMemAllocAsync promises no more than the
     * quantum, and 2 MiB would cost streams 5 to 14 % of what they hold on real training steps */
    uint64_t large;
    /* a large sync request takes no block that is more than so many times its size, unless the device is full:
     * cutting large segments for it would keep them from being given back whole */
    uint64_t cut;
    enum pool_trim trim;
    uint64_t idle_ns; /* a program that made no call for so long is idle (pool_idle); 0 = never */
    enum pool_remap remap;
    bool alias; /* storage moves before the device has left it, where streams order that (vacate.h) */
    bool export_safe; /* large sync requests get segments of their own, so that each can be shown to others (R16) */
    /* the sync API is served from the mapped heap of the context, whose storage moves; from its plain heap where the device has
     * no addresses for that */
    bool sync_mapped;
    uint64_t small;       /* requests up to this go to small segments of a plain heap */
    uint64_t small_chunk; /* smallest segment there */
    uint64_t chunk; /* smallest segment for the others, as long as the budget has room for it */
    /* bytes held that growth waits and trims for before it goes beyond; 0 = 1.05 x the most that was live with
     * storage at once, for a request to a plain heap 1.033 x. Storage moves before that: from 16 MiB above it on; so much is also
     * the most for requests of the sync API with sync_mapped */
    uint64_t budget;
    /* bytes held that growth never goes beyond: a request above it ends as if the device were full; 0 = none */
    uint64_t cap;
    /* bytes of the device that growth leaves free as long as trimming can (R46); 0 = none */
    uint64_t reserve;
    /* a physical handle of a mapped heap: every slot of its arenas has this size, or the device's granularity where that is
     * more; a power of two */
    uint64_t handle;
    /* an epoch is closed when so much was freed (with sync_mapped less, see reclaim.c), or so many blocks */
    uint64_t epoch_bytes;
    uint32_t epoch_count;
    uint32_t fence_timeout_ms; /* the longest wait on behalf of one request */
};

/* What was done for a request that found nothing free: for the record of one that failed (R31). */
struct pool_ladder {
    uint32_t waits;         /* host waits after which something was free */
    uint32_t trims;         /* rounds that gave something back to the driver, */
    uint64_t trimmed_bytes; /* and how much */
    uint64_t moved_bytes;   /* free storage that was made ready to be mapped elsewhere */
    uint32_t attempts;      /* to grow */
};

struct pool_request {
    uint64_t size;   /* bytes, not 0: zero-size requests are the driver's to answer (R17) */
    uint64_t owner;  /* sync: context generation; stream: memory pool id; not 0 */
    uint64_t stream; /* identity of the stream (R69), 0 = unknown */
    /* stream: whose plain memory may serve it where the device is full, 0 = nobody's */
    uint64_t context;
    const struct plan *plan; /* what hint_plan said, NULL = nothing */
    enum api api;
    int device;
    bool may_call; /* driver calls are allowed. false (a capture is active somewhere: R82): serve from what is there or
                       say -EAGAIN */
    bool may_fence;             /* fence and event calls are allowed (R10) */
    bool may_wait;              /* the host may wait for the device */
    struct pool_ladder *ladder; /* added to on a miss; NULL = nobody asks */
};

/* What the short forms of pool_alloc return, in two registers. */
struct pool_given {
    devptr_t ptr; /* 0 = none */
    uint64_t seq; /* as in struct outcome */
};

/* What is told of a block that a short form has freed. */
struct pool_taken {
    uint64_t seq, size; /* as in struct outcome */
    int device;
};

/* How long somebody's reliance on a block lasts (pin.h). */
enum pool_pin {
    POOL_PIN_LIVE,  /* as long as the program holds the block */
    POOL_PIN_HINT,  /* the same: a hint that pins */
    POOL_PIN_GRAPH, /* a freed block is kept too, unless the device is full */
    POOL_PIN_SHOWN, /* a freed block is kept too */
    POOL_PIN_HELD,  /* a freed block is kept too: a hint that holds */
    POOL_PIN_COUNT,
};

/* Why a block that its hint would evict stays on the device. Who pins a block (pool_pin) knows it, and is not told. */
enum pool_kept {
    POOL_KEPT_POINTER, /* data that was copied to the device has a pointer to it */
    POOL_KEPT_UNTOLD, /* the driver does not tell the parameters of a launch: it may be one of them */
    POOL_KEPT_UNUSED, /* no call has named it in the whole step whose order was learnt; until room is needed */
    POOL_KEPT_HOST,   /* the host has no memory for its content */
    POOL_KEPT_DRIVER, /* the driver has refused to move it */
    POOL_KEPT_NEEDED, /* of a hint that releases: a call has named it after its release, and it came back */
    POOL_KEPT_COUNT,
};

/* A block that a call names and that may be out. */
struct pool_named {
    uint64_t seq;         /* of its allocation */
    uint64_t move;        /* of its set's queue: which must be done */
    uint32_t swap;        /* its record, */
    struct swap_set *set; /* and its set */
    bool is_written;
    bool is_held; /* it stays in until the call ends */
};

#define POOL_NAMED_MAX 8 /* without memory of their own */

/* A call of the program, and the blocks that it names which may be out. Zero-initialised but for the stream; ended by pool_call_end
 * if pool_call_name was called. */
struct pool_call {
    /* identity of the stream that it is for; 0 = not known, the host then waits for what comes in */
    uint64_t stream;
    struct pool_named *more; /* in place of `few` */
    uint32_t count, room;
    bool is_late;   /* something of it was not in yet, which has been noted */
    bool must_wait; /* its stream cannot be made to wait, so the host does */
    struct pool_named few[POOL_NAMED_MAX];
};

/* Why a call cannot be made. */
struct pool_short {
    uint64_t needed, room; /* bytes that must be in at once, and that could be had for them */
    uint64_t cap;
    int rule, device;
    bool is_waiting; /* other calls that are on their way have some of it */
};

/* What one set, a hint's blocks on a device, has done in a step that has ended. */
struct pool_evict_step {
    int rule, device;
    uint64_t step; /* 0 = before the first edge */
    uint64_t cap, bytes, units;
    uint64_t in_bytes_high;       /* in at once, at most */
    uint64_t moved_in, moved_out; /* bytes that were copied */
    uint64_t count_in, count_out;
    uint64_t dropped; /* bytes that went out without a copy, since nothing had written them */
    uint64_t late;    /* calls that had to wait for a restore */
    uint64_t uses, looks;
    uint64_t bound; /* evict_bound, 0 = not known */
    uint64_t layout_ns, evict_ns,
            stall_ns; /* spent deciding, moving, waiting; no two of them at once */
    uint64_t state_bytes[EVICT_STATE_COUNT]; /* at the end of the step */
    bool is_planned, is_replayed;
    bool is_paper; /* the hint is in shadow: decided, nothing moved */
};

#define POOL_ORDER_MAX 9 /* a stream, and two sets of those that it comes behind */

/* What everything comes behind that comes behind an event of the program's: streams, up to points of theirs. Opaque; it may be kept for ever. */
struct pool_order {
    uint32_t count; /* 0: nothing is known */
    struct {
        uint32_t stream;
        uint64_t born; /* the stream's: another one may have its record by then */
        uint64_t point;
    } upto[POOL_ORDER_MAX];
};

/* What the inline checks below read; the first member of struct pool. */
struct pool_gate {
    _Atomic uint32_t armed;    /* a hinted block exists or has existed */
    _Atomic uint32_t released; /* ranges that are released now, on paper (shadow) ones too */
    _Atomic uint32_t news;     /* outcomes that pool_poll has to tell */
    _Atomic uint32_t evicts;   /* a block exists or has existed that may go out */
    _Atomic uint32_t ahead;    /* moves have begun, or may begin, ahead of calls */
    _Atomic uint32_t orders;   /* a heap has served several streams */
    /* streams that may wait for the host, and calls on their way that make one so (stall.h) */
    _Atomic uint32_t stalls;
};

/* Attributes of a mapped heap as the program sets them (R72, R78). Defaults: threshold 0, reuse all on. */
struct pool_heap_attrs {
    uint64_t release_threshold;
    bool reuse_follow; /* FOLLOW_EVENT_DEPENDENCIES: blocks of streams that the request's comes behind (stream_wait.h) */
    bool reuse_opportunistic;         /* ALLOW_OPPORTUNISTIC: blocks whose points have passed */
    bool reuse_internal_dependencies; /* ALLOW_INTERNAL_DEPENDENCIES: a wait may be inserted */
};

/* Sizes now. "requested" as the program asked, "rounded" as the blocks take. */
struct pool_stats {
    uint64_t live_count;
    uint64_t live_requested; /* allocated and not freed by the program, whatever hints did (R84) */
    uint64_t live_rounded;
    uint64_t used; /* live_requested with each block rounded to 512: USED of R78 */
    /* the storage that live blocks need, and those that hints hold: nothing for what hints marked dead. The budget is measured by it, and not by the
     * whole granules that the driver would give each of them: that would allow a fifth more where sizes are odd. */
    uint64_t stored;
    uint64_t reserved;    /* held from the driver, cached handles and limbo included */
    uint64_t pending;     /* freed, waiting for an epoch or a point */
    uint64_t quarantined; /* freed while pinned or during a capture: kept (R12, R24, R80) */
    uint64_t held;        /* of those: kept by hints that hold */
    uint64_t limbo;       /* marked dead by a hint, storage not gone yet */
    uint64_t husk;        /* address held, storage gone */
    uint64_t free;        /* ready to be handed out */
    uint64_t cached;      /* handles without a mapping */
    /* marks; reset by pool_reset_high */
    uint64_t live_requested_high; /* of devices; not known of one heap */
    uint64_t used_high;
    uint64_t stored_high;
    uint64_t reserved_high;
    uint64_t quarantined_high; /* of all heaps: the sum of theirs */
    /* counters over the pool's life; for one heap, those of that heap where it makes sense, else 0 */
    uint64_t allocs, frees, hits, misses, grows;
    uint64_t bad_frees;    /* interior or double */
    uint64_t driver_calls; /* all calls through the table, fence calls included */
    uint64_t epochs;       /* closed */
    uint64_t points;       /* recorded */
    uint64_t cross_reuses; /* a block went from one stream to another */
    uint64_t point_merges; /* two sets of different streams became one */
    uint64_t followed;     /* requests that got what their stream came behind already */
    uint64_t inserted_waits;
    uint64_t host_waits;
    uint64_t timeouts;
    uint64_t trims, trimmed_bytes;
    uint64_t ooms;           /* given to the application */
    uint64_t remaps;         /* cached handles that were mapped again */
    uint64_t granules_moved; /* handles of arenas that were moved to where a request needed them, */
    uint64_t granules_aliased; /* and of these, those that the device had not left yet (R95) */
    uint64_t released_count, released_bytes; /* storage that hints released, trap included */
    uint64_t shadow_count, shadow_bytes;     /* on paper */
    uint64_t small_count, small_bytes;       /* matched below min_size */
    uint64_t fence_errors;                   /* fence calls that failed or were refused */
    /* times that a mapped heap got no addresses: it serves nothing then until its next try */
    uint64_t range_errors;
};

/* Why a request found no place on a device: what there is, and in which pieces. */
struct pool_room {
    struct pool_stats stats; /* of the device */
    uint64_t free_sync;      /* of stats.free, in heaps that serve the sync API */
    uint64_t largest_free;   /* block that some request could get, of any heap and stream */
    /* whole handles inside free memory, idle ones of hinted blocks included: of blocks whose work has passed, */
    uint64_t remappable;
    uint64_t remappable_waiting; /* and of those where some is still awaited */
};

/* What the driver says of a device, and what may be done about a request there now. */
struct pool_memory {
    uint64_t driver_free, total; /* bytes, of the device */
    bool may_wait; /* as in pool_request, with may_call and may_fence; false: nothing goes back to the driver */
};

#endif
