/* SPDX-License-Identifier: MIT */
/*
 * codes.h - a program made from a seed: calls of the driver with good and bad arguments, and a line for each answer.
 *
 *     codes SEED... ─► a child each ─► op, op, op ...      one line per call: number, code, name, what it was about
 *                                       └─ CALL(cuX, args) ─► journal_before ─► the driver ─► journal_after
 *
 * The same seed gives the same calls whoever stands between program and driver, so the lines of a run under kedge can be
 * compared with those of a run without. Which objects there are (state.h's tables, below) is the only thing that the next
 * call depends on; so where the two runs may differ, the later one is brought back to the state of the first:
 *
 *   spared   The driver refused, and under kedge the call succeeded (an OOM avoided, a free that makes no driver call).
 *            journal_after returns the code of the reference and says so in the line with the rule that allows it; the
 *            caller undoes what was done (gives an allocation back at once) and goes on as if it had been refused.
 *
 * A spared call with no rule is a difference like any other. compare.py knows the rules and their codes.
 *
 * Threads: the ops run one at a time, in the main thread or in the helper, whose work is waited for.
 */
#ifndef KEDGE_TESTS_CODES_CODES_H
#define KEDGE_TESTS_CODES_CODES_H

#include "tests/sim/base/program_abi.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)

/* ---- the driver ---- */

struct codes_api {
#define CODES_API(symbol) __typeof__(&symbol) symbol;
#include "tests/codes/codes_api.def"
};

extern struct codes_api codes_api;

/* ---- chance ---- */

uint32_t chance(uint32_t below);
static inline bool one_in(uint32_t n)
{
    return chance(n) == 0;
}

/* ---- the journal ---- */

/* Why a call that the driver refuses may succeed under kedge, or the other way round (compare.py has the codes). */
enum rule {
    RULE_NONE,
    RULE_R2,  /* a free of a pooled block asks nobody, so a capture does not refuse it */
    RULE_R9,  /* cuMemFreeAsync takes a block of cuMemAlloc */
    RULE_R21, /* an address that was freed is inside a segment still */
    RULE_R23, /* an export that would show a neighbour */
    RULE_R38, /* a free in a host function succeeds */
    RULE_COUNT
};

/* Words about the next call, and the rule under which its code may differ. */
void journal_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void journal_allow(enum rule rule);

void journal_before(const char *name);
CUresult journal_after(CUresult got);

/* The last call succeeded where the reference was refused: undo it. */
bool journal_spared(void);

/* Whether an error of the last call may be there in one run only. */
bool journal_takes_error(void);

/* What the last call answered, when it answered something that does not depend on addresses or time. */
void journal_answer(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A code that was seen elsewhere (in a host function) as a call of its own. */
CUresult journal_late(const char *name, enum rule rule, CUresult got);

/* The next call of this name in this thread is the program's, not one of those that --internal counts. */
void codes_own(const char *name);

/* A call that is made to put things right after a spared one: not the program's, no line. */
#define QUIET(fn, ...) (codes_own(#fn), (void)codes_api.fn(__VA_ARGS__))
#define CALL(fn, ...)  (journal_before(#fn), journal_after(codes_api.fn(__VA_ARGS__)))

/* ---- what there is ---- */

enum {
    BLOCKS = 24,
    CONTEXTS = 4,
    STREAMS = 6,
    POOLS = 4,
    EVENTS = 4,
    GRAPHS = 4,
    HOSTS = 3,
};

enum block_kind {
    BLOCK_NONE,
    BLOCK_SYNC,
    BLOCK_PITCH,
    BLOCK_MANAGED,
    BLOCK_ASYNC,
    BLOCK_GRAPH, /* allocated while its stream was captured */
};

struct block {
    CUdeviceptr ptr;
    size_t size;
    enum block_kind kind;
    int context; /* that it dies with, -1 = none */
    int stream;  /* slot of the stream of its allocation */
    int device;  /* where its storage is */
    bool pinned; /* never freed: captured work may name it */
};

struct context {
    CUcontext handle;
    bool alive;
    bool primary;
    int device;
};

struct stream {
    CUstream handle;
    bool alive;
    bool capturing;
    bool blocking;
    int context;
    uint32_t began; /* step at which its capture began */
};

struct mempool {
    CUmemoryPool handle;
    bool alive;
};

struct event {
    CUevent handle;
    bool alive;
    int context;
};

struct graph {
    CUgraph graph;
    CUgraphExec exec;
};

struct codes_state {
    struct block blocks[BLOCKS];
    struct context contexts[CONTEXTS];
    struct stream streams[STREAMS];
    struct mempool pools[POOLS];
    struct event events[EVENTS];
    struct graph graphs[GRAPHS];
    void *hosts[HOSTS];
    CUmodule module;
    CUfunction fill, sum;
    int module_context;
    int devices;
    uint32_t step;
    bool one_context; /* of this profile: contexts and devices are left alone */
    bool lazy;        /* streams run late */
    bool leaky;       /* blocks may be lost in one run only: a free that failed natively */
};

extern struct codes_state state;

/* Slot of the calling thread's current context, -1 = none. */
extern __thread int codes_here;

/* Addresses that nobody has. */
CUdeviceptr unknown_address(void);

/* A stream to name: a slot's handle or a special one; *ret_slot -1 for the special ones. */
CUstream some_stream(int *ret_slot);

/* Any capture that this program began and has not ended. */
bool any_capture(void);

int free_block_slot(void);
int some_block(
        unsigned kinds); /* mask of 1 << enum block_kind; -1 = there is none; not a pinned one */
int pinned_block(void);
void block_gone(int slot);
void context_gone(int slot);

/* Runs `op` in the helper thread and waits for its end. */
void elsewhere(void (*op)(void));

/* ---- the ops ---- */

struct op {
    void (*run)(void);
    unsigned weight[4]; /* by enum profile */
};

enum profile {
    PROFILE_PLAIN,
    PROFILE_CAPTURE,
    PROFILE_TIGHT,  /* little memory */
    PROFILE_STICKY, /* the device fails on the way */
    PROFILE_COUNT
};

extern const struct op memory_ops[], async_ops[], stream_ops[], context_ops[];
extern const unsigned memory_ops_count, async_ops_count, stream_ops_count, context_ops_count;

/* A kernel that writes where nothing is: the context has failed from here on. */
void break_device(void);

/* What every program begins and ends with. */
void codes_begin(void);
void codes_end(void);

/* The same through the runtime: cuda* calls and the last error of each thread (codes_runtime.c). */
void runtime_program(uint32_t steps);

#endif
