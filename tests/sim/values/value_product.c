/* SPDX-License-Identifier: MIT */
#include "tests/sim/values/value_product.h"

#include "tests/sim/values/sim_values.h"
#include "tests/sim/values/value_launch.h"

#include <math.h>
#include <stdlib.h>

static enum value_type type_of(int64_t number)
{
    switch (number) {
    case PRODUCT_FLOAT:
        return VALUE_F32;
    case PRODUCT_DOUBLE:
        return VALUE_F64;
    case PRODUCT_HALF:
        return VALUE_F16;
    case PRODUCT_BFLOAT:
        return VALUE_BF16;
    default:
        return VALUE_NONE;
    }
}

static uint64_t element(
        const struct value_product_matrix *x, int64_t row, int64_t column, int64_t number)
{
    int64_t index = number * x->stride + column * x->leading + row;

    return x->at + (uint64_t)index * value_size(type_of(x->type));
}

/* op(X) row by row: `rows` of `columns` numbers. */
static double *read_matrix(struct value_launch *l, const struct value_product_matrix *x,
        bool transposes, int64_t rows, int64_t columns, int64_t number)
{
    double *all = sim_new((size_t)(rows * columns) * sizeof(*all) + 1);

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns && !l->has_failed; j++)
            all[i * columns + j] =
                    value_load(l, transposes ? element(x, j, i, number) : element(x, i, j, number),
                            type_of(x->type))
                            .f;
    return all;
}

static double finished(const struct value_product *p, double x)
{
    if (p->epilogue == PRODUCT_RELU)
        return x > 0 ? x : 0;
    if (p->epilogue == PRODUCT_GELU)
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    return x;
}

static void multiply(struct value_launch *l, const struct value_product *p, int64_t number)
{
    double *a = read_matrix(l, &p->a, p->transposes_a != 0, p->rows, p->depth, number);
    double *b = read_matrix(l, &p->b, p->transposes_b != 0, p->depth, p->columns, number);
    double *row = sim_new((size_t)p->columns * sizeof(*row) + 1);
    enum value_type type = type_of(p->c.type);
    uint32_t unit = value_size(type);

    for (int64_t i = 0; i < p->rows && !l->has_failed; i++) {
        double bias = p->bias ? value_load(l, p->bias + (uint64_t)i * unit, type).f : 0;

        memset(row, 0, (size_t)p->columns * sizeof(*row));
        for (int64_t k = 0; k < p->depth; k++)
            for (int64_t j = 0; j < p->columns; j++)
                row[j] += a[i * p->depth + k] * b[k * p->columns + j];
        for (int64_t j = 0; j < p->columns; j++) {
            uint64_t at = element(&p->c, i, j, number);
            double before = p->beta != 0 ? p->beta * value_load(l, at, type).f : 0;

            value_store(
                    l, at, type, value_of_float(finished(p, p->alpha * row[j] + before + bias)));
        }
    }
    free(a);
    free(b);
    free(row);
}

bool sim_values_product(int device, const struct value_product *p)
{
    struct value_launch l = {.device = device, .left = UINT64_MAX};

    if (sim_config.values == 0 || type_of(p->a.type) == VALUE_NONE
            || type_of(p->b.type) == VALUE_NONE || type_of(p->c.type) == VALUE_NONE)
        return false;
    for (int64_t number = 0; number < p->count && !l.has_failed; number++)
        multiply(&l, p, number);
    return sim_values_end(&l);
}
