/* SPDX-License-Identifier: MIT */
/*
 * PyTorch's elementwise kernels (CUDALoops.cuh): the result first, then the arguments, in an array of addresses.
 *
 *     vectorized_elementwise_kernel<n, F, A>(N, F, A)                              contiguous
 *     unrolled_elementwise_kernel<F, A, ...>(N, F, A, in, out, loader, storer)     contiguous, loader and storer may cast
 *     elementwise_kernel<.., ..., lambda>(N, lambda)                               the lambda has a calculator of offsets
 *                                                                                  in bytes, A, F, and, if it casts, types
 */
#include "tests/sim/values/value_functor.h"
#include "tests/sim/values/value_launch.h"

#include <math.h>
#include <stdlib.h>

struct loop {
    uint64_t count;
    unsigned tensors;
    uint64_t addr[VALUE_TENSORS];
    enum value_type type[VALUE_TENSORS]; /* as memory has it */
    bool has_strides;
    struct value_strides strides;
    struct value_functor functor;
    struct value_carried carried;
};

static struct value argument(
        struct value_launch *l, const struct loop *loop, uint64_t at, unsigned tensor)
{
    enum value_type type = loop->functor.argument[tensor - 1];
    struct value v = value_load(l, at, loop->type[tensor]);

    return type == loop->type[tensor] ? v : value_as(type, v);
}

static void run(struct value_launch *l, const struct loop *loop)
{
    struct value arguments[VALUE_TENSORS];
    int64_t offset[VALUE_TENSORS];

    if (!value_affords(l, loop->count, loop->tensors))
        return;
    for (uint64_t i = 0; i < loop->count && !l->has_failed; i++) {
        if (loop->has_strides)
            value_offsets(&loop->strides, i, offset);
        for (unsigned t = loop->tensors; t-- > 0;) {
            uint64_t at = loop->addr[t]
                    + (loop->has_strides ? (uint64_t)offset[t] : i * value_size(loop->type[t]));

            if (t > 0)
                arguments[t - 1] = argument(l, loop, at, t);
            else
                value_store(l, at, loop->type[0],
                        value_functor_call(&loop->functor, &loop->carried, arguments));
        }
    }
}

/* An array of addresses at `offset` of a parameter. */
static bool read_addresses(struct value_launch *l, struct loop *loop, unsigned param,
        uint32_t offset, unsigned tensors)
{
    if (tensors == 0 || tensors > VALUE_ARGUMENTS + 1)
        return false;
    loop->tensors = tensors;
    for (unsigned t = 0; t < tensors; t++)
        loop->addr[t] = value_param_u64(l, param, offset + t * 8);
    return true;
}

static bool read_functor(struct value_launch *l, struct loop *loop, struct text name,
        unsigned param, uint32_t offset)
{
    struct value_functor *f = &loop->functor;

    if (!value_functor_find(name, loop->tensors - 1, f))
        return false;
    loop->type[0] = f->result;
    for (unsigned t = 1; t < loop->tensors; t++)
        loop->type[t] = f->argument[t - 1];
    value_functor_carried(f, value_param(l, param, offset, value_functor_reads(f)), &loop->carried);
    return !l->has_failed;
}

/* Types that the parameters name, in place of the functor's. */
static bool read_types(struct loop *loop, const char *numbers, unsigned from, unsigned count)
{
    for (unsigned t = 0; t < count; t++) {
        loop->type[from + t] = value_type_numbered((unsigned char)numbers[t]);
        if (loop->type[from + t] == VALUE_NONE)
            return false;
    }
    return true;
}

static bool is_contiguous(const struct value_launch *l, unsigned param)
{
    return find(value_param_type(l, param), "TrivialOffsetCalculator<") != NULL;
}

static bool read_unrolled(struct value_launch *l, struct loop *loop)
{
    unsigned inputs = loop->tensors - 1;

    if (!is_contiguous(l, 3) || !is_contiguous(l, 4))
        return false;
    if (find(value_param_type(l, 5), "LoadWithCast<")
            && !read_types(loop, value_param(l, 5, 0, inputs), 1, inputs))
        return false;
    return !find(value_param_type(l, 6), "StoreWithCast<")
            || read_types(loop, value_param(l, 6, 0, 1), 0, 1);
}

/* A lambda without captures has a word in some functions. The types stand behind the functor, a word behind them. */
static bool read_cast_types(struct value_launch *l, struct loop *loop, uint32_t functor_at)
{
    uint32_t size = loop->functor.size, end;

    for (;; size = (size + 8) & ~7U) {
        end = (functor_at + size + loop->tensors + 7) & ~7U;
        if (end + 8 >= value_param_size(l, 1))
            break;
    }
    return end + 8 == value_param_size(l, 1)
            && read_types(
                    loop, value_param(l, 1, functor_at + size, loop->tensors), 0, loop->tensors);
}

