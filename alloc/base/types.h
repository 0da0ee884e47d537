/* SPDX-License-Identifier: MIT */
/*
 * types.h - the words that alloc, tracker and preload share.
 *
 * Plain data only: what is known about a request (tag, from tracker), what a hint asks for (plan, from hint.h), what the
 * program passed (edge, from tracker's anchors) and what the pool did (outcome). Nothing here owns memory.
 *
 *     where_am_i ─► struct tag ─► hint_plan ─► struct plan ─► pool_alloc ─► struct outcome ─► capture_alloc
 *     anchor_*   ─► struct edge ─────────────────────────────► pool_edge ─► struct outcome[] ─► capture_hint
 *
 * Units: bytes unless the name says otherwise. Errors everywhere: 0 fine, > 0 the driver's CUresult for the
 * application, < 0 -errno of ours, upon which the caller makes the real call.
 * Prefixes: round_, min_, max_, excess_, action_, hint_mode_.
 */
#ifndef KEDGE_ALLOC_TYPES_H
#define KEDGE_ALLOC_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An address on the device, as the driver hands it out (CUdeviceptr). */
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

/* By how much a is more than b, 0 = it is not. */
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

/*
 * A Python call site that a stack has and a rule names (tracker/hints/pysite.h); a list of them, innermost first, none twice. Never
 * changes while a tag has it.
 */
struct pysite {
    uint64_t key;
    const struct pysite *outer; /* NULL = the last one */
};

/* Who asked for a block, and where in the program that was. Filled by tracker/where, read by hint and capture. */
struct tag {
    uint64_t site; /* native site key: hash of (build-id, offset) frames; 0 = unknown */
    /* of those call sites in `pystack` that rules name (hint_pysite); NULL = none. where_am_i leaves it so */
    const struct pysite *pysites;
    uint32_t stack;   /* interned native stack, 0 = none */
    uint32_t pystack; /* interned Python stack, 0 = none */
    /* innermost open anchor instance of this thread, else the process's phase; 0 = none */
    uint32_t anchor;
    uint32_t nth;  /* how many of (anchor instance, site, size) came before this one */
    uint64_t size; /* bytes that the program requested */
    /* anchor path "outer/inner" of `anchor`, never NULL, valid for the process's life */
    const char *path;
    uint32_t instance; /* which time `path` was entered when `anchor` was, 0 = the first */
    int device;        /* device ordinal, -1 = unknown */
    /* 1 and the number of its stream in the order of creation on the device; 0 = none, or not known */
    uint16_t stream;
    bool is_main; /* asked for by the process's first thread */
};

/* What a passed anchor is. */
enum edge_kind {
    EDGE_ENTER,
    EDGE_EXIT,
    EDGE_MARK,
    EDGE_KIND_COUNT, /* those before are of anchors; what follows is no anchor, and hints alone are told of it */
    EDGE_CALL = EDGE_KIND_COUNT, /* a call of tracker/hints/apicalls.def */
    EDGE_LAUNCH,                 /* of a kernel */
    EDGE_FREE,                   /* the program's own, of a block that a hint has matched */
};

/* One anchor edge that the program passed; or a call, which lies at no edge: then the anchor that it was made in. */
struct edge {
    enum edge_kind kind;
    uint32_t anchor;   /* anchor instance id; the same number at enter and at exit */
    uint32_t instance; /* 0 for the first time that this path was entered, then 1, ... */
    uint32_t call;     /* CALL: its number */
    int rule;          /* FREE: the hint of the block */
    /* number of the one that entered it; 0 = the calling one, or none's (anchor_open_ranges) */
    uint32_t thread;
    const char *path; /* "outer/inner", valid for the process's life */
    const char *name; /* LAUNCH: of the kernel */
    uint64_t stream;  /* identity of the stream that the call is for, 0 = none, or not known */
    uint64_t seq;     /* pool_edge's: its place in the order once it was told of, 0 = not yet */
};

