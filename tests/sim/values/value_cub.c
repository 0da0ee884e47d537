/* SPDX-License-Identifier: MIT */
/*
 * Kernels of CUB, as PyTorch calls them: radix sort pass by pass, selection, scans, sums, runs. What they keep in
 * between (tables of tiles, histograms) is never read here.
 */
#include "tests/sim/values/value_launch.h"

#include <stdlib.h>

/* ---- iterators ---- */

/* What a kernel reads one by one: memory, numbers that count up, a constant, or whether memory is not 0. */
struct source {
    uint64_t addr;
    enum value_type type;
    bool counts, is_test;
    int64_t start;
};

static enum value_type pointee(struct text type)
{
    if (type.length == 0 || type.at[type.length - 1] != '*')
        return VALUE_NONE;
    type.length--;
    return value_type_named(trim(type));
}

static bool read_iterator(struct value_launch *l, unsigned param, struct source *s)
{
    struct text type = value_param_type(l, param), list;
    bool is_older;

    *s = (struct source){0};
    if (find(type, "counting_iterator<long,") || find(type, "CountingInputIterator<long,")) {
        s->counts = true;
        s->start = (int64_t)value_param_u64(l, param, 0);
        return true;
    }
    /* CUDA 12's has its functor first */
    is_older = find(type, "TransformInputIterator<") != NULL;
    if (is_older || find(type, "transform_iterator<")) {
        if (!template_list(type, is_older ? "TransformInputIterator" : "transform_iterator", &list)
                || (!find(nth_item(list, is_older), "NonZeroOp<")
                        && !find(nth_item(list, is_older), "CountMaskOp")))
            return false;
        s->is_test = true;
        type = nth_item(list, is_older ? 2 : 1);
    }
    s->addr = value_param_u64(l, param, is_older ? 8 : 0);
    s->type = pointee(type);
    return s->type != VALUE_NONE;
}

static struct value load(struct value_launch *l, const struct source *s, uint64_t index)
{
    struct value v;

    if (s->counts)
        return value_of_integer(s->start + (int64_t)index);
    v = value_load(l, s->addr + index * value_size(s->type), s->type);
    if (s->is_test)
        return value_of_integer(v.is_float ? v.f != 0 : v.i != 0);
    return v;
}

static void store(struct value_launch *l, const struct source *s, uint64_t index, struct value v)
{
    value_store(l, s->addr + index * value_size(s->type), s->type, v);
}

/* ---- sums and scans ---- */

static bool is_sum(const struct value_launch *l)
{
    return find(l->params, "plus<") || find(l->params, "SumOp<");
}

static struct value added(struct value a, struct value b)
{
    return a.is_float ? value_of_float(a.f + b.f)
                      : value_of_integer((int64_t)((uint64_t)a.i + (uint64_t)b.i));
}

/* (source, result, elements, operation, first value, ..): the whole sum goes to the first of the blocks' results. */
bool value_body_cub_sum(struct value_launch *l)
{
    bool is_single = find(l->name, "SingleTileKernel<") != NULL;
    struct source from, to;
    uint64_t count = (uint64_t)value_param_i64(l, 2);
    struct value sum;

    if (!is_sum(l) || !read_iterator(l, 0, &from) || !read_iterator(l, 1, &to) || to.is_test
            || !value_affords(l, count))
        return false;
    sum = load(l, &from, 0);
    for (uint64_t i = 1; i < count && !l->has_failed; i++)
        sum = added(sum, load(l, &from, i));
    store(l, &to, 0, sum);
    for (uint32_t block = 1; block < l->grid.x && !is_single; block++)
        store(l, &to, block, sum.is_float ? value_of_float(0) : value_of_integer(0));
    return count > 0;
}