/* The number of tensors follows from the size, as a functor is small. */
static bool read_closure(struct value_launch *l, struct loop *loop)
{
    uint32_t size = value_param_size(l, 1);
    unsigned tensors = size > 312 ? (size - 312) / 108 : 0;
    uint32_t at = (VALUE_CALCULATOR_SIZE(tensors) + 7) & ~7U;
    struct text list;

    loop->has_strides = true;
    return template_list(l->name, "gpu_kernel_impl", &list)
            && value_calculator(l, 1, 0, tensors, false, &loop->strides)
            && read_addresses(l, loop, 1, at, tensors)
            && read_functor(l, loop, nth_item(list, 0), 1, at + 8 * tensors)
            && (find(l->name, "gpu_kernel_impl_nocast<")
                    || read_cast_types(l, loop, at + 8 * tensors));
}

bool value_body_elementwise(struct value_launch *l)
{
    struct loop loop = {.count = (uint64_t)value_param_i64(l, 0)};
    struct text list;
    bool is_unrolled = find(l->name, "unrolled_elementwise_kernel<") != NULL;
    bool is_vectorized = find(l->name, "vectorized_elementwise_kernel<") != NULL;

    if (!is_unrolled && !is_vectorized) {
        if (!read_closure(l, &loop))
            return false;
    } else if (!template_list(l->name, "elementwise_kernel", &list)
            || !read_addresses(l, &loop, 2, 0, value_param_size(l, 2) / 8)
            || !read_functor(l, &loop, nth_item(list, is_unrolled ? 0 : 1), 1, 0)
            || (is_unrolled && !read_unrolled(l, &loop))) {
        return false;
    }
    run(l, &loop);
    return true;
}

/* ---- kernels whose functor gets the number of the element: arange, linspace ---- */

/* The number of the lambda inside of the dispatch, which says the type. */
static enum value_type dispatched_type(struct text name, const char *function)
{
    static const enum value_type of_arange[] = {VALUE_NONE, VALUE_U8, VALUE_I8, VALUE_I32,
            VALUE_I64, VALUE_I16, VALUE_F64, VALUE_F32, VALUE_F16, VALUE_BF16};
    static const enum value_type of_floats[] = {VALUE_NONE, VALUE_F64, VALUE_F32};
    static const char last[] = "::operator()() const::{lambda()#";
    const char *at = find(name, function);
    bool is_arange = strcmp(function, "arange_cuda_out(") == 0;
    unsigned long number;

    at = at ? find((struct text){at, name.length - (size_t)(at - name.at)}, last) : NULL;
    number = at ? strtoul(at + strlen(last), NULL, 10) : 0;
    if (is_arange)
        return number < 10 ? of_arange[number] : VALUE_NONE;
    return number < 3 ? of_floats[number] : VALUE_NONE;
}

/* linspace has {start, end, steps, step, half of steps}, logspace a base behind the end. */
static double spaced(const double *p, double steps, double step, uint64_t half, uint64_t i)
{
    return i < half ? p[0] + step * (double)i : p[1] - step * (steps - (double)i - 1);
}

static bool read_spaced(struct value_launch *l, enum value_type type, bool has_base, double *p,
        double *ret_step, uint64_t *ret_steps)
{
    uint32_t unit = value_size(type), at = (2 + has_base) * unit;

    for (unsigned i = 0; i < 2U + has_base; i++)
        p[i] = value_read(type, value_param(l, 1, i * unit, unit)).f;
    at = (at + 7) & ~7U;
    *ret_steps = value_param_u64(l, 1, at);
    *ret_step = value_read(type, value_param(l, 1, at + 8, unit)).f;
    return !l->has_failed;
}

static bool run_spaced(struct value_launch *l, const char *function, bool has_base)
{
    enum value_type type = dispatched_type(l->name, function);
    uint64_t count = (uint64_t)value_param_i64(l, 0), steps, addr = value_param_u64(l, 2, 0);
    double p[3], step;

    if (!find(l->name, "::{lambda()#2}::operator()() const::{lambda()#") || type == VALUE_NONE
            || !read_spaced(l, type, has_base, p, &step, &steps) || !value_affords(l, count))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        double f = spaced(p, (double)steps, step, steps / 2, i);

        value_store(
                l, addr + i * value_size(type), type, value_of_float(has_base ? pow(p[2], f) : f));
    }
    return true;
}

static bool run_arange(struct value_launch *l)
{
    enum value_type type = dispatched_type(l->name, "arange_cuda_out(");
    enum value_type carried = value_is_float(type) ? value_math_type(type) : VALUE_I64;
    uint64_t count = (uint64_t)value_param_i64(l, 0), addr = value_param_u64(l, 2, 0);
    uint32_t unit = value_size(carried);
    struct value start, step;

    if (type == VALUE_NONE || !value_affords(l, count))
        return false;
    start = value_read(carried, value_param(l, 1, 0, unit));
    step = value_read(carried, value_param(l, 1, unit, unit));
    for (uint64_t i = 0; i < count; i++)
        value_store(l, addr + i * value_size(type), type,
                start.is_float
                        ? value_of_float(start.f + step.f * (double)i)
                        : value_of_integer((int64_t)((uint64_t)start.i + (uint64_t)step.i * i)));
    return true;
}

bool value_body_indexed(struct value_launch *l)
{
    if (find(l->name, "arange_cuda_out("))
        return run_arange(l);
    if (find(l->name, "linspace_cuda_out("))
        return run_spaced(l, "linspace_cuda_out(", false);
    return find(l->name, "logspace_cuda_out(") && run_spaced(l, "logspace_cuda_out(", true);
}
