/* SPDX-License-Identifier: MIT */
/*
 * PyTorch's kernels for lists of tensors (MultiTensorApply.cuh): multi_tensor_apply_kernel<M, F, ..>(M, F, ..)
 *
 *     M: depth lists of addresses | elements | [scalars, or addresses of steps] | for each block: a tensor | a chunk of it
 *        | the first tensor's number in the whole list
 *
 * Lists have room for so many tensors as value_lists.c says, seven times as many where M is larger than 4 KiB.
 */
#include "tests/sim/values/value_launch.h"

#include <math.h>
#include <stdlib.h>

#define CHUNK  65536U
#define LISTS  5
#define BLOCKS 320U

struct lists {
    unsigned depth;
    uint32_t room, behind;      /* what lies behind the elements: scalars or steps */
    uint32_t tensors, chunks;   /* tables of blocks */
    uint32_t tensor_bytes;      /* of an entry */
    uint32_t first;             /* where the first tensor's number lies */
    enum value_type type, math; /* of elements, and of scalars */
    unsigned result;
};

/* What one block works at. */
struct part {
    uint32_t tensor, chunk;
    uint64_t from, to;
};

static bool read_lists(struct value_launch *l, struct lists *m)
{
    static const uint32_t room[2][LISTS] = {{110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}};
    bool is_large = value_param_size(l, 0) > 4096;
    struct text type = value_param_type(l, 0), list, item, last = {"", 0};
    bool has_scalars = find(type, "TensorListScalarListMetadata<") != NULL;
    uint32_t blocks = is_large ? BLOCKS * 7 : BLOCKS;

    if (!template_list(type, "", &list) || !template_list(l->name, "Functor", &item))
        return false;
    m->type = value_type_named(nth_item(item, 0));
    m->math = value_math_type(m->type);
    if (has_scalars && value_type_named(nth_item(list, 0)) != m->math)
        return false;
    while (next_item(&item, &type))
        last = type;
    m->result = is_number(last) ? (unsigned)strtoul(last.at, NULL, 10) : 0;
    m->depth = (unsigned)strtoul(nth_item(list, has_scalars).at, NULL, 10);
    if (m->type == VALUE_NONE || m->depth == 0 || m->depth > LISTS)
        return false;
    m->room = room[has_scalars][m->depth - 1] * (is_large ? 7 : 1);
    m->behind = m->room * (m->depth + 1) * 8;
    m->tensors = m->behind;
    if (has_scalars)
        m->tensors += m->room * value_size(m->math);
    else if (find(value_param_type(l, 0), "FusedOptimizer"))
        m->tensors += m->room * 8;
    m->tensor_bytes = is_large ? 2 : 1;
    m->chunks = (m->tensors + blocks * m->tensor_bytes + 3) & ~3U;
    m->first = m->chunks + blocks * 4;
    return l->grid.x <= blocks && m->first <= value_param_size(l, 0);
}

static uint64_t address(
        struct value_launch *l, const struct lists *m, unsigned list, uint32_t tensor)
{
    return value_param_u64(l, 0, (list * m->room + tensor) * 8);
}

static struct part part_of(struct value_launch *l, const struct lists *m, uint32_t block)
{
    struct part p = {0};
    uint64_t count;

    memcpy(&p.tensor, value_param(l, 0, m->tensors + block * m->tensor_bytes, m->tensor_bytes),
            m->tensor_bytes);
    p.chunk = (uint32_t)value_param_i32(l, 0, m->chunks + block * 4);
    if (p.tensor >= m->room) {
        value_fail(l);
        return (struct part){0};
    }
    count = value_param_u64(l, 0, (m->depth * m->room + p.tensor) * 8);
    p.from = (uint64_t)p.chunk * CHUNK;
    p.to = count < p.from + CHUNK ? count : p.from + CHUNK;
    if (p.to < p.from || !value_affords(l, p.to - p.from, m->depth))
        p.to = p.from;
    return p;
}

/* ---- elementwise functors ---- */

