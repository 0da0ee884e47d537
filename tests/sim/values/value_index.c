/* SPDX-License-Identifier: MIT */
/*
 * Kernels that move elements (PyTorch's Indexing.cu, IndexKernel.cu, ScatterGatherKernel.cu, Shape.cu).
 *
 * Their lambdas have a calculator of offsets in bytes first, then addresses and numbers of 8 bytes; where these begin
 * follows from the number of tensors, and the size of the parameter must be the one that is known.
 */
#include "tests/sim/values/value_launch.h"

#include <stdlib.h>

/* Bytes of the element that the name's first OpaqueType<N>, or type, says. */
static uint32_t unit_of(struct text t, enum value_type *ret_type)
{
    struct text list, type = t;

    *ret_type = VALUE_NONE;
    if (template_list(t, "OpaqueType", &list))
        return (uint32_t)strtoul(list.at, NULL, 10);
    *ret_type = value_type_named(type);
    return value_size(*ret_type);
}

static void copy_one(struct value_launch *l, uint64_t to, uint64_t from, uint32_t unit)
{
    unsigned char bytes[16];

    if (unit == 0 || unit > sizeof(bytes)) {
        value_fail(l);
        return;
    }
    value_get(l, from, unit, bytes);
    value_put(l, to, unit, bytes);
}

static int64_t load_index(struct value_launch *l, uint64_t addr, int64_t size)
{
    int64_t index = value_load(l, addr, VALUE_I64).i;

    if (index < -size || index >= size)
        value_fail(l);
    return index < 0 ? index + size : index;
}

/* A closure: its calculator, and the words behind it. */
struct closure {
    uint64_t count;
    struct value_strides strides;
    uint32_t at; /* of the words */
    uint32_t unit;
    enum value_type type;
};

static bool read_closure(struct value_launch *l, struct closure *c, unsigned tensors,
        bool is_signed, const char *name, unsigned item, uint32_t size)
{
    struct text list;

    c->count = (uint64_t)value_param_i64(l, 0);
    c->at = (VALUE_CALCULATOR_SIZE(tensors) + 7) & ~7U;
    if (value_param_size(l, 1) != size || !template_list(l->name, name, &list))
        return false;
    c->unit = unit_of(nth_item(list, item), &c->type);
    return c->unit != 0 && value_calculator(l, 1, 0, tensors, is_signed, &c->strides)
            && value_affords(l, c->count, tensors + 1);
}

static uint64_t word(struct value_launch *l, const struct closure *c, unsigned n)
{
    return value_param_u64(l, 1, c->at + n * 8);
}

/* ---- gather and scatter ---- */

/* What a scatter does with the element that it goes to. */
static void put_source(struct value_launch *l, const struct closure *c, uint64_t to, uint64_t from)
{
    if (find(l->name, "ReduceAdd"))
        value_add(l, to, c->type, value_load(l, from, c->type));
    else if (find(l->name, "TensorAssign"))
        copy_one(l, to, from, c->unit);
    else
        value_fail(l);
}

/* Words: index, size of the dimension, functor, result, stride in elements, elements, source. */
bool value_body_gather(struct value_launch *l)
{
    static const char name[] = "_cuda_scatter_gather_internal_kernel";
    struct closure c;
    struct text list;
    bool scatters;
    int64_t offset[VALUE_TENSORS];

    if (!template_list(l->name, name, &list))
        return false;
    scatters = is_text(nth_item(list, 0), "true");
    if (!read_closure(l, &c, 3, false, name, 1, 664))
        return false;
    for (uint64_t i = 0; i < c.count && !l->has_failed; i++) {
        int64_t index, far;

        value_offsets(&c.strides, i, offset);
        index = load_index(l, word(l, &c, 0) + (uint64_t)offset[2], (int64_t)word(l, &c, 1));
        far = index * (int64_t)word(l, &c, 4) * (int64_t)c.unit;
        put_source(l, &c, word(l, &c, 3) + (uint64_t)(offset[0] + (scatters ? far : 0)),
                word(l, &c, 6) + (uint64_t)(offset[1] + (scatters ? 0 : far)));
    }
    return true;
}

