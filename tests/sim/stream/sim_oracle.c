/* SPDX-License-Identifier: MIT */
#include "tests/sim/stream/sim_oracle.h"

#include "tests/sim/base/sim_park.h"
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/driver/sim_stacks.h"
#include "tests/sim/memory/sim_contents.h"
#include "tests/sim/memory/sim_vmm.h"
#include "tests/sim/stream/sim_stream.h"

#include <execinfo.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TENANT_UNIT \
    256 /* tenants begin on multiples of it, as everything that a driver allocates */

/* Who has, or had last, the bytes [addr, addr + size). */
struct tenant {
    uint64_t addr, size;
    uint64_t generation;
    uint64_t left; /* the generation of the death; 0: it lives */
    bool alive;
    uintptr_t stream; /* as the witness named it: of the birth, then of the death */
    uint64_t number;  /* of that stream, whose handle may come again */
    void *frames[SIM_OP_FRAMES];
    int frames_count;
};

static void *tenants; /* tsearch; never overlap */
static uint64_t generation;

static int order(const void *a, const void *b)
{
    const struct tenant *x = a, *y = b;

    if (x->addr + x->size <= y->addr)
        return -1;
    return x->addr >= y->addr + y->size;
}

static struct tenant *find_tenant(uint64_t addr, uint64_t size)
{
    const struct tenant key = {.addr = addr, .size = size};
    struct tenant *const *found = tfind(&key, &tenants, order);

    return found ? *found : NULL;
}

static struct tenant *add_tenant(struct tenant tenant)
{
    struct tenant *added = sim_new(sizeof(*added));

    *added = tenant;
    (void)tsearch(added, &tenants, order);
    return added;
}

uint64_t sim_oracle_generation(void)
{
    return generation;
}

void sim_oracle_submit(struct sim_op *op)
{
    op->generation = generation;
    op->frames_count = 0;
    if (sim_config.oracle && generation && op->ranges_count)
        op->frames_count = backtrace(op->frames, SIM_OP_FRAMES);
}

/* ---- the verdict ---- */

static void print_stack(const char *title, void *const *frames, int count)
{
    sim_say("%s", title);
    if (count)
        backtrace_symbols_fd(frames, count, STDERR_FILENO);
    else
        sim_say("  (not taken)");
}

static _Noreturn void verdict(const char *what, const struct sim_op *op, const struct tenant *was,
        const struct tenant *born)
{
    char stream[32] = "no stream";

    if (born->stream != (uintptr_t)SIMCUDA_NO_STREAM)
        (void)snprintf(stream, sizeof(stream), "stream 0x%llx", (unsigned long long)born->stream);
    sim_say("ORACLE: %s", what);
    sim_say("ORACLE: %s, operation %llu on queue %u (number %llu, %llu done), meant for "
            "generation %llu of 0x%llx + %llu, whose %s",
            op->name, (unsigned long long)op->order, op->queue ? op->queue->slot : 0,
            (unsigned long long)op->number, (unsigned long long)(op->queue ? op->queue->done : 0),
            (unsigned long long)was->generation, (unsigned long long)was->addr,
            (unsigned long long)was->size,
            was->alive ? "tenant never gave it back" : "tenant left");
    sim_say("ORACLE: born again as generation %llu: 0x%llx + %llu for %s",
            (unsigned long long)born->generation, (unsigned long long)born->addr,
            (unsigned long long)born->size, stream);
    print_stack("the operation was submitted at:", op->frames, op->frames_count);
    print_stack("the new tenant was born at:", born->frames, born->frames_count);
    if (was->frames_count)
        print_stack("the former tenant was born at:", was->frames, was->frames_count);
    _exit(SIMCUDA_ORACLE_STATUS);
}

/* One old tenant against one new one. */
struct trial {
    const struct tenant *was;
    const struct tenant *born;
    const struct sim_queue *queue; /* of the birth; NULL: no stream */
    struct sim_clock known;
    uint64_t addr, size; /* the bytes that both have */
};

static void try_operation(struct sim_op *op, void *data)
{
    const struct trial *trial = data;

    for (unsigned i = 0; i < op->ranges_count; i++) {
        if (!sim_range_touches(&op->ranges[i], trial->addr, trial->size))
            continue;
        if (trial->queue && sim_clock_at(&trial->known, op->queue) >= op->number)
            continue;
        if (op->ranges[i].certainty == SIM_WORD && trial->was->left
                && trial->was->left <= op->generation)
            continue; /* a word that was stale already when the kernel was launched */
        verdict("a block was handed out while an operation of its former tenant is not done and "
                "not ordered before the new one",
                op, trial->was, trial->born);
    }
}

