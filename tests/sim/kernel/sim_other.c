/* SPDX-License-Identifier: MIT */
/*
 * Kernels that are not in kernels.def: what they touch is declared from a guess (sim_guess.h), what they write is
 * computed (tests/sim/values) or is a digest.
 *
 * A guess must not accuse a program that is right, and so:
 *
 *   - an address counts if it is one of a block that stands when the kernel is launched. A pointer parameter (not a
 *     word of a larger one) that is a device address of nothing is an access all the same, and faults, unless it is one
 *     past the end of a block;
 *   - a word of a larger parameter that stands for nothing any more when the kernel runs is skipped: a structure that
 *     is passed by value carries what the caller's stack held before in the parts that are not used;
 *   - the oracle forgets a guess when the block is freed on a stream which the kernel is not ordered before
 *     (sim_oracle.c): a program that is right orders its kernels before the free. What is left is judged as every
 *     other access;
 *   - a word that names a tenant that had left when the kernel was launched is no case for the oracle;
 *   - nor is a graph that is launched again and whose words belong to another tenant by now.
 */
#include "tests/sim/kernel/sim_guess.h"

#include "tests/sim/kernel/sim_standing.h"
#include "tests/sim/memory/sim_contents.h"
#include "tests/sim/memory/sim_va.h"
#include "tests/sim/values/sim_values.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#define LINE ((uint64_t)256) /* frameworks hand out memory in multiples of it */
#define DIMS 25              /* of PyTorch's descriptions of tensors */

struct other {
    struct sim_kernel kernel;
    bool is_guessed;
    struct sim_guess guess;
    bool is_sought; /* `values` */
    const struct sim_values *values;
};

static void *others; /* tsearch: by name and layout */

static int order(const void *a, const void *b)
{
    const struct sim_kernel *x = a, *y = b;
    int r = strcmp(x->name, y->name);

    if (r == 0)
        r = (int)x->has_layout - (int)y->has_layout;
    if (r == 0)
        r = (int)x->params_count - (int)y->params_count;
    for (unsigned i = 0; r == 0 && i < x->params_count; i++) {
        r = (int)x->params[i].offset - (int)y->params[i].offset;
        if (r == 0)
            r = (int)x->params[i].size - (int)y->params[i].size;
    }
    return r;
}

static const struct sim_guess *guess_of(const struct sim_kernel *kernel)
{
    struct other *other = (struct other *)(uintptr_t)kernel; /* every one of this file is */

    if (!other->is_guessed)
        sim_guess_make(kernel, &other->guess);
    other->is_guessed = true;
    return &other->guess;
}

/* ---- addresses ---- */

static uint64_t load(const uint64_t *params, uint32_t offset)
{
    uint64_t word;

    memcpy(&word, (const char *)params + offset, sizeof(word));
    return word;
}

/* An unsigned number of `size` bytes, 1 to 8, of this little-endian host. */
static uint64_t number(const uint64_t *params, uint32_t offset, uint32_t size)
{
    uint64_t value = 0;

    memcpy(&value, (const char *)params + offset, size);
    return value;
}

/*
 * Where the plan of a reduction begins: it has as its 12th to 14th int the width and height of a block, and their
 * product.
 */
static uint32_t plan_at(uint32_t offset, const uint64_t *params)
{
    uint64_t block[3];

    for (uint32_t i = 0; i < 3; i++)
        block[i] = number(params, offset + (11 + i) * 4, 4);
    return block[2] != 0 && block[0] * block[1] == block[2] ? offset : offset + 4;
}

/* UINT64_MAX: more than there can be. */
static uint64_t times(uint64_t count, uint64_t n)
{
    return count <= INT32_MAX && n <= INT32_MAX ? count * n : UINT64_MAX;
}

