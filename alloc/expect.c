/* SPDX-License-Identifier: MIT */
#include "alloc/expect.h"

struct expect_entry {
    uint64_t key;
    struct rule_seen seen;
};

static uint64_t key_of(int rule, uint32_t anchor)
{
    return ((uint64_t)rule + 1) << 32 | anchor;
}

/* NULL: the instance was judged a moment ago, and nobody would ask; or there is no room. */
static struct expect_entry *begin(struct pool *pool, const struct plan *plan) POOL_LOCKED
{
    struct rule_due *due = &pool->due[plan->rule];
    struct expect_entry *entry = NULL;

    if (plan->due_anchor && plan->due_anchor == due->judged)
        return NULL;
    pool->matched.bytes = sizeof(*entry);
    if (due->counted < EXPECT_OPEN_MAX)
        entry = table_add(&pool->matched, key_of(plan->rule, plan->due_anchor));
    if (entry)
        due->counted++;
    else
        (void)hint_learn(pool->hints, plan->rule, HINT_LEARNT_UNCOUNTED);
    return entry;
}

void expect_count(struct pool *pool, const struct plan *plan, uint64_t size)
{
    const struct rule *rule = hint_rule(pool->hints, plan->rule);
    struct expect_entry *entry;

    if (!rule_expects(rule) || rule_counts(rule))
        return;
    entry = table_find(&pool->matched, key_of(plan->rule, plan->due_anchor));
    if (!entry)
        entry = begin(pool, plan);
    if (!entry)
        return;
    entry->seen.count++;
    entry->seen.bytes += size;
}

static void take_one(
        struct pool *pool, int rule, uint32_t anchor, struct rule_seen *io_seen) POOL_LOCKED
{
    struct expect_entry *entry = table_find(&pool->matched, key_of(rule, anchor));

    if (!entry)
        return;
    io_seen->count += entry->seen.count;
    io_seen->bytes += entry->seen.bytes;
    (void)table_remove(&pool->matched, entry);
    pool->due[rule].counted--;
}

struct rule_seen expect_take(struct pool *pool, int rule, const struct edge *edge, bool matches)
{
    struct rule_seen seen = {0, 0};

    if (matches)
        take_one(pool, rule, 0, &seen);
    if (edge->anchor)
        take_one(pool, rule, edge->anchor, &seen);
    if (seen.count)
        pool->due[rule].judged = edge->anchor;
    return seen;
}