/* The same with a number for all in place of a source. */
bool value_body_scatter_fill(struct value_launch *l)
{
    struct closure c;
    int64_t offset[VALUE_TENSORS];

    if (!find(l->name, "TensorAssign")
            || !read_closure(l, &c, 2, false, "_cuda_scatter_fill_internal_kernel", 0, 560)
            || c.unit > 8)
        return false;
    for (uint64_t i = 0; i < c.count && !l->has_failed; i++) {
        int64_t index;

        value_offsets(&c.strides, i, offset);
        index = load_index(l, word(l, &c, 0) + (uint64_t)offset[1], (int64_t)word(l, &c, 1));
        value_put(l,
                word(l, &c, 3)
                        + (uint64_t)(offset[0] + index * (int64_t)word(l, &c, 4) * (int64_t)c.unit),
                c.unit, value_param(l, 1, c.at + 48, c.unit));
    }
    return true;
}

/* ---- indices ---- */

/* Words: result, source, the number of indices, 25 addresses of them, 25 sizes, 25 strides in bytes. */
bool value_body_index(struct value_launch *l)
{
    bool puts = find(l->name, "::index_put_kernel_impl<") != NULL;
    struct closure c;
    int64_t offset[VALUE_TENSORS];
    unsigned indices;

    if (!read_closure(
                l, &c, 3, false, puts ? "index_put_kernel_impl" : "index_kernel_impl", 0, 1240))
        return false;
    indices = (unsigned)value_param_i32(l, 1, c.at + 16);
    if (indices > VALUE_DIMS || !value_affords(l, c.count, indices + 2))
        return false;
    for (uint64_t i = 0; i < c.count && !l->has_failed; i++) {
        int64_t far = 0;
        uint64_t to, from;

        value_offsets(&c.strides, i, offset);
        for (unsigned n = 0; n < indices; n++)
            far += load_index(l, word(l, &c, 3 + n) + (uint64_t)offset[2],
                           (int64_t)word(l, &c, 28 + n))
                    * (int64_t)word(l, &c, 53 + n);
        to = word(l, &c, 0) + (uint64_t)offset[0];
        from = word(l, &c, 1) + (uint64_t)offset[1];
        copy_one(l, to + (puts ? (uint64_t)far : 0), from + (puts ? 0 : (uint64_t)far), c.unit);
    }
    return true;
}

/* Words: result, index, [source,] size, stride in elements[, number]. */
static bool put_at(struct value_launch *l, bool fills)
{
    struct closure c;
    int64_t offset[VALUE_TENSORS];
    unsigned behind = fills ? 2 : 3;

    if (!read_closure(l, &c, fills ? 2 : 3, false,
                fills ? "index_fill_kernel_impl" : "index_copy_kernel_impl", 0, fills ? 544 : 648)
            || c.unit > 8)
        return false;
    for (uint64_t i = 0; i < c.count && !l->has_failed; i++) {
        uint64_t to;

        value_offsets(&c.strides, i, offset);
        to = word(l, &c, 0)
                + (uint64_t)(offset[0]
                        + load_index(l, word(l, &c, 1) + (uint64_t)offset[1],
                                  (int64_t)word(l, &c, behind))
                                * (int64_t)word(l, &c, behind + 1) * (int64_t)c.unit);
        if (fills)
            value_put(l, to, c.unit, value_param(l, 1, c.at + 32, c.unit));
        else
            copy_one(l, to, word(l, &c, 2) + (uint64_t)offset[2], c.unit);
    }
    return true;
}

bool value_body_index_fill(struct value_launch *l)
{
    return put_at(l, true);
}

bool value_body_index_copy(struct value_launch *l)
{
    return put_at(l, false);
}

