/* SPDX-License-Identifier: MIT */
#include "alloc/heap/expect.h"

struct expect_entry {
    uint64_t key;
    struct expect_seen sums;
};

static uint64_t expect_key_of(int rule, uint32_t anchor)
{
    return ((uint64_t)rule + 1) << 32 | anchor;
}

/* NULL: the instance was judged already, so its count would not be read; or no memory. */
static struct expect_entry *expect_begin(struct pool *pool, const struct plan *plan) POOL_LOCKED
{
    struct rule_due *due = &pool->due[plan->rule];
    struct expect_entry *entry = NULL;

    if (plan->due_anchor && plan->due_anchor == due->judged)
        return NULL;
    pool->matched.bytes = sizeof(*entry);
    if (due->counted < EXPECT_OPEN_MAX)
        entry = table_add(&pool->matched, expect_key_of(plan->rule, plan->due_anchor));
    if (entry)
        due->counted++;
    else
        (void)hint_learn(pool->hints, plan->rule, HINT_LEARNT_UNCOUNTED);
    return entry;
}

static void expect_add(struct rule_seen *io_seen, struct rule_seen more)
{
    io_seen->count += more.count;
    io_seen->bytes += more.bytes;
}

/* NULL: the block is not counted. */
static struct expect_entry *entry_of(struct pool *pool, const struct plan *plan) POOL_LOCKED
{
    const struct rule *rule = hint_rule(pool->hints, plan->rule);
    struct expect_entry *entry;

    if (!rule_expects(rule) || rule_counts(rule))
        return NULL;
    entry = table_find(&pool->matched, expect_key_of(plan->rule, plan->due_anchor));
    return entry ? entry : expect_begin(pool, plan);
}

void expect_count(struct pool *pool, const struct plan *plan, uint64_t size)
{
    struct expect_entry *entry = entry_of(pool, plan);

    if (entry)
        expect_add(&entry->sums.seen, (struct rule_seen){1, size});
}

void expect_count_forwarded(struct pool *pool, const struct plan *plan, uint64_t size)
{
    struct expect_entry *entry = entry_of(pool, plan);

    if (entry)
        expect_add(&entry->sums.forwarded, (struct rule_seen){1, size});
    else if (rule_counts(hint_rule(pool->hints, plan->rule)))
        expect_add(&pool->due[plan->rule].forwarded, (struct rule_seen){1, size});
}

static void take_one(
        struct pool *pool, int rule, uint32_t anchor, struct expect_seen *io_seen) POOL_LOCKED
{
    struct expect_entry *entry = table_find(&pool->matched, expect_key_of(rule, anchor));

    if (!entry)
        return;
    expect_add(&io_seen->seen, entry->sums.seen);
    expect_add(&io_seen->forwarded, entry->sums.forwarded);
    (void)table_remove(&pool->matched, entry);
    pool->due[rule].counted--;
}

struct expect_seen expect_take(struct pool *pool, int rule, const struct edge *edge, bool matches)
{
    struct expect_seen seen = {.seen.count = 0};

    if (matches)
        take_one(pool, rule, 0, &seen);
    if (edge->anchor)
        take_one(pool, rule, edge->anchor, &seen);
    if (seen.seen.count)
        pool->due[rule].judged = edge->anchor;
    return seen;
}

static bool is_met(const struct rule_range *range, uint64_t seen, uint64_t forwarded)
{
    return range->hi == 0 || (seen <= range->hi && seen + forwarded >= range->lo);
}

bool expect_is_met(const struct rule_expect *expect, const struct expect_seen *seen)
{
    return is_met(&expect->count, seen->seen.count, seen->forwarded.count)
            && (expect->bytes.hi == 0 || seen->seen.bytes <= expect->bytes.hi);
}
