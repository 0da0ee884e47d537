/* SPDX-License-Identifier: MIT */
/*
 * PyTorch's reductions (Reduce.cuh): reduce_kernel<.., .., R>(R), R = ReduceOp<T, Ops, index, result, .., ..>
 *
 *     Ops, its identity | plan: 16 ints, the 2nd inputs of a result, the 3rd results | calculator for one tensor: a
 *     result's inputs | calculator for two: results, and where their inputs begin | source, two destinations, 3 buffers,
 *     a number, 2 bools (the first: it adds to what is there), an int
 */
#include "tests/sim/values/value_launch.h"

#include <math.h>
#include <stdlib.h>

#define TAIL 64U
#define PLAN 64U

enum reduction {
    REDUCE_SUM,
    REDUCE_PRODUCT,
    REDUCE_MEAN,
    REDUCE_AND,
    REDUCE_OR,
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_MAX_AT, /* and where it is */
    REDUCE_MIN_AT,
    REDUCE_ARGMAX, /* only where */
    REDUCE_ARGMIN,
    REDUCE_BOTH,    /* least, greatest */
    REDUCE_WELFORD, /* variance or its root, mean */
    REDUCE_NORM_TWO,
    REDUCE_NORM_ONE,
    REDUCE_NORM_MAX,
    REDUCE_NORM_MIN,
    REDUCE_NORM_ZERO,
    REDUCE_NORM,
    REDUCE_NAN_SUM,
    REDUCE_COUNT
};

static const struct {
    const char *name; /* the first one counts */
    enum reduction reduction;
} names[] = {{"MeanOps<", REDUCE_MEAN}, {"WelfordOps<", REDUCE_WELFORD},
        {"NormTwoOps<", REDUCE_NORM_TWO}, {"NormOneOps<", REDUCE_NORM_ONE},
        {"NormZeroOps<", REDUCE_NORM_ZERO}, {"NormOps<", REDUCE_NORM},
        {"AbsMaxOps<", REDUCE_NORM_MAX}, {"AbsMinOps<", REDUCE_NORM_MIN},
        {"NanSumOps<", REDUCE_NAN_SUM}, {"ArgMaxOps<", REDUCE_ARGMAX},
        {"ArgMinOps<", REDUCE_ARGMIN}, {"MinMaxOps<", REDUCE_BOTH}, {"MaxOps<", REDUCE_MAX_AT},
        {"MinOps<", REDUCE_MIN_AT}, {"MaxNanFunctor<", REDUCE_MAX}, {"MinNanFunctor<", REDUCE_MIN},
        {"sum_functor<", REDUCE_SUM}, {"prod_functor<", REDUCE_PRODUCT},
        {"and_kernel_cuda(", REDUCE_AND}, {"or_kernel_cuda(", REDUCE_OR}};

struct reduce {
    enum reduction reduction;
    enum value_type source, result[2];
    uint32_t plan; /* where it is */
    unsigned destinations;
    uint64_t inputs, results, src, dst[2];
    struct value_strides in, out;
    double given[2]; /* factor, correction or exponent; whether the root is wanted */
};

/* What was seen so far of one result's inputs. */
struct fold {
    uint64_t count;
    double sum, product, squares, mean;
    int64_t whole, whole_product;
    struct value least, greatest;
    uint64_t least_at, greatest_at;
    bool all, any;
};

static bool is_nan(struct value v)
{
    return v.is_float && isnan(v.f);
}

/* Whether `a` comes before `b` where the first greatest, or a NaN, wins. */
static bool is_greater(struct value a, struct value b)
{
    if (is_nan(a) || is_nan(b))
        return is_nan(a) && !is_nan(b);
    return a.is_float ? a.f > b.f : a.i > b.i;
}

static bool is_less(struct value a, struct value b)
{
    if (is_nan(a) || is_nan(b))
        return is_nan(a) && !is_nan(b);
    return a.is_float ? a.f < b.f : a.i < b.i;
}

