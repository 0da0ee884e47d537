/* SPDX-License-Identifier: MIT */
/*
 * rule.h - one liveness hint as data.
 *
 * tracker/hints/hintfile.c reads the hint file into an array of these, alloc/hints/hint.c decides
 * with them, the tools write them and predict with them. Pure data, no pointers into the parser: an
 * array can be copied and outlives the file.
 *
 * Strings are owned by the rule and NUL-terminated. A zero-initialised rule with action ACTION_NONE
 * matches nothing.
 */
#ifndef KEDGE_ALLOC_RULE_H
#define KEDGE_ALLOC_RULE_H

#include "alloc/base/types.h"

#define RULE_ID_MAX    64  /* bytes with the NUL */
#define RULE_GLOB_MAX  192 /* bytes with the NUL; globs: wildcard.h */
#define RULE_SITES_MAX 8

/* used-by: the block was passed to this call, as this argument. */
struct rule_use {
    uint32_t call; /* number in tracker/hints/apicalls.def; 0 = any block, used or not */
    uint32_t arg;  /* which of its buffers */
    char inside
            [RULE_GLOB_MAX]; /* path glob of the anchor that the call was made in; "" = anywhere */
};

/* The thread that allocates. */
enum rule_thread {
    RULE_THREAD_ANY,
    RULE_THREAD_MAIN, /* the process's first thread */
};

/* pick: all stated parts must match (AND); sites are alternatives (OR). */
struct rule_pick {
    uint64_t site[RULE_SITES_MAX];
    uint32_t site_count; /* 0 = any site */
    uint32_t python;     /* bit i: site[i] is a Python call site, see tracker/hints/pysite.h */
    uint64_t size_lo;    /* inclusive */
    uint64_t size_hi;    /* inclusive; UINT64_MAX = no bound */
    uint32_t nth_lo;     /* inclusive */
    uint32_t nth_hi;     /* inclusive; UINT32_MAX = all */
    int device;          /* -1 = any */
    uint32_t stream;     /* as tag.stream; 0 = any, or none */
    enum rule_thread thread;
    char inside[RULE_GLOB_MAX]; /* anchor path glob; "" = anywhere */
    char rank[RULE_GLOB_MAX];   /* glob of the process's rank, "" = all; see hint_is_for */
    struct rule_use use;
};

/* The event of a block after which its `when` events count. */
enum rule_from {
    RULE_FROM_ALLOC,
    RULE_FROM_USE,  /* the last use that the pick names */
    RULE_FROM_FREE, /* the program's free */
};

/* when: the edge that proves that the storage is dead. count 0: the edge of an anchor, see hint.h
 * for which one. Otherwise an event: the number of them since `from`. */
struct rule_when {
    char anchor
            /* path glob; LAUNCH: glob of the kernel's name; FREE: id of the hint; CALL: "" =
             * anywhere */
            [RULE_GLOB_MAX];
    enum edge_kind kind;
    uint32_t count;
    enum rule_from from;
    uint32_t call; /* CALL: its number */
    int rule;      /* FREE: index of the hint */
};

/* What the release of a due block waits for. */
enum rule_wait {
    RULE_WAIT_ALL_STREAMS, /* work of all streams before the edge */
    RULE_WAIT_EVENT,       /* the call that was the event, and earlier work of its stream */
};

/* Inclusive. hi 0: not stated. */
struct rule_range {
    uint64_t lo, hi;
};

/* The storage of a block that may be released. */
enum rule_backend {
    RULE_UNMAP, /* a physical handle of its own */
    RULE_ALIAS, /* parts of a handle, for blocks smaller than one (alias.h) */
};

/* expect: the matches of the hint in one instance of the `when` anchor: the blocks due at one edge,
 * freed before or not. Judged in each instance with a match. For a rule that counts (rule_counts):
 * the blocks that the program holds then. */
struct rule_expect {
    struct rule_range count, bytes;
};

/* Matches of a rule in one instance. count 0: it could not be counted. */
struct rule_seen {
    uint64_t count, bytes;
};

