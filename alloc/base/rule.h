/* SPDX-License-Identifier: MIT */
/*
 * rule.h - one liveness hint as data.
 *
 * tracker/hints/hintfile.c reads the sidecar file into an array of these, alloc/hints/hint.c decides with them, the tools write and
 * predict with them. Pure data, no pointers into the parser: an array can be copied and outlives the file.
 *
 * Strings are owned by the rule and NUL-terminated. A zero-initialised rule with action ACTION_NONE matches nothing.
 */
#ifndef KEDGE_ALLOC_RULE_H
#define KEDGE_ALLOC_RULE_H

#include "alloc/base/types.h"

#define RULE_ID_MAX    64  /* bytes with the NUL */
#define RULE_GLOB_MAX  192 /* bytes with the NUL; globs: wildcard.h */
#define RULE_SITES_MAX 8

/* used-by: the block was given to this call, as this argument. */
struct rule_use {
    uint32_t call; /* number in tracker/hints/apicalls.def; 0 = any block, used or not */
    uint32_t arg;  /* which of its buffers */
    char inside
            [RULE_GLOB_MAX]; /* path glob of the anchor that the call was made in; "" = anywhere */
};

/* Which thread asks for the memory. */
enum rule_thread {
    RULE_THREAD_ANY,
    RULE_THREAD_MAIN, /* the process's first one */
};

/* pick: all that is given must hold (ANDed); sites are ORed among themselves. */
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
    char rank[RULE_GLOB_MAX];   /* of the process's rank, "" = all; see hint_is_for */
    struct rule_use use;
};

/* What must have happened to a block before its events are counted. */
enum rule_from {
    RULE_FROM_ALLOC,
    RULE_FROM_USE,  /* the last one that the pick names */
    RULE_FROM_FREE, /* the program's own */
};

/*
 * when: the edge that proves that the storage is dead. count 0: the edge of an anchor, see hint.h for which one. Else an event: how
 * many of them must have come since `from`.
 */
struct rule_when {
    char anchor
            [RULE_GLOB_MAX]; /* path glob; LAUNCH: glob of the kernel's name; FREE: id of the hint; CALL: "" = anywhere */
    enum edge_kind kind;
    uint32_t count;
    enum rule_from from;
    uint32_t call; /* CALL: its number */
    int rule;      /* FREE: index of the hint */
};

/* What storage that is due waits for before it goes. */
enum rule_wait {
    RULE_WAIT_ALL_STREAMS, /* what was given to all streams before the edge */
    RULE_WAIT_EVENT,       /* the call that was the event, and what its stream was given before */
};

/* Inclusive. hi 0: nothing is stated. */
struct rule_range {
    uint64_t lo, hi;
};

/* What a block stands on that is to be released. */
enum rule_backend {
    RULE_UNMAP, /* a physical handle of its own */
    RULE_ALIAS, /* of less than a handle: parts of one (alias.h) */
};

/*
 * expect: what the hint matches in one instance of the `when` anchor: what is due at one edge, freed before or not.
 * Judged in each instance in which it matches something. Of a rule that counts (rule_counts): what the program holds then.
 */
struct rule_expect {
    struct rule_range count, bytes;
};

/* What a rule has matched in one instance. count 0: it could not be counted. */
struct rule_seen {
    uint64_t count, bytes;
};

/* Which block goes out first. */
enum rule_victim {
    RULE_VICTIM_FARTHEST, /* whose next use is farthest away */
    RULE_VICTIM_LRU,      /* whose last use is longest ago */
    RULE_VICTIM_FIFO,     /* that came in first */
};

/* Which blocks stand on the device, in the words of ColossalAI's placement policies. */
enum rule_policy {
    RULE_POLICY_AUTO, /* as many as the cap allows */
    RULE_POLICY_CPU,  /* those of the call that runs */
    RULE_POLICY_CUDA, /* all */
};

/* Where the content of a block is while its storage is somebody else's. */
enum rule_backing {
    RULE_BACKING_PINNED,  /* memory of the host that devices read and write by themselves */
    RULE_BACKING_MMAP,    /* any memory of the host */
    RULE_BACKING_MANAGED, /* the block itself is managed memory, whose pages move */
};

/* EVICT: how much of the hint's blocks a device holds at once. */
struct rule_evict {
    uint64_t cap;            /* bytes; 0: cap_percent is stated */
    uint32_t cap_percent;    /* of the device's memory */
    bool less_other;         /* less what else is on the device in the next step, at its most */
    uint32_t warmup_percent; /* of the cap, while the order of use is not known */
    uint32_t prefetch;       /* uses ahead */
    uint64_t host_budget;    /* bytes of the host; 0 = as many as it takes */
    enum rule_policy policy;
    enum rule_victim victim;
    enum rule_backing backing;
    bool cyclic; /* the next use of a block may be in the next step */
    bool clean; /* kernels only read it: what no copy and no set has written since it came in is not copied out */
    /* the order of use in a step, if the file states one: numbers of blocks, 0 = the hint's first on its device. The file's memory */
    const uint32_t *order;
    uint32_t order_count; /* 0: it is learnt */
};

/* Of a hint that states none of it: all but the cap. */
#define RULE_EVICT_DEFAULT \
    ((struct rule_evict){.warmup_percent = 100, .prefetch = 1, .cyclic = true})

struct rule {
    char id[RULE_ID_MAX];
    enum action action;
    /* after file, KEDGE_HINTS_MODE and receipt had their say (preload/config, R87) */
    enum hint_mode mode;
    struct rule_pick pick;
    struct rule_when when; /* EVICT: where a step begins; RESTORE: where blocks begin to come in */
    struct rule_when otherwise; /* else: whichever comes first; see rule_is_set */
    struct rule_evict evict;
    enum rule_wait wait;
    enum rule_backend backend;
    uint32_t canary; /* LIVE: at first one of so many acts, see hint_canary; 0 and 1: all */
    /* LIVE, RELEASE: in so many instances of `when` the host keeps the content of what is released, for calls that name it all the same
     * (swapset.h); UINT32_MAX: in all. And in all from the first such call on */
    uint32_t keep_content;
    uint64_t min_size; /* smaller blocks are left alone and counted */
    struct rule_expect expect;
    uint32_t line, column; /* where in the file, for messages; 1-based */
    bool inside_only;      /* KEEP_META by a receipt: only inside of larger parameters (R86) */
    int of;                /* RESTORE: index of the hint that evicts, whose blocks come in */
};

static inline bool rule_has(const struct rule_range *range, uint64_t number)
{
    return range->hi == 0 || (number >= range->lo && number <= range->hi);
}

/* Is there a moment that it waits for, or at which it begins? Others have no `when`, and are the same in all modes. */
static inline bool rule_waits(const struct rule *rule)
{
    return rule->action != ACTION_PIN && rule->action != ACTION_IGNORE;
}

/* Is there an `else`? */
static inline bool rule_is_set(const struct rule_when *when)
{
    return when->count > 0 || when->anchor[0] != '\0';
}

/* Is one edge not what one instance of an anchor comes to? Then what is due is counted there, and not when it is made. */
static inline bool rule_counts(const struct rule *rule)
{
    return rule->when.count > 0 || rule->pick.use.call > 0 || rule_is_set(&rule->otherwise);
}

static inline bool rule_expects(const struct rule *rule)
{
    return rule->expect.count.hi || rule->expect.bytes.hi;
}

#endif
