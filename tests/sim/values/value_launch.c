/* SPDX-License-Identifier: MIT */
#include "tests/sim/values/value_launch.h"

#include "tests/sim/kernel/sim_standing.h"
#include "tests/sim/memory/sim_contents.h"

#include <stdlib.h>

/* ---- parameters ---- */

const char *value_param(struct value_launch *l, unsigned param, uint32_t offset, uint32_t size)
{
    static const char zeros[64];

    if (param < l->kernel->params_count && offset + size <= l->kernel->params[param].size)
        return l->bytes + l->kernel->params[param].offset + offset;
    value_fail(l);
    return zeros;
}

uint64_t value_param_u64(struct value_launch *l, unsigned param, uint32_t offset)
{
    uint64_t word;

    memcpy(&word, value_param(l, param, offset, sizeof(word)), sizeof(word));
    return word;
}

int32_t value_param_i32(struct value_launch *l, unsigned param, uint32_t offset)
{
    int32_t word;

    memcpy(&word, value_param(l, param, offset, sizeof(word)), sizeof(word));
    return word;
}

int64_t value_param_i64(struct value_launch *l, unsigned param)
{
    if (value_param_size(l, param) == sizeof(int64_t))
        return (int64_t)value_param_u64(l, param, 0);
    return value_param_i32(l, param, 0);
}

uint32_t value_param_size(const struct value_launch *l, unsigned param)
{
    return param < l->kernel->params_count ? l->kernel->params[param].size : 0;
}

struct text value_param_type(const struct value_launch *l, unsigned param)
{
    return nth_item(l->params, param);
}

/* ---- memory ---- */

void value_fail(struct value_launch *l)
{
    l->has_failed = true;
}

bool value_affords_product(struct value_launch *l, const uint64_t *factors, size_t count)
{
    uint64_t product = 1;
    bool is_large = false;

    /* rows of nothing are rows all the same */
    for (size_t i = 0; i < count; i++)
        is_large |= __builtin_mul_overflow(product, factors[i] ? factors[i] : 1, &product);
    if (is_large || product > l->left)
        value_fail(l);
    return !l->has_failed;
}

static bool is_in(const struct value_window *windows, uint64_t addr, uint32_t size)
{
    for (unsigned i = 0; i < VALUE_WINDOWS; i++)
        if (addr >= windows[i].addr && addr < windows[i].end && size <= windows[i].end - addr)
            return true;
    return false;
}

/* What stands and may be used from `addr` on, up to `end`. */
static struct value_window good_from(
        const struct value_launch *l, uint64_t addr, uint64_t end, bool write)
{
    uint64_t room = sim_standing_may(l->device, addr, end - addr, write);

    return (struct value_window){addr, addr + room};
}

/* Bytes of one operation or of several that touch each other. */
static bool read_window(struct value_launch *l, uint64_t addr, uint32_t size)
{
    struct value_window w = {0};
    struct sim_piece piece;
    uint64_t begin = 0, end = addr;

    while (end - addr < size && sim_contents_piece(end, &piece)) {
        l->has_digest |= piece.is_digest;
        begin = begin ? begin : piece.addr;
        end = piece.end;
    }
    if (end - addr >= size)
        w = good_from(l, begin, end, false);
    if (w.end <= addr || w.end - addr < size)
        return false;
    l->read[l->next_read++ % VALUE_WINDOWS] = w;
    return true;
}

static bool write_window(struct value_launch *l, uint64_t addr, uint32_t size)
{
    struct value_window w = good_from(l, addr, addr + ((uint64_t)1 << 30), true);

    if (w.end - w.addr < size)
        return false;
    l->write[l->next_write++ % VALUE_WINDOWS] = w;
    return true;
}

static bool is_left(struct value_launch *l)
{
    if (l->left == 0)
        value_fail(l);
    else
        l->left--;
    return !l->has_failed;
}

void value_get(struct value_launch *l, uint64_t addr, uint32_t size, void *ret_bytes)
{
    if (!l->has_failed && is_left(l) && !is_in(l->read, addr, size) && !read_window(l, addr, size))
        value_fail(l);
    if (l->has_failed)
        memset(ret_bytes, 0, size);
    else
        memcpy(ret_bytes, (const void *)(uintptr_t)addr, size);
}

static void keep(struct value_launch *l, uint64_t addr, uint32_t size, const void *bytes,
        enum value_type add)
{
    struct value_stored *s;

    if (l->has_failed || !is_left(l)
            || (!is_in(l->write, addr, size) && !write_window(l, addr, size))) {
        value_fail(l);
        return;
    }
    if (l->stored_count == l->stored_room) {
        l->stored_room = l->stored_room ? l->stored_room * 2 : 64;
        l->stored = sim_grow(l->stored, l->stored_room * sizeof(*l->stored));
    }
    s = &l->stored[l->stored_count++];
    *s = (struct value_stored){.addr = addr, .size = (uint8_t)size, .add = (uint8_t)add};
    memcpy(s->bytes, bytes, size);
}

void value_put(struct value_launch *l, uint64_t addr, uint32_t size, const void *bytes)
{
    keep(l, addr, size, bytes, VALUE_NONE);
}