static double term_of(const struct reduce *r, struct value v)
{
    double size = fabs(v.f);

    switch (r->reduction) {
    case REDUCE_NORM_TWO:
        return v.f * v.f;
    case REDUCE_NORM_ONE:
        return size;
    case REDUCE_NORM_ZERO:
        return v.f != 0;
    case REDUCE_NORM:
        return pow(size, r->given[0]);
    case REDUCE_NAN_SUM:
        return isnan(v.f) ? 0 : v.f;
    default:
        return v.f;
    }
}

static void take(const struct reduce *r, struct fold *f, struct value v, uint64_t at)
{
    double delta;

    if (r->reduction == REDUCE_NORM_MAX || r->reduction == REDUCE_NORM_MIN)
        v = value_of_float(fabs(v.f));
    if (f->count == 0 || is_less(v, f->least)) {
        f->least = v;
        f->least_at = at;
    }
    if (f->count == 0 || is_greater(v, f->greatest)) {
        f->greatest = v;
        f->greatest_at = at;
    }
    f->count++;
    delta = v.f - f->mean;
    f->mean += delta / (double)f->count;
    f->squares += delta * (v.f - f->mean);
    f->sum += term_of(r, v);
    f->whole = (int64_t)((uint64_t)f->whole + (uint64_t)v.i);
    f->product *= v.f;
    f->whole_product = (int64_t)((uint64_t)f->whole_product * (uint64_t)v.i);
    f->all &= v.is_float ? v.f != 0 : v.i != 0;
    f->any |= v.is_float ? v.f != 0 : v.i != 0;
}

static struct value variance(const struct reduce *r, const struct fold *f)
{
    double count = (double)f->count;
    double by = count > r->given[0] ? count - r->given[0] : 0;

    return value_of_float(r->given[1] != 0 ? sqrt(f->squares / by) : f->squares / by);
}

static struct value summed(const struct reduce *r, double f, int64_t i)
{
    return value_is_float(r->source) ? value_of_float(f) : value_of_integer(i);
}

/* The first and the second result. */
static void result_of(const struct reduce *r, const struct fold *f, struct value *ret_values)
{
    ret_values[1] = value_of_integer(0);
    switch (r->reduction) {
    case REDUCE_SUM:
        ret_values[0] = summed(r, f->sum, f->whole);
        break;
    case REDUCE_PRODUCT:
        ret_values[0] = summed(r, f->product, f->whole_product);
        break;
    case REDUCE_MEAN:
        ret_values[0] = value_of_float(f->sum * r->given[0]);
        break;
    case REDUCE_AND:
    case REDUCE_OR:
        ret_values[0] = value_of_integer(r->reduction == REDUCE_AND ? f->all : f->any);
        break;
    case REDUCE_MAX:
    case REDUCE_NORM_MAX:
    case REDUCE_MAX_AT:
        ret_values[0] = f->greatest;
        ret_values[1] = value_of_integer((int64_t)f->greatest_at);
        break;
    case REDUCE_MIN:
    case REDUCE_NORM_MIN:
    case REDUCE_MIN_AT:
        ret_values[0] = f->least;
        ret_values[1] = value_of_integer((int64_t)f->least_at);
        break;
    case REDUCE_ARGMAX:
        ret_values[0] = value_of_integer((int64_t)f->greatest_at);
        break;
    case REDUCE_ARGMIN:
        ret_values[0] = value_of_integer((int64_t)f->least_at);
        break;
    case REDUCE_BOTH:
        ret_values[0] = f->least;
        ret_values[1] = f->greatest;
        break;
    case REDUCE_WELFORD:
        ret_values[0] = variance(r, f);
        ret_values[1] = value_of_float(f->mean);
        break;
    case REDUCE_NORM_TWO:
        ret_values[0] = value_of_float(r->given[1] != 0 ? sqrt(f->sum) : f->sum);
        break;
    case REDUCE_NORM:
        ret_values[0] = value_of_float(r->given[1] != 0 ? pow(f->sum, 1 / r->given[0]) : f->sum);
        break;
    default:
        ret_values[0] = value_of_float(f->sum);
        break;
    }
}

/* ---- what the launch says ---- */