/* Words: result, index, elements, is contiguous and a calculator; the source is the last one. */
bool value_body_take(struct value_launch *l)
{
    struct closure c;
    struct value_strides source;
    int64_t offset[VALUE_TENSORS];

    if (!find(l->name, "take_kernel(")
            || !read_closure(l, &c, 2, false, "cuda_take_put_kernel", 0, 944)
            || !value_calculator(l, 1, c.at + 28, 1, false, &source))
        return false;
    for (uint64_t i = 0; i < c.count && !l->has_failed; i++) {
        int64_t from;

        value_offsets(&c.strides, i, offset);
        from = load_index(l, word(l, &c, 1) + (uint64_t)offset[1], (int64_t)word(l, &c, 2));
        if (*value_param(l, 1, c.at + 24, 1) == 0)
            value_offsets(&source, (uint64_t)from, &from);
        copy_one(l, word(l, &c, 0) + (uint64_t)offset[0],
                value_param_u64(l, 1, 936) + (uint64_t)from * c.unit, c.unit);
    }
    return true;
}

bool value_body_flip(struct value_launch *l)
{
    struct closure c;
    int64_t offset[VALUE_TENSORS];

    if (!read_closure(l, &c, 2, true, "flip_kernel_impl", 0, 520))
        return false;
    for (uint64_t i = 0; i < c.count && !l->has_failed; i++) {
        value_offsets(&c.strides, i, offset);
        copy_one(l, word(l, &c, 0) + (uint64_t)offset[0], word(l, &c, 1) + (uint64_t)offset[1],
                c.unit);
    }
    return true;
}

/* (result, source, indices, its dimension, the source's, [elements,] elements of a slice, size): slices by index. */
bool value_body_index_select(struct value_launch *l)
{
    struct value_tensor result, source, indices;
    bool is_large = find(l->name, "indexSelectLargeIndex<") != NULL;
    unsigned to = (unsigned)value_param_i32(l, 3, 0), from = (unsigned)value_param_i32(l, 4, 0);
    uint64_t inner = (uint64_t)value_param_i64(l, is_large ? 6 : 5), count;

    if (!value_tensor(l, 0, &result) || !value_tensor(l, 1, &source)
            || !value_tensor(l, 2, &indices) || to >= result.dims || from >= source.dims)
        return false;
    count = value_tensor_count(&indices);
    if (!value_affords(l, count, inner, 2))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        int64_t index = value_load(l, value_tensor_at(&indices, i), indices.type).i;

        if (index < 0 || index >= value_param_i64(l, is_large ? 7 : 6))
            return false;
        for (uint64_t k = 0; k < inner && !l->has_failed; k++)
            copy_one(l, value_tensor_at(&result, k) + i * (uint64_t)result.stride[to] * result.unit,
                    value_tensor_at(&source, k)
                            + (uint64_t)(index * source.stride[from]) * source.unit,
                    result.unit);
    }
    return true;
}

/* (result, source, indices, its dimension, the source's, [elements,] elements of a slice, .., .., addition, factor) */
bool value_body_index_add(struct value_launch *l)
{
    struct value_tensor result, source, indices;
    unsigned more = find(l->name, "indexFuncLargeIndex<") ? 1 : 0;
    unsigned to = (unsigned)value_param_i32(l, 3, 0), from = (unsigned)value_param_i32(l, 4, 0);
    uint64_t inner = (uint64_t)value_param_i64(l, 5 + more), count;
    double factor;

    if (!find(l->params, "ReduceAdd") || !value_tensor(l, 0, &result)
            || !value_tensor(l, 1, &source) || !value_tensor(l, 2, &indices) || to >= result.dims
            || from >= source.dims || !value_is_float(result.type)
            || value_param_size(l, 9 + more) != result.unit)
        return false;
    count = value_tensor_count(&indices);
    factor = value_read(result.type, value_param(l, 9 + more, 0, result.unit)).f;
    if (!value_affords(l, count, inner, 3))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        int64_t index = value_load(l, value_tensor_at(&indices, i), indices.type).i;

        if (index < 0 || index >= value_param_i64(l, 6 + more))
            return false;
        for (uint64_t k = 0; k < inner && !l->has_failed; k++) {
            uint64_t at =
                    value_tensor_at(&source, k) + i * (uint64_t)source.stride[from] * source.unit;

            value_add(l,
                    value_tensor_at(&result, k)
                            + (uint64_t)(index * result.stride[to]) * result.unit,
                    result.type, value_of_float(factor * value_load(l, at, source.type).f));
        }
    }
    return true;
}

