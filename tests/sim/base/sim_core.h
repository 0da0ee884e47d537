/* SPDX-License-Identifier: MIT */
/*
 * sim_core.h - the frame of every call of the simulated driver: one lock, one way in, one way out.
 *
 *     CUresult cuX(args)
 *     {
 *         struct sim_call call;
 *         int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);
 *
 *         if (r == 0)
 *             r = x(call.ctx, args);
 *         return sim_leave(&call, r);
 *     }
 *
 * sim_enter calls the test's hook, counts, refuses what a host function may not call, injects the
 * faults that were asked for, takes the lock, lets streams move on if the schedule says so, and
 * finds the current context. sim_leave lets streams move on, drops the lock and writes the log.
 *
 * Does not know what any call does. Everything behind sim_enter runs under the lock; it is let go
 * only while a host function of the program runs and while a thread sleeps for the device
 * (sim_queue.h). Memory: malloc; this is a test device and a failed malloc of a few bytes ends it.
 */
#ifndef KEDGE_TESTS_SIM_SIM_CORE_H
#define KEDGE_TESTS_SIM_SIM_CORE_H

#include "tests/sim/base/program_abi.h"
#include "tests/sim/base/sim_abi.h"
#include "tests/sim/base/simcuda.h"

#include <pthread.h>
#include <stdbool.h>

#define SIM_DRIVER_VERSION 13000             /* what it says without SIMCUDA_VERSION */
#define SIM_GRANULE        ((size_t)2 << 20) /* the device's page */
#define SIM_HOST_PAGE      ((size_t)4096)
#define SIM_ALIGN          ((size_t)512) /* of small allocations */
#define SIM_NEVER          UINT64_MAX

enum sim_schedule {
    SIM_SCHEDULE_EAGER,
    SIM_SCHEDULE_LAZY,
    SIM_SCHEDULE_RANDOM,
    SIM_SCHEDULE_TIMED,
    SIM_SCHEDULE_COUNT
};

/* What the SIMCUDA_* variables said; fixed after the first call. */
struct sim_config {
    uint64_t memory;
    uint64_t shown;    /* what programs are told that a device has; 0: all of it */
    int capability[2]; /* compute capability: major, minor */
    uint64_t sms;      /* multiprocessors of a device */
    int devices;
    uint64_t seed;
    int version; /* that the driver says it is, and up to which it knows entries */
    enum sim_schedule schedule;
    uint64_t lag;
    uint64_t texture;     /* alignment, bytes */
    uint64_t granularity; /* of physical memory, as it is said; multiples of SIM_GRANULE are made */
    uint64_t patience;    /* ms until a host function runs unasked; 0: never (sim_patience.h) */
    bool oracle;
    bool managed;       /* devices use managed memory while the host does */
    bool alias;         /* memory may be mapped at several addresses */
    bool handles_again; /* numbers of physical handles, and handles of streams, come again */
    bool physical_file; /* physical memory is kept in a file */
    bool own_ids;       /* each context counts its default streams from 1 */
    bool any_kernel;    /* kernels that are not in kernels.def exist */
    bool fault_segv;
    uint64_t values;    /* elements of a kernel that are computed; more: a digest */
    uint64_t bandwidth; /* bytes a second of a copy engine; 0: copies take no time */
    uint64_t compute;   /* the same of kernels, sets and copies within the device */
};

extern struct sim_config sim_config;
extern struct simcuda_stats sim_stats; /* guarded by the lock */

/* What a call needs before it may do anything. */
enum sim_need {
    SIM_NEED_NOTHING = 0,
    SIM_NEED_INIT = 1, /* cuInit was called in this process */
    /* a current context that is alive and has no sticky error; implies INIT */
    SIM_NEED_CONTEXT = 3,
    SIM_NEED_SAFE = 4, /* a call that stream capture calls potentially unsafe */
    SIM_IS_QUERY = 8   /* asks whether the device is done, or is what a thread does around asking */
};

struct sim_call {
    const char *name;
    struct CUctx_st *ctx; /* the current one, if SIM_NEED_CONTEXT */
    bool locked;
    char detail[200];          /* for the log, sim_note */
    uint64_t born, born_bytes; /* what it allocated, for sim_stacks.h */
};

/* What a thread has: its stack of contexts and its capture mode. */
struct sim_thread {
    struct CUctx_st *stack
            [8]; /* the first of its contexts: a thread's variables lie on its stack, which may be small */
    struct CUctx_st **more; /* the others, NULL as long as there were none */
    int depth;
    bool in_host_function;
    bool has_read_digest; /* sim_reads.h */
    CUstreamCaptureMode capture_mode;
    uint64_t calls;  /* that were no questions, nor what a thread does around asking */
    uint64_t number; /* of this thread, from 1 */
    /* simcuda_fail_next: what this thread asked for */
    char fail_call[64]; /* "": nothing */
    unsigned fail_left; /* calls that will still fail; 0: all until it is cleared */
    CUresult fail_code;
    unsigned fail_hits;
};

int sim_enter(struct sim_call *call, const char *name, unsigned needs);
CUresult sim_leave(struct sim_call *call, int result);

/* printf into the log line of this call; nothing if there is no log. */
void sim_note(struct sim_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* This call allocates `bytes` at `born` (or a physical handle of that value), if it succeeds. */
static inline void sim_gives(struct sim_call *call, uint64_t born, uint64_t bytes)
{
    call->born = born;
    call->born_bytes = bytes;
}

struct sim_thread *sim_self(void);

/* For code that is not inside a call (witness, destructor, helper threads). */
void sim_lock(void);
void sim_unlock(void);

/* Sleeps until something finished on the device (or about `ms` passed). Lets the lock go meanwhile. */
void sim_sleep(unsigned ms);
void sim_wake(void);
void sim_sleep_on(pthread_cond_t *condition);

/* The next number of the seeded sequence. */
uint64_t sim_random(void);

/* One line on stderr: "simcuda: ...". */
void sim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* calloc that ends the process when there is nothing left. */
void *sim_new(size_t size);
void *sim_grow(void *old, size_t size);

static inline uint64_t sim_round(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* ---- handles: which pointers are live objects of which kind ---- */

enum sim_kind {
    SIM_KIND_CONTEXT,
    SIM_KIND_STREAM,
    SIM_KIND_EVENT,
    SIM_KIND_MODULE,
    SIM_KIND_LIBRARY,
    SIM_KIND_FUNCTION,
    SIM_KIND_KERNEL,
    SIM_KIND_POOL,
    SIM_KIND_PHYSICAL,
    SIM_KIND_GRAPH,
    SIM_KIND_NODE,
    SIM_KIND_EXEC,
    SIM_KIND_ARRAY,
    SIM_KIND_MIPMAPPED,
    SIM_KIND_EXTERNAL,
    SIM_KIND_USER_OBJECT,
    SIM_KIND_COUNT
};

void sim_handle_add(const void *object, enum sim_kind kind);
void sim_handle_remove(const void *object);
bool sim_handle_is(const void *object, enum sim_kind kind);

#endif