static bool read_ops(struct value_launch *l, struct text ops, struct reduce *r)
{
    struct text list;
    enum value_type type;

    if (!template_list(ops, "", &list))
        return r->reduction <= REDUCE_OR;
    r->given[1] = !is_text(nth_item(list, 3), "false"); /* of a norm: the root */
    if (r->reduction != REDUCE_MEAN && r->reduction != REDUCE_WELFORD
            && r->reduction != REDUCE_NORM)
        return true;
    type = value_type_named(nth_item(list, r->reduction == REDUCE_MEAN ? 2 : 1));
    if (type == VALUE_NONE)
        return false;
    r->given[0] = value_read(type, value_param(l, 0, 0, value_size(type))).f;
    if (r->reduction == REDUCE_WELFORD)
        r->given[1] = *value_param(l, 0, value_size(type), 1) != 0;
    return true;
}

static bool read_name(struct value_launch *l, struct reduce *r)
{
    struct text list, ops;
    size_t i = 0;

    if (!template_list(l->name, "ReduceOp", &list))
        return false;
    ops = nth_item(list, 1);
    while (i < sizeof(names) / sizeof(names[0]) && !find(ops, names[i].name))
        i++;
    if (i == sizeof(names) / sizeof(names[0]))
        return false;
    r->reduction = names[i].reduction;
    r->source = value_type_named(nth_item(list, 0));
    r->result[0] = r->result[1] = value_type_named(nth_item(list, 3));
    if (r->reduction == REDUCE_MAX_AT || r->reduction == REDUCE_MIN_AT)
        r->result[1] = VALUE_I64;
    return r->source != VALUE_NONE && r->result[0] != VALUE_NONE && read_ops(l, ops, r);
}

/* Before the addresses, which are aligned, there may be 4 bytes; the plan has a block's width, height and product. */
static bool read_plan(struct value_launch *l, struct reduce *r)
{
    uint32_t calculators = VALUE_CALCULATOR_SIZE(1) + VALUE_CALCULATOR_SIZE(2);
    uint32_t tail = value_param_size(l, 0) - TAIL;

    if (value_param_size(l, 0) < TAIL + PLAN + calculators + 4)
        return false;
    r->plan = tail - PLAN - calculators;
    if (value_param_i32(l, 0, r->plan + 44) * value_param_i32(l, 0, r->plan + 48)
            != value_param_i32(l, 0, r->plan + 52))
        r->plan -= 4;
    r->inputs = (uint64_t)value_param_i32(l, 0, r->plan + 4);
    r->results = (uint64_t)value_param_i32(l, 0, r->plan + 8);
    r->src = value_param_u64(l, 0, tail);
    r->dst[0] = value_param_u64(l, 0, tail + 8);
    r->dst[1] = value_param_u64(l, 0, tail + 16);
    r->destinations = (unsigned)value_param_i32(l, 0, tail + 60);
    return *value_param(l, 0, tail + 56, 1) == 0 && r->destinations - 1 < 2
            && value_calculator(l, 0, r->plan + PLAN, 1, false, &r->in)
            && value_calculator(l, 0, r->plan + PLAN + VALUE_CALCULATOR_SIZE(1), 2, false, &r->out);
}

bool value_body_reduce(struct value_launch *l)
{
    struct reduce r = {0};
    int64_t out[2], in;

    if (!read_name(l, &r) || !read_plan(l, &r) || !value_affords(l, r.results, r.inputs))
        return false;
    for (uint64_t i = 0; i < r.results; i++) {
        struct fold fold = {.product = 1, .whole_product = 1, .all = true};
        struct value values[2];

        value_offsets(&r.out, i, out);
        for (uint64_t k = 0; k < r.inputs && !l->has_failed; k++) {
            value_offsets(&r.in, k, &in);
            take(&r, &fold, value_load(l, r.src + (uint64_t)out[1] + (uint64_t)in, r.source), k);
        }
        result_of(&r, &fold, values);
        for (unsigned n = 0; n < r.destinations; n++)
            value_store(l,
                    r.dst[n] + (uint64_t)out[0] / value_size(r.result[0]) * value_size(r.result[n]),
                    r.result[n], values[n]);
    }
    return true;
}
