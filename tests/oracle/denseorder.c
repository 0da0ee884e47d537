/* SPDX-License-Identifier: MIT */
#include "tests/oracle/dense.h"

void order_join(struct dense_clock *to, const struct dense_clock *from)
{
    for (int i = 0; i < DENSE_FLOWS; i++)
        if (to->at[i] < from->at[i])
            to->at[i] = from->at[i];
}

bool order_is_known(struct dense_at at)
{
    return at.n <= dense.known.at[at.flow];
}

/* The default stream and the blocking streams of its context wait for each other. */
static bool order_meet(const struct flow *a, const struct flow *b)
{
    return a != b && a->home == b->home && b->state == FLOW_OPEN && a->kind != LANE_NONBLOCKING
            && b->kind != LANE_NONBLOCKING && (a->kind == LANE_LEGACY || b->kind == LANE_LEGACY);
}

struct dense_clock order_next(const struct flow *flow)
{
    struct dense_clock next = flow->clock;

    for (int i = 0; i < DENSE_FLOWS; i++)
        if (order_meet(flow, &dense.flows[i]))
            order_join(&next, &dense.flows[i].clock);
    return next;
}

bool order_is_before(struct dense_at at, const struct dense_clock *next)
{
    return at.n <= next->at[at.flow] || order_is_known(at);
}

bool order_are_before(const struct dense_clock *all, const struct dense_clock *next)
{
    for (int i = 0; i < DENSE_FLOWS; i++)
        if (!order_is_before((struct dense_at){i, all->at[i]}, next))
            return false;
    return true;
}

struct dense_at order_submit(struct flow *flow)
{
    int index = flow_index(flow);

    flow->clock = order_next(flow);
    flow->clock.at[index] = ++flow->count;
    return (struct dense_at){index, flow->count};
}

static void order_compare(int slot)
{
    struct dense_check *check = &dense.checks[slot];
    uint32_t got = *(volatile uint32_t *)&dense.pinned[slot];

    check->on = false;
    COUNT(dense_checks);
    if (got != check->want)
        dense_wrong(check->what, got, check->want);
}

void order_host_waited(const struct dense_clock *clock)
{
    order_join(&dense.known, clock);
    for (int i = 0; i < DENSE_WORDS; i++)
        if (dense.checks[i].on && order_is_known(dense.checks[i].done))
            order_compare(i);
}

struct dense_clock order_of_home(int home)
{
    struct dense_clock all = {{0}};

    for (int i = 0; i < DENSE_FLOWS; i++) {
        const struct flow *flow = &dense.flows[i];

        if (flow->state == FLOW_FREE || flow->home != home)
            continue;
        order_join(&all, &flow->clock);
        all.at[i] = flow->count;
    }
    return all;
}

bool order_is_stalled(const struct dense_clock *clock)
{
    return dense.stall.n && clock->at[dense.stall.flow] >= dense.stall.n;
}

bool order_home_is_stalled(int home)
{
    struct dense_clock all = order_of_home(home);

    return order_is_stalled(&all);
}

bool order_device_is_stalled(int device)
{
    for (int i = 0; i < DENSE_HOMES; i++)
        if (dense.homes[i].device == device && order_home_is_stalled(i))
            return true;
    return false;
}
