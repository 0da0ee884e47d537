/* SPDX-License-Identifier: MIT */
/*
 * Sorts, selection of the greatest, and scans (PyTorch's Sort.cu, TensorTopK.cu, Sorting.cu, ScanUtils.cuh).
 *
 * Sorts in place work on slices: (keys, slices, elements of one, stride, values, stride, order, ..). All are stable here.
 */
#include "tests/sim/values/value_launch.h"

#include <math.h>
#include <stdlib.h>

struct item {
    struct value key;
    uint64_t place;
    unsigned char bytes[16]; /* that go with it */
    bool is_descending;
};

/* NaN is greater than all. */
static int order_of(struct value a, struct value b)
{
    if (a.is_float && (isnan(a.f) || isnan(b.f)))
        return isnan(a.f) - isnan(b.f);
    return a.is_float ? (a.f > b.f) - (a.f < b.f) : (a.i > b.i) - (a.i < b.i);
}

static int compare(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int order = order_of(x->key, y->key);

    if (order)
        return x->is_descending ? -order : order;
    return x->place < y->place ? -1 : 1;
}

static struct item *read_slice(struct value_launch *l, uint64_t addr, enum value_type type,
        uint64_t count, uint64_t stride, bool is_descending)
{
    struct item *items = sim_new((count + 1) * sizeof(*items));

    for (uint64_t i = 0; i < count; i++)
        items[i] = (struct item){.key = value_load(l, addr + i * stride * value_size(type), type),
                .place = i,
                .is_descending = is_descending};
    return items;
}

/* Whether the greatest comes first: by the comparison's type, or by a bool. */
static bool is_descending(struct value_launch *l)
{
    struct text type = value_param_type(l, 6);

    if (is_text(type, "bool"))
        return *value_param(l, 6, 0, 1) != 0;
    return find(type, "GTOp<") != NULL;
}

bool value_body_sort_slices(struct value_launch *l)
{
    struct value_tensor keys, values;
    uint64_t slices = (uint64_t)value_param_i64(l, 1), size = (uint64_t)value_param_i64(l, 2);
    uint64_t key_stride = (uint64_t)value_param_i64(l, 3);
    uint64_t value_stride = (uint64_t)value_param_i64(l, 5);

    if (!value_tensor(l, 0, &keys) || !value_tensor(l, 4, &values) || keys.type == VALUE_NONE
            || !value_affords(l, slices, size, 4))
        return false;
    for (uint64_t s = 0; s < slices && !l->has_failed; s++) {
        uint64_t key = value_tensor_at(&keys, s), value = value_tensor_at(&values, s);
        struct item *items = read_slice(l, key, keys.type, size, key_stride, is_descending(l));

        for (uint64_t i = 0; i < size; i++)
            value_get(l, value + i * value_stride * values.unit, values.unit, items[i].bytes);
        qsort(items, size, sizeof(*items), compare);
        for (uint64_t i = 0; i < size; i++) {
            value_store(l, key + i * key_stride * keys.unit, keys.type, items[i].key);
            value_put(l, value + i * value_stride * values.unit, values.unit, items[i].bytes);
        }
        free(items);
    }
    return true;
}

/* (source, elements of a slice, k, greatest, slices, stride, result, stride, indices, stride, ..) */
bool value_body_topk(struct value_launch *l)
{
    struct value_tensor source, result, indices;
    uint64_t size = (uint64_t)value_param_i64(l, 1), k = (uint64_t)value_param_i64(l, 2);
    uint64_t slices = (uint64_t)value_param_i64(l, 4), stride = (uint64_t)value_param_i64(l, 5);
    bool greatest = *value_param(l, 3, 0, 1) != 0;

    if (!value_tensor(l, 0, &source) || !value_tensor(l, 6, &result)
            || !value_tensor(l, 8, &indices) || source.type == VALUE_NONE || k > size
            || !value_affords(l, slices, size))
        return false;
    for (uint64_t s = 0; s < slices && !l->has_failed; s++) {
        struct item *items =
                read_slice(l, value_tensor_at(&source, s), source.type, size, stride, greatest);

        qsort(items, size, sizeof(*items), compare);
        for (uint64_t i = 0; i < k; i++) {
            value_store(l,
                    value_tensor_at(&result, s) + i * (uint64_t)value_param_i64(l, 7) * result.unit,
                    result.type, items[i].key);
            value_store(l,
                    value_tensor_at(&indices, s)
                            + i * (uint64_t)value_param_i64(l, 9) * indices.unit,
                    indices.type, value_of_integer((int64_t)items[i].place));
        }
        free(items);
    }
    return true;
}

/* One element of each slice, by rank from below, to a result and its index. */
static bool pick(struct value_launch *l, unsigned source_param, unsigned result_param,
        unsigned index_param, uint64_t slices, uint64_t size, uint64_t stride, uint64_t rank,
        bool nan_wins)
{
    struct value_tensor source, result, indices;

    if (!value_tensor(l, source_param, &source) || !value_tensor(l, result_param, &result)
            || !value_tensor(l, index_param, &indices) || source.type == VALUE_NONE || size == 0
            || rank >= size || !value_affords(l, slices, size))
        return false;
    for (uint64_t s = 0; s < slices && !l->has_failed; s++) {
        struct item *items =
                read_slice(l, value_tensor_at(&source, s), source.type, size, stride, false);
        const struct item *picked;

        qsort(items, size, sizeof(*items), compare);
        picked = &items[rank];
        if (nan_wins && items[size - 1].key.is_float && isnan(items[size - 1].key.f))
            picked = &items[size - 1];
        value_store(l, value_tensor_at(&result, s), result.type, picked->key);
        value_store(l, value_tensor_at(&indices, s), indices.type,
                value_of_integer((int64_t)picked->place));
        free(items);
    }
    return true;
}

