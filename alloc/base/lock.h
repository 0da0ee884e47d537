/* SPDX-License-Identifier: MIT */
/*
 * lock.h - the one kind of mutex: a word, a rank, and a count of what the thread holds.
 *
 * A lock of a program that we are a guest in must be small, must not call malloc, must work before main and after exit,
 * and must be able to start anew in a forked child. So: a futex word that is looked at a few times first, more and more seldom (lock.c), with a rank for the
 * order (a thread takes locks in rising rank) and a per-thread count, so that every call that can block can say
 * lock_assert_none("what").
 *
 *     0 free ─take─► 1 taken ─contended─► 2 taken, somebody sleeps ─drop─► 0, wake one
 *
 * A lock may be lent: parts of what it guards are changed by others meanwhile, under locks of their own (lane.h). Its word is 4
 * then while nobody has it, and whoever takes it calls its `recall` first, which ends that; so lock_take excludes everybody, as
 * ever, and costs nothing more while nothing is lent. Who needs none of those parts takes it by lock_take_lent.
 *
 *     1 taken ─drop_lent─► 4 free, lent ─take─► 1, recall        4 ─take_lent─► 1, nothing is recalled
 *
 * A broken rule (wrong order, a lock held at a blocking call, a drop of what is not held) is counted, never fatal: the
 * program goes on, tests require lock_violations() == 0.
 * Not recursive, no condition variables, no try-lock. Does not allocate.
 * Threads: any. In a signal handler only where lock_is_held says no, and none of lock_take_leaf's sections was interrupted.
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

/* The order: a lock may be taken while locks of smaller rank are held, never of the same or a greater one. */
enum lock_rank {
    LOCK_RANK_PRELOAD, /* preload's own tables */
    LOCK_RANK_POOL,    /* pool.c: heaps, blocks, epochs */
    LOCK_RANK_LANE,    /* lane.c: what of the pool is lent */
    LOCK_RANK_TRACKER, /* tracker: anchors, interning */
    LOCK_RANK_CAPTURE, /* tracker: the capture file */
    LOCK_RANK_USES,    /* tracker: from addresses to live slots */
    LOCK_RANK_META,    /* meta.c: memory for our own structs; innermost */
    LOCK_RANK_COUNT,
};

struct TSA(capability("mutex")) lock {
    _Atomic uint32_t word;
    uint32_t bit; /* of its rank; fixed at creation */
    /* called with the lock held: what is lent comes back. NULL: it is never lent */
    void (*recall)(struct lock *lock);
};

#define LOCK_INIT(rank)                \
    {                                  \
        .word = 0, .bit = 1u << (rank) \
    }

/* Also starts a lock anew in a forked child, whoever held it in the parent (see lock_forget_thread). `recall` is none. */
void lock_init(struct lock *lock, enum lock_rank rank);

/* What this thread holds, or is about to hold, or has just dropped: a bit per rank. Only for the functions below. */
extern _Thread_local uint32_t lock_held __attribute__((tls_model("initial-exec")));

/* The slow halves: somebody else has it, somebody sleeps, a rule is broken. */
void lock_take_slowly(struct lock *lock, uint32_t held) __attribute__((cold));
void lock_drop_slowly(struct lock *lock, uint32_t held, uint32_t word) __attribute__((cold));

static inline void lock_take(struct lock *lock) TSA(acquire_capability(*lock))
        TSA(no_thread_safety_analysis)
{
    uint32_t expected = 0;
    uint32_t held = lock_held;

    lock_held = held | lock->bit; /* before it is, for lock_is_held */
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

/*
 * For a section without a call out of alloc/ that begins with no lock held: nothing in it asks what the thread holds, so it
 * is not noted. Half the instructions of the above.
 */
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

/* As lock_take_leaf, but what is lent stays so. True: somebody had it. */
bool lock_take_lent(struct lock *lock) TSA(acquire_capability(*lock));

/* Drops what was taken as a leaf; from now on it `is_lent`, or not. */
void lock_drop_lent(struct lock *lock, bool is_lent) TSA(release_capability(*lock));

/* For a signal handler: false = this thread holds no lock at this moment, those of lock_take_leaf apart. */
static inline int lock_is_held(void)
{
    return lock_held != 0;
}

/* In a forked child, before anything else: this thread holds nothing. */
void lock_forget_thread(void);

/* Counts a violation if this thread holds any lock; `what` is the call that would have blocked. Returns how many are
 * held. */
unsigned lock_assert_none(const char *what);

/* How many rules were broken in this process, and by what (the last one; "" if none). */
uint64_t lock_violations(void);
const char *lock_last_violation(void);

#endif