/* Which block is evicted first. */
enum rule_victim {
    RULE_VICTIM_FARTHEST, /* the one with the farthest next use */
    RULE_VICTIM_LRU,      /* the one with the oldest last use */
    RULE_VICTIM_FIFO,     /* the one that came in first */
};

/* Which blocks are in device memory, with the names of ColossalAI's placement policies. */
enum rule_policy {
    RULE_POLICY_AUTO, /* as many as the cap allows */
    RULE_POLICY_CPU,  /* those of the running call */
    RULE_POLICY_CUDA, /* all */
};

/* Where the content of an evicted block is. */
enum rule_backing {
    RULE_BACKING_PINNED,  /* host memory that devices access directly */
    RULE_BACKING_MMAP,    /* any host memory */
    RULE_BACKING_MANAGED, /* the block itself is managed memory, whose pages move */
};

/* EVICT: how much of the hint's blocks a device holds at once. */
struct rule_evict {
    uint64_t cap;         /* bytes; 0: cap_percent is stated */
    uint32_t cap_percent; /* of the device's memory */
    bool less_other; /* minus the most that anything else on the device takes in the next step */
    uint32_t warmup_percent; /* of the cap, while the order of use is unknown */
    uint32_t prefetch;       /* uses ahead */
    uint64_t host_budget;    /* bytes of host memory; 0 = unlimited */
    enum rule_policy policy;
    enum rule_victim victim;
    enum rule_backing backing;
    bool cyclic; /* the next use of a block may be in the next step */
    /* kernels only read it: content that no copy and no set has written since it came in is not
     * copied out */
    bool clean;
    /* the order of use in a step, if the file states one: numbers of blocks, 0 = the hint's first
     * on its device. Owned by the file */
    const uint32_t *order;
    uint32_t order_count; /* 0: the order is learnt */
};

/* Defaults of a hint: all except the cap. */
#define RULE_EVICT_DEFAULT \
    ((struct rule_evict){.warmup_percent = 100, .prefetch = 1, .cyclic = true})

struct rule {
    char id[RULE_ID_MAX];
    enum action action;
    /* after the file, KEDGE_HINTS_MODE and the receipt (preload/config, R87) */
    enum hint_mode mode;
    struct rule_pick pick;
    struct rule_when when; /* EVICT: beginning of a step; RESTORE: when blocks begin to come in */
    struct rule_when otherwise; /* else: the edge that comes first counts; see rule_is_set */
    struct rule_evict evict;
    enum rule_wait wait;
    enum rule_backend backend;
    uint32_t canary; /* LIVE: at first only one of this many acts, see hint_canary; 0 and 1: all */
    /* LIVE, RELEASE: for this many instances of `when` the host keeps the content of released
     * blocks, for calls that name them all the same (swapset.h); UINT32_MAX: for all. For all from
     * the first such call on */
    uint32_t keep_content;
    uint64_t min_size; /* smaller blocks are left alone and counted */
    struct rule_expect expect;
    uint32_t line, column; /* position in the file, for messages; 1-based */
    bool inside_only;      /* KEEP_META by a receipt: only inside larger parameters (R86, guard) */
    int of;                /* RESTORE: index of the hint that evicts and whose blocks come in */
};

static inline bool rule_has(const struct rule_range *range, uint64_t number)
{
    return range->hi == 0 || (number >= range->lo && number <= range->hi);
}

/* Does the rule wait for an edge, or begin at one? Others have no `when`, and are the same in all
 * modes. */
static inline bool rule_waits(const struct rule *rule)
{
    return rule->action != ACTION_PIN && rule->action != ACTION_IGNORE;
}

/* Is an `else` stated? */
static inline bool rule_is_set(const struct rule_when *when)
{
    return when->count > 0 || when->anchor[0] != '\0';
}

/* True if an edge does not correspond to one instance of an anchor. Then blocks are counted when
 * they are due, not when they are made. */
static inline bool rule_counts(const struct rule *rule)
{
    return rule->when.count > 0 || rule->pick.use.call > 0 || rule_is_set(&rule->otherwise);
}

static inline bool rule_expects(const struct rule *rule)
{
    return rule->expect.count.hi || rule->expect.bytes.hi;
}

#endif
