/* SPDX-License-Identifier: MIT */
#include "tests/sim/kernel/sim_kernels.h"

#include "tests/sim/memory/sim_contents.h"
#include "tests/sim/memory/sim_digest.h"
#include "tests/sim/memory/sim_va.h"
#include "tests/sim/values/sim_values.h"
#include "tests/sim/values/value_product.h"
#include "tests/sim/values/value_type.h"

#include <string.h>

#define PAGE ((uint64_t)4096)
#define STEP ((uint64_t)2 << 20)

/* ---- sampling ---- */

/* The next sampled part of a tensor of `bytes` that ends after *at; false at the end. */
struct sample {
    uint64_t bytes, begin, end;
};

static bool next_sample(struct sample *s)
{
    uint64_t last = s->bytes > PAGE ? (s->bytes - PAGE) & ~(uint64_t)3 : 0;

    if (s->end >= s->bytes)
        return false;
    if (s->bytes <= 2 * PAGE) {
        s->begin = 0;
        s->end = s->bytes;
        return true;
    }
    /* Where the next step page begins, counted from the end of the part before. */
    uint64_t step = s->end == 0 ? 0 : (s->end + STEP - 1) / STEP * STEP;
    if (step + PAGE <= last) {
        s->begin = step;
        s->end = step + PAGE;
        return true;
    }
    /* The step page and the last page touch each other, or no step is left. */
    s->begin = step < last && step + PAGE > last ? step : last;
    s->end = s->bytes;
    return true;
}

static uint32_t hash32(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    x ^= x >> 16;
    return x;
}

static uint32_t load(uint64_t base, uint64_t index)
{
    uint32_t word;

    memcpy(&word, (const void *)(uintptr_t)(base + index * 4), sizeof(word));
    return word;
}

static void store(uint64_t base, uint64_t index, uint32_t word)
{
    memcpy((void *)(uintptr_t)(base + index * 4), &word, sizeof(word));
}

/* ---- bodies ---- */

static void body_kedge_fill(const uint64_t *p)
{
    for (struct sample s = {.bytes = p[1]}; next_sample(&s);)
        for (uint64_t i = s.begin / 4; i < s.end / 4; i++)
            store(p[0], i, hash32((uint32_t)i * 2654435761U + (uint32_t)p[2]));
}

/* The words of a larger parameter stand in the places of several, so it must be the last. */
static void body_kedge_fill_view(const uint64_t *p)
{
    body_kedge_fill((const uint64_t[]){p[0], p[1], 0});
}

/* The address that stands in the device's memory. */
static uint64_t address_at(uint64_t at)
{
    uint64_t address;

    memcpy(&address, (const void *)(uintptr_t)at, sizeof(address));
    return address;
}

static void body_kedge_fill_at(const uint64_t *p)
{
    body_kedge_fill((const uint64_t[]){address_at(p[0]), p[1], 0});
}

static void body_kedge_mix(const uint64_t *p)
{
    for (struct sample s = {.bytes = p[2]}; next_sample(&s);)
        for (uint64_t i = s.begin / 4; i < s.end / 4; i++)
            store(p[0], i, load(p[0], i) * 1664525U + load(p[1], i) + 1013904223U);
}

static void body_kedge_sum(const uint64_t *p)
{
    uint64_t sum;

    memcpy(&sum, (const void *)(uintptr_t)p[0], sizeof(sum));
    for (struct sample s = {.bytes = p[2]}; next_sample(&s);)
        for (uint64_t i = s.begin / 4; i < s.end / 4; i++)
            sum += (uint64_t)load(p[1], i) * (i + 1);
    memcpy((void *)(uintptr_t)p[0], &sum, sizeof(sum));
}

static void body_kedge_sum_at(const uint64_t *p)
{
    body_kedge_sum((const uint64_t[]){p[0], address_at(p[1]), p[2]});
}

static void body_kedge_copy_strided(const uint64_t *p)
{
    uint64_t row_bytes = p[3], stride = p[4];

    for (struct sample s = {.bytes = p[2] * row_bytes}; next_sample(&s);)
        for (uint64_t at = s.begin; at < s.end;) {
            uint64_t row = at / row_bytes, column = at % row_bytes;
            uint64_t part = row_bytes - column;
            if (part > s.end - at)
                part = s.end - at;
            memmove((void *)(uintptr_t)(p[0] + at),
                    (const void *)(uintptr_t)(p[1] + row * stride + column), part);
            at += part;
        }
}

