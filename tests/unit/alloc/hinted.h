/* SPDX-License-Identifier: MIT */
/*
 * hinted.h - blocks that a hint is about, and the edge that releases them.
 *
 * One rule: what is allocated inside instance 1 of the anchor "step", 2 MiB or more, is dead when that instance ends.
 */
#ifndef KEDGE_TESTS_UNIT_HINTED_H
#define KEDGE_TESTS_UNIT_HINTED_H

#include "tests/unit/alloc/pool_bench.h"

static const struct edge exit_edge = {.kind = EDGE_EXIT, .anchor = 1, .path = "step"};

static inline void add_rule(struct bench *b, enum hint_mode mode)
{
    static struct rule rules[HINT_MODE_COUNT];
    struct rule *rule = &rules[mode];

    *rule = (struct rule){
            .action = ACTION_RELEASE,
            .mode = mode,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.anchor = "step", .kind = EDGE_EXIT},
            .min_size = 2 * MiB,
    };
    bench_rules(b, rule, 1);
}

static inline struct bench *hinted_bench(uint64_t memory, enum hint_mode mode)
{
    struct bench *b = bench_new(memory);

    add_rule(b, mode);
    return b;
}

/* An allocation inside instance 1 of "step" that the rule matches. */
static inline devptr_t hinted_on(struct bench *b, uint64_t size, uint64_t stream)
{
    struct tag tag = {.size = size, .anchor = 1, .path = "step"};
    struct pool_request request = bench_request(size, stream);
    struct plan plan;

    hint_plan(b->hints, &tag, &plan);
    request.plan = &plan;
    return bench_ask(b, &request);
}

static inline devptr_t hinted(struct bench *b, uint64_t size)
{
    return hinted_on(b, size, 0);
}

/* The edge passes; how many outcomes it told, the first in b->last. */
static inline size_t pass_edge(struct bench *b)
{
    struct edge edge = exit_edge;
    struct outcome told[8];
    size_t count = 0;
    size_t all = 0;

    do {
        REQUIRE_EQ(pool_edge(b->pool, &edge, told, 8, &count), 0);
        if (count)
            b->last = told[0];
        all += count;
    } while (count == 8);
    (void)pool_poll(b->pool, true, told, 0, &count); /* what it does is told later */
    return all;
}

static inline enum holder_state state_of(struct bench *b, devptr_t ptr)
{
    struct block_info info = {.state = HOLDER_STATE_COUNT};

    (void)pool_find(b->pool, ptr, &info);
    return info.state;
}

/* True if no block of the program's has the address. */
static inline bool is_nobodys(struct bench *b, devptr_t ptr)
{
    struct block_info info;

    return pool_find(b->pool, ptr, &info) != 0 || info.size == 0;
}

/* What was told since the last call: how often this kind, and the last of it in b->last. */
static inline unsigned count_told(struct bench *b, enum outcome_kind kind)
{
    struct outcome news[8];
    unsigned n = 0;
    size_t count;

    do {
        REQUIRE_EQ(pool_poll(b->pool, true, news, 8, &count), 0);
        for (size_t i = 0; i < count; i++) {
            if (news[i].kind != kind)
                continue;
            b->last = news[i];
            n++;
        }
    } while (count == 8);
    return n;
}

#endif
