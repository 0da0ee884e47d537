/* SPDX-License-Identifier: MIT */
/*
 * counter.h - counters in a mapped file that many threads change.
 *
 * The words of a capture's header are plain uint64_t, since a file has no _Atomic; they are changed
 * only by these functions. Relaxed: each counter is independent. Values that must be consistent are
 * changed under a lock (captotal_figures).
 */
#ifndef KEDGE_TRACKER_COUNTER_H
#define KEDGE_TRACKER_COUNTER_H

#include <stdbool.h>
#include <stdint.h>

/* clang-tidy does not see that the builtins write. */
// NOLINTBEGIN(readability-non-const-parameter)
static inline void counter_add(uint64_t *word, uint64_t value)
{
    (void)__atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

static inline void counter_raise(uint64_t *word, uint64_t value)
{
    uint64_t now = __atomic_load_n(word, __ATOMIC_RELAXED);

    while (now < value
            && !__atomic_compare_exchange_n(
                    word, &now, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

/* Adds to a word that is changed under a lock and read without it. Returns the new value. */
static inline uint64_t counter_grow(uint64_t *word, uint64_t value)
{
    uint64_t now = __atomic_load_n(word, __ATOMIC_RELAXED) + value;

    __atomic_store_n(word, now, __ATOMIC_RELAXED);
    return now;
}

/* Adds to a level and raises its peak, under a lock. A level may be below 0 briefly if a free is
 * written first. */
static inline void counter_lift(uint64_t *level, uint64_t *peak, uint64_t value)
{
    uint64_t now = counter_grow(level, value);

    if (now <= INT64_MAX && now > __atomic_load_n(peak, __ATOMIC_RELAXED))
        __atomic_store_n(peak, now, __ATOMIC_RELAXED);
}
// NOLINTEND(readability-non-const-parameter)

#endif
