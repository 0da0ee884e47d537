/* SPDX-License-Identifier: MIT */
/*
 * lock.h - the only kind of mutex: a word, a rank, and a count of the thread's held locks.
 *
 * A lock inside a host program must be small, must not call malloc, must work before main and after
 * exit, and must be reusable in a forked child. So it is a futex word that is polled a few times
 * first, with growing pauses (lock.c), with a rank for the order (a thread takes locks in rising
 * rank) and a per-thread count, so that every call that can block can use lock_assert_none("what").
 *
 *     0 free ─take─► 1 taken ─contended─► 2 taken, a thread sleeps ─drop─► 0, wake one
 *
 * A lock may be lent: other threads change parts of its data meanwhile, under locks of their own
 * (lane.h). Its word is 4 while no thread holds it, and a thread that takes it first calls its
 * `recall`, which ends that; so lock_take excludes all threads as usual, and costs nothing more
 * while nothing is lent. A thread that needs none of those parts uses lock_take_lent.
 *
 *     1 taken ─drop_lent─► 4 free, lent ─take─► 1, recall
 *                                         └─take_lent─► 1, nothing is recalled
 *
 * A broken rule (wrong order, a lock held at a blocking call, a drop of a lock that is not held) is
 * counted, never fatal: the program goes on, tests require lock_violations() == 0. Not recursive,
 * no condition variables, no try-lock. Does not allocate.
 * Threads: any. In a signal handler only if lock_is_held is false and no section of lock_take_leaf
 * was interrupted.
 */
#ifndef KEDGE_ALLOC_LOCK_H
#define KEDGE_ALLOC_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Annotations for clang's -Wthread-safety; nothing elsewhere. */
#if defined(__clang__)
#    define TSA(x) __attribute__((x))
#else
#    define TSA(x)
#endif

/* The order: a lock may be taken only while all held locks have a smaller rank. */
enum lock_rank {
    LOCK_RANK_PRELOAD, /* preload's own tables */
    LOCK_RANK_POOL,    /* pool.c: heaps, blocks, epochs */
    LOCK_RANK_LANE,    /* lane.c: the lent parts of the pool */
    LOCK_RANK_TRACKER, /* tracker: anchors, interning */
    LOCK_RANK_CAPTURE, /* tracker: the capture file */
    LOCK_RANK_USES,    /* tracker: the map from addresses to live slots */
    LOCK_RANK_META,    /* meta.c: memory for our own structs; innermost */
    LOCK_RANK_COUNT,
};

struct TSA(capability("mutex")) lock {
    _Atomic uint32_t word;
    uint32_t bit; /* of its rank; fixed at creation */
    /* called with the lock held: ends the lending. NULL: never lent */
    void (*recall)(struct lock *lock);
};

#define LOCK_INIT(rank)                \
    {                                  \
        .word = 0, .bit = 1u << (rank) \
    }

/* Also resets a lock in a forked child, whichever thread held it in the parent (see
 * lock_forget_thread). `recall` is NULL. */
void lock_init(struct lock *lock, enum lock_rank rank);

/* Locks that this thread holds, is about to hold, or has just dropped: a bit per rank. Only for the
 * functions below. */
extern _Thread_local uint32_t lock_held __attribute__((tls_model("initial-exec")));

/* The slow paths: the lock is taken, a thread sleeps, a rule is broken. */
void lock_take_slowly(struct lock *lock, uint32_t held) __attribute__((cold));
void lock_drop_slowly(struct lock *lock, uint32_t held, uint32_t word) __attribute__((cold));

static inline void lock_take(struct lock *lock) TSA(acquire_capability(*lock))
        TSA(no_thread_safety_analysis)
{
    uint32_t expected = 0;
    uint32_t held = lock_held;

    lock_held = held | lock->bit; /* set before the lock is taken, for lock_is_held */
    atomic_signal_fence(memory_order_seq_cst);
    if (held >= lock->bit
            || !atomic_compare_exchange_strong_explicit(
                    &lock->word, &expected, 1, memory_order_acquire, memory_order_relaxed))
        lock_take_slowly(lock, held);
}

static inline void lock_drop(struct lock *lock) TSA(release_capability(*lock))
        TSA(no_thread_safety_analysis)
{
    uint32_t held = lock_held;
    uint32_t word = atomic_exchange_explicit(&lock->word, 0, memory_order_release);

    atomic_signal_fence(memory_order_seq_cst);
    lock_held = held & ~lock->bit;
    if (word != 1 || lock_held == held)
        lock_drop_slowly(lock, held, word);
}

/* For a section that makes no call out of alloc/ and begins with no lock held: nothing in it reads
 * the thread's held locks, so they are not recorded. Half the instructions of lock_take. */
static inline void lock_take_leaf(struct lock *lock) TSA(acquire_capability(*lock))
        TSA(no_thread_safety_analysis)
{
    uint32_t expected = 0;

    if (__builtin_expect(!atomic_compare_exchange_strong_explicit(&lock->word, &expected, 1,
                                 memory_order_acquire, memory_order_relaxed),
                0))
        lock_take_slowly(lock, lock_held);
}

static inline void lock_drop_leaf(struct lock *lock) TSA(release_capability(*lock))
        TSA(no_thread_safety_analysis)
{
    uint32_t word = atomic_exchange_explicit(&lock->word, 0, memory_order_release);

    if (__builtin_expect(word != 1, 0))
        lock_drop_slowly(lock, lock_held | lock->bit, word);
}

/* As lock_take_leaf; false: it is taken, or lent. */
static inline bool lock_try_leaf(struct lock *lock) TSA(try_acquire_capability(true, *lock))
        TSA(no_thread_safety_analysis)
{
    uint32_t expected = 0;

    return atomic_compare_exchange_strong_explicit(
            &lock->word, &expected, 1, memory_order_acquire, memory_order_relaxed);
}

/* As lock_take_leaf, but lent parts stay lent. True: the lock was contended. */
bool lock_take_lent(struct lock *lock) TSA(acquire_capability(*lock));

/* Drops a lock taken as a leaf; `is_lent`: whether it is lent from now on. */
void lock_drop_lent(struct lock *lock, bool is_lent) TSA(release_capability(*lock));

/* For a signal handler: false = this thread holds no lock now, except those of lock_take_leaf. */
static inline int lock_is_held(void)
{
    return lock_held != 0;
}

/* In a forked child, before anything else: this thread holds no locks. */
void lock_forget_thread(void);

/* Counts a violation if this thread holds a lock; `what` is the blocking call. Returns the number
 * of held locks. */
unsigned lock_assert_none(const char *what);

/* Number of violations in this process, and the last one's text ("" if none). */
uint64_t lock_violations(void);
const char *lock_last_violation(void);

#endif
