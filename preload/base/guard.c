/* SPDX-License-Identifier: MIT */
#include "preload/base/guard.h"

#include "alloc/base/meta.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One cache line per thread, so that readers do not disturb each other. */
struct guard_slot {
    _Alignas(64) _Atomic(uint64_t) epoch; /* epoch in which the section began, 0 = outside */
    atomic_int owner;                     /* thread id, 0 = slot is free */
};

enum {
    GUARD_CHUNK_SLOTS = 255,
};

struct guard_chunk {
    struct guard_slot slot[GUARD_CHUNK_SLOTS];
    _Atomic(struct guard_chunk *) next;
};

__thread struct guard_thread guard_thread __attribute__((tls_model("initial-exec")));

atomic_uint guard_word = GUARD_UNBOUND;

static _Atomic(uint64_t) guard_epoch = 1;
static _Atomic(struct guard_chunk *) guard_chunks;
static atomic_uint guard_crowd; /* open sections of threads without a slot */

void guard_set(enum guard_bit bit)
{
    atomic_fetch_or(&guard_word, (unsigned)bit);
}

void guard_clear(enum guard_bit bit)
{
    atomic_fetch_and(&guard_word, ~(unsigned)bit);
}

/* ---- slots ---------------------------------------------------------------------------------- */

/*
 * A thread that ended left its slot outside any section, so the slot can be taken over once its
 * owner is dead.
 */
static bool is_dead(int owner)
{
    return syscall(SYS_tgkill, getpid(), owner, 0) < 0 && errno == ESRCH;
}

static struct guard_slot *take_slot_of(struct guard_chunk *chunk, int tid, bool from_the_dead)
{
    for (int i = 0; i < GUARD_CHUNK_SLOTS; i++) {
        int owner = atomic_load_explicit(&chunk->slot[i].owner, memory_order_relaxed);

        if (owner != 0 && (!from_the_dead || !is_dead(owner)))
            continue;
        if (atomic_compare_exchange_strong(&chunk->slot[i].owner, &owner, tid))
            return &chunk->slot[i];
    }
    return NULL;
}

static struct guard_slot *take_any(int tid, bool from_the_dead)
{
    struct guard_slot *slot = NULL;

    for (struct guard_chunk *c = atomic_load(&guard_chunks); c && !slot; c = atomic_load(&c->next))
        slot = take_slot_of(c, tid, from_the_dead);
    return slot;
}

static struct guard_slot *take_new(int tid)
{
    struct guard_chunk *head = atomic_load(&guard_chunks);
    struct guard_chunk *fresh = meta_map(sizeof *fresh);

    if (!fresh)
        return NULL;
    atomic_store(&fresh->slot[0].owner, tid);
    do {
        atomic_store(&fresh->next, head);
    } while (!atomic_compare_exchange_weak(&guard_chunks, &head, fresh));
    return &fresh->slot[0];
}

/*
 * The slow path of a thread's first section. No key with a destructor: pthread_setspecific may
 * allocate.
 */
static struct guard_slot *slot_of_thread(void)
{
    int tid = (int)syscall(SYS_gettid);
    int saved = errno;

    guard_thread.slot = take_any(tid, false);
    if (!guard_thread.slot)
        guard_thread.slot = take_any(tid, true);
    if (!guard_thread.slot)
        guard_thread.slot = take_new(tid);
    errno = saved;
    return guard_thread.slot;
}

/* ---- sections ------------------------------------------------------------------------------- */

void guard_read_begin(void)
{
    struct guard_slot *slot = guard_thread.slot;

    if (guard_thread.reading++ > 0)
        return;
    if (!slot)
        slot = slot_of_thread();
    if (slot)
        atomic_store_explicit(&slot->epoch, atomic_load(&guard_epoch), memory_order_relaxed);
    else
        atomic_fetch_add(&guard_crowd, 1);
    /*
     * Pairs with the fence in guard_readers_snapshot: either the snapshot sees the section, or the
     * section sees the mark.
     */
    atomic_thread_fence(memory_order_seq_cst);
}

void guard_read_end(void)
{
    struct guard_slot *slot = guard_thread.slot;

    if (--guard_thread.reading > 0)
        return;
    if (slot)
        atomic_store_explicit(&slot->epoch, 0, memory_order_release);
    else
        atomic_fetch_sub(&guard_crowd, 1);
}

unsigned guard_read_suspend(void)
{
    unsigned suspended = guard_thread.reading;

    if (suspended > 0) {
        guard_thread.reading = 1;
        guard_read_end();
    }
    return suspended;
}

void guard_read_resume(unsigned suspended)
{
    if (suspended == 0)
        return;
    guard_read_begin();
    guard_thread.reading = suspended;
}

uint64_t guard_readers_snapshot(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    return atomic_fetch_add(&guard_epoch, 1) + 1;
}

static bool chunk_passed(struct guard_chunk *chunk, uint64_t snapshot)
{
    for (int i = 0; i < GUARD_CHUNK_SLOTS; i++) {
        uint64_t epoch = atomic_load_explicit(&chunk->slot[i].epoch, memory_order_acquire);

        if (epoch != 0 && epoch < snapshot)
            return false;
    }
    return true;
}

int guard_readers_passed(uint64_t snapshot)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&guard_crowd) > 0)
        return -EAGAIN;
    for (struct guard_chunk *c = atomic_load(&guard_chunks); c; c = atomic_load(&c->next))
        if (!chunk_passed(c, snapshot))
            return -EAGAIN;
    return 0;
}

void guard_fork_child(void)
{
    atomic_store(&guard_crowd, 0);
    for (struct guard_chunk *c = atomic_load(&guard_chunks); c; c = atomic_load(&c->next))
        for (int i = 0; i < GUARD_CHUNK_SLOTS; i++)
            if (&c->slot[i] != guard_thread.slot) {
                atomic_store(&c->slot[i].epoch, 0);
                atomic_store(&c->slot[i].owner, 0);
            }
    if (guard_thread.slot)
        atomic_store(&guard_thread.slot->owner, (int)syscall(SYS_gettid));
}