struct value value_load(struct value_launch *l, uint64_t addr, enum value_type type)
{
    unsigned char bytes[8];

    if (type == VALUE_NONE) {
        value_fail(l);
        return value_of_integer(0);
    }
    value_get(l, addr, value_size(type), bytes);
    return value_read(type, bytes);
}

void value_store(struct value_launch *l, uint64_t addr, enum value_type type, struct value value)
{
    unsigned char bytes[8];

    if (type == VALUE_NONE) {
        value_fail(l);
        return;
    }
    value_write(type, value, bytes);
    keep(l, addr, value_size(type), bytes, VALUE_NONE);
}

void value_add(struct value_launch *l, uint64_t addr, enum value_type type, struct value value)
{
    unsigned char bytes[8];

    (void)value_load(l, addr, type); /* it must have been written */
    if (l->has_failed)
        return;
    value_write(type, value, bytes);
    keep(l, addr, value_size(type), bytes, type);
}

/* ---- offsets ---- */

bool value_calculator(struct value_launch *l, unsigned param, uint32_t offset, unsigned tensors,
        bool is_signed, struct value_strides *ret_strides)
{
    const char *at;

    *ret_strides = (struct value_strides){.tensors = tensors};
    if (tensors == 0 || tensors > VALUE_TENSORS
            || offset + VALUE_CALCULATOR_SIZE(tensors) > value_param_size(l, param))
        return false;
    at = value_param(l, param, offset, VALUE_CALCULATOR_SIZE(tensors));
    memcpy(&ret_strides->dims, at, 4);
    if (ret_strides->dims > VALUE_DIMS)
        return false;
    for (unsigned d = 0; d < ret_strides->dims; d++) {
        memcpy(&ret_strides->size[d], at + 4 + d * 12, 4);
        if (ret_strides->size[d] == 0)
            return false;
        for (unsigned t = 0; t < tensors; t++) {
            int32_t stride;

            memcpy(&stride, at + 304 + ((size_t)d * tensors + t) * 4, 4);
            ret_strides->stride[d][t] = is_signed ? stride : (int64_t)(uint32_t)stride;
        }
    }
    return true;
}

void value_offsets(const struct value_strides *s, uint64_t index, int64_t *ret_offsets)
{
    memset(ret_offsets, 0, s->tensors * sizeof(*ret_offsets));
    for (unsigned d = 0; d < s->dims; d++) {
        int64_t at = (int64_t)(index % s->size[d]);

        index /= s->size[d];
        for (unsigned t = 0; t < s->tensors; t++)
            ret_offsets[t] += at * s->stride[d][t];
    }
}

/* An int or a long of `bytes` bytes. */
static int64_t number_at(const char *at, uint32_t bytes)
{
    int32_t narrow;
    int64_t wide;

    memcpy(&narrow, at, sizeof(narrow));
    if (bytes == sizeof(narrow))
        return narrow;
    memcpy(&wide, at, sizeof(wide));
    return wide;
}

bool value_tensor(struct value_launch *l, unsigned param, struct value_tensor *ret_tensor)
{
    struct text list, type = value_param_type(l, param);
    uint32_t bytes = value_param_size(l, param) == 216 ? 4 : 8;
    const char *at;

    *ret_tensor = (struct value_tensor){0};
    if (!begins(type, "at::cuda::detail::TensorInfo<") || !template_list(type, "TensorInfo", &list)
            || value_param_size(l, param) != 8 + 50 * bytes + 8)
        return false;
    ret_tensor->type = value_type_named(nth_item(list, 0));
    ret_tensor->unit = value_size(ret_tensor->type);
    if (template_list(nth_item(list, 0), "OpaqueType", &list))
        ret_tensor->unit = (uint32_t)strtoul(list.at, NULL, 10);
    ret_tensor->addr = value_param_u64(l, param, 0);
    at = value_param(l, param, 8, 50 * bytes + 4);
    ret_tensor->dims = (unsigned)number_at(at + (size_t)50 * bytes, 4);
    if (ret_tensor->dims > VALUE_DIMS)
        return false;
    for (unsigned d = 0; d < ret_tensor->dims; d++) {
        ret_tensor->size[d] = number_at(at + (size_t)d * bytes, bytes);
        ret_tensor->stride[d] = number_at(at + (size_t)(25 + d) * bytes, bytes);
        if (ret_tensor->size[d] <= 0)
            return false;
    }
    return ret_tensor->unit != 0 && ret_tensor->unit <= sizeof(((struct value_stored *)0)->bytes);
}

uint64_t value_tensor_count(const struct value_tensor *t)
{
    uint64_t count = 1;

    for (unsigned d = 0; d < t->dims; d++)
        count *= (uint64_t)t->size[d];
    return count;
}

uint64_t value_tensor_at(const struct value_tensor *t, uint64_t index)
{
    int64_t offset = 0;

    for (unsigned d = t->dims; d-- > 0;) {
        offset += (int64_t)(index % (uint64_t)t->size[d]) * t->stride[d];
        index /= (uint64_t)t->size[d];
    }
    return t->addr + (uint64_t)(offset * (int64_t)t->unit);
}
