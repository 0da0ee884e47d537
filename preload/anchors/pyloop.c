/* SPDX-License-Identifier: MIT */
#include "preload/anchors/pyloop.h"

#include "preload/anchors/source.h"
#include "preload/base/threadmem.h"

#include <stddef.h>
#include <string.h>

/*
 * DEPTH: a phase, an optimizer in it, a phase in that. OTHERS: optimizers that step beside the one
 * that ends steps; further ones are not counted. PHASES: phases open at one time in all threads;
 * with more of them, helpers are not recognised.
 */
enum {
    DEPTH = 3,
    OTHERS = 8,
    PHASES = 64,
};

/* What a call has opened. */
enum {
    NOTHING,
    PHASE,
    EVAL,   /* a phase in an `eval` of its own */
    HELPER, /* nothing, because this thread may be helping another one */
};

/* Stands for all optimizers that step inside one phase. */
#define INSIDE ((uintptr_t)1)

/* Per thread; made at its first call. */
static __thread struct loop {
    bool is_ours; /* the thread has steps and phases of its own */
    bool in_step;
    unsigned depth;
    enum pyloop_kind kinds[DEPTH];
    uint32_t steps; /* steps of optimizers that began */
    uintptr_t last; /* the optimizer that ended the last step */
    uintptr_t others[OTHERS];
    unsigned other_count;
    void *inner; /* used by pyhost.c */
} * loop __attribute__((tls_model("initial-exec")));

/* The open outermost phases, in the order of their beginnings. */
static struct phase {
    uint64_t serial;
    const void *thread;
    enum pyloop_kind kind;
    uintptr_t due; /* the optimizer whose step ends with this phase; 0: none */
} phases[PHASES];
static unsigned phase_count;
static uint64_t last_serial;
static unsigned loops; /* threads that have had steps or phases of their own */
static bool steps_known;

static const char *const pyloop_names[] = {
        [PYLOOP_FORWARD] = "forward",
        [PYLOOP_BACKWARD] = "backward",
        [PYLOOP_DATA] = "data",
        [PYLOOP_OPTIMIZER] = "optimizer",
        [PYLOOP_SCALER] = "", /* opens none */
};

/* ---- steps ---------------------------------------------------------------------------------- */

static void pyloop_begin_step(void)
{
    if (loop->in_step)
        return;
    loop->in_step = true;
    steps_known = true;
    source_enter_step("step");
}

static bool pyloop_is_other(uintptr_t who)
{
    for (unsigned i = 0; i < loop->other_count; i++)
        if (loop->others[i] == who)
            return true;
    return false;
}

static void pyloop_end_step(uintptr_t who)
{
    if (!loop->in_step)
        return;
    if (loop->last && loop->last != who && !pyloop_is_other(who)) {
        if (loop->other_count < OTHERS)
            loop->others[loop->other_count++] = who;
        return;
    }
    source_leave_python("step");
    source_enter_step("step");
    loop->last = who;
    loop->other_count = 0;
}

/* ---- phases --------------------------------------------------------------------------------- */

static uint64_t pyloop_add_phase(enum pyloop_kind kind)
{
    if (phase_count == PHASES)
        return 0;
    phases[phase_count++] = (struct phase){.serial = ++last_serial, .thread = loop, .kind = kind};
    return last_serial;
}

/* Returns the optimizer whose step ends with the phase. */
static uintptr_t pyloop_drop_phase(uint64_t serial)
{
    for (unsigned i = phase_count; i-- > 0;) {
        uintptr_t due = phases[i].due;

        if (phases[i].serial != serial)
            continue;
        phase_count--;
        memmove(&phases[i], &phases[i + 1], (phase_count - i) * sizeof *phases);
        return due;
    }
    return 0;
}

static struct phase *pyloop_phase_of(const void *thread)
{
    for (unsigned i = phase_count; i-- > 0;)
        if (phases[i].thread == thread)
            return &phases[i];
    return NULL;
}

/* An optimizer has stepped: the step ends, together with the phase around it if there is one. */
static void pyloop_stepped(uintptr_t who)
{
    struct phase *around = loop->depth ? pyloop_phase_of(loop) : NULL;

    if (around)
        around->due = INSIDE;
    else if (loop->depth == 0)
        pyloop_end_step(who);
}

/*
 * Another thread's phase in which this thread's optimizer may step; NULL: this thread trains by
 * itself.
 */