/* (source, elements of a slice, k from 1, slices, stride, result, indices) */
bool value_body_kth_value(struct value_launch *l)
{
    return pick(l, 0, 5, 6, (uint64_t)value_param_i64(l, 3), (uint64_t)value_param_i64(l, 1),
            (uint64_t)value_param_i64(l, 4), (uint64_t)value_param_i64(l, 2) - 1, false);
}

/* (result, indices, source, elements of a slice, slices, stride, NaNs are left out) */
bool value_body_median(struct value_launch *l)
{
    uint64_t size = (uint64_t)value_param_i64(l, 3);

    return *value_param(l, 6, 0, 1) == 0
            && pick(l, 2, 0, 1, (uint64_t)value_param_i64(l, 4), size,
                    (uint64_t)value_param_i64(l, 5), (size - 1) / 2, true);
}

/* ---- scans ---- */

static struct value scanned(struct text name, struct value a, struct value b)
{
    if (find(name, "logcumsumexp")) {
        double high = a.f > b.f ? a.f : b.f, low = a.f > b.f ? b.f : a.f;

        return value_of_float(isinf(high) ? high : high + log1p(exp(low - high)));
    }
    if (find(name, "std::multiplies<"))
        return a.is_float ? value_of_float(a.f * b.f)
                          : value_of_integer((int64_t)((uint64_t)a.i * (uint64_t)b.i));
    return a.is_float ? value_of_float(a.f + b.f)
                      : value_of_integer((int64_t)((uint64_t)a.i + (uint64_t)b.i));
}

static enum value_type scan_type(const struct value_launch *l)
{
    struct text list;

    return template_list(l->name, "tensor_kernel_scan_", &list)
            ? value_type_named(nth_item(list, 0))
            : VALUE_NONE;
}

/* Rows of `size` elements that are `inner` apart, `outer` * `inner` of them. */
static bool scan(struct value_launch *l, uint64_t outer, uint64_t inner, uint64_t size)
{
    enum value_type type = scan_type(l);
    bool is_known = find(l->name, "std::plus<") || find(l->name, "std::multiplies<")
            || find(l->name, "logcumsumexp");

    if (type == VALUE_NONE || !is_known || !value_affords(l, outer, inner, size, 2))
        return false;
    for (uint64_t row = 0; row < outer * inner; row++) {
        uint64_t first = row / inner * inner * size + row % inner;
        struct value sum = value_of_integer(0);

        for (uint64_t i = 0; i < size && !l->has_failed; i++) {
            uint64_t at = (first + i * inner) * value_size(type);
            struct value v = value_load(l, value_param_u64(l, 1, 0) + at, type);

            sum = i == 0 ? v : scanned(l->name, sum, v);
            value_store(l, value_param_u64(l, 0, 0) + at, type, sum);
        }
    }
    return true;
}

/* (result, source, rows, elements of one, ..) */
bool value_body_scan_inner(struct value_launch *l)
{
    return scan(l, (uint64_t)value_param_i64(l, 2), 1, (uint64_t)value_param_i64(l, 3));
}

/* (result, source, outer rows, inner rows, elements of one, ..) */
bool value_body_scan_outer(struct value_launch *l)
{
    return scan(l, (uint64_t)value_param_i64(l, 2), (uint64_t)value_param_i64(l, 3),
            (uint64_t)value_param_i64(l, 4));
}

/* (source, result, indices, outer rows, [inner rows,] elements of one, ..): the last greatest, or least, so far. */
bool value_body_scan_extreme(struct value_launch *l)
{
    bool is_outer = find(l->name, "scan_outer_dim_with_indices<") != NULL;
    bool greatest = find(l->name, "std::greater_equal<") != NULL;
    uint64_t outer = (uint64_t)value_param_i64(l, 3);
    uint64_t inner = is_outer ? (uint64_t)value_param_i64(l, 4) : 1;
    uint64_t size = (uint64_t)value_param_i64(l, is_outer ? 5 : 4);
    enum value_type type = scan_type(l);

    if (type == VALUE_NONE || !value_affords(l, outer, inner, size, 3))
        return false;
    for (uint64_t row = 0; row < outer * inner; row++) {
        uint64_t first = row / inner * inner * size + row % inner, best_at = 0;
        struct value best = value_of_integer(0);

        for (uint64_t i = 0; i < size && !l->has_failed; i++) {
            uint64_t at = first + i * inner;
            struct value v = value_load(l, value_param_u64(l, 0, 0) + at * value_size(type), type);
            bool is_nan = v.is_float && isnan(v.f);

            if (i == 0 || is_nan
                    || (!(best.is_float && isnan(best.f))
                            && (greatest ? order_of(v, best) >= 0 : order_of(v, best) <= 0))) {
                best = v;
                best_at = i;
            }
            value_store(l, value_param_u64(l, 1, 0) + at * value_size(type), type, best);
            value_store(l, value_param_u64(l, 2, 0) + at * 8, VALUE_I64,
                    value_of_integer((int64_t)best_at));
        }
    }
    return true;
}