enum operation {
    OPERATION_PLUS,
    OPERATION_MINUS,
    OPERATION_TIMES,
    OPERATION_DIVIDED,
    OPERATION_LEAST,
    OPERATION_GREATEST,
    OPERATION_POWER,
    OPERATION_POWER_OF,
    OPERATION_LERP,
    OPERATION_SQRT,
    OPERATION_ABS,
    OPERATION_NEGATE,
    OPERATION_EXP,
    OPERATION_UNSCALE, /* GradScaler: its closure has the addresses of what was found, and of the factor */
    OPERATION_NONE
};

static enum operation operation_of(struct text type)
{
    static const char *const names[] = {"std::plus<", "std::minus<", "std::multiplies<",
            "std::divides<", "minimum<", "maximum<", "power_functor<", "reverse_power_functor<",
            "LerpFunctor<", "Sqrt<", "Abs<", "std::negate<", "Exp<",
            "non_finite_check_and_unscale"};

    if (find(type, "reverse_power_functor<"))
        return OPERATION_POWER_OF;
    for (unsigned i = 0; i < OPERATION_NONE; i++)
        if (find(type, names[i]))
            return i;
    return OPERATION_NONE;
}

static double operate(enum operation operation, double a, double b)
{
    switch (operation) {
    case OPERATION_PLUS:
        return a + b;
    case OPERATION_MINUS:
        return a - b;
    case OPERATION_TIMES:
        return a * b;
    case OPERATION_DIVIDED:
        return a / b;
    case OPERATION_LEAST:
        return isnan(a) || a < b ? a : b;
    case OPERATION_GREATEST:
        return isnan(a) || a > b ? a : b;
    case OPERATION_POWER:
        return pow(a, b);
    case OPERATION_POWER_OF:
        return pow(b, a);
    case OPERATION_SQRT:
        return sqrt(a);
    case OPERATION_ABS:
        return fabs(a);
    case OPERATION_NEGATE:
        return -a;
    default:
        return exp(a);
    }
}

enum shape {
    SHAPE_SCALAR,    /* op(a, scalar) */
    SHAPE_LIST,      /* op(a, scalar * b) */
    SHAPE_POINTWISE, /* a + scalar * op(b, c) */
    SHAPE_LERP,      /* between a and b, by a scalar or c */
    SHAPE_UNARY,
    SHAPE_COUNT
};

static double combine(enum shape shape, enum operation operation, const double *x, double scalar)
{
    switch (shape) {
    case SHAPE_LIST:
        return operate(operation, x[0], scalar * x[1]);
    case SHAPE_POINTWISE:
        return x[0] + scalar * operate(operation, x[1], x[2]);
    case SHAPE_LERP:
        return fabs(scalar) < 0.5 ? x[0] + scalar * (x[1] - x[0])
                                  : x[1] - (x[1] - x[0]) * (1 - scalar);
    default:
        return operate(operation, x[0], scalar);
    }
}

/* The functor's name, how it combines, how many lists it reads. */
static const struct functor {
    const char *name;
    enum shape shape;
    unsigned reads;
} functors[] = {{"BinaryOpScalarFunctor<", SHAPE_SCALAR, 1},
        {"BinaryOpScalarListFunctor<", SHAPE_SCALAR, 1},
        {"BinaryOpScalarTensorFunctor<", SHAPE_SCALAR, 1},
        {"BinaryOpListAlphaFunctor<", SHAPE_LIST, 2},
        {"PointwiseOpScalarFunctor<", SHAPE_POINTWISE, 3},
        {"PointwiseOpScalarListFunctor<", SHAPE_POINTWISE, 3},
        {"TernaryOpScalarFunctor<", SHAPE_LERP, 2}, {"TernaryOpListFunctor<", SHAPE_LERP, 3},
        {"UnaryOpFunctor<", SHAPE_UNARY, 1}};

/* Of one tensor: a parameter, an entry of the scalars, or a factor for what an address holds. */
static double scalar_of(
        struct value_launch *l, const struct lists *m, const struct functor *f, uint32_t tensor)
{
    uint32_t bytes = value_size(m->math);