/* (result, source, indices, their number, bytes of a slice, size, stride of the source, of the result, may be negative) */
bool value_body_gather_slices(struct value_launch *l)
{
    uint64_t count = (uint64_t)value_param_i32(l, 3, 0), bytes = value_param_u64(l, 4, 0);
    struct text index = value_param_type(l, 2);
    enum value_type type;

    while (index.length && strchr("* ", index.at[index.length - 1]))
        index.length--;
    type = value_type_named(index);
    if (type == VALUE_NONE || bytes % 4 || !value_affords(l, count, bytes / 2))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        int64_t at = value_load(l, value_param_u64(l, 2, 0) + i * value_size(type), type).i;
        int64_t size = (int64_t)value_param_u64(l, 5, 0);

        if (at < -size || at >= size)
            return false;
        at += at < 0 ? size : 0;
        for (uint64_t k = 0; k < bytes; k += 4)
            copy_one(l, value_param_u64(l, 0, 0) + i * value_param_u64(l, 7, 0) + k,
                    value_param_u64(l, 1, 0) + (uint64_t)at * value_param_u64(l, 6, 0) + k, 4);
    }
    return true;
}

/* ---- cat ---- */

struct shape {
    uint32_t size[4], stride[4];
};

/* The offset of an input's element where the dimension `along` has `size` of them. */
static uint64_t offset_in(
        const struct shape *shape, unsigned dims, unsigned along, uint64_t size, uint64_t index)
{
    uint64_t offset = 0;

    for (unsigned d = dims - 1; d >= 1; d--) {
        uint64_t here = d == along ? size : shape->size[d];

        offset += index % here * shape->stride[d];
        index /= here;
    }
    return offset + index * shape->stride[0];
}

/*
 * (result, inputs, shape, dimension, stride of it). Inputs: N addresses, places, sizes, numbers of elements, whether they
 * are contiguous, and a shape, or one for each. Vectors: all numbers but those are of elements, the shape is of vectors.
 */
bool value_body_cat(struct value_launch *l)
{
    bool is_vector = find(l->name, "CatArrayBatchedCopy_vectorized<") != NULL;
    struct text list;
    uint32_t room, unit, per = 1, stride;
    unsigned dims, along = (unsigned)value_param_i32(l, 3, 0);
    enum value_type type;
    struct shape shape;

    if (!template_list(l->name, "CatArrayBatchedCopy", &list)
            || !is_text(nth_item(list, 1), "unsigned int"))
        return false;
    unit = unit_of(nth_item(list, 0), &type);
    dims = (unsigned)strtoul(nth_item(list, 2).at, NULL, 10);
    room = (uint32_t)strtoul(nth_item(list, 3).at, NULL, 10);
    if (is_vector) {
        unit = (uint32_t)strtoul(nth_item(list, 5).at, NULL, 10);
        per = (uint32_t)strtoul(nth_item(list, 6).at, NULL, 10);
    }
    if (unit == 0 || dims == 0 || dims > 4 || along >= dims || per == 0 || l->grid.y > room
            || value_param_size(l, 1) < room * 21)
        return false;
    memcpy(&shape, value_param(l, 2, 0, sizeof(shape)), sizeof(shape));
    for (unsigned d = 0; d < dims; d++)
        if (shape.size[d] == 0)
            return false;
    stride = (uint32_t)value_param_i32(l, 4, 0);
    for (uint32_t t = 0; t < l->grid.y && !l->has_failed; t++) {
        uint64_t from = value_param_u64(l, 1, t * 8);
        uint64_t place = (uint32_t)value_param_i32(l, 1, room * 8 + t * 4);
        uint64_t size = (uint32_t)value_param_i32(l, 1, room * 12 + t * 4);
        uint64_t count = (uint32_t)value_param_i32(l, 1, room * 16 + t * 4) / per;

        if (is_vector)
            size = size * stride / per;
        if (!*value_param(l, 1, room * 20 + t, 1) || size == 0 || !value_affords(l, count, 2))
            return false;
        for (uint64_t i = 0; i < count && !l->has_failed; i++)
            copy_one(l,
                    value_param_u64(l, 0, 0)
                            + (place * stride / per + offset_in(&shape, dims, along, size, i))
                                    * unit,
                    from + i * unit, unit);
    }
    return true;
}

