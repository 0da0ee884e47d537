/* SPDX-License-Identifier: MIT */
/*
 * types.h - the types that alloc, tracker and preload share.
 *
 * Plain data only: facts about a request (tag, from tracker), the request of a hint (plan, from
 * hint.h), an edge that the program passed (edge, from tracker's anchors) and a result of the pool
 * (outcome). Nothing here owns memory.
 *
 *     where_am_i ─► struct tag ─► hint_plan ─► struct plan ─► pool_alloc ─► struct outcome
 *                                                                        ─► capture_alloc
 *     anchor_*   ─► struct edge ─► pool_edge ─► struct outcome[] ─► capture_hint
 *
 * Units: bytes unless the name says otherwise. Errors everywhere: 0 success, > 0 the driver's
 * CUresult for the application, < 0 -errno of ours: the caller makes the real call.
 * Prefixes: round_, min_, max_, excess_, action_, hint_mode_.
 */
#ifndef KEDGE_ALLOC_TYPES_H
#define KEDGE_ALLOC_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A device address, as the driver returns it (CUdeviceptr). */
typedef uint64_t devptr_t;

/* To the next multiple of a power of two. */
static inline uint64_t round_up(uint64_t size, uint64_t unit)
{
    return (size + unit - 1) & ~(unit - 1);
}