/* (source, result, tiles, .., operation, first value, elements): without a first value each sum has its own element. */
bool value_body_cub_scan(struct value_launch *l)
{
    struct source from, to;
    struct text first = value_param_type(l, 5);
    bool is_inclusive = find(first, "NullType") != NULL;
    uint64_t count = (uint64_t)value_param_i64(l, 6);
    bool times = find(l->params, "multiplies<") != NULL;
    struct value sum = value_of_integer(0);

    if ((!is_sum(l) && !times) || !read_iterator(l, 0, &from) || !read_iterator(l, 1, &to)
            || (!is_inclusive && !find(first, "InputValue<")) || (!is_inclusive && times)
            || !value_affords(l, count, 2))
        return false;
    if (!is_inclusive && value_param_size(l, 5) == 16 && value_param_u64(l, 5, 8) != 0)
        return false; /* it lies in memory */
    if (value_is_float(to.type))
        sum = value_of_float(0);
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        struct value v = load(l, &from, i);

        if (!is_inclusive)
            store(l, &to, i, sum);
        if (times && i > 0)
            sum = v.is_float ? value_of_float(sum.f * v.f)
                             : value_of_integer((int64_t)((uint64_t)sum.i * (uint64_t)v.i));
        else
            sum = i > 0 || !is_inclusive ? added(sum, v) : v;
        if (is_inclusive)
            store(l, &to, i, sum);
    }
    return true;
}

/* ---- selection ---- */

/* (source, flags, result, number of results, tiles, .., equality, elements, ..): by flag, or where a run begins. */
bool value_body_cub_select(struct value_launch *l)
{
    struct source from, flags = {0}, to, count_to;
    bool by_run = find(value_param_type(l, 1), "NullType") != NULL;
    uint64_t count = (uint64_t)value_param_i64(l, 7), kept = 0;
    struct value before = value_of_integer(0);

    if (!read_iterator(l, 0, &from) || !read_iterator(l, 2, &to) || !read_iterator(l, 3, &count_to)
            || (by_run ? !find(value_param_type(l, 6), "equal_to<") : !read_iterator(l, 1, &flags))
            || !value_affords(l, count, 3))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        struct value v = load(l, &from, i), flag = by_run ? v : load(l, &flags, i);
        bool is_kept = flag.is_float ? flag.f != 0 : flag.i != 0;

        if (by_run)
            is_kept = i == 0 || (v.is_float ? v.f != before.f : v.i != before.i);
        if (is_kept)
            store(l, &to, kept++, v);
        before = v;
    }
    store(l, &count_to, 0, value_of_integer((int64_t)kept));
    return true;
}

/* (keys, results, ones, lengths, number of runs, ..): lengths of runs. */
bool value_body_cub_runs(struct value_launch *l)
{
    struct source keys, runs, lengths, number;
    uint64_t count = (uint64_t)value_param_i64(l, 9), run = 0, begun = 0;

    if (value_param_u64(l, 2, find(value_param_type(l, 2), "ConstantInputIterator<") ? 0 : 8) != 1
            || !find(value_param_type(l, 7), "equal_to<") || !is_sum(l)
            || !read_iterator(l, 0, &keys) || !read_iterator(l, 1, &runs)
            || !read_iterator(l, 3, &lengths) || !read_iterator(l, 4, &number)
            || !value_affords(l, count, 4))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        struct value v = load(l, &keys, i), next = i + 1 < count ? load(l, &keys, i + 1) : v;

        if (i + 1 < count && (v.is_float ? v.f == next.f : v.i == next.i))
            continue;
        store(l, &runs, run, v);
        store(l, &lengths, run++, value_of_integer((int64_t)(i + 1 - begun)));
        begun = i + 1;
    }
    store(l, &number, 0, value_of_integer((int64_t)run));
    return true;
}

/* ---- radix sort ---- */

struct key {
    uint64_t bits; /* those that are sorted by */
    uint64_t place;
    unsigned char key[8], value[16];
};