    if (strstr(f->name, "ScalarTensor"))
        return value_load(l, value_param_u64(l, 3, 0), m->type).f
                * value_read(m->math, value_param(l, 4, 0, bytes)).f;
    if (strstr(f->name, "ScalarList"))
        return value_read(m->math, value_param(l, 0, m->behind + tensor * bytes, bytes)).f;
    if (f->shape == SHAPE_UNARY || strstr(f->name, "TernaryOpList"))
        return 0;
    return value_read(m->math, value_param(l, 3, 0, bytes)).f;
}

static double unscaled(struct value_launch *l, double x, double factor)
{
    if (!isfinite(x))
        value_store(l, value_param_u64(l, 2, 0), VALUE_F32, value_of_float(1));
    return factor == 1 ? x : x * factor;
}

static void run_part(struct value_launch *l, const struct lists *m, const struct functor *f,
        enum operation operation, struct part p)
{
    uint32_t unit = value_size(m->type);
    double x[3], scalar = scalar_of(l, m, f, p.tensor);

    if (operation == OPERATION_UNSCALE)
        scalar = value_load(l, value_param_u64(l, 2, 8), VALUE_F32).f;
    for (uint64_t i = p.from; i < p.to && !l->has_failed; i++) {
        for (unsigned n = 0; n < f->reads; n++)
            x[n] = value_load(l, address(l, m, n, p.tensor) + i * unit, m->type).f;
        value_store(l, address(l, m, m->result, p.tensor) + i * unit, m->type,
                value_of_float(operation == OPERATION_UNSCALE
                                ? unscaled(l, x[0], scalar)
                                : combine(f->shape, operation, x,
                                        f->reads == 3 && f->shape == SHAPE_LERP ? x[2] : scalar)));
    }
}

static bool run_functor(struct value_launch *l, const struct lists *m)
{
    enum operation operation = operation_of(value_param_type(l, 2));
    size_t i = 0;

    while (i < sizeof(functors) / sizeof(functors[0]) && !find(l->name, functors[i].name))
        i++;
    if (i == sizeof(functors) / sizeof(functors[0]) || operation == OPERATION_NONE
            || !value_is_float(m->type) || functors[i].reads > m->depth || m->result >= m->depth
            || (functors[i].shape == SHAPE_LERP) != (operation == OPERATION_LERP))
        return false;
    for (uint32_t block = 0; block < l->grid.x && !l->has_failed; block++)
        run_part(l, m, &functors[i], operation, part_of(l, m, block));
    return true;
}

/* ---- norms ---- */

/*
 * Each chunk's sum has a place. PyTorch of today is given where each tensor's begin; that of two years ago how many each has,
 * and its types of norms have numbers that are one less.
 */
struct sums {
    uint64_t order; /* of the norm; 3: the largest element */
    uint64_t begins, each;
};

static bool read_sums(struct value_launch *l, unsigned param, struct sums *s)
{
    const char *at = find(l->name, "NormType)");
    bool is_today = is_text(value_param_type(l, param), "long const*");

    *s = (struct sums){0};
    if (!at || (!is_today && !is_text(value_param_type(l, param), "int")))
        return false;
    s->order = strtoul(at + strlen("NormType)"), NULL, 10) + !is_today;
    if (is_today)
        s->begins = value_param_u64(l, param, 0);
    else
        s->each = (uint64_t)value_param_i64(l, param);
    return s->order >= 1 && s->order <= 3;
}

static uint64_t sums_begin(struct value_launch *l, const struct sums *s, uint64_t tensor)
{
    return s->begins ? (uint64_t)value_load(l, s->begins + tensor * 8, VALUE_I64).i
                     : tensor * s->each;
}

static double with_term(const struct sums *s, double sum, double x)
{
    if (s->order == 3)
        return isnan(x) || fabs(x) > sum ? fabs(x) : sum;
    return sum + (s->order == 2 ? x * x : fabs(x));
}

