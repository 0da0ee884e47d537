/* SPDX-License-Identifier: MIT */
#include "preload/driver/costs.h"

#include <stdatomic.h>
#include <time.h>

static struct cost {
    _Atomic(uint64_t) calls, ns, bytes;
} costs[COST_KIND_COUNT];

uint64_t costs_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void costs_add(enum cost_kind kind, uint64_t begun, uint64_t size)
{
    struct cost *cost = &costs[kind];

    atomic_fetch_add_explicit(&cost->ns, costs_now() - begun, memory_order_relaxed);
    atomic_fetch_add_explicit(&cost->bytes, size, memory_order_relaxed);
    atomic_fetch_add_explicit(&cost->calls, 1, memory_order_relaxed);
}

uint64_t costs_call(enum cost_kind kind)
{
    uint64_t calls = atomic_load_explicit(&costs[kind].calls, memory_order_relaxed);

    return calls ? atomic_load_explicit(&costs[kind].ns, memory_order_relaxed) / calls : 0;
}

/* ns for `size` bytes of such calls. */
static uint64_t part(enum cost_kind kind, uint64_t size)
{
    double bytes = (double)atomic_load_explicit(&costs[kind].bytes, memory_order_relaxed);
    double ns = (double)atomic_load_explicit(&costs[kind].ns, memory_order_relaxed);

    return bytes > 0 ? (uint64_t)(ns / bytes * (double)size) : 0;
}

uint64_t costs_move(uint64_t size)
{
    uint64_t unmap = part(COST_UNMAP, size);

    return unmap ? unmap + costs_call(COST_MAP) + part(COST_ACCESS, size) : 0;
}
