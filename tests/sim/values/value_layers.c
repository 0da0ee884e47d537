/* SPDX-License-Identifier: MIT */
/* Kernels of layers: softmax, layer norm, negative log likelihood, embedding. */
#include "tests/sim/values/value_launch.h"

#include <math.h>
#include <stdlib.h>

/* The type that a pointer parameter points to. */
static enum value_type pointee(const struct value_launch *l, unsigned param)
{
    struct text type = value_param_type(l, param);

    if (type.length)
        type.length--; /* the asterisk */
    return value_type_named(trim(type));
}

static uint64_t pointer(struct value_launch *l, unsigned param)
{
    return value_param_u64(l, param, 0);
}

static double load(struct value_launch *l, unsigned param, uint64_t index)
{
    enum value_type type = pointee(l, param);

    return value_load(l, pointer(l, param) + index * value_size(type), type).f;
}

static void store(struct value_launch *l, unsigned param, uint64_t index, double f)
{
    enum value_type type = pointee(l, param);

    value_store(l, pointer(l, param) + index * value_size(type), type, value_of_float(f));
}

/* ---- softmax ---- */

/* Of `size` elements from `first` on, `step` apart. */
static void softmax_row(
        struct value_launch *l, uint64_t first, uint64_t size, uint64_t step, bool is_log)
{
    double greatest = -(double)INFINITY, sum = 0;

    for (uint64_t i = 0; i < size && !l->has_failed; i++) {
        double x = load(l, 1, first + i * step);

        greatest = isnan(x) || x > greatest ? x : greatest;
    }
    for (uint64_t i = 0; i < size && !l->has_failed; i++)
        sum += exp(load(l, 1, first + i * step) - greatest);
    for (uint64_t i = 0; i < size && !l->has_failed; i++) {
        double x = load(l, 1, first + i * step) - greatest;

        store(l, 0, first + i * step, is_log ? x - log(sum) : exp(x) / sum);
    }
}

/* <.., .., .., .., is log, is masked, ..>(result, source, rows, stride, elements, mask, ..) */
bool value_body_softmax_warp(struct value_launch *l)
{
    struct text list;
    uint64_t rows = (uint64_t)value_param_i64(l, 2), stride = (uint64_t)value_param_i64(l, 3);
    uint64_t size = (uint64_t)value_param_i64(l, 4);

    if (!template_list(l->name, "softmax_warp_forward", &list)
            || !is_text(nth_item(list, 5), "false") || !value_affords(l, rows, size, 4))
        return false;
    for (uint64_t row = 0; row < rows; row++)
        softmax_row(l, row * stride, size, 1, is_text(nth_item(list, 4), "true"));
    return true;
}

/* (result, source, elements), a row for each block */
bool value_body_softmax_rows(struct value_launch *l)
{
    uint64_t size = (uint64_t)value_param_i64(l, 2);

    if (!find(l->name, "SoftMaxForwardEpilogue") || !value_affords(l, l->grid.x, size, 4))
        return false;
    for (uint64_t row = 0; row < l->grid.x; row++)
        softmax_row(l, row * size, size, 1, find(l->name, "LogSoftMaxForwardEpilogue") != NULL);
    return true;
}

/* (result, source, outer, elements, inner) */
bool value_body_softmax_spatial(struct value_launch *l)
{
    uint64_t outer = (uint64_t)value_param_i64(l, 2), size = (uint64_t)value_param_i64(l, 3);
    uint64_t inner = (uint64_t)value_param_i64(l, 4);

    if (!find(l->name, "SoftMaxForwardEpilogue") || !value_affords(l, outer, size, inner, 4))
        return false;
    for (uint64_t row = 0; row < outer * inner; row++)
        softmax_row(l, row / inner * size * inner + row % inner, size, inner,
                find(l->name, "LogSoftMaxForwardEpilogue") != NULL);
    return true;
}

/*
 * <.., .., .., .., is log, is masked, ..>(result, gradient, output, rows, stride, elements, mask); without log the gradient
 * has been multiplied by the output.
 */
bool value_body_softmax_warp_backward(struct value_launch *l)
{
    struct text list;
    uint64_t rows = (uint64_t)value_param_i64(l, 3), stride = (uint64_t)value_param_i64(l, 4);
    uint64_t size = (uint64_t)value_param_i64(l, 5);
    bool is_log;

    if (!template_list(l->name, "softmax_warp_backward", &list)
            || !is_text(nth_item(list, 5), "false") || !value_affords(l, rows, size, 5))
        return false;
    is_log = is_text(nth_item(list, 4), "true");
    for (uint64_t row = 0; row < rows; row++) {
        double sum = 0;

        for (uint64_t i = row * stride; i < row * stride + size && !l->has_failed; i++)
            sum += load(l, 1, i);
        for (uint64_t i = row * stride; i < row * stride + size && !l->has_failed; i++)
            store(l, 0, i, load(l, 1, i) - (is_log ? exp(load(l, 2, i)) : load(l, 2, i)) * sum);
    }
    return true;
}