static uint64_t sample_bytes(uint64_t bytes)
{
    uint64_t all = 0;

    for (struct sample s = {.bytes = bytes}; next_sample(&s);)
        all += s.end - s.begin;
    return all;
}

/* What nobody wrote is sent as zeros: the receiver's results may not depend on what a former tenant left here. */
static void pack(uint64_t to, uint64_t from, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes;) {
        uint64_t known = sim_va_has(from + at) ? sim_contents_known(from + at, bytes - at) : bytes;
        uint64_t part = known ? known : bytes - at < 4 ? bytes - at : 4;

        if (known)
            memcpy((void *)(uintptr_t)(to + at), (const void *)(uintptr_t)(from + at), part);
        else
            memset((void *)(uintptr_t)(to + at), 0, part);
        at += part;
    }
}

static void body_kedge_pack(const uint64_t *p)
{
    uint64_t to = p[0];

    for (struct sample s = {.bytes = p[2]}; next_sample(&s); to += s.end - s.begin)
        pack(to, p[1] + s.begin, s.end - s.begin);
}

static void body_kedge_unpack(const uint64_t *p)
{
    uint64_t from = p[1];

    for (struct sample s = {.bytes = p[2]}; next_sample(&s); from += s.end - s.begin)
        memcpy((void *)(uintptr_t)(p[0] + s.begin), (const void *)(uintptr_t)from, s.end - s.begin);
}

/* nccl.h's number of a type; VALUE_NONE: no sums of it. */
static enum value_type fold_type(uint64_t number)
{
    static const enum value_type types[] = {VALUE_I8, VALUE_U8, VALUE_I32, VALUE_U32, VALUE_I64,
            VALUE_U64, VALUE_F16, VALUE_F32, VALUE_F64, VALUE_BF16};

    return number < sizeof(types) / sizeof(types[0]) ? types[number] : VALUE_NONE;
}

static double fold_floats(double a, double b, uint64_t op, uint64_t ranks)
{
    double folded = op == 1 ? a * b : op == 2 ? (a > b ? a : b) : op == 3 ? (a < b ? a : b) : a + b;

    return ranks ? folded / (double)ranks : folded;
}

/* Of numbers without a sign, too, as far as they are below 2^63. */
static int64_t fold_integers(int64_t a, int64_t b, uint64_t op, uint64_t ranks)
{
    int64_t folded = op == 2 ? (a > b ? a : b)
            : op == 3        ? (a < b ? a : b)
            : op == 1        ? (int64_t)((uint64_t)a * (uint64_t)b)
                             : (int64_t)((uint64_t)a + (uint64_t)b);

    return ranks ? folded / (int64_t)ranks : folded;
}

/* op(to, from) of one element, and the mean of `ranks` where that is not 0. Numbers are nccl.h's. */
static void fold_one(enum value_type type, uint64_t to, uint64_t from, uint64_t op, uint64_t ranks)
{
    struct value a = value_read(type, (const void *)(uintptr_t)to);
    struct value b = value_read(type, (const void *)(uintptr_t)from);

    value_write(type,
            value_is_float(type) ? value_of_float(fold_floats(a.f, b.f, op, ranks))
                                 : value_of_integer(fold_integers(a.i, b.i, op, ranks)),
            (void *)(uintptr_t)to);
}

static void body_kedge_fold(const uint64_t *p)
{
    enum value_type type = fold_type(p[3]);
    uint64_t from = p[1];

    if (type == VALUE_NONE)
        return;
    for (struct sample s = {.bytes = p[2]}; next_sample(&s); from += s.end - s.begin)
        for (uint64_t at = 0; at < s.end - s.begin; at += value_size(type))
            fold_one(type, p[0] + s.begin + at, from + at, p[4], p[5]);
}

static void body_kedge_digest(const uint64_t *p)
{
    static const char name[] = "kedge_digest";
    const uint64_t numbers[] = {p[1], p[2] ? p[3] : 0, p[4] ? p[5] : 0, p[6]};
    uint64_t digest = sim_digest_add(SIM_DIGEST_START, name, sizeof(name));

    digest = sim_digest_add(digest, numbers, sizeof(numbers));
    digest = sim_digest_read(digest, p[2], numbers[1]);
    digest = sim_digest_read(digest, p[4], numbers[2]);
    sim_digest_write(digest, p[0], p[1], SIM_DIGEST_FLOATS);
}