/* (source, result, elements, start, shift, size, stride, all): roll along one dimension. */
bool value_body_roll(struct value_launch *l)
{
    struct text list;
    enum value_type type;
    uint32_t unit = template_list(l->name, "roll_cuda_kernel", &list)
            ? unit_of(nth_item(list, 0), &type)
            : 0;
    uint64_t count = value_param_u64(l, 2, 0), start = value_param_u64(l, 4, 0);
    uint64_t size = value_param_u64(l, 5, 0), stride = value_param_u64(l, 6, 0);

    if (unit == 0 || size == 0 || stride == 0 || !value_affords(l, count, 2))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = i / stride % size, from = (at + start) % size;

        copy_one(l, value_param_u64(l, 1, 0) + i * unit,
                value_param_u64(l, 0, 0) + (i + from * stride - at * stride) * unit, unit);
    }
    return true;
}

/* (result, source, diagonal, ..): of a matrix, or of each, the upper or the lower part. */
bool value_body_triangle(struct value_launch *l)
{
    struct value_tensor result, source;
    struct text list;
    int64_t diagonal = (int64_t)value_param_u64(l, 2, 0);
    bool is_upper;
    static const unsigned char zeros[16];

    if (!value_tensor(l, 0, &result) || !value_tensor(l, 1, &source) || result.dims < 2
            || source.dims < 2 || !template_list(l->name, "triu_tril_kernel", &list)
            || !value_affords(l, value_tensor_count(&source), 2))
        return false;
    is_upper = is_text(nth_item(list, 2), "true");
    for (uint64_t i = 0; i < value_tensor_count(&source); i++) {
        uint64_t columns = (uint64_t)source.size[source.dims - 1];
        uint64_t row = i / columns % (uint64_t)source.size[source.dims - 2];
        int64_t beyond = (int64_t)(i % columns) - (int64_t)row - diagonal;

        if (is_upper ? beyond >= 0 : beyond <= 0)
            copy_one(l, value_tensor_at(&result, i), value_tensor_at(&source, i), source.unit);
        else
            value_put(l, value_tensor_at(&result, i), result.unit, zeros);
    }
    return true;
}

/* ---- counts ---- */

/* Which of `bins` between two ends; -1: none. */
static int64_t bin_of(struct value v, struct value low, struct value high, int64_t bins)
{
    int64_t bin;

    if (v.is_float) {
        if (!(v.f >= low.f && v.f <= high.f))
            return -1;
        bin = (int64_t)((v.f - low.f) * (double)bins / (high.f - low.f));
    } else {
        if (v.i < low.i || v.i > high.i || high.i == low.i)
            return -1;
        bin = (v.i - low.i) * bins / (high.i - low.i);
    }
    return bin == bins ? bins - 1 : bin;
}

/* (counts, .., source, bins, low, high, elements, the second functor: ones) */
bool value_body_histogram(struct value_launch *l)
{
    struct value_tensor counts, source;
    int64_t bins = value_param_i64(l, 3);
    uint64_t total = (uint64_t)value_param_i64(l, 6);
    struct value low, high;
    double *sums;

    if (!find(l->params, "{lambda(long)#2}") || !value_tensor(l, 0, &counts)
            || !value_tensor(l, 2, &source) || source.type == VALUE_NONE || bins <= 0
            || value_param_size(l, 4) != value_size(source.type) || !value_affords(l, total)
            || !value_affords(l, (uint64_t)bins, 2))
        return false;
    low = value_read(source.type, value_param(l, 4, 0, source.unit));
    high = value_read(source.type, value_param(l, 5, 0, source.unit));
    sums = sim_new((size_t)bins * sizeof(*sums));
    for (uint64_t i = 0; i < total && !l->has_failed; i++) {
        int64_t bin =
                bin_of(value_load(l, value_tensor_at(&source, i), source.type), low, high, bins);

        if (bin >= 0 && bin < bins)
            sums[bin]++;
    }
    for (int64_t i = 0; i < bins; i++)
        value_add(l, value_tensor_at(&counts, (uint64_t)i), counts.type, value_of_float(sums[i]));
    free(sums);
    return true;
}