static uint64_t elements(
        const struct sim_guess_count *c, struct sim_grid grid, const uint64_t *params)
{
    uint64_t count = (uint64_t)(c->by_x ? grid.x : 1) * (c->by_y ? grid.y : 1);
    uint32_t dims = c->dims ? (uint32_t)number(params, c->dims, 4) : 0;

    if (c->is_plan)
        return number(params, plan_at(c->factor[0].offset, params) + 8, 4);
    for (uint32_t i = 0; i < dims && i < DIMS; i++)
        count = times(count,
                number(params, c->factor[0].offset + i * c->factor[0].size, c->factor[0].size));
    for (unsigned i = c->dims ? 1 : 0; i < c->factors; i++)
        count = times(count, number(params, c->factor[i].offset, c->factor[i].size));
    return count;
}

/* Bytes that are written: the elements that are counted, or up to the next line, which no allocator splits. */
static uint64_t written_bytes(
        const struct sim_guess_word *w, uint64_t addr, struct sim_grid grid, const uint64_t *params)
{
    uint64_t count;

    if (!w->count.is_known)
        return sim_standing_room(addr, LINE - addr % LINE);
    count = elements(&w->count, grid, params);
    return count <= INT32_MAX ? sim_standing_room(addr, count * w->size) : 0;
}

/*
 * Where a result begins. Where strides are below zero the kernel has the address of its last element: a calculator has the
 * number of dimensions, for 25 of them a divisor, which is the size, and two numbers, and for 25 the strides of each
 * tensor.
 */
static uint64_t address_of(const struct sim_guess_word *w, const uint64_t *params)
{
    uint64_t addr = load(params, w->offset);
    uint32_t dims = w->tensors ? (uint32_t)number(params, w->calculator, 4) : 0;

    for (uint32_t i = 0; i < dims && i < DIMS; i++) {
        int64_t size = (int64_t)number(params, w->calculator + 4 + i * 12, 4);
        int32_t stride = (int32_t)number(params, w->calculator + 304 + i * 4 * w->tensors, 4);

        if (stride < 0)
            addr += (uint64_t)((size - 1) * stride);
    }
    return addr;
}

/* How many places of its lists a launch uses. */
static uint64_t places_used(const struct sim_guess *g, struct sim_grid grid, const uint64_t *params)
{
    uint64_t used = 0;

    if (g->list != SIM_LIST_TABLE)
        return g->list == SIM_LIST_X ? grid.x : grid.y;
    for (uint32_t i = 0; i < grid.x && i < g->table_size; i++) {
        uint64_t place = number(params, g->table_offset + i * g->table_entry, g->table_entry);
        if (used <= place)
            used = place + 1;
    }
    return used;
}

static bool is_used(const struct sim_guess_word *w, uint64_t used)
{
    return !w->is_listed || w->place < used;
}

static void declare(const struct sim_kernel *kernel, struct sim_op *op, int device,
        struct sim_grid grid, const uint64_t *params)
{
    const struct sim_guess *g = guess_of(kernel);
    uint64_t used = places_used(g, grid, params);

    for (unsigned i = 0; i < g->words_count; i++) {
        const struct sim_guess_word *w = &g->words[i];
        uint64_t addr = w->role == SIM_ROLE_NUMBER ? 0 : address_of(w, params), size = 1;

        if (!is_used(w, used) || !sim_va_has(addr)
                || (!sim_standing_at(addr, 1, false)
                        && (!w->is_parameter || sim_standing_at(addr - 1, 1, false))))
            continue;
        if (w->role == SIM_ROLE_WRITE && sim_standing_at(addr, 1, false))
            size = sim_standing_at(addr, written_bytes(w, addr, grid, params), false);
        sim_op_add_range(op,
                (struct sim_range){.addr = addr,
                        .size = size,
                        .rows = 1,
                        .slices = 1,
                        .write = w->role == SIM_ROLE_WRITE,
                        .device = device,
                        .side = SIM_SIDE_KERNEL,
                        .certainty = w->is_parameter ? SIM_POINTER : SIM_WORD});
    }
}