static int by_bits(const void *a, const void *b)
{
    const struct key *x = a, *y = b;

    if (x->bits != y->bits)
        return x->bits < y->bits ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

/* Bits of a key that sort as the key does: negative numbers first, 0 and -0 together. */
static uint64_t sorted_bits(enum value_type type, const unsigned char *key)
{
    uint32_t width = value_size(type) * 8;
    uint64_t bits = 0, top = (uint64_t)1 << (width - 1);

    memcpy(&bits, key, value_size(type));
    if (value_is_float(type)) {
        if (bits == top)
            bits = 0;
        bits ^= bits & top ? top | (top - 1) : top;
    } else if (type == VALUE_I8 || type == VALUE_I16 || type == VALUE_I32 || type == VALUE_I64) {
        bits ^= top;
    }
    return bits;
}

struct sort {
    unsigned key_from, key_to, value_from, value_to; /* parameters */
    uint64_t count;
    uint32_t bit, bits;
};

static uint32_t value_bytes(struct text type)
{
    struct text list;

    if (find(type, "NullType"))
        return 0;
    if (template_list(type, "OpaqueType", &list))
        return (uint32_t)strtoul(list.at, NULL, 10);
    return value_size(pointee(type));
}

static bool run_sort(struct value_launch *l, struct sort s)
{
    enum value_type type = pointee(value_param_type(l, s.key_from));
    uint32_t unit = value_size(type), bytes = value_bytes(value_param_type(l, s.value_from));
    bool is_descending = find(l->name, "SortOrder)1") != NULL;
    uint64_t mask = s.bits >= 64 ? UINT64_MAX : ((uint64_t)1 << s.bits) - 1;
    struct key *keys;

    if (type == VALUE_NONE || bytes > 16 || !value_affords(l, s.count, 4))
        return false;
    keys = sim_new((s.count + 1) * sizeof(*keys));
    for (uint64_t i = 0; i < s.count && !l->has_failed; i++) {
        keys[i].place = i;
        value_get(l, value_param_u64(l, s.key_from, 0) + i * unit, unit, keys[i].key);
        keys[i].bits = sorted_bits(type, keys[i].key);
        keys[i].bits = (is_descending ? ~keys[i].bits : keys[i].bits) >> s.bit & mask;
        if (bytes)
            value_get(l, value_param_u64(l, s.value_from, 0) + i * bytes, bytes, keys[i].value);
    }
    qsort(keys, s.count, sizeof(*keys), by_bits);
    for (uint64_t i = 0; i < s.count && !l->has_failed; i++) {
        value_put(l, value_param_u64(l, s.key_to, 0) + i * unit, unit, keys[i].key);
        if (bytes)
            value_put(l, value_param_u64(l, s.value_to, 0) + i * bytes, bytes, keys[i].value);
    }
    free(keys);
    return true;
}

/* (keys, sorted keys, values, sorted values, elements, first bit, last bit, ..) */
bool value_body_cub_sort_tile(struct value_launch *l)
{
    uint32_t first = (uint32_t)value_param_i32(l, 5, 0);

    return run_sort(l,
            (struct sort){0, 1, 2, 3, (uint64_t)value_param_i64(l, 4), first,
                    (uint32_t)value_param_i32(l, 6, 0) - first});
}

/* (.., .., .., .., sorted keys, keys, sorted values, values, elements, bit, bits, ..): one pass. */
bool value_body_cub_sort_pass(struct value_launch *l)
{
    return run_sort(l,
            (struct sort){5, 4, 7, 6, (uint64_t)value_param_i64(l, 8),
                    (uint32_t)value_param_i32(l, 9, 0), (uint32_t)value_param_i32(l, 10, 0)});
}

/* ---- PyTorch's own kernels between them ---- */

/* (result, elements, divisor): the rest of each number. */
bool value_body_fill_rests(struct value_launch *l)
{
    uint64_t count = (uint64_t)value_param_i64(l, 1), by = (uint32_t)value_param_i32(l, 2, 0);

    if (by == 0 || !value_affords(l, count))
        return false;
    for (uint64_t i = 0; i < count; i++)
        value_store(l, value_param_u64(l, 0, 0) + i * 8, VALUE_I64,
                value_of_integer((int64_t)(i % by)));
    return true;
}

/* (places, sizes, dimensions, elements, ..): of each place its index in every dimension. */
bool value_body_write_indices(struct value_launch *l)
{
    uint64_t addr = value_param_u64(l, 0, 0), count = (uint64_t)value_param_i64(l, 3);
    int64_t dims = value_param_i64(l, 2);
    bool is_wide = value_param_size(l, 1) == 8 * VALUE_DIMS;

    if ((is_wide && value_param_u64(l, 4, 0) != 0) || dims < 0 || dims > VALUE_DIMS
            || !value_affords(l, count, (uint64_t)dims + 1))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        uint64_t place = (uint64_t)value_load(l, addr + i * 8, VALUE_I64).i;

        for (int64_t d = dims; d-- > 0;) {
            uint64_t size = is_wide ? value_param_u64(l, 1, (uint32_t)d * 8)
                                    : (uint32_t)value_param_i32(l, 1, (uint32_t)d * 4);

            if (size == 0)
                return false;
            value_store(l, addr + (i + (uint64_t)d * count) * 8, VALUE_I64,
                    value_of_integer((int64_t)(place % size)));
            place /= size;
        }
    }
    return true;
}

