/* SPDX-License-Identifier: MIT */
#include "alloc/base/lock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Pauses between two reads of a contended lock: 64, 128, ... 512, after that the thread sleeps. The
 * pool's critical sections take some 20 ns, but taking over from another processor costs some 500
 * ns, for the dozen cache lines that its threads write. A thread that polls without pauses gets the
 * lock after each single operation of the other thread, so that every operation pays for those
 * lines (seven times the time of one thread alone); a thread that pauses for some microseconds lets
 * the other one do several in a row. */
#define LOCK_PAUSES_MIN 64
#define LOCK_PAUSES_MAX 512

/* Values of the lock word. */
enum {
    FREE,
    TAKEN,
    AWAITED, /* taken, and a thread sleeps */
    LENT = 4,
};

_Thread_local uint32_t lock_held __attribute__((tls_model("initial-exec")));

static _Atomic uint64_t violations;
static _Atomic(const char *) last_violation = "";

static void violation(const char *what)
{
    atomic_fetch_add_explicit(&violations, 1, memory_order_relaxed);
    atomic_store_explicit(&last_violation, what, memory_order_relaxed);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void lock_init(struct lock *lock, enum lock_rank rank)
{
    atomic_store_explicit(&lock->word, FREE, memory_order_relaxed);
    lock->bit = 1u << rank;
    lock->recall = NULL;
}

/* *ret_was: the word's value before it was taken. */
static bool try(struct lock *lock, uint32_t *ret_was)
{
    *ret_was = atomic_load_explicit(&lock->word, memory_order_relaxed);
    return (*ret_was == FREE || *ret_was == LENT)
            && atomic_compare_exchange_strong_explicit(
                    &lock->word, ret_was, TAKEN, memory_order_acquire, memory_order_relaxed);
}

/* Takes the lock; returns the previous value, FREE or LENT. */
static uint32_t wait_and_take(struct lock *lock)
{
    uint32_t was;

    for (int pauses = LOCK_PAUSES_MIN; pauses <= LOCK_PAUSES_MAX; pauses *= 2) {
        if (try(lock, &was))
            return was;
        for (int i = 0; i < pauses; i++)
            relax();
    }
    /* From here on the word is AWAITED: the thread that drops the lock must wake one, perhaps in
     * vain. */
    do {
        was = atomic_exchange_explicit(&lock->word, AWAITED, memory_order_acquire);
        if (was == TAKEN || was == AWAITED)
            (void)syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, AWAITED, NULL, NULL, 0);
    } while (was == TAKEN || was == AWAITED);
    return was;
}

void lock_take_slowly(struct lock *lock, uint32_t held)
{
    if (held >= lock->bit)
        violation("a lock was taken out of order");
    if (wait_and_take(lock) == LENT)
        lock->recall(lock);
}

bool lock_take_lent(struct lock *lock) TSA(no_thread_safety_analysis)
{
    uint32_t was;

    if (try(lock, &was))
        return false;
    (void)wait_and_take(lock);
    return true;
}

void lock_drop_lent(struct lock *lock, bool is_lent) TSA(no_thread_safety_analysis)
{
    uint32_t word =
            atomic_exchange_explicit(&lock->word, is_lent ? LENT : FREE, memory_order_release);

    if (word != TAKEN)
        lock_drop_slowly(lock, lock_held | lock->bit, word);
}

void lock_drop_slowly(struct lock *lock, uint32_t held, uint32_t word)
{
    if (!(held & lock->bit) || word == FREE || word == LENT)
        violation("a lock was dropped that is not held");
    if (word == AWAITED)
        (void)syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void lock_forget_thread(void)
{
    lock_held = 0;
}

unsigned lock_assert_none(const char *what)
{
    unsigned count = 0;

    if (lock_held == 0)
        return 0;
    violation(what);
    for (uint32_t bits = lock_held; bits; bits &= bits - 1)
        count++;
    return count;
}

uint64_t lock_violations(void)
{
    return atomic_load_explicit(&violations, memory_order_relaxed);
}

const char *lock_last_violation(void)
{
    return atomic_load_explicit(&last_violation, memory_order_relaxed);
}
