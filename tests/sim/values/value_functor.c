/* SPDX-License-Identifier: MIT */
#include "tests/sim/values/value_functor.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#define GELU_ROOT 0.7978845608028654 /* of 2 / pi */

struct value_row {
    const char *name;
    unsigned arity;
    char result;
    const char *carried;
    double (*floats)(const double *, const double *);
    int64_t (*ints)(const int64_t *, const int64_t *);
};

/* ---- what the table says ---- */

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double normal(double x)
{
    return 0.5 * (1 + erf(x * 0.7071067811865476));
}

/* The derivative of the form with tanh. */
static double gelu_slope(double x)
{
    double t = tanh(GELU_ROOT * (x + 0.044715 * x * x * x));

    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU_ROOT * (1 + 3 * 0.044715 * x * x);
}

static double modulo_of(double a, double b)
{
    double m = fmod(a, b);

    return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}

/* Python's a // b. */
static double floor_of(double a, double b)
{
    double m = fmod(a, b), quotient = (a - m) / b, low;

    if (b == 0)
        return a / b;
    if (m != 0 && (b < 0) != (m < 0))
        quotient -= 1;
    if (quotient == 0)
        return copysign(0, a / b);
    low = floor(quotient);
    return quotient - low > 0.5 ? low + 1 : low;
}

static int64_t quotient(int64_t a, int64_t b)
{
    return b == 0 ? -1 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static int64_t rest(int64_t a, int64_t b)
{
    return b == 0 || b == -1 ? 0 : a % b;
}

static int64_t modulo(int64_t a, int64_t b)
{
    int64_t m = rest(a, b);

    return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}

static int64_t power(int64_t base, int64_t exponent)
{
    uint64_t result = 1, factor = (uint64_t)base;

    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    for (; exponent; exponent >>= 1, factor *= factor)
        result *= exponent & 1 ? factor : 1;
    return (int64_t)result;
}

#define compared(op, a, b) \
    ((op) == 0 ? (a) >= (b) : (op) == 1 ? (a) > (b) : (op) == 2 ? (a) <= (b) : (a) < (b))

#define A              x[0]
#define B              x[1]
#define C              x[2]
#define P              p[0]
#define Q              p[1]
#define R              p[2]
#define JOIN(a, b)     a##b
#define LINED(a, line) JOIN(a, line)
#define FLOATS(name, arity, result, carried, expression)                     \
    static double LINED(floats_, __LINE__)(const double *x, const double *p) \
    {                                                                        \
        (void)x;                                                             \
        (void)p;                                                             \
        return expression;                                                   \
    }
#define INTS(name, arity, result, carried, expression)                        \
    static int64_t LINED(ints_, __LINE__)(const int64_t *x, const int64_t *p) \
    {                                                                         \
        (void)x;                                                              \
        (void)p;                                                              \
        return expression;                                                    \
    }
#define BOTH(name, arity, result, carried, expression) \
    FLOATS(name, arity, result, carried, expression)   \
    INTS(name, arity, result, carried, expression)
#include "tests/sim/values/value_functors.def"

static const struct value_row rows[] = {
#define FLOATS(name, arity, result, carried, expression) \
    {name, arity, result, carried, LINED(floats_, __LINE__), NULL},
#define INTS(name, arity, result, carried, expression) \
    {name, arity, result, carried, NULL, LINED(ints_, __LINE__)},
#define BOTH(name, arity, result, carried, expression) \
    {name, arity, result, carried, LINED(floats_, __LINE__), LINED(ints_, __LINE__)},
#include "tests/sim/values/value_functors.def"
};

/* ---- names ---- */

/* Whether `name` is in it where a word begins; `#n` at its end: and it is the n-th lambda of its function. */
static bool has_name(struct text t, const char *name)
{
    const char *number = strchr(name, '#');
    char lambda[16] = "#";
    size_t length = number && !number[2] ? (size_t)(number - name) : strlen(name);

    for (const char *at = t.at; (at = memmem(at, t.length - (size_t)(at - t.at), name, length));
            at++) {
        if (at > t.at && (isalnum((unsigned char)at[-1]) || at[-1] == '_'))
            continue;
        if (length == strlen(name))
            return true;
        (void)strcat(strncpy(lambda + 1, number + 1, 3), "}");
        return ends(t, lambda);
    }
    return false;
}

/* The list of arguments of the last lambda in it. False: it is none. */
static bool lambda_list(struct text t, struct text *ret_list)
{
    static const char opening[] = "{lambda(";
    const char *found = NULL;

    if (!ends(t, "}"))
        return false;
    for (const char *at = t.at;
            (at = memmem(at, t.length - (size_t)(at - t.at), opening, strlen(opening))); at++)
        found = at;
    if (!found)
        return false;
    *ret_list = inside(found + strlen(opening) - 1, t.at + t.length);
    return true;
}

/* Types of the arguments, by the lambda or by the template's first argument; one name has it inside. */
static bool read_arguments(struct text t, unsigned arity, struct value_functor *f)
{
    struct text list, item;
    unsigned count = 0;

    f->is_lambda = lambda_list(t, &list);
    if (f->is_lambda) {
        while (count < VALUE_ARGUMENTS && next_item(&list, &item))
            f->argument[count++] = value_type_named(item);
        return count == arity;
    }
    bool is_template = template_list(t, "<", &list) || template_list(t, "", &list);
    for (unsigned i = 0; i < VALUE_ARGUMENTS; i++)
        f->argument[i] = is_template ? value_type_named(nth_item(list, 0)) : VALUE_F32;
    return is_template || ends(t, "::ConvertFloatToFloat8E5M2Op");
}

static enum value_type result_of(struct text t, char result, const struct value_functor *f)
{
    struct text list;

    switch (result) {
    case 'b':
        return VALUE_BOOL;
    case '4':
        return VALUE_F8_E4M3;
    case '5':
        return VALUE_F8_E5M2;
    case 'h':
        return VALUE_F16;
    case 'B':
        return VALUE_BF16;
    case 'f':
        return VALUE_F32;
    case '2':
        return f->argument[1];
    case 't':
        return template_list(t, "", &list) ? value_type_named(nth_item(list, 1)) : VALUE_NONE;
    default:
        return f->argument[0];
    }
}

static bool find_row(struct text t, unsigned arity, struct value_functor *f)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct value_row *row = &rows[i];

        if (row->arity != arity || !has_name(t, row->name)
                || (f->is_float ? !row->floats : !row->ints))
            continue;
        f->row = row;
        f->result = result_of(t, row->result, f);
        return f->result != VALUE_NONE;
    }
    return false;
}

