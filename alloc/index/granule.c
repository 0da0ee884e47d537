/* SPDX-License-Identifier: MIT */
#include "alloc/index/granule.h"

#include "alloc/base/meta.h"

#include <errno.h>

#define TOP_SIZE  (sizeof(struct granule *) << GRANULE_TOP_SHIFT)
#define LEAF_SIZE (sizeof(struct granule) << GRANULE_LEAF_SHIFT)

int granule_init(struct granules *granules)
{
    /* 32 MiB of addresses; the kernel backs only pages that have a leaf */
    granules->top = meta_map(TOP_SIZE);
    granules->lo = granules->hi = 0;
    return granules->top ? 0 : -ENOMEM;
}

void granule_done(struct granules *granules)
{
    if (!granules->top)
        return;
    for (uint64_t i = granules->lo; i < granules->hi; i++) {
        struct granule *leaf = atomic_load_explicit(&granules->top[i], memory_order_relaxed);

        meta_unmap(leaf, LEAF_SIZE);
    }
    meta_unmap(granules->top, TOP_SIZE);
    granules->top = NULL;
}

static uint64_t last_of(devptr_t base, uint64_t size)
{
    return (base + (size ? size - 1 : 0)) >> GRANULE_SHIFT;
}

int granule_prepare(struct granules *granules, devptr_t base, uint64_t size)
{
    uint64_t last = last_of(base, size);

    if (base + size < base || last >> (GRANULE_LEAF_SHIFT + GRANULE_TOP_SHIFT))
        return -EINVAL;
    for (uint64_t i = base >> (GRANULE_SHIFT + GRANULE_LEAF_SHIFT); i <= last >> GRANULE_LEAF_SHIFT;
            i++) {
        struct granule *leaf;

        if (atomic_load_explicit(&granules->top[i], memory_order_relaxed))
            continue;
        leaf = meta_map(LEAF_SIZE);
        if (!leaf)
            return -ENOMEM;
        if (granules->lo == granules->hi)
            granules->lo = granules->hi = i;
        if (i < granules->lo)
            granules->lo = i;
        if (i >= granules->hi)
            granules->hi = i + 1;
        /* pairs with the acquire in granule_at: a reader of the leaf sees zeros */
        atomic_store_explicit(&granules->top[i], leaf, memory_order_release);
    }
    return 0;
}

void granule_set(struct granules *granules, devptr_t base, uint64_t size, uint32_t segment)
{
    for (uint64_t i = base >> GRANULE_SHIFT; i <= last_of(base, size); i++) {
        struct granule *granule = granule_at(granules, i << GRANULE_SHIFT);

        atomic_store_explicit(&granule->segment, segment, memory_order_relaxed);
    }
}

void granule_clear(struct granules *granules, devptr_t base, uint64_t size, uint32_t segment)
{
    for (uint64_t i = base >> GRANULE_SHIFT; i <= last_of(base, size); i++) {
        struct granule *granule = granule_at(granules, i << GRANULE_SHIFT);

        if (atomic_load_explicit(&granule->segment, memory_order_relaxed) == segment)
            atomic_store_explicit(&granule->segment, 0, memory_order_relaxed);
    }
}

/* The counts of a granule. */
enum count {
    COUNT_RELEASED,
    COUNT_SWAPS,
};

static _Atomic uint32_t *granule_count_of(struct granule *granule, enum count count)
{
    return count == COUNT_RELEASED ? &granule->released : &granule->swaps;
}

static void granule_add(
        struct granules *granules, devptr_t base, uint64_t size, enum count count, int by)
{
    for (uint64_t i = base >> GRANULE_SHIFT; i <= last_of(base, size); i++)
        atomic_fetch_add_explicit(granule_count_of(granule_at(granules, i << GRANULE_SHIFT), count),
                (uint32_t)by, memory_order_release);
}

static bool has(const struct granules *granules, devptr_t base, uint64_t size, enum count count)
{
    for (uint64_t i = base >> GRANULE_SHIFT; i <= last_of(base, size); i++) {
        struct granule *granule = granule_at(granules, i << GRANULE_SHIFT);

        if (!granule) {
            /* no leaf: none of our memory in these 32 GiB */
            i |= (1u << GRANULE_LEAF_SHIFT) - 1;
            continue;
        }
        if (atomic_load_explicit(granule_count_of(granule, count), memory_order_acquire))
            return true;
    }
    return false;
}

void granule_release(struct granules *granules, devptr_t base, uint64_t size, int by)
{
    granule_add(granules, base, size, COUNT_RELEASED, by);
}

bool granule_is_released(const struct granules *granules, devptr_t base, uint64_t size)
{
    return has(granules, base, size, COUNT_RELEASED);
}

void granule_swap(struct granules *granules, devptr_t base, uint64_t size, int by)
{
    granule_add(granules, base, size, COUNT_SWAPS, by);
}

bool granule_has_swaps(const struct granules *granules, devptr_t base, uint64_t size)
{
    return has(granules, base, size, COUNT_SWAPS);
}