/* What a hint can ask for a matched block; the first of the file that matches takes it. RESTORE matches none. */
enum action {
    ACTION_NONE,
    ACTION_RELEASE, /* its storage goes at the edge */
    ACTION_PIN,     /* it is left where it is, whatever else could be done with it */
    ACTION_IGNORE,  /* nothing */
    ACTION_KEEP_META, /* as RELEASE, but a kernel may be given the address, which reads nothing there */
    ACTION_HOLD,      /* the program's free is done later: it stays nobody else's until the edge */
    ACTION_EVICT,     /* its storage goes and comes back as a cap asks for it (struct rule_evict) */
    ACTION_RESTORE, /* at the edge what another hint has evicted begins to come in */
    ACTION_COUNT,
};

/* Does storage go by it for good? */
static inline bool action_releases(enum action action)
{
    return action == ACTION_RELEASE || action == ACTION_KEEP_META;
}

/* Does a block need storage that can be taken from its address? */
static inline bool action_unmaps(enum action action)
{
    return action_releases(action) || action == ACTION_EVICT;
}

/* How far a hint may go: OFF, SHADOW, POISON, TRAP, LIVE, each further than the one before. LIVE needs a receipt (R87). The numbers
 * stand in captures: new ones are appended. */
enum hint_mode {
    HINT_OFF,
    HINT_SHADOW, /* does nothing, writes down what would have happened */
    HINT_TRAP,   /* storage kept, access removed */
    HINT_LIVE,   /* storage released, the address stays reserved until the program's own free */
    HINT_POISON, /* storage kept, its content overwritten, and looked at after the program's own free */
    HINT_MODE_COUNT,
};

/* True if it changes what the program finds in memory. */
static inline bool hint_mode_acts(enum hint_mode mode)
{
    return mode != HINT_OFF && mode != HINT_SHADOW;
}

/* True if the storage of what was released cannot be used any more, so that a call that names it has to be stopped. */
static inline bool hint_mode_stops(enum hint_mode mode)
{
    return mode == HINT_TRAP || mode == HINT_LIVE;
}

/* What the hints say about one request. `rule` indexes the rule array that hint_plan was given; -1 = no rule matched. */
struct plan {
    int rule;
    enum action action;
    enum hint_mode mode;
    /* the anchor instance whose edge is meant; 0 = the first edge that matches the rule's `when` */
    uint32_t due_anchor;
    uint32_t else_anchor; /* the same of its `else` */
    bool small;           /* matched, but below the rule's min_size: left alone and counted */
    bool unused;          /* the rest of the pick fits; the use that it names comes later */
    bool shares;          /* its handle may have other blocks too (backend: alias) */
};

/* State of the storage behind an address that the program holds (alloc/heap/holder.h). */
enum holder_state {
    HOLDER_LIVE, /* storage there */
    HOLDER_DEAD, /* marked dead, submissions that began before are still between guard and driver (R66) */
    HOLDER_LIMBO, /* a fence is recorded, the GPU may still be before the last use */
    HOLDER_HUSK, /* no storage (live), no access (trap), or its content overwritten (poison); the address is reserved */
    HOLDER_HELD, /* the program freed it, and a hint keeps it as it is for a while */
    HOLDER_LET_GO, /* its edge has come since: kept while submissions that began before are on their way (R66) */
    HOLDER_GONE, /* the program freed it */
    HOLDER_STATE_COUNT,
};

/* The kinds of heap (R76). */
enum heap_kind {
    HEAP_PLAIN, /* one per context: segments from cuMemAlloc, serves the sync API */
    HEAP_MAPPED, /* one per memory pool: a reserved range with physical handles, serves the stream API */
    HEAP_PRIVATE, /* one per context: mapped, serves sync requests that a hint matches, or all (pool_opts.sync_mapped) */
    HEAP_KIND_COUNT,
};

/*
 * What kind of memory an allocation is. The numbers stand in captures: new ones are appended, none changes its meaning.
 * Device memory of this process comes first, what follows never counts as such.
 */
