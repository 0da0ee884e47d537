/* SPDX-License-Identifier: MIT */
/*
 * swapped.h - a program whose blocks go out and come in: what it wrote last into each must be there at its next use.
 */
#ifndef KEDGE_TESTS_UNIT_SWAPPED_H
#define KEDGE_TESTS_UNIT_SWAPPED_H

#include "tests/unit/alloc/pool_bench.h"

#define SWAPPED_MAX 64

static const struct edge step_edge = {.kind = EDGE_ENTER, .anchor = 1, .path = "step"};

struct swapped {
    struct bench *b;
    struct rule rule;
    devptr_t block[SWAPPED_MAX];
    uint64_t size[SWAPPED_MAX];
    uint64_t value[SWAPPED_MAX]; /* that was written last, 0 = none */
    uint64_t next;               /* value */
    struct pool_short why;       /* why the last call was not made */
    uint64_t refused;            /* calls */
};

static inline struct rule swapped_rule(uint64_t cap)
{
    return (struct rule){
            .action = ACTION_EVICT,
            .mode = HINT_LIVE,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.anchor = "step", .kind = EDGE_ENTER},
            .min_size = 2 * MiB,
            .evict = {.cap = cap, .cyclic = true},
    };
}

static inline struct swapped *swapped_new(uint64_t memory, const struct rule *rule)
{
    struct swapped *s = calloc(1, sizeof(*s));

    if (!s)
        abort();
    s->b = bench_new(memory);
    s->rule = *rule;
    bench_rules(s->b, &s->rule, 1);
    return s;
}

static inline void swapped_end(struct swapped *s)
{
    CHECK_EQ(s->b->fake->wrong, 0);
    bench_end(s->b);
    free(s);
}

/* A block that the hint matches, as number n. False: there is none. */
static inline bool swapped_make(struct swapped *s, int n, uint64_t size, uint64_t stream)
{
    struct tag tag = {.size = size, .path = ""};
    struct pool_request request = bench_request(size, stream);
    struct plan plan;

    hint_plan(s->b->hints, &tag, &plan);
    request.plan = &plan;
    s->block[n] = bench_ask(s->b, &request);
    s->size[n] = size;
    s->value[n] = 0;
    return s->block[n] != 0;
}

static inline void swapped_free(struct swapped *s, int n)
{
    CHECK_EQ(bench_free(s->b, s->block[n]), 0);
    s->block[n] = 0;
}

/* What a hooked call does before the real one. 0, or its code. */
static inline int swapped_begin(
        struct swapped *s, struct pool_call *call, const int *numbers, int count, bool is_copy)
{
    int r;

    for (int i = 0; i < count; i++)
        CHECK_EQ(pool_call_name(s->b->pool, s->block[numbers[i]] + 8, 8, is_copy, call), 0);
    do {
        r = pool_call_begin(s->b->pool, call);
        if (r == -EAGAIN)
            r = pool_call_bring(s->b->pool, call, &s->why);
        else
            return r;
    } while (r == 0);
    return r;
}

static inline void swapped_end_call(struct swapped *s, struct pool_call *call)
{
    pool_call_end(s->b->pool, call);
    if (pool_evict_has_more(s->b->pool))
        pool_evict_go_on(s->b->pool);
}

/* A kernel on a stream (0: a call whose stream is not known, which runs on stream 1) reads each of these blocks, and writes it. */
static inline int swapped_use_all(
        struct swapped *s, uint64_t stream, const int *numbers, int count, bool writes)
{
    struct pool_call call = {.stream = stream};
    int r = swapped_begin(s, &call, numbers, count, false);

    s->refused += r != 0;
    for (int i = 0; r == 0 && i < count; i++) {
        int n = numbers[i];

        if (s->value[n])
            fake_check(s->b->fake, stream ? stream : 1, s->block[n], s->value[n]);
        if (writes) {
            s->value[n] = ++s->next;
            fake_write(s->b->fake, stream ? stream : 1, s->block[n], s->value[n]);
        }
    }
    swapped_end_call(s, &call);
    return r;
}

static inline int swapped_use(struct swapped *s, uint64_t stream, int n)
{
    return swapped_use_all(s, stream, &n, 1, true);
}

static inline int swapped_read(struct swapped *s, uint64_t stream, int n)
{
    return swapped_use_all(s, stream, &n, 1, false);
}

/* A step begins. What the last one did in *ret, if there was one. */
static inline bool swapped_step(struct swapped *s, struct pool_evict_step *ret)
{
    struct edge edge = step_edge;
    struct outcome told[8];
    struct pool_evict_step was;
    bool is_told = false;
    size_t count;

    REQUIRE_EQ(pool_edge(s->b->pool, &edge, told, 8, &count), 0);
    while (pool_evict_next_step(s->b->pool, &was)) {
        is_told = true;
        if (ret)
            *ret = was;
    }
    return is_told;
}

#endif
