/* SPDX-License-Identifier: MIT */
/*
 * whatif.h - one sequence of requests, several allocators: their bytes held and driver calls.
 *
 * kedge is no model here: the pool that runs in programs (alloc/pool.h) runs above a driver that
 * counts. Other allocators are models (peer.h). A pass plays the workload once and then frees each
 * block still live, on its own stream. Where the program waits for the device, all submitted work
 * is done, and free memory goes back as each policy does it (kedge's pool: R78, pool attributes).
 *
 *     workload ─► pass 1 ─ free the rest ─► pass 2 ─ ... ─► struct whatif
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_WHATIF_H
#define KEDGE_TOOLS_WHATIF_H

#include <stddef.h>
#include <stdint.h>

#include "alloc/heap/pool_types.h"
#include "tools/replay/counting.h"
#include "tools/replay/workload.h"

/* More than any device has: no device could serve requests with more live bytes than that. */
#define WHATIF_LIVE_MAX (UINT64_C(1) << 42)

struct whatif_policy {
    const char *name, *summary;
    const struct peer *peer; /* NULL: the pool */
    int remap;               /* enum pool_remap, for the pool */
    bool sync;               /* the pool is called through cudaMalloc, whatever the program uses, */
    bool mapped;             /* and serves that from mapped memory (KEDGE_POOL=sync=mapped) */
};

#define WHATIF_POLICY_MAX 17

/*
 * The policies that can be played. By default those that users compare: kedge's own, PyTorch, no
 * pool. A developers' program may set a longer table before it plays, of at most WHATIF_POLICY_MAX.
 */
extern const struct whatif_policy *whatif_policies;
extern size_t whatif_policy_count;

/* When the program waits for the device. */
enum whatif_waits {
    WHATIF_WAITS_NONE,
    WHATIF_WAITS_PASS, /* after each pass */
    WHATIF_WAITS_STEP, /* after each step, and after each pass */
};

struct whatif_job {
    const struct workload *workload;
    uint64_t passes; /* at least 1 */
    uint64_t budget; /* bytes that kedge tries to stay below, 0 = its default */
    double lag;      /* in passes, of the device */
    bool sync;       /* no streams for the pool: the program uses cudaMalloc */
    bool backed;     /* bytes count as a device gives them (counting.h) */
    /*
     * where one stream's request or free follows another stream's, the program has made it wait for
     * an event of that stream
     */
    bool is_ordered;
    /* ns from one event to the next, and what a move of 2 MiB takes: 0 = nothing (pace.h) */
    uint64_t event_ns, move_ns;
    enum whatif_waits waits;
    uint64_t threshold;   /* bytes that stay held at a wait */
    uint64_t steps;       /* steps in a pass, for WHATIF_WAITS_STEP: not 0 */
    uint64_t done, total; /* of the progress, in requests and frees */
};

struct whatif_pass {
    uint64_t driver_calls, granules_moved;
    uint64_t paces[POOL_PACE_COUNT];     /* how often each was chosen; 0 without move_ns */
    uint64_t waits;                      /* host waits, in calls for that or in others */
    uint64_t calls[COUNTING_KIND_COUNT]; /* the driver calls by kind */
    struct counting_storage storage;     /* those for handles and mappings */
    uint64_t peak_reserved;
};

struct whatif {
    const struct whatif_policy *policy;
    double e; /* peak live, each block rounded to 512, over peak reserved */
    uint64_t peak_reserved;
    struct whatif_pass *passes;
    size_t pass_count;
};

/*
 * Plays the workload to one policy. 0, -ERANGE: more than WHATIF_LIVE_MAX, or -errno: the pool
 * could not continue. whatif_done in all cases.
 */
int whatif_run(const struct whatif_policy *policy, struct whatif_job *job, struct whatif *ret);
void whatif_done(struct whatif *whatif);

#endif