/* ---- layer norm ---- */

struct moments {
    double mean, rate; /* 1 / root of the variance */
};

static struct moments moments_of(struct value_launch *l, unsigned param, uint64_t row,
        uint64_t size, double epsilon, bool is_root)
{
    double sum = 0, squares = 0, mean;

    for (uint64_t i = 0; i < size && !l->has_failed; i++)
        sum += load(l, param, row * size + i);
    mean = is_root ? 0 : sum / (double)size;
    for (uint64_t i = 0; i < size && !l->has_failed; i++) {
        double x = load(l, param, row * size + i) - mean;

        squares += x * x;
    }
    return (struct moments){mean, 1 / sqrt(squares / (double)size + epsilon)};
}

/* The name's last argument: no mean is taken. */
static bool is_root_only(struct value_launch *l, const char *name)
{
    struct text list, item, last = {"", 0};

    if (template_list(l->name, name, &list))
        while (next_item(&list, &item))
            last = item;
    return is_text(last, "true");
}

static double epsilon_at(struct value_launch *l, unsigned param)
{
    enum value_type type = value_type_named(value_param_type(l, param));

    return type == VALUE_NONE ? 0 : value_read(type, value_param(l, param, 0, value_size(type))).f;
}

/* Row by row: (x - mean) * rate * gamma + beta */
static void normalize(struct value_launch *l, unsigned source, unsigned gamma, unsigned beta,
        unsigned result, uint64_t row, uint64_t size, struct moments m)
{
    for (uint64_t i = 0; i < size && !l->has_failed; i++) {
        double x = (load(l, source, row * size + i) - m.mean) * m.rate;

        x *= pointer(l, gamma) ? load(l, gamma, i) : 1;
        store(l, result, row * size + i, x + (pointer(l, beta) ? load(l, beta, i) : 0));
    }
}

/* <T, A, is root>(elements, epsilon, source, gamma, beta, means, rates, result), a row for each block */
bool value_body_layer_norm(struct value_launch *l)
{
    uint64_t size = (uint64_t)value_param_i64(l, 0);
    bool is_root = is_root_only(l, "vectorized_layer_norm_kernel");

    if (!value_affords(l, l->grid.x, size, 6))
        return false;
    for (uint64_t row = 0; row < l->grid.x && !l->has_failed; row++) {
        struct moments m = moments_of(l, 2, row, size, epsilon_at(l, 1), is_root);

        if (pointer(l, 5))
            store(l, 5, row, m.mean);
        store(l, 6, row, m.rate);
        normalize(l, 2, 3, 4, 7, row, size, m);
    }
    return true;
}

/* ([rows,] elements, epsilon, source, means, rates), a row for each block */
bool value_body_row_moments(struct value_launch *l)
{
    unsigned at = l->kernel->params_count == 6 ? 1 : 0; /* of the elements */
    uint64_t size = (uint64_t)value_param_i64(l, at);

    if (l->kernel->params_count != at + 5 || !value_affords(l, l->grid.x, size, 2))
        return false;
    for (uint64_t row = 0; row < l->grid.x && !l->has_failed; row++) {
        struct moments m = moments_of(l, at + 2, row, size, epsilon_at(l, at + 1),
                is_root_only(l, "RowwiseMomentsCUDAKernel"));

        if (pointer(l, at + 3))
            store(l, at + 3, row, m.mean);
        store(l, at + 4, row, m.rate);
    }
    return true;
}

/* ([rows,] elements, source, means, rates, gamma, beta, result), a row for each block */
bool value_body_layer_norm_forward(struct value_launch *l)
{
    unsigned at = l->kernel->params_count == 8 ? 1 : 0;
    uint64_t size = (uint64_t)value_param_i64(l, at);

    if (l->kernel->params_count != at + 7 || !value_affords(l, l->grid.x, size, 4))
        return false;
    for (uint64_t row = 0; row < l->grid.x && !l->has_failed; row++)
        normalize(l, at + 1, at + 4, at + 5, at + 6, row, size,
                (struct moments){
                        pointer(l, at + 2) ? load(l, at + 2, row) : 0, load(l, at + 3, row)});
    return true;
}