static struct phase *pyloop_backward_elsewhere(void)
{
    for (unsigned i = phase_count; i-- > 0;)
        if (phases[i].kind == PYLOOP_BACKWARD)
            return &phases[i];
    return NULL;
}

/* Whether a thread without phases has phases of its own from here on. */
static bool pyloop_becomes_ours(enum pyloop_kind kind)
{
    struct phase *elsewhere;

    if (kind == PYLOOP_OPTIMIZER) {
        elsewhere = pyloop_backward_elsewhere();
        if (elsewhere) {
            elsewhere->due = INSIDE;
            return false;
        }
    } else if (phase_count > 0 || (loops > 0 && kind == PYLOOP_DATA)) {
        return false;
    }
    loop->is_ours = true;
    loops++;
    return true;
}

bool pyloop_may_open(enum pyloop_kind kind)
{
    if (!loop || loop->depth == 0)
        return true;
    if (kind == PYLOOP_SCALER || loop->depth == DEPTH)
        return kind == PYLOOP_SCALER;
    if (loop->kinds[loop->depth - 1] == PYLOOP_OPTIMIZER)
        return kind != PYLOOP_OPTIMIZER;
    return kind == PYLOOP_OPTIMIZER && loop->depth == 1;
}

bool pyloop_in_forward(void)
{
    return loop && loop->depth > 0 && loop->kinds[loop->depth - 1] == PYLOOP_FORWARD;
}

void *pyloop_inner(void)
{
    return loop ? loop->inner : NULL;
}

void pyloop_set_inner(void *inner)
{
    if (loop)
        loop->inner = inner;
}

static void pyloop_open(struct pyloop_call *call, bool trains)
{
    bool evaluates = !trains && (call->kind == PYLOOP_FORWARD || call->kind == PYLOOP_DATA);

    call->state = evaluates ? EVAL : PHASE;
    if (call->kind == PYLOOP_OPTIMIZER) {
        loop->steps++;
        if (loop->depth == 0)
            pyloop_begin_step();
    } else if (call->kind == PYLOOP_FORWARD && trains && (loops == 1 || !steps_known)) {
        pyloop_begin_step();
    }
    if (loop->depth == 0)
        call->serial = pyloop_add_phase(call->kind);
    loop->kinds[loop->depth++] = call->kind;
    if (evaluates)
        source_enter_step("eval");
    source_enter_python(pyloop_names[call->kind]);
}

void pyloop_enter(struct pyloop_call *call, enum pyloop_kind kind, bool trains, uintptr_t who)
{
    *call = (struct pyloop_call){.kind = kind, .who = who};
    if (!loop && !threadmem_make(&loop, sizeof *loop))
        return;
    call->steps = loop->steps;
    if (kind == PYLOOP_SCALER || !pyloop_may_open(kind))
        return;
    if (loop->is_ours || pyloop_becomes_ours(kind)) {
        pyloop_open(call, trains);
    } else if (kind != PYLOOP_DATA) {
        call->state = HELPER;
        call->serial = last_serial;
    }
}

/* A helper's call ends before the phase that it helps with. */
static void pyloop_leave_helper(const struct pyloop_call *call)
{
    for (unsigned i = 0; i < phase_count; i++)
        if (phases[i].serial <= call->serial)
            return;
    if (!loop->is_ours)
        loops++;
    loop->is_ours = true;
}

void pyloop_leave(struct pyloop_call *call, bool is_failed)
{
    uintptr_t due;

    if (!loop)
        return;
    if (call->state == HELPER)
        pyloop_leave_helper(call);
    if (call->kind == PYLOOP_SCALER && !is_failed && loop->is_ours && loop->steps == call->steps)
        pyloop_stepped(call->who);
    if (call->state != PHASE && call->state != EVAL)
        return;
    loop->depth--;
    source_leave_python(pyloop_names[call->kind]);
    if (call->state == EVAL)
        source_leave_python("eval");
    due = pyloop_drop_phase(call->serial);
    if (call->kind == PYLOOP_OPTIMIZER && !is_failed)
        pyloop_stepped(call->who);
    else if (due && !is_failed)
        pyloop_end_step(due);
}

void pyloop_fork_child(void)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < phase_count; i++)
        if (phases[i].thread == loop)
            phases[kept++] = phases[i];
    phase_count = kept;
}