enum memclass {
    MEMCLASS_POOLED,      /* from our heaps */
    MEMCLASS_DRIVER,      /* cuMemAlloc or a memory pool, served by the driver itself */
    MEMCLASS_PITCHED,     /* cuMemAllocPitch */
    MEMCLASS_MANAGED,     /* cuMemAllocManaged; its pages may be on the host */
    MEMCLASS_VMM,         /* a physical handle of the program's own */
    MEMCLASS_ARRAY,       /* size as the driver says */
    MEMCLASS_ARRAY_GUESS, /* size computed from the array's description */
    MEMCLASS_GRAPH,       /* a memory node of a graph, or made on a stream that is captured */
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

/* What an outcome tells of. */
enum outcome_kind {
    OUTCOME_NONE,
    OUTCOME_ALLOC,
    OUTCOME_FREE,   /* the program's own free */
    OUTCOME_SHADOW, /* an edge passed; a hint in shadow would have released the storage here */
    OUTCOME_RELEASE, /* an edge passed; the range is marked dead, the storage goes when the device is past it */
    OUTCOME_HUSK, /* the storage (live) or the access (trap) is really gone; poison is on its way into it */
    OUTCOME_CLEAN,   /* after the program's free: all of it is as poison left it */
    OUTCOME_WRITTEN, /* after the program's free: some of it is not */
    /* an edge passed, and the storage stays: pinned, or the hint may not act any more; or told later, as HUSK is: the driver
     * refused to take it */
    OUTCOME_REFUSED,
    OUTCOME_PICKED, /* a call that the pick of its hint names was given the block for the first time */
    OUTCOME_DRIFT, /* an edge passed that ends an instance in which a hint matched something else than it expects */
    OUTCOME_LET_GO, /* an edge passed that a block was held for: it goes the way of all that is freed */
    OUTCOME_KEPT, /* a block that its hint would evict stays on the device from here on */
    OUTCOME_KIND_COUNT,
};

/* How an outcome came about; bits of outcome.how. */
enum outcome_how {
    OUTCOME_HIT = 1u << 0,       /* served without a driver call */
    OUTCOME_GROWN = 1u << 1,     /* the driver was asked for memory */
    OUTCOME_WAITED = 1u << 2,    /* the host waited for the device */
    OUTCOME_TRIMMED = 1u << 3,   /* idle memory was given back to make room */
    OUTCOME_ORDERED = 1u << 4,   /* a stream was made to wait for another one */
    OUTCOME_HINTED = 1u << 5,    /* the block stands on a physical handle of its own */
    OUTCOME_SMALL = 1u << 6,     /* a hint matched but the block is below its min_size */
    OUTCOME_PINNED = 1u << 7,    /* REFUSED: somebody relies on the storage (R80) */
    OUTCOME_FIRST = 1u << 8,     /* DRIFT: the first one of the hint */
    OUTCOME_HELD = 1u << 9,      /* FREE: a hint holds the block, or in shadow would */
    OUTCOME_RECORDED = 1u << 10, /* FREE: an event was recorded on its stream */
};

/* What the pool did, for the recorder. Filled under the pool's lock, so `seq` orders outcomes as they happened. */
struct outcome {
    enum outcome_kind kind;
    enum heap_kind heap;
    devptr_t ptr;
    uint64_t size; /* bytes that the program requested; DRIFT: all that the hint matched */
    /* bytes that the block takes; DRIFT: how many blocks, 0 = not counted; WRITTEN: how many before the first that is not as
     * poison left it; KEPT: enum pool_kept */
    uint64_t rounded;
    uint64_t seq;       /* of this event; strictly rising over the process */
    uint64_t alloc_seq; /* of the block's allocation (= seq for OUTCOME_ALLOC) */
    uint64_t stream;    /* identity of the allocating stream, 0 = unknown */
    /* bytes held from the driver afterwards, all heaps of the device, caches included */
    uint64_t reserved;
    int64_t reserved_delta; /* what this call changed in it */
    /* the most that the device's heaps ever held, also for a moment within a call */
    uint64_t reserved_high;
    int rule;     /* index of the hint, -1 = none */
    uint32_t how; /* enum outcome_how */
    int device;
    enum hint_mode mode; /* HINT_OFF without a hint */
};

#endif