/* Where it cannot be computed. */
static void body_kedge_product(const uint64_t *p)
{
    const struct value_product *x = (const struct value_product *)p;

    body_kedge_digest((const uint64_t[]){
            x->c.at, x->c.bytes, x->a.at, x->a.bytes, x->b.at, x->b.bytes, x->seed});
}

/* ---- what each kernel wrote ---- */

/* The sampled parts of its ranges. The parts between them hold what nobody may rely on. */
static void note_samples(struct sim_op *op)
{
    for (unsigned i = 0; i < op->ranges_count; i++) {
        const struct sim_range *range = &op->ranges[i];

        if (!range->write)
            continue;
        sim_contents_forget(range->addr, range->size);
        for (struct sample s = {.bytes = range->size}; next_sample(&s);)
            sim_contents_write(range->addr + s.begin, s.end - s.begin);
    }
}

/* It has said so already, and said more. */
static void note_digest(struct sim_op *op)
{
    (void)op;
}

/* ---- what each kernel touches ---- */

static void range(struct sim_op *op, int device, bool write, uint64_t addr, uint64_t size,
        uint64_t rows, uint64_t pitch)
{
    if (rows == 0)
        return;
    sim_op_add_range(op,
            (struct sim_range){.addr = addr,
                    .size = size,
                    .pitch = pitch,
                    .rows = rows,
                    .slices = 1,
                    .write = write,
                    .device = device,
                    .side = SIM_SIDE_KERNEL});
}

#define U(n)                           p[n]
#define AT(n)                          address_at(p[n])
#define PACKED(bytes)                  sample_bytes(bytes)
#define WRITE(addr, size)              range(op, device, true, addr, size, 1, 0);
#define BOTH(addr, size)               range(op, device, true, addr, size, 1, 0);
#define READ(addr, size)               range(op, device, false, addr, size, 1, 0);
#define ROWS(addr, size, rows, stride) range(op, device, false, addr, size, rows, stride);
#define KERNEL(entry, params, ranges)                                                           \
    static void declare_##entry(const struct sim_kernel *kernel, struct sim_op *op, int device, \
            struct sim_grid grid, const uint64_t *p)                                            \
    {                                                                                           \
        (void)kernel;                                                                           \
        (void)grid;                                                                             \
        ranges                                                                                  \
    }
#include "tests/sim/kernel/kernels.def"
#undef KERNEL

/* ---- the table ---- */

#define PARAMS_MOST 8

static struct listed {
    struct sim_kernel kernel;
    struct sim_param params[PARAMS_MOST];
    void (*body)(const uint64_t *params);
} kernels[] = {
#define PARAM(size_) {.size = (size_)},
#define KERNEL(entry, params_, ranges)   \
    {.kernel = {.name = #entry,          \
             .has_layout = true,         \
             .declare = declare_##entry, \
             .note = note_samples},      \
            .params = {params_},         \
            .body = body_##entry},
#include "tests/sim/kernel/kernels.def"
#undef KERNEL
};

#define KERNELS (sizeof(kernels) / sizeof(kernels[0]))

static void run_body(
        const struct sim_kernel *kernel, int device, struct sim_grid grid, const uint64_t *params)
{
    const struct listed *listed = (const struct listed *)kernel;

    (void)grid;
    if (listed->body != body_kedge_product
            || !sim_values_product(device, (const struct value_product *)params))
        listed->body(params);
}

/* Parameters lie at multiples of their size, as the device's ABI has them. */
__attribute__((constructor)) static void lay_out(void)
{
    for (size_t k = 0; k < KERNELS; k++) {
        struct sim_kernel *kernel = &kernels[k].kernel;
        struct sim_param *params = kernels[k].params;
        uint32_t offset = 0;

        for (unsigned i = 0; i < PARAMS_MOST && params[i].size; i++) {
            offset = (uint32_t)sim_round(offset, params[i].size);
            params[i].offset = offset;
            offset += params[i].size;
            kernel->params_count = i + 1;
        }
        kernel->params = params;
        kernel->params_size = offset;
        kernel->body = run_body;
        if (kernels[k].body == body_kedge_digest || kernels[k].body == body_kedge_product)
            kernel->note = note_digest;
    }
}

const struct sim_kernel *sim_kernels_find(const char *name, size_t length)
{
    for (size_t k = 0; k < KERNELS; k++)
        if (strlen(kernels[k].kernel.name) == length
                && memcmp(kernels[k].kernel.name, name, length) == 0)
            return &kernels[k].kernel;
    return NULL;
}
