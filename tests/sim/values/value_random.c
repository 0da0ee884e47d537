/* SPDX-License-Identifier: MIT */
/*
 * Random numbers: PyTorch's distributions on Philox 4x32-10, each element with the number that a device draws for it where
 * the kernel has 256 threads a block, as PyTorch's have.
 *
 *     distribution_elementwise_grid_stride_kernel<A, n, ..>(N, seed and offset, .., closure)
 *     closure: address, stride in bytes, functor; or a calculator for one tensor, address, functor
 */
#include "tests/sim/values/value_launch.h"

#include <math.h>
#include <stdlib.h>

#define THREADS 256U

struct philox {
    uint64_t seed, offset;
};

/* One block of four words. */
static void draw(const struct philox *p, uint64_t sequence, uint64_t round, uint32_t *ret_words)
{
    uint64_t count = p->offset / 4 + round;
    uint32_t key[2] = {(uint32_t)p->seed, (uint32_t)(p->seed >> 32)};
    uint32_t c[4] = {(uint32_t)count, (uint32_t)(count >> 32), (uint32_t)sequence,
            (uint32_t)(sequence >> 32)};

    for (unsigned i = 0; i < 10; i++) {
        uint64_t first = (uint64_t)0xD2511F53U * c[0], second = (uint64_t)0xCD9E8D57U * c[2];

        c[0] = (uint32_t)(second >> 32) ^ c[1] ^ key[0];
        c[2] = (uint32_t)(first >> 32) ^ c[3] ^ key[1];
        c[1] = (uint32_t)second;
        c[3] = (uint32_t)first;
        key[0] += 0x9E3779B9U;
        key[1] += 0xBB67AE85U;
    }
    memcpy(ret_words, c, sizeof(c));
}

/* Above 0, at most 1. */
static double uniform(uint32_t word)
{
    return (double)((float)word * 0x1p-32F + 0x1p-33F);
}

static double uniform_double(uint32_t low, uint32_t high)
{
    return (double)((uint64_t)low ^ (uint64_t)high << 21) * 0x1p-53 + 0x1p-54;
}

/* PhiloxCudaState: seed, offset, a number, whether they are addresses, in a graph. */
static bool read_philox(
        struct value_launch *l, unsigned param, uint32_t offset, struct philox *ret_philox)
{
    uint32_t flag = offset + 24 < value_param_size(l, param) ? 24 : 20;

    ret_philox->seed = value_param_u64(l, param, offset);
    ret_philox->offset = value_param_u64(l, param, offset + 8);
    return *value_param(l, param, offset + flag, 1) == 0 && !l->has_failed;
}

/* ---- distributions ---- */

enum distribution {
    DRAW_UNIFORM,
    DRAW_NORMAL,
    DRAW_FROM_TO,
    DRAW_EXPONENTIAL,
    DRAW_BERNOULLI,
    DRAW_COUNT
};

struct source {
    enum distribution distribution;
    enum value_type type, math;
    unsigned unroll;
    struct philox philox;
    struct value given[3]; /* what the functor has */
};

static bool read_given(struct value_launch *l, struct source *s, uint32_t at)
{
    uint32_t wide = value_size(s->math), narrow = value_size(s->type);

    switch (s->distribution) {
    case DRAW_FROM_TO:
        at = (at + 7) & ~7U;
        s->given[0] = value_of_integer((int64_t)value_param_u64(l, 3, at));
        s->given[1] = value_of_integer((int64_t)value_param_u64(l, 3, at + 8));
        break;
    case DRAW_UNIFORM:
        at = (at + wide - 1) / wide * wide;
        s->given[0] = value_read(s->math, value_param(l, 3, at, wide));
        s->given[1] = value_read(s->type, value_param(l, 3, at + wide, narrow));
        s->given[2] = value_read(s->type, value_param(l, 3, at + wide + narrow, narrow));
        break;
    default:
        at = (at + wide - 1) / wide * wide;
        s->given[0] = value_read(s->math, value_param(l, 3, at, wide));
        if (s->distribution == DRAW_NORMAL)
            s->given[1] = value_read(s->math, value_param(l, 3, at + wide, wide));
        break;
    }
    return !l->has_failed;
}

static bool read_source(struct value_launch *l, struct source *s)
{
    static const char *const names[DRAW_COUNT] = {"::uniform_kernel<", "::normal_kernel<",
            "::random_from_to_kernel<", "::exponential_kernel<", "::bernoulli_kernel<"};
    struct text list;

    while (s->distribution < DRAW_COUNT && !find(l->name, names[s->distribution]))
        s->distribution++;
    if (s->distribution == DRAW_COUNT
            || !template_list(l->name, "distribution_elementwise_grid_stride_kernel", &list))
        return false;
    s->unroll = (unsigned)strtoul(nth_item(list, 1).at, NULL, 10);
    if (!template_list(l->name, "distribution_nullary_kernel", &list))
        return false;
    s->type = value_type_named(nth_item(list, 0));
    s->math = value_math_type(s->type);
    return s->type != VALUE_NONE && (s->unroll == 2 || s->unroll == 4)
            && read_philox(l, 1, 0, &s->philox);
}

