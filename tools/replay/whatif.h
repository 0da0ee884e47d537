/* SPDX-License-Identifier: MIT */
/*
 * whatif.h - one sequence of requests, several allocators: what each would hold and ask of the driver.
 *
 * kedge is no model here: the pool that runs in programs (alloc/pool.h) runs above a driver that counts. Other allocators
 * are models (peer.h). In a pass the workload is played once; then everything that is still live is freed, on its own
 * stream, which is part of the pass. Where the program waits for the device, all that was submitted is done, and free memory goes
 * back as each policy does it (of kedge's pool: R78).
 *
 *     workload ─► pass 1 ─ free the rest ─► pass 2 ─ ... ─► struct whatif
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_WHATIF_H
#define KEDGE_TOOLS_WHATIF_H

#include <stddef.h>
#include <stdint.h>

#include "tools/replay/counting.h"
#include "tools/replay/workload.h"

/* More than any device has: requests that have more than that live at once are none that could be played. */
#define WHATIF_LIVE_MAX (UINT64_C(1) << 42)

struct whatif_policy {
    const char *name, *summary;
    const struct peer *peer; /* NULL: the pool */
    int remap;               /* enum pool_remap, for the pool */
    bool sync;               /* the pool is asked through cudaMalloc, whatever the program uses, */
    bool mapped;             /* and serves that from mapped memory (KEDGE_POOL=sync=mapped) */
};

#define WHATIF_POLICY_MAX 16

/* What this program can play. At first what users compare: kedge's own policies, PyTorch, no pool. A program of developers may put
 * a longer table here before it plays, of at most WHATIF_POLICY_MAX. */
extern const struct whatif_policy *whatif_policies;
extern size_t whatif_policy_count;

/* Where the program waits for the device. */
enum whatif_waits {
    WHATIF_WAITS_NONE,
    WHATIF_WAITS_PASS, /* behind each pass */
    WHATIF_WAITS_STEP, /* behind each step, and behind each pass */
};

struct whatif_job {
    const struct workload *workload;
    uint64_t passes; /* at least 1 */
    uint64_t budget; /* bytes that kedge tries not to go beyond, 0 = its default */
    double lag;      /* passes that the device is behind */
    bool sync;       /* the pool is not told of streams: the program uses cudaMalloc */
    bool backed;     /* bytes count as a device gives them (counting.h) */
    /* where one stream's request or free follows another one's, the program has made it wait for an event of that stream */
    bool is_ordered;
    enum whatif_waits waits;
    uint64_t threshold;   /* bytes that stay at a wait */
    uint64_t steps;       /* of the program in a pass, for WHATIF_WAITS_STEP: not 0 */
    uint64_t done, total; /* of the progress, in requests and frees */
};

struct whatif_pass {
    uint64_t driver_calls, granules_moved;
    uint64_t waits;                      /* of the host, in calls for that or in others */
    uint64_t calls[COUNTING_KIND_COUNT]; /* the driver calls by kind */
    uint64_t peak_reserved;
};

struct whatif {
    const struct whatif_policy *policy;
    double e; /* peak live, each block rounded to 512, over peak reserved */
    uint64_t peak_reserved;
    struct whatif_pass *passes;
    size_t pass_count;
};

/* Plays the workload to one policy. 0, -ERANGE: more than WHATIF_LIVE_MAX, or -errno: the pool could not go on. whatif_done in both cases. */
int whatif_run(const struct whatif_policy *policy, struct whatif_job *job, struct whatif *ret);
void whatif_done(struct whatif *whatif);

#endif