/* (gradient, source, means, rates, gamma, result, elements), a row for each block */
bool value_body_layer_norm_backward(struct value_launch *l)
{
    uint64_t size = (uint64_t)value_param_i64(l, 6);
    bool is_root = is_root_only(l, "layer_norm_grad_input_kernel");

    if (!value_affords(l, l->grid.x, size, 7))
        return false;
    for (uint64_t row = 0; row < l->grid.x && !l->has_failed; row++) {
        double mean = is_root ? 0 : load(l, 2, row), rate = load(l, 3, row), sum = 0, along = 0;

        for (uint64_t i = 0; i < size && !l->has_failed; i++) {
            double g = load(l, 0, row * size + i) * (pointer(l, 4) ? load(l, 4, i) : 1);

            sum += g;
            along += g * (load(l, 1, row * size + i) - mean) * rate;
        }
        for (uint64_t i = 0; i < size && !l->has_failed; i++) {
            double g = load(l, 0, row * size + i) * (pointer(l, 4) ? load(l, 4, i) : 1);
            double x = (load(l, 1, row * size + i) - mean) * rate;

            store(l, 5, row * size + i,
                    rate * (g - ((is_root ? 0 : sum) + x * along) / (double)size));
        }
    }
    return true;
}

/* ---- loss ---- */

static int64_t target_at(struct value_launch *l, unsigned param, uint64_t row)
{
    enum value_type type = pointee(l, param);

    return value_load(l, pointer(l, param) + row * value_size(type), type).i;
}

static double weight_of(struct value_launch *l, unsigned param, int64_t target)
{
    return pointer(l, param) ? load(l, param, (uint64_t)target) : 1;
}

/* (loss, sum of weights, source, targets, weights, averages, rows, elements, classes, ignored) */
bool value_body_nll(struct value_launch *l)
{
    uint64_t rows = (uint64_t)value_param_i64(l, 6), size = (uint64_t)value_param_i64(l, 7);
    double loss = 0, weights = 0;

    if (l->kernel->params_count != 10 || !value_affords(l, rows, 3))
        return false;
    for (uint64_t row = 0; row < rows && !l->has_failed; row++) {
        int64_t target = target_at(l, 3, row);
        double weight;

        if (target == value_param_i64(l, 9))
            continue;
        if (target < 0 || target >= value_param_i64(l, 8))
            return false;
        weight = weight_of(l, 4, target);
        weights += weight;
        loss -= load(l, 2, row * size + (uint64_t)target) * weight;
    }
    store(l, 0, 0, *value_param(l, 5, 0, 1) ? loss / weights : loss);
    store(l, 1, 0, weights);
    return true;
}

/* (result, gradient, targets, weights, sum of weights, averages, rows, elements, classes, ignored) */
bool value_body_nll_backward(struct value_launch *l)
{
    uint64_t rows = (uint64_t)value_param_i64(l, 6), size = (uint64_t)value_param_i64(l, 7);
    double gradient = -load(l, 1, 0) / (*value_param(l, 5, 0, 1) ? load(l, 4, 0) : 1);

    if (l->kernel->params_count != 10 || !value_affords(l, rows, 4))
        return false;
    for (uint64_t row = 0; row < rows && !l->has_failed; row++) {
        int64_t target = target_at(l, 2, row);

        if (target == value_param_i64(l, 9))
            continue;
        if (target < 0 || target >= value_param_i64(l, 8))
            return false;
        store(l, 0, row * size + (uint64_t)target, gradient * weight_of(l, 3, target));
    }
    return true;
}

/* ---- gradients of what was chosen by index ---- */

/* (indices, gradient, result, indices' number, elements of a row, index of padding) */
bool value_body_embedding_backward(struct value_launch *l)
{
    uint64_t count = (uint64_t)value_param_i64(l, 3), size = (uint64_t)value_param_i64(l, 4);
    enum value_type type = pointee(l, 2);

    if (type == VALUE_NONE || !value_affords(l, count, size, 4))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        int64_t row = target_at(l, 0, i);

        for (uint64_t k = 0; k < size && row != value_param_i64(l, 5) && !l->has_failed; k++)
            value_add(l, pointer(l, 2) + ((uint64_t)row * size + k) * value_size(type), type,
                    value_of_float(load(l, 1, i * size + k)));
    }
    return true;
}

/* (sorted indices, their places, gradient, result, indices' number, stride, stride in front, outer, accumulates) */
bool value_body_index_backward(struct value_launch *l)
{
    uint64_t count = value_param_u64(l, 4, 0), stride = value_param_u64(l, 5, 0);
    uint64_t before = value_param_u64(l, 6, 0), outer = value_param_u64(l, 7, 0);
    enum value_type type = pointee(l, 3);

    if (type == VALUE_NONE || *value_param(l, 8, 0, 1) == 0
            || !value_affords(l, outer, count, stride, 4))
        return false;
    for (uint64_t z = 0; z < outer; z++)
        for (uint64_t i = 0; i < count && !l->has_failed; i++) {
            uint64_t row = (uint64_t)target_at(l, 0, i), from = (uint64_t)target_at(l, 1, i);

            for (uint64_t k = 0; k < stride && !l->has_failed; k++)
                value_add(l, pointer(l, 3) + (row * stride + z * before + k) * value_size(type),
                        type, value_of_float(load(l, 2, (from + z * count) * stride + k)));
        }
    return true;
}