/* (.., F, sums, ..): one for each block. */
static bool run_norm(struct value_launch *l, const struct lists *m)
{
    enum value_type to = VALUE_NONE;
    struct sums sums;
    struct text list;

    if (template_list(l->name, "LpNormFunctor", &list))
        to = value_math_type(value_type_named(nth_item(list, 2)));
    if (to == VALUE_NONE || !read_sums(l, 3, &sums) || !value_is_float(m->type))
        return false;
    for (uint32_t block = 0; block < l->grid.x && !l->has_failed; block++) {
        struct part p = part_of(l, m, block);
        uint64_t tensor = p.tensor + (uint32_t)value_param_i32(l, 0, m->first);
        double sum = 0;

        for (uint64_t i = p.from; i < p.to && !l->has_failed; i++)
            sum = with_term(&sums, sum,
                    value_load(l, address(l, m, 0, p.tensor) + i * value_size(m->type), m->type).f);
        value_store(l,
                value_param_u64(l, 2, 0)
                        + (sums_begin(l, &sums, tensor) + p.chunk) * value_size(to),
                to, value_of_float(sum));
    }
    return true;
}

/* <T, type, result, root, sums>(sums, addresses of results, .., the first tensor): one for each block. */
bool value_body_norm_cleanup(struct value_launch *l)
{
    enum value_type from, to;
    struct sums sums;
    struct text list;

    if (!template_list(l->name, "lpnorm_cleanup", &list) || !read_sums(l, 2, &sums))
        return false;
    to = value_type_named(nth_item(list, 2));
    from = value_math_type(to);
    for (uint32_t block = 0; block < l->grid.x && to != VALUE_NONE && !l->has_failed; block++) {
        uint64_t tensor = block + (sums.begins ? (uint64_t)value_param_i64(l, 3) : 0);
        uint64_t end = sums_begin(l, &sums, tensor + 1);
        double sum = 0;

        for (uint64_t i = sums_begin(l, &sums, tensor); i < end && !l->has_failed; i++) {
            double x = value_load(l, value_param_u64(l, 0, 0) + i * value_size(from), from).f;

            sum = sums.order == 3 ? with_term(&sums, sum, x) : sum + x;
        }
        if (sums.order == 2 && !is_text(nth_item(list, 3), "false"))
            sum = sqrt(sum);
        value_store(l, value_param_u64(l, 1, block * 8), to, value_of_float(sum));
    }
    return to != VALUE_NONE;
}

/* ---- optimizers that are one kernel ---- */

static double number(struct value_launch *l, unsigned param)
{
    return value_read(VALUE_F64, value_param(l, param, 0, 8)).f;
}

static bool flag(struct value_launch *l, unsigned param)
{
    return *value_param(l, param, 0, 1) != 0;
}

/* What an address that may be 0 holds. */
static double held(struct value_launch *l, unsigned param, double otherwise)
{
    uint64_t at = value_param_u64(l, param, 0);

    return at ? value_load(l, at, VALUE_F32).f : otherwise;
}

/* (.., F, address of rate, rate, beta 1, beta 2, decay, epsilon, maximizes, address of scale, of what was found) */
static void run_adam(struct value_launch *l, const struct lists *m, struct part p)
{
    double rate = held(l, 2, number(l, 3)), beta[2] = {number(l, 4), number(l, 5)};
    double decay = number(l, 6), scale = held(l, 9, 1);
    double step = value_load(l, value_param_u64(l, 0, m->behind + p.tensor * 8), VALUE_F32).f;
    double root = sqrt(1 - pow(beta[1], step)), size = rate / (1 - pow(beta[0], step));
    bool is_w = find(l->name, "ADAM_MODE)1") != NULL;
    uint32_t unit = value_size(m->type);

    for (uint64_t i = p.from; i < p.to && !l->has_failed; i++) {
        double x[4], g;

        for (unsigned n = 0; n < 4; n++)
            x[n] = value_load(l, address(l, m, n, p.tensor) + i * unit, m->type).f;
        g = x[1] = x[1] / scale;
        g = flag(l, 8) ? -g : g;
        if (is_w)
            x[0] -= rate * decay * x[0];
        else
            g += decay * x[0];
        x[2] = beta[0] * x[2] + (1 - beta[0]) * g;
        x[3] = beta[1] * x[3] + (1 - beta[1]) * g * g;
        x[0] -= size * x[2] / (sqrt(x[3]) / root + number(l, 7));
        for (unsigned n = 0; n < 4; n++)
            if (n != 1 || value_param_u64(l, 9, 0))
                value_store(
                        l, address(l, m, n, p.tensor) + i * unit, m->type, value_of_float(x[n]));
    }
}