/* (elements, source, result): whether an element differs from the one before it. */
bool value_body_adjacent_difference(struct value_launch *l)
{
    uint64_t count = value_param_u64(l, 0, 0);
    struct source from, to;

    if (!read_iterator(l, 1, &from) || !read_iterator(l, 2, &to) || !value_affords(l, count, 3))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        struct value v = load(l, &from, i), before = i ? load(l, &from, i - 1) : v;

        store(l, &to, i, value_of_integer(v.is_float ? v.f != before.f : v.i != before.i));
    }
    return true;
}

/* (elements, source, places, result) */
bool value_body_scatter_places(struct value_launch *l)
{
    uint64_t count = value_param_u64(l, 0, 0);

    if (!value_affords(l, count, 3))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++)
        value_store(l,
                value_param_u64(l, 3, 0)
                        + (uint64_t)value_load(l, value_param_u64(l, 2, 0) + i * 8, VALUE_I64).i
                                * 8,
                VALUE_I64, value_load(l, value_param_u64(l, 1, 0) + i * 8, VALUE_I64));
    return true;
}

/* (counts, sums of them, result, elements, size): repeat_interleave */
bool value_body_repeat(struct value_launch *l)
{
    struct text list;
    enum value_type type = template_list(l->name, "compute_cuda_kernel", &list)
            ? value_type_named(nth_item(list, 0))
            : VALUE_NONE;
    uint64_t count = value_param_u64(l, 3, 0);

    if (type == VALUE_NONE || !value_affords(l, count, 2))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        int64_t times = value_load(l, value_param_u64(l, 0, 0) + i * value_size(type), type).i;
        int64_t end = value_load(l, value_param_u64(l, 1, 0) + i * 8, VALUE_I64).i;

        for (int64_t k = end - times; k < end && !l->has_failed; k++)
            value_store(l, value_param_u64(l, 2, 0) + (uint64_t)k * value_size(type), type,
                    value_of_integer((int64_t)i));
    }
    return true;
}

/* (result, source, borders, sorter, elements' .., borders' number, elements, right, is one row) */
bool value_body_searchsorted(struct value_launch *l)
{
    struct source to, from, borders;
    uint64_t width = value_param_u64(l, 4, 0), number = value_param_u64(l, 5, 0);
    uint64_t count = value_param_u64(l, 6, 0);
    bool right = *value_param(l, 7, 0, 1) != 0, is_row = *value_param(l, 8, 0, 1) != 0;

    if (!read_iterator(l, 0, &to) || !read_iterator(l, 1, &from) || !read_iterator(l, 2, &borders)
            || value_param_u64(l, 3, 0) != 0 || width == 0 || !value_affords(l, count, number))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        struct value v = load(l, &from, i);
        uint64_t row = is_row ? 0 : i / width * number, at = 0;

        for (; at < number && !l->has_failed; at++) {
            struct value b = load(l, &borders, row + at);
            bool is_before = v.is_float ? (right ? !(b.f > v.f) : !(b.f >= v.f))
                                        : (right ? b.i <= v.i : b.i < v.i);

            if (!is_before)
                break;
        }
        store(l, &to, i, value_of_integer((int64_t)at));
    }
    return true;
}