static double normal(const uint32_t *words, unsigned which)
{
    double radius = sqrt(-2 * log(uniform(words[which & 2])));
    double angle = 2 * 3.141592653589793 * uniform(words[(which & 2) + 1]);

    return which & 1 ? radius * cos(angle) : radius * sin(angle);
}

static struct value drawn_integer(const struct source *s, const uint32_t *words, unsigned which)
{
    uint64_t number = words[which], range = (uint64_t)s->given[0].i;

    if (s->unroll == 2)
        number = (uint64_t)words[which * 2] << 32 | words[which * 2 + 1];
    return value_of_integer((int64_t)((range ? number % range : number) + (uint64_t)s->given[1].i));
}

static struct value drawn(const struct source *s, const uint32_t *words, unsigned which)
{
    double u;

    if (s->distribution == DRAW_FROM_TO)
        return drawn_integer(s, words, which);
    if (s->distribution == DRAW_NORMAL)
        return value_of_float(
                normal(words, s->unroll == 2 ? which * 2 : which) * s->given[1].f + s->given[0].f);
    u = s->unroll == 2 ? uniform_double(words[which * 2], words[which * 2 + 1])
                       : uniform(words[which]);
    if (s->distribution == DRAW_BERNOULLI)
        return value_of_float(u < s->given[0].f);
    if (s->distribution == DRAW_EXPONENTIAL)
        return value_of_float((u >= 1 - 0x1p-24 ? 0x1p-24 : -log(u)) / s->given[0].f);
    u = value_as(s->type, value_of_float(u * s->given[0].f + s->given[1].f)).f;
    return value_of_float(u == s->given[2].f ? s->given[1].f : u);
}

bool value_body_distribution(struct value_launch *l)
{
    struct source s = {0};
    struct value_strides strides = {.tensors = 1};
    uint64_t count = (uint64_t)value_param_i64(l, 0), wide = (uint64_t)l->grid.x * THREADS;
    bool has_strides = value_param_size(l, 3) > VALUE_CALCULATOR_SIZE(1);
    uint32_t at = has_strides ? 408 : 0;

    if (!read_source(l, &s) || !read_given(l, &s, has_strides ? 416 : 12)
            || (has_strides && !value_calculator(l, 3, 0, 1, false, &strides))
            || !value_affords(l, count))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        uint64_t round = i / (wide * s.unroll), rest = i % (wide * s.unroll);
        int64_t offset = has_strides ? 0 : (int64_t)i * value_param_i32(l, 3, 8);
        uint32_t words[4];

        if (has_strides)
            value_offsets(&strides, i, &offset);
        draw(&s.philox, rest % wide, round, words);
        value_store(l, value_param_u64(l, 3, at) + (uint64_t)offset, s.type,
                drawn(&s, words, (unsigned)(rest / wide)));
    }
    return true;
}

/* (source, result, mask, elements, probability, seed and offset): an element is kept, or is 0. */
bool value_body_dropout(struct value_launch *l)
{
    struct value_tensor source, result, mask;
    struct philox philox;
    uint64_t count = (uint32_t)value_param_i32(l, 3, 0);
    double kept = value_read(VALUE_F32, value_param(l, 4, 0, 4)).f;

    if (!value_tensor(l, 0, &source) || !value_tensor(l, 1, &result) || !value_tensor(l, 2, &mask)
            || value_param_size(l, 4) != 4 || !read_philox(l, 5, 0, &philox)
            || !value_affords(l, count, 3))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        uint32_t words[4];
        bool is_kept;

        draw(&philox, i / 4, 0, words);
        is_kept = uniform(words[i % 4]) < kept;
        value_store(l, value_tensor_at(&result, i), result.type,
                value_of_float(value_load(l, value_tensor_at(&source, i), source.type).f * is_kept
                        / kept));
        value_store(l, value_tensor_at(&mask, i), mask.type, value_of_integer(is_kept));
    }
    return true;
}

/* (result, probabilities, elements, closure with seed and offset) */
bool value_body_bernoulli(struct value_launch *l)
{
    struct value_tensor result, chance;
    struct philox philox;
    uint64_t count = (uint32_t)value_param_i32(l, 2, 0);

    if (!find(l->name, "bernoulli_tensor_cuda_kernel<") || !value_tensor(l, 0, &result)
            || !value_tensor(l, 1, &chance) || !read_philox(l, 3, 0, &philox)
            || !value_affords(l, count, 2))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        uint32_t words[4];

        draw(&philox, i / 4, 0, words);
        value_store(l, value_tensor_at(&result, i), result.type,
                value_of_integer(uniform(words[i % 4])
                        <= value_load(l, value_tensor_at(&chance, i), chance.type).f));
    }
    return true;
}

