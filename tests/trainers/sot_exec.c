/* SPDX-License-Identifier: MIT */
#include "tests/trainers/sot_exec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct exec {
    const struct sot_graph *graph;
    const struct sot_form *form;
    const struct sot_backend *b;
    struct sot_tensor **tensors; /* [sub-graph][variable]; storage gone: bytes 0 */
};

const struct sot_form *sot_form_named(const char *name)
{
    static const struct sot_form forms[] = {
            {"pt", true, true, true, false},
            {"pir", false, false, false, true},
            {"pir-inputs-fixed", true, false, false, true},
            {"pt-output-cleanup-off", true, false, true, false},
            {"pir-unused-fixed", true, true, false, true},
            {"pir-buffers-fixed", true, true, true, true},
    };

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if (strcmp(forms[i].name, name) == 0)
            return &forms[i];
    }
    return NULL;
}

static void exec_release(struct exec *e, struct sot_tensor *t)
{
    e->b->release(e->b->self, t);
    t->bytes = 0;
}

/* A workspace for one op, as the newer executor takes it: written, read, given back. */
static void run_scratch(struct exec *e, uint64_t bytes, uint32_t seed)
{
    struct sot_tensor t = {.bytes = bytes};

    e->b->alloc_scratch(e->b->self, &t);
    e->b->fill(e->b->self, &t, seed);
    e->b->sum(e->b->self, SOT_SLOT_SCRATCH(e->graph), &t, bytes);
    exec_release(e, &t);
}

/* Reads all of an equal tensor, and of another the beginning, which is in the sample of both. */
static void run_mix(struct exec *e, struct sot_tensor *dst, struct sot_tensor *src)
{
    uint64_t bytes = dst->bytes;

    if (src->bytes != dst->bytes) {
        bytes = src->bytes < bytes ? src->bytes : bytes;
        bytes = bytes < 4096 ? bytes : 4096;
    }
    e->b->mix(e->b->self, dst, src, bytes);
}

static void run_op(struct exec *e, int index, int op)
{
    const struct sot_subgraph *s = &e->graph->subgraphs[index];
    struct sot_tensor *tensors = e->tensors[index];
    struct sot_tensor *out = &tensors[op];

    if (e->form->scratch && s->ops[op].scratch_bytes > 0)
        run_scratch(e, s->ops[op].scratch_bytes, s->ops[op].seed);
    out->var = &s->vars[op];
    out->bytes = out->var->bytes;
    if (out->var->role == SOT_ROLE_INPUT) {
        e->b->contiguous_copy(e->b->self, out);
        return;
    }
    (out->var->role == SOT_ROLE_TEMP ? e->b->alloc_temp : e->b->alloc_output)(e->b->self, out);
    e->b->fill(e->b->self, out, s->ops[op].seed);
    for (int i = 0; i < 2; i++) {
        if (s->ops[op].in[i] >= 0)
            run_mix(e, out, &tensors[s->ops[op].in[i]]);
    }
}

static bool is_input(const struct sot_var *var)
{
    return var->role == SOT_ROLE_INPUT || var->role == SOT_ROLE_EAGER;
}

/* The first op that computes something also reads the result of an earlier sub-graph. */
static void run_carry(struct exec *e, int index, int op)
{
    const struct sot_subgraph *s = &e->graph->subgraphs[index];
    int from = s->carry_from;

    if (from >= 0 && !is_input(&s->vars[op]) && (op == 0 || is_input(&s->vars[op - 1])))
        run_mix(e, &e->tensors[index][op], &e->tensors[from][e->graph->subgraphs[from].result]);
}

/* After an op: what it named last is read for the result; temps die. */
static void collect(struct exec *e, int index, int op)
{
    const struct sot_subgraph *s = &e->graph->subgraphs[index];

    for (int v = 0; v <= op; v++) {
        struct sot_tensor *t = &e->tensors[index][v];

        if (s->vars[v].last_op != op || s->vars[v].needed)
            continue;
        e->b->sum(e->b->self, index, t, t->bytes);
        if (s->vars[v].role == SOT_ROLE_TEMP)
            exec_release(e, t);
    }
}