/* ---- what it computes ---- */

static uint64_t digest_of(
        const struct sim_kernel *kernel, int device, uint64_t used, const uint64_t *params)
{
    const struct sim_guess *g = guess_of(kernel);
    uint64_t digest = sim_digest_add(SIM_DIGEST_START, kernel->name, strlen(kernel->name));

    for (unsigned i = 0; i < g->words_count; i++) {
        const struct sim_guess_word *w = &g->words[i];
        uint64_t addr, size;

        if (w->role == SIM_ROLE_NUMBER)
            digest = sim_digest_add(digest, (const char *)params + w->offset, w->size);
        if (w->role != SIM_ROLE_READ || !is_used(w, used))
            continue;
        addr = load(params, w->offset);
        size = sim_standing_room(addr, sim_contents_known(addr, UINT64_MAX));
        if (sim_standing_may(device, addr, size, false))
            digest = sim_digest_read(digest, addr, size);
    }
    return digest;
}

/* True: its result is computed. */
static bool computes(
        const struct sim_kernel *kernel, int device, struct sim_grid grid, const uint64_t *params)
{
    struct other *other = (struct other *)(uintptr_t)kernel;

    if (!other->is_sought)
        other->values = sim_values_find(kernel);
    other->is_sought = true;
    return other->values && sim_values_run(other->values, kernel, device, grid, params);
}

static void fill(uint64_t addr, uint64_t size, const void *value, uint32_t value_size)
{
    for (uint64_t at = 0; at + value_size <= size; at += value_size)
        memcpy((void *)(uintptr_t)(addr + at), value, value_size);
    sim_contents_write(addr, size);
}

static void body(
        const struct sim_kernel *kernel, int device, struct sim_grid grid, const uint64_t *params)
{
    const struct sim_guess *g = guess_of(kernel);
    uint64_t used = places_used(g, grid, params);
    uint64_t digest;

    if (computes(kernel, device, grid, params))
        return;
    digest = digest_of(kernel, device, used, params);
    for (unsigned i = 0; i < g->words_count; i++) {
        const struct sim_guess_word *w = &g->words[i];
        uint64_t addr, size;

        if (w->role == SIM_ROLE_TOUCH && !g->has_types)
            sim_contents_doubt(load(params, w->offset));
        if (w->role != SIM_ROLE_WRITE || !is_used(w, used))
            continue;
        addr = address_of(w, params);
        size = written_bytes(w, addr, grid, params);
        if (!sim_standing_may(device, addr, size, true))
            continue;
        if (g->fill_offset >= 0)
            fill(addr, size, (const char *)params + g->fill_offset, g->fill_size);
        else
            sim_digest_write(sim_digest_add(digest, &i, sizeof(i)), addr, size, w->kind);
        if (!w->count.is_known)
            sim_contents_open(addr);
    }
}

/* sim_digest_write has said more. */
static void note(struct sim_op *op)
{
    (void)op;
}

const struct sim_kernel *sim_other_kernel(
        const char *name, const struct sim_param *params, unsigned count, bool has_layout)
{
    struct other *other = sim_new(sizeof(*other));
    struct sim_param *copy = sim_new((count ? count : 1) * sizeof(*copy));
    char *text = strdup(name);
    const struct sim_kernel *const *found;
    size_t size = 0;

    if (count)
        memcpy(copy, params, count * sizeof(*copy));
    for (unsigned i = 0; i < count; i++)
        if (size < (size_t)copy[i].offset + copy[i].size)
            size = (size_t)copy[i].offset + copy[i].size;
    other->kernel = (struct sim_kernel){.name = text ? text : "",
            .params = copy,
            .params_count = count,
            .params_size = size,
            .has_layout = has_layout,
            .declare = declare,
            .body = body,
            .note = note};
    found = tsearch(other, &others, order);
    if (*found != &other->kernel) {
        free(text);
        free(copy);
        free(other);
    }
    return *found;
}