void sim_oracle_replay(const struct sim_op *op)
{
    if (!sim_config.oracle)
        return;
    for (unsigned i = 0; i < op->ranges_count; i++) {
        const struct sim_range *range = &op->ranges[i];
        const struct tenant *now = find_tenant(range->addr, range->size);
        if (range->certainty == SIM_WORD)
            continue;
        if (!now || now->generation <= op->generation)
            continue;
        /* Memory that had no tenant at all when it was captured is the graph's own. */
        if (sim_ledger_find(range->addr) && sim_ledger_find(range->addr)->kind == SIM_BLOCK_GRAPH)
            continue;
        verdict("a graph was launched whose addresses belong to another tenant by now", op, now,
                now);
    }
}

/* ---- the witness ---- */

/* Cuts the bytes of the newborn out of `old`; what is left keeps its history. */
static void cut(struct tenant *old, uint64_t addr, uint64_t size)
{
    struct tenant rest = *old;
    uint64_t end = old->addr + old->size;

    (void)tdelete(old, &tenants, order);
    if (rest.addr < addr) {
        struct tenant front = rest;
        front.size = addr - rest.addr;
        (void)add_tenant(front);
    }
    if (end > addr + size) {
        struct tenant back = rest;
        back.addr = addr + size;
        back.size = end - back.addr;
        (void)add_tenant(back);
    }
    free(old);
}

/* Two tenants that live at once have the same storage. */
static _Noreturn void verdict_shared(const struct tenant *one, const struct tenant *born)
{
    sim_say("ORACLE: a block was handed out whose storage is a living tenant's at another address");
    sim_say("ORACLE: generation %llu: 0x%llx + %llu; born as generation %llu: 0x%llx + %llu",
            (unsigned long long)one->generation, (unsigned long long)one->addr,
            (unsigned long long)one->size, (unsigned long long)born->generation,
            (unsigned long long)born->addr, (unsigned long long)born->size);
    print_stack("the new tenant was born at:", born->frames, born->frames_count);
    print_stack("the other tenant was born at:", one->frames, one->frames_count);
    _exit(SIMCUDA_ORACLE_STATUS);
}

/* The same storage at another address: who has it there, or had it last. Returns whether somebody has. */
static bool judge_at(struct trial *trial, uint64_t addr, uint64_t size, bool judged)
{
    bool any = false;

    for (uint64_t at = addr; at < addr + size;) {
        const struct tenant *was = find_tenant(at, 1);

        if (!was) {
            at = (at | (TENANT_UNIT - 1)) + 1;
            continue;
        }
        any = true;
        if (judged && was->alive)
            verdict_shared(was, trial->born);
        trial->was = was;
        trial->addr = at;
        trial->size =
                (was->addr + was->size < addr + size ? was->addr + was->size : addr + size) - at;
        if (judged)
            sim_queue_each_at(trial->addr, trial->size, try_operation, trial);
        at += trial->size;
    }
    return any;
}

/* Storage of the newborn that is mapped elsewhere too. */
static void judge_aliases(struct trial *trial, const struct tenant *born, bool judged)
{
    uint64_t end = born->addr + born->size;
    bool any = false;

    for (uint64_t at = born->addr; at < end;) {
        const struct sim_block *block = sim_ledger_find(at);
        uint64_t next = block ? block->addr + block->size : (at | (SIM_GRANULE - 1)) + 1;

        next = next < end ? next : end;
        if (block && block->kind == SIM_BLOCK_MAPPED && !block->multicast) {
            for (const struct sim_block *other = block->physical->first_mapping; other;
                    other = other->next_mapping) {
                if (other != block && !other->multicast)
                    any |= judge_at(trial, other->addr + (at - block->addr), next - at, judged);
            }
        }
        at = next;
    }
    sim_stats.alias_reuses += any;
}

/* The stream that the witness means, or NULL. */
static struct CUstream_st *stream_of(CUstream handle)
{
    struct CUctx_st *ctx;
    struct CUstream_st *stream;

    if (handle == SIMCUDA_NO_STREAM || sim_context_current(&ctx)
            || sim_stream_get(ctx, handle, false, &stream))
        return NULL;
    return stream;
}

static uint64_t number_of(CUstream handle)
{
    const struct CUstream_st *stream = stream_of(handle);

    return stream ? stream->id : (uintptr_t)handle;
}

/* The former tenants of one birth's bytes. */
struct former {
    bool any, several; /* of several streams */
    uint64_t number;
};

static void count_reuse(const struct tenant *was, const struct tenant *born, struct former *former)
{
    if (!former->any) {
        former->any = true;
        former->number = was->number;
        sim_stats.reuses++;
        if (was->number != born->number)
            sim_stats.cross_stream_reuses++;
    } else if (was->number != former->number && !former->several) {
        former->several = true;
        sim_stats.merged_reuses++;
    }
}