/* At the end of a sub-graph: inputs and outputs that the backward does not need. */
static void drop_unused(struct exec *e, int index)
{
    const struct sot_subgraph *s = &e->graph->subgraphs[index];
    const bool drop[] = {
            [SOT_ROLE_INPUT] = e->form->drop_inputs,
            [SOT_ROLE_EAGER] = e->form->drop_buffers,
            [SOT_ROLE_OUTPUT] = e->form->drop_outputs,
            [SOT_ROLE_TEMP] = false,
    };

    for (int v = 0; v < s->count; v++) {
        if (drop[s->vars[v].role] && !s->vars[v].needed)
            exec_release(e, &e->tensors[index][v]);
    }
}

static void run_subgraph(struct exec *e, int index)
{
    e->b->enter(e->b->self, index);
    for (int op = 0; op < e->graph->subgraphs[index].count; op++) {
        run_op(e, index, op);
        run_carry(e, index, op);
        collect(e, index, op);
    }
    drop_unused(e, index);
    e->b->leave(e->b->self, index);
}

/* A use that no op of the model has: the first unused input or output that still has storage. */
static void run_touch(struct exec *e, int index)
{
    for (int v = 0; v < e->graph->subgraphs[index].count; v++) {
        struct sot_tensor *t = &e->tensors[index][v];

        if (t->bytes > 0 && !t->var->needed) {
            e->b->touch(e->b->self, SOT_SLOT_TOUCH(e->graph), t);
            return;
        }
    }
}

/* The gradient of an eager input of which the backward wants the shape, which is there when the buffer is not. */
static void run_gradient(struct exec *e, const struct sot_op *op, struct sot_tensor *t)
{
    struct sot_tensor grad = {.bytes = t->var->bytes};

    e->b->alloc_temp(e->b->self, &grad);
    e->b->fill(e->b->self, &grad, op->seed + 1);
    if (e->b->takes != SOT_TAKES_SHAPE)
        e->b->mix(e->b->self, &grad, t, e->b->takes == SOT_TAKES_BUFFER ? grad.bytes : 0);
    e->b->sum(e->b->self, SOT_SLOT_BACKWARD(e->graph), &grad, grad.bytes);
    exec_release(e, &grad);
}

static void run_backward(struct exec *e)
{
    e->b->enter(e->b->self, -1);
    for (int index = e->graph->count - 1; index >= 0; index--) {
        for (int v = e->graph->subgraphs[index].count - 1; v >= 0; v--) {
            const struct sot_var *var = &e->graph->subgraphs[index].vars[v];
            struct sot_tensor *t = &e->tensors[index][v];

            if (var->role == SOT_ROLE_EAGER && !var->needed)
                run_gradient(e, &e->graph->subgraphs[index].ops[v], t);
            if (t->bytes == 0)
                continue;
            if (var->needed)
                e->b->sum(e->b->self, SOT_SLOT_BACKWARD(e->graph), t, t->bytes);
            exec_release(e, t);
        }
    }
    e->b->leave(e->b->self, -1);
}

static void tensors_free(struct exec *e)
{
    for (int i = 0; e->tensors && i < e->graph->count; i++)
        free(e->tensors[i]);
    free(e->tensors);
}

static int tensors_alloc(struct exec *e)
{
    e->tensors = calloc((size_t)e->graph->count, sizeof(*e->tensors));
    if (!e->tensors)
        return -ENOMEM;
    for (int i = 0; i < e->graph->count; i++) {
        e->tensors[i] = calloc((size_t)e->graph->subgraphs[i].count, sizeof(**e->tensors));
        if (!e->tensors[i])
            return -ENOMEM;
    }
    return 0;
}

int sot_exec_run(
        const struct sot_graph *graph, const struct sot_form *form, const struct sot_backend *b)
{
    struct exec e = {.graph = graph, .form = form, .b = b};
    int r = tensors_alloc(&e);

    if (r == 0) {
        for (int i = 0; i < graph->count; i++) {
            run_subgraph(&e, i);
            if (b->touch && i == 0)
                run_touch(&e, i);
        }
        run_backward(&e);
    }
    tensors_free(&e);
    return r;
}