static enum value_type carried_type(const struct value_functor *f, char which)
{
    return which == 'i'    ? VALUE_I32
            : which == 'l' ? VALUE_I64
            : which == 'O' ? value_math_type(f->argument[0])
                           : f->argument[0];
}

/* Where its n-th carried value lies; behind the last one, its end. Alignment is size. */
static uint32_t carried_at(const struct value_functor *f, unsigned n)
{
    uint32_t at = 0, align = 1, size;

    for (unsigned i = 0; f->row->carried[i]; i++) {
        size = value_size(carried_type(f, f->row->carried[i]));
        align = size > align ? size : align;
        at = (at + size - 1) / size * size;
        if (i == n)
            return at;
        at += size;
    }
    return at ? (at + align - 1) / align * align : 1;
}

/* Types of what a BinaryFunctor is called with, which may be narrower than what it computes with. */
static void rename_types(struct text list, struct value_functor *f)
{
    enum value_type types[2] = {
            value_type_named(nth_item(list, 0)), value_type_named(nth_item(list, 1))};

    f->result = value_type_named(nth_item(list, 2));
    f->bound_type = f->bound >= 0 ? f->argument[f->bound] : VALUE_NONE;
    f->argument[0] = types[0];
    f->argument[1] = types[1];
    if (f->bound == 0)
        f->argument[0] = types[1];
}

bool value_functor_find(struct text functor, unsigned arity, struct value_functor *ret_functor)
{
    static const char *const wrappers[] = {"at::native::AUnaryFunctor<",
            "at::native::BUnaryFunctor<", "at::native::BinaryFunctor<"};
    struct value_functor *f = ret_functor;
    struct text inner = functor, list = {"", 0};
    int wrapper = 0;

    *f = (struct value_functor){.bound = -1, .arity = arity};
    while (wrapper < 3 && !begins(functor, wrappers[wrapper]))
        wrapper++;
    if (wrapper < 3 && template_list(functor, "", &list))
        inner = nth_item(list, 3);
    if (wrapper < 2) {
        f->bound = wrapper;
        arity++;
    }
    if (arity > VALUE_ARGUMENTS || !read_arguments(inner, arity, f))
        return false;
    for (unsigned i = 0; i < arity || i == 0; i++) {
        if (f->argument[i] == VALUE_NONE)
            return false;
        f->is_float |= value_is_float(f->argument[i]);
    }
    if (!find_row(inner, arity, f))
        return false;
    f->size = carried_at(f, UINT32_MAX);
    if (wrapper < 3) {
        uint32_t unit = f->bound >= 0 ? value_size(f->argument[f->bound]) : 1;

        f->bound_at = (f->size + unit - 1) / unit * unit;
        f->size = f->bound >= 0 ? f->bound_at + unit : f->size;
        rename_types(list, f);
    }
    return f->result != VALUE_NONE && (f->arity == 0 || f->argument[0] != VALUE_NONE);
}

/* ---- calls ---- */

uint32_t value_functor_reads(const struct value_functor *functor)
{
    return functor->bound < 0 && !functor->row->carried[0] ? 0 : functor->size;
}

void value_functor_carried(
        const struct value_functor *functor, const char *bytes, struct value_carried *ret_carried)
{
    struct value_functor f = *functor;

    *ret_carried = (struct value_carried){.bound = value_of_integer(0)};
    if (f.bound >= 0)
        ret_carried->bound = value_read(f.bound_type, bytes + f.bound_at);
    for (unsigned i = 0; f.row->carried[i]; i++) {
        struct value v = value_read(carried_type(&f, f.row->carried[i]), bytes + carried_at(&f, i));

        ret_carried->f[i] = v.f;
        ret_carried->i[i] = v.i;
    }
}

struct value value_functor_call(const struct value_functor *functor,
        const struct value_carried *carried, const struct value *arguments)
{
    double f[VALUE_ARGUMENTS] = {0};
    int64_t i[VALUE_ARGUMENTS] = {0};

    for (unsigned n = 0, given = 0; n < functor->row->arity; n++) {
        struct value v = (int)n == functor->bound ? carried->bound : arguments[given++];

        f[n] = v.f;
        i[n] = v.i;
    }
    if (functor->is_float)
        return value_of_float(functor->row->floats(f, carried->f));
    return value_of_integer(functor->row->ints(i, carried->i));
}