/* (.., F, decay, momentum, address of rate, rate, dampening, nesterov, maximizes, is first, scale, what was found) */
static void run_sgd(struct value_launch *l, const struct lists *m, struct part p)
{
    double decay = number(l, 2), momentum = number(l, 3), rate = held(l, 4, number(l, 5));
    double scale = held(l, 10, 1);
    uint32_t unit = value_size(m->type);

    for (uint64_t i = p.from; i < p.to && !l->has_failed; i++) {
        double x[3] = {0}, g;

        /* the first time nobody has written what is to be remembered */
        for (unsigned n = 0; n < (flag(l, 9) ? 2 : m->depth); n++)
            x[n] = value_load(l, address(l, m, n, p.tensor) + i * unit, m->type).f;
        g = x[1] = x[1] / scale;
        g = (flag(l, 8) ? -g : g) + decay * x[0];
        if (m->depth == 3) {
            x[2] = flag(l, 9) ? g : momentum * x[2] + (1 - number(l, 6)) * g;
            g = flag(l, 7) ? g + momentum * x[2] : x[2];
        }
        x[0] -= rate * g;
        for (unsigned n = 0; n < m->depth; n++)
            if (n != 1 || value_param_u64(l, 10, 0))
                value_store(
                        l, address(l, m, n, p.tensor) + i * unit, m->type, value_of_float(x[n]));
    }
}

static bool run_optimizer(struct value_launch *l, const struct lists *m, bool is_adam)
{
    if (l->kernel->params_count != (is_adam ? 11 : 12) || m->depth < 2
            || (is_adam ? m->depth != 4 || find(l->name, "true>") : m->depth > 3))
        return false;
    if (held(l, is_adam ? 10 : 11, 0) == 1)
        return !l->has_failed; /* nothing is written */
    for (uint32_t block = 0; block < l->grid.x && !l->has_failed; block++)
        (is_adam ? run_adam : run_sgd)(l, m, part_of(l, m, block));
    return true;
}

bool value_body_lists(struct value_launch *l)
{
    struct lists m = {0};

    if (!read_lists(l, &m))
        return false;
    if (find(l->name, "LpNormFunctor<"))
        return run_norm(l, &m);
    if (find(l->name, "FusedAdamMathFunctor<") || find(l->name, "FusedSgdMathFunctor<"))
        return run_optimizer(l, &m, find(l->name, "FusedAdamMathFunctor<") != NULL);
    return run_functor(l, &m);
}

/* (scale, steps without growth, what was found, growth, backoff, interval) */
bool value_body_update_scale(struct value_launch *l)
{
    uint64_t scale_at = value_param_u64(l, 0, 0), tracker = value_param_u64(l, 1, 0);
    double scale = value_load(l, scale_at, VALUE_F32).f;
    int64_t steps = value_load(l, tracker, VALUE_I32).i + 1;

    if (held(l, 2, 0) != 0) {
        value_store(l, scale_at, VALUE_F32, value_of_float(scale * number(l, 4)));
        value_store(l, tracker, VALUE_I32, value_of_integer(0));
        return true;
    }
    if (steps == value_param_i32(l, 5, 0)) {
        if (isfinite((float)(scale * number(l, 3))))
            value_store(l, scale_at, VALUE_F32, value_of_float(scale * number(l, 3)));
        steps = 0;
    }
    value_store(l, tracker, VALUE_I32, value_of_integer(steps));
    return true;
}