static inline uint64_t min_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t max_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* a - b, 0 if that is negative. */
static inline uint64_t excess_of(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* The allocation API that a request came through. */
enum api {
    API_SYNC,   /* cuMemAlloc: the streams that use the block are unknown */
    API_STREAM, /* cuMemAllocAsync: the stream is known */
    API_COUNT,
};

/* A Python call site of a stack that a rule names (tracker/hints/pysite.h); a list, innermost
 * first, without duplicates. Immutable while a tag refers to it. */
struct pysite {
    uint64_t key;
    const struct pysite *outer; /* NULL = last */
};

/* Who allocated a block, and where in the program. Filled by tracker/where, read by hint and
 * capture. */
struct tag {
    uint64_t site; /* native site key: hash of (build-id, offset) frames; 0 = unknown */
    /* call sites of `pystack` that rules name (hint_pysite); NULL = none. where_am_i does not set
     * it */
    const struct pysite *pysites;
    uint32_t stack;   /* interned native stack, 0 = none */
    uint32_t pystack; /* interned Python stack, 0 = none */
    /* innermost open anchor instance of this thread, else the process's phase; 0 = none */
    uint32_t anchor;
    uint32_t nth;  /* number of earlier allocations of (anchor instance, site, size) */
    uint64_t size; /* bytes that the program requested */
    /* anchor path "outer/inner" of `anchor`, never NULL, valid for the process's life */
    const char *path;
    /* number of earlier entries of `path` when `anchor` was entered, 0 = the first */
    uint32_t instance;
    int device; /* device ordinal, -1 = unknown */
    /* 1 + the number of its stream in the order of creation on the device; 0 = none, or unknown */
    uint16_t stream;
    bool is_main; /* allocated by the process's first thread */
};

/* Kinds of edges. */
enum edge_kind {
    EDGE_ENTER,
    EDGE_EXIT,
    EDGE_MARK,
    /* kinds before this belong to anchors; later ones are no anchors, and only hints get them */
    EDGE_KIND_COUNT,
    EDGE_CALL = EDGE_KIND_COUNT, /* a call of tracker/hints/apicalls.def */
    EDGE_LAUNCH,                 /* of a kernel */
    EDGE_FREE,                   /* the program's free of a block that a hint has matched */
};

/* One anchor edge that the program passed; or a call, which is no anchor edge: then `anchor` is the
 * anchor that it was made in. */
struct edge {
    enum edge_kind kind;
    uint32_t anchor;   /* anchor instance id; the same number at enter and at exit */
    uint32_t instance; /* number of earlier entries of this path */
    uint32_t call;     /* CALL: its number */
    int rule;          /* FREE: the hint of the block */
    /* number of the thread that entered it; 0 = the calling one, or none (anchor_open_ranges) */
    uint32_t thread;
    const char *path; /* "outer/inner", valid for the process's life */
    const char *name; /* LAUNCH: of the kernel */
    uint64_t stream;  /* identity of the call's stream, 0 = none, or unknown */
    uint64_t seq;     /* set by pool_edge: its place in the order; 0 = not yet */
};

/* The actions of hints for a matched block; the first matching hint of the file counts. RESTORE
 * never matches. */
enum action {
    ACTION_NONE,
    ACTION_RELEASE,   /* release its storage at the edge */
    ACTION_PIN,       /* leave it in place, whatever else could be done with it */
    ACTION_IGNORE,    /* nothing */
    ACTION_KEEP_META, /* as RELEASE, but a kernel may get the address, if it reads nothing there */
    ACTION_HOLD,      /* delay the program's free: the block is not reused before the edge */
    ACTION_EVICT,     /* evict and restore its storage as the cap requires (struct rule_evict) */
    ACTION_RESTORE,   /* at the edge begin to restore blocks that another hint has evicted */
    ACTION_COUNT,
};

/* Does the action release storage for good? */
static inline bool action_releases(enum action action)
{
    return action == ACTION_RELEASE || action == ACTION_KEEP_META;
}

/* Does the action need storage that can be unmapped? */
static inline bool action_unmaps(enum action action)
{
    return action_releases(action) || action == ACTION_EVICT;
}

/* How far a hint may go: OFF, SHADOW, POISON, TRAP, LIVE, each further than the one before. LIVE
 * needs a receipt (R87). The numbers are in captures: new ones are appended. */
enum hint_mode {
    HINT_OFF,
    HINT_SHADOW, /* changes nothing, records what would have happened */
    HINT_TRAP,   /* storage kept, access removed */
    HINT_LIVE,   /* storage released, the address stays reserved until the program's own free */
    /* storage kept, its content overwritten, and checked after the program's own free */
    HINT_POISON,
    HINT_MODE_COUNT,
};

/* True if the mode changes what the program finds in memory. */
static inline bool hint_mode_acts(enum hint_mode mode)
{
    return mode != HINT_OFF && mode != HINT_SHADOW;
}

/* True if released storage cannot be used any more, so that a call that names it has to be
 * stopped. */
static inline bool hint_mode_stops(enum hint_mode mode)
{
    return mode == HINT_TRAP || mode == HINT_LIVE;
}

/* The decision of the hints about one request. `rule` indexes the rule array of hint_plan; -1 = no
 * rule matched. */
struct plan {
    int rule;
    enum action action;
    enum hint_mode mode;
    /* the anchor instance whose edge counts; 0 = the first edge that matches the rule's `when` */
    uint32_t due_anchor;
    uint32_t else_anchor; /* the same for its `else` */
    bool small;           /* matched, but below the rule's min_size: left alone and counted */
    bool unused;          /* the other parts of the pick match; the use that it names comes later */
    bool shares;          /* its handle may have other blocks, too (backend: alias) */
};

/* State of the storage at an address that the program holds (alloc/heap/holder.h). */
enum holder_state {
    HOLDER_LIVE, /* storage there */
    /* marked dead, earlier submissions are still between guard and driver (R66, reader sections) */
    HOLDER_DEAD,
    HOLDER_LIMBO, /* a fence is recorded, the device may not have passed the last use */
    /* no storage (live), no access (trap), or its content overwritten (poison); the address is
     * reserved */
    HOLDER_HUSK,
    HOLDER_HELD, /* the program freed it, and a hint keeps it unchanged for now */
    /* its edge has come since: kept while earlier submissions are in progress (R66) */
    HOLDER_LET_GO,
    HOLDER_GONE, /* the program freed it */
    HOLDER_STATE_COUNT,
};

/* The kinds of heap (R76, heap owners). */
enum heap_kind {
    HEAP_PLAIN, /* one per context: segments from cuMemAlloc, serves the sync API */
    /* one per memory pool: a reserved range with physical handles, serves the stream API */
    HEAP_MAPPED,
    /* one per context: mapped, serves sync requests that a hint matches, or all
     * (pool_opts.sync_mapped) */
    HEAP_PRIVATE,
    HEAP_KIND_COUNT,
};

/* The class of an allocation's memory. The numbers are in captures: new ones are appended, none
 * changes its meaning. Device memory of this process comes first; later classes never count as
 * such. */
enum memclass {
    MEMCLASS_POOLED,      /* from our heaps */
    MEMCLASS_DRIVER,      /* cuMemAlloc or a memory pool, served by the driver itself */
    MEMCLASS_PITCHED,     /* cuMemAllocPitch */
    MEMCLASS_MANAGED,     /* cuMemAllocManaged; its pages may be on the host */
    MEMCLASS_VMM,         /* a physical handle of the program's own */
    MEMCLASS_ARRAY,       /* size as the driver reports it */
    MEMCLASS_ARRAY_GUESS, /* size computed from the array's description */
    MEMCLASS_GRAPH, /* a memory node of a graph, or allocated on a stream that is being captured */
    MEMCLASS_DEVICE_END,
    /* pinned, or made on the host by a pool or a physical handle */
    MEMCLASS_HOST = MEMCLASS_DEVICE_END,
    MEMCLASS_REGISTERED, /* the program's own memory, pinned later */
    MEMCLASS_IMPORTED,   /* of another process */
    MEMCLASS_EXTERNAL,   /* of another interface (Vulkan, OpenGL ...) */
    MEMCLASS_MULTICAST,  /* an address space over memory that is counted elsewhere */
    MEMCLASS_VIRTUAL,    /* reserved addresses, no memory */
    MEMCLASS_COUNT,
};

/* The event that an outcome reports. */
enum outcome_kind {
    OUTCOME_NONE,
    OUTCOME_ALLOC,
    OUTCOME_FREE,   /* the program's own free */
    OUTCOME_SHADOW, /* an edge passed; a hint in shadow would have released the storage here */
    /* an edge passed; the range is marked dead, and its storage is released when the device has
     * passed it */
    OUTCOME_RELEASE,
    OUTCOME_HUSK,  /* the storage (live) or the access (trap) is removed; poison is being written */
    OUTCOME_CLEAN, /* after the program's free: all of it is still poison */
    OUTCOME_WRITTEN, /* after the program's free: some of it was overwritten */
    /* an edge passed, but the storage stays: pinned, or the hint may not act any more; or reported
     * later, like HUSK: the driver refused to remove it */
    OUTCOME_REFUSED,
    OUTCOME_PICKED, /* a call that the pick of its hint names got the block for the first time */
    /* an edge ended an instance in which the hint matched something else than it expects */
    OUTCOME_DRIFT,
    OUTCOME_LET_GO, /* the edge that a block was held for has passed: it is freed like others */
    OUTCOME_KEPT,   /* a block that its hint would evict stays on the device from here on */
    OUTCOME_KIND_COUNT,
};

/* How an outcome was reached; bits of outcome.how. */
enum outcome_how {
    OUTCOME_HIT = 1u << 0,       /* served without a driver call */
    OUTCOME_GROWN = 1u << 1,     /* the driver was asked for memory */
    OUTCOME_WAITED = 1u << 2,    /* the host waited for the device */
    OUTCOME_TRIMMED = 1u << 3,   /* idle memory was returned to the driver to make space */
    OUTCOME_ORDERED = 1u << 4,   /* a stream was made to wait for another one */
    OUTCOME_HINTED = 1u << 5,    /* the block has a physical handle of its own */
    OUTCOME_SMALL = 1u << 6,     /* a hint matched but the block is below its min_size */
    OUTCOME_PINNED = 1u << 7,    /* REFUSED: the storage is pinned (R80, pins) */
    OUTCOME_FIRST = 1u << 8,     /* DRIFT: the first one of the hint */
    OUTCOME_HELD = 1u << 9,      /* FREE: a hint holds the block, or in shadow would */
    OUTCOME_RECORDED = 1u << 10, /* FREE: an event was recorded on its stream */
};

/* A result of the pool, for the recorder. Filled under the pool's lock, so `seq` is the order of
 * events. */
struct outcome {
    enum outcome_kind kind;
    enum heap_kind heap;
    devptr_t ptr;
    uint64_t size; /* bytes that the program requested; DRIFT: sum over the hint's matches */
    /* bytes that the block occupies; DRIFT: number of blocks, 0 = not counted; WRITTEN: bytes
     * before the first that is no longer poison; KEPT: enum pool_kept */
    uint64_t rounded;
    uint64_t seq;       /* of this event; strictly rising over the process */
    uint64_t alloc_seq; /* of the block's allocation (= seq for OUTCOME_ALLOC) */
    uint64_t stream;    /* identity of the allocating stream, 0 = unknown */
    /* bytes held from the driver afterwards, all heaps of the device, caches included */
    uint64_t reserved;
    int64_t reserved_delta; /* the change of it by this call */
    /* the high mark of the bytes held by the device's heaps, including moments within a call */
    uint64_t reserved_high;
    int rule;     /* index of the hint, -1 = none */
    uint32_t how; /* enum outcome_how */
    int device;
    enum hint_mode mode; /* HINT_OFF without a hint */
};

#endif