struct forgetting {
    uint64_t addr, size;
};

static CUresult run_forget(struct sim_op *op)
{
    const struct forgetting *forgetting = (const struct forgetting *)op->payload;

    sim_contents_forget(forgetting->addr, forgetting->size);
    return CUDA_SUCCESS;
}

/* What former tenants wrote is forgotten when the stream comes to the birth: what is queued before may still read it. */
static void forget_former(struct CUstream_st *on, uint64_t addr, uint64_t size)
{
    struct sim_op *op;

    if (!on || on->capture || sim_queue_is_done(on->queue, on->queue->submitted)) {
        sim_contents_forget(addr, size);
        return;
    }
    op = sim_op_new("birth", sizeof(struct forgetting));
    *(struct forgetting *)op->payload = (struct forgetting){addr, size};
    op->run = run_forget;
    (void)sim_stream_submit(on, op);
}

void simcuda_witness_birth(CUdeviceptr ptr, size_t bytes, CUstream stream)
{
    struct trial trial = {0};
    struct tenant born = {.addr = ptr, .size = bytes, .alive = true, .stream = (uintptr_t)stream};
    struct CUstream_st *on;
    struct former former = {0};

    if (!ptr || !bytes)
        return;
    sim_lock();
    sim_stats.births++;
    born.generation = ++generation;
    if (sim_config.oracle)
        born.frames_count = backtrace(born.frames, SIM_OP_FRAMES);
    trial.born = &born;
    born.number = number_of(stream);
    on = stream_of(stream);
    trial.queue = on ? on->queue : NULL;
    if (trial.queue)
        sim_queue_next_clock(trial.queue, &trial.known);
    /* What is born in a capture lives when the graph is launched, and is judged then. */
    bool judged = sim_config.oracle && !(on && on->capture);
    for (struct tenant *old; (old = find_tenant(ptr, bytes)) != NULL;) {
        struct tenant was = *old;
        trial.was = &was;
        trial.addr = was.addr > ptr ? was.addr : ptr;
        uint64_t end = was.addr + was.size < ptr + bytes ? was.addr + was.size : ptr + bytes;
        trial.size = end - trial.addr;
        count_reuse(&was, &born, &former);
        if (judged)
            sim_queue_each_at(trial.addr, trial.size, try_operation, &trial);
        cut(old, ptr, bytes);
    }
    judge_aliases(&trial, &born, judged);
    (void)add_tenant(born);
    forget_former(on, ptr, bytes);
    sim_clock_clear(&trial.known);
    sim_unlock();
    sim_stacks_born("program", ptr, bytes);
}

/* The free of a block on a stream, for the guesses about what touches it. */
struct leaving {
    const struct tenant *tenant;
    struct sim_clock known; /* what is ordered before the free */
};

static void forget_guess(struct sim_op *op, void *data)
{
    const struct leaving *leaving = data;

    if (sim_clock_at(&leaving->known, op->queue) >= op->number)
        return;
    for (unsigned i = op->ranges_count; i-- > 0;)
        if (op->ranges[i].certainty != SIM_SURE
                && sim_range_touches(&op->ranges[i], leaving->tenant->addr, leaving->tenant->size))
            op->ranges[i] = op->ranges[--op->ranges_count];
}

/* A kernel that nobody knows and that is not ordered before the free does not touch the block: see sim_other.c. */
static void forget_guesses(const struct tenant *tenant, CUstream stream)
{
    const struct CUstream_st *on = stream_of(stream);
    struct leaving leaving = {.tenant = tenant};

    if (!on)
        return; /* a free without a stream is ordered behind everything */
    sim_queue_next_clock(on->queue, &leaving.known);
    sim_queue_each_at(tenant->addr, tenant->size, forget_guess, &leaving);
    sim_clock_clear(&leaving.known);
}

void simcuda_witness_death(CUdeviceptr ptr, CUstream stream)
{
    sim_lock();
    struct tenant *tenant = ptr ? find_tenant(ptr, 1) : NULL;
    if (tenant && tenant->addr == ptr && tenant->alive) {
        tenant->alive = false;
        tenant->left = ++generation;
        tenant->stream = (uintptr_t)stream;
        tenant->number = number_of(stream);
        forget_guesses(tenant, stream);
        sim_stats.deaths++;
    }
    sim_unlock();
}

void simcuda_witness_step(void)
{
    sim_lock();
    sim_queue_step();
    if (!sim_self()->in_host_function)
        sim_queue_exit();
    sim_unlock();
    sim_park_leave("step");
}
