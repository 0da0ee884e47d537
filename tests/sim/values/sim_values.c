/* SPDX-License-Identifier: MIT */
#include "tests/sim/values/sim_values.h"

#include "tests/sim/kernel/sim_guess.h"
#include "tests/sim/memory/sim_contents.h"
#include "tests/sim/values/value_launch.h"

#include <stdlib.h>

struct sim_values {
    value_body *body;
    char *name;         /* demangled */
    struct text params; /* types */
};

static const struct {
    const char *name; /* a part of the kernel's; the first line counts that has it */
    value_body *body;
} bodies[] = {
#define BODY(name, body) {name, value_body_##body},
#include "tests/sim/values/values.def"
};

static value_body *body_of(struct text name)
{
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        if (find(name, bodies[i].name))
            return bodies[i].body;
    return NULL;
}

const struct sim_values *sim_values_find(const struct sim_kernel *kernel)
{
    struct sim_values *values;
    struct text params;
    char *name = kernel->has_layout && sim_config.values ? sim_guess_name(kernel->name) : NULL;
    value_body *body = name ? body_of((struct text){name, strlen(name)}) : NULL;

    if (!body || !parameter_list(name, &params)) {
        free(name);
        return NULL;
    }
    values = sim_new(sizeof(*values));
    *values = (struct sim_values){body, name, params};
    return values;
}

/* ---- results ---- */

static void write_one(const struct value_stored *s)
{
    void *at = (void *)(uintptr_t)s->addr;

    if (s->add) {
        struct value there = value_read(s->add, at), more = value_read(s->add, s->bytes);

        there.f += more.f;
        there.i = (int64_t)((uint64_t)there.i + (uint64_t)more.i);
        value_write(s->add, there, at);
    } else {
        memcpy(at, s->bytes, s->size);
    }
}

static int by_address(const void *a, const void *b)
{
    const struct value_stored *x = a, *y = b;

    return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void note_run(uint64_t addr, uint64_t end, bool is_digest)
{
    if (is_digest)
        sim_contents_write_digest(addr, end - addr);
    else
        sim_contents_write(addr, end - addr);
}

/* Elements that touch each other are one piece, in whatever order they were written. */
static void note_all(struct value_launch *l)
{
    bool is_digest = l->has_digest, is_sorted = true;
    uint64_t addr = 0, end = 0;

    for (size_t i = 1; i < l->stored_count && is_sorted; i++)
        is_sorted = l->stored[i].addr >= l->stored[i - 1].addr;
    if (!is_sorted)
        qsort(l->stored, l->stored_count, sizeof(*l->stored), by_address);
    for (size_t i = 0; i < l->stored_count; i++) {
        const struct value_stored *s = &l->stored[i];

        if (s->addr > end) {
            if (end > addr)
                note_run(addr, end, is_digest);
            addr = s->addr;
        }
        end = s->addr + s->size > end ? s->addr + s->size : end;
    }
    if (end > addr)
        note_run(addr, end, is_digest);
}

static void commit(struct value_launch *l)
{
    for (size_t i = 0; i < l->stored_count; i++)
        write_one(&l->stored[i]);
    note_all(l);
}

bool sim_values_end(struct value_launch *l)
{
    bool is_good = !l->has_failed;

    if (is_good)
        commit(l);
    free(l->stored);
    sim_stats.kernels_computed += is_good;
    return is_good;
}

bool sim_values_run(const struct sim_values *values, const struct sim_kernel *kernel, int device,
        struct sim_grid grid, const uint64_t *params)
{
    struct value_launch l = {.kernel = kernel,
            .name = {values->name, strlen(values->name)},
            .params = values->params,
            .bytes = (const char *)params,
            .grid = grid,
            .device = device,
            .left = sim_config.values};

    if (!values->body(&l))
        value_fail(&l);
    return sim_values_end(&l);
}