/* The data of `size` equal keys from `first` on, mixed. */
static void mix(struct value_launch *l, const struct philox *philox, uint64_t first, uint64_t size,
        uint32_t unit)
{
    unsigned char(*data)[16] = sim_new(size * sizeof(*data)), other[16];
    uint64_t addr = value_param_u64(l, 1, 0) + first * unit;
    uint32_t words[4];

    for (uint64_t i = 0; i < size; i++)
        value_get(l, addr + i * unit, unit, data[i]);
    for (uint64_t i = size - 1, drawn_so_far = 0; i > 0; i--, drawn_so_far++) {
        uint64_t with;

        draw(philox, first, drawn_so_far / 4, words);
        with = words[drawn_so_far % 4] % (i + 1);
        memcpy(other, data[i], unit);
        memcpy(data[i], data[with], unit);
        memcpy(data[with], other, unit);
    }
    for (uint64_t i = 0; i < size; i++)
        value_put(l, addr + i * unit, unit, data[i]);
    free(data);
}

/* (keys, data, mask, elements, seed and offset): where keys are equal, and sorted, data are mixed. */
bool value_body_mix_equal_keys(struct value_launch *l)
{
    struct text type = value_param_type(l, 0), list;
    enum value_type key =
            value_type_named((struct text){type.at, type.length ? type.length - 1 : 0});
    uint64_t count = (uint64_t)value_param_i64(l, 3), mask = (uint64_t)value_param_i64(l, 2);
    uint32_t unit =
            template_list(l->name, "OpaqueType", &list) ? (uint32_t)strtoul(list.at, NULL, 10) : 0;
    uint64_t begun = 0, before = 0;
    struct philox philox;

    if (key == VALUE_NONE || unit == 0 || unit > 16 || !read_philox(l, 4, 0, &philox)
            || !value_affords(l, count, 3))
        return false;
    for (uint64_t i = 0; i < count && !l->has_failed; i++) {
        uint64_t at = value_param_u64(l, 0, 0) + i * value_size(key);
        uint64_t here = (uint64_t)value_load(l, at, key).i & mask;

        if (i > 0 && here != before) {
            if (i - begun > 1)
                mix(l, &philox, begun, i - begun, unit);
            begun = i;
        }
        before = here;
    }
    if (count - begun > 1)
        mix(l, &philox, begun, count - begun, unit);
    return true;
}

/* (distributions, rows, elements): each row is divided by its sum. */
bool value_body_normalize_rows(struct value_launch *l)
{
    struct text list;
    enum value_type type = template_list(l->name, "renormRowsL1", &list)
            ? value_type_named(nth_item(list, 0))
            : VALUE_NONE;
    uint64_t rows = value_param_u64(l, 1, 0), size = value_param_u64(l, 2, 0);

    if (type == VALUE_NONE || !value_affords(l, rows, size, 3))
        return false;
    for (uint64_t row = 0; row < rows; row++) {
        uint64_t first = value_param_u64(l, 0, 0) + row * size * value_size(type);
        double sum = 0;

        for (uint64_t i = 0; i < size && !l->has_failed; i++)
            sum += value_load(l, first + i * value_size(type), type).f;
        for (uint64_t i = 0; i < size && sum > 0 && !l->has_failed; i++)
            value_store(l, first + i * value_size(type), type,
                    value_of_float(value_load(l, first + i * value_size(type), type).f / sum));
    }
    return true;
}

/* (seed and offset, samples, result, distributions, categories, sums, chances) */
bool value_body_multinomial(struct value_launch *l)
{
    struct text list;
    enum value_type type = template_list(l->name, "sampleMultinomialWithReplacement", &list)
            ? value_type_named(nth_item(list, 0))
            : VALUE_NONE;
    struct philox philox;
    uint64_t samples = (uint64_t)value_param_i64(l, 1), rows = (uint64_t)value_param_i64(l, 3);
    uint64_t size = (uint64_t)value_param_i64(l, 4);

    if (type == VALUE_NONE || !read_philox(l, 0, 0, &philox)
            || !value_affords(l, rows, samples, size, 2))
        return false;
    for (uint64_t i = 0; i < rows * samples && !l->has_failed; i++) {
        uint64_t row = i / samples * size, at = 0;
        uint32_t words[4];
        double u;

        draw(&philox, i, 0, words);
        u = uniform(words[0]);
        while (at + 1 < size && !l->has_failed
                && (value_load(l, value_param_u64(l, 5, 0) + (row + at) * value_size(type), type).f
                                < u
                        || value_load(l, value_param_u64(l, 6, 0) + (row + at) * value_size(type),
                                   type)
                                        .f
                                == 0))
            at++;
        value_store(l, value_param_u64(l, 2, 0) + i * 8, VALUE_I64, value_of_integer((int64_t)at));
    }
    return true;
}
