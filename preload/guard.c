/* SPDX-License-Identifier: MIT */
#include "preload/guard.h"

#include "alloc/meta.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>

/* One cache line per thread, so that readers do not disturb each other. */
struct guard_slot {
    _Alignas(64) _Atomic(uint64_t) epoch; /* in which the section began, 0 = outside */
    atomic_bool taken;
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
static pthread_once_t guard_key_once = PTHREAD_ONCE_INIT;
static pthread_key_t guard_key;
static bool guard_key_made;

void guard_set(enum guard_bit bit)
{
    atomic_fetch_or(&guard_word, (unsigned)bit);
}

void guard_clear(enum guard_bit bit)
{
    atomic_fetch_and(&guard_word, ~(unsigned)bit);
}

/* ---- slots ---------------------------------------------------------------------------------- */

static void give_slot_back(void *data)
{
    struct guard_slot *slot = data;

    guard_thread.slot = NULL;
    atomic_store(&slot->epoch, 0);
    atomic_store(&slot->taken, false);
}

static void make_key(void)
{
    guard_key_made = pthread_key_create(&guard_key, give_slot_back) == 0;
}

static struct guard_slot *take_slot_of(struct guard_chunk *chunk)
{
    for (int i = 0; i < GUARD_CHUNK_SLOTS; i++) {
        bool taken = false;

        if (!atomic_load_explicit(&chunk->slot[i].taken, memory_order_relaxed)
                && atomic_compare_exchange_strong(&chunk->slot[i].taken, &taken, true))
            return &chunk->slot[i];
    }
    return NULL;
}

static struct guard_slot *take_slot(void)
{
    struct guard_chunk *head = atomic_load(&guard_chunks);
    struct guard_chunk *fresh;
    struct guard_slot *slot = NULL;

    for (struct guard_chunk *chunk = head; chunk && !slot; chunk = atomic_load(&chunk->next))
        slot = take_slot_of(chunk);
    if (slot)
        return slot;
    fresh = meta_map(sizeof *fresh);
    if (!fresh)
        return NULL;
    slot = &fresh->slot[0];
    atomic_store(&slot->taken, true);
    do {
        atomic_store(&fresh->next, head);
    } while (!atomic_compare_exchange_weak(&guard_chunks, &head, fresh));
    return slot;
}

/* Outside the hot path: a thread's first section. */
static struct guard_slot *slot_of_thread(void)
{
    (void)pthread_once(&guard_key_once, make_key);
    guard_thread.slot = take_slot();
    if (guard_thread.slot && guard_key_made)
        (void)pthread_setspecific(guard_key, guard_thread.slot);
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
    /* Pairs with the one in guard_readers_snapshot: the section is seen there, or the mark is seen here. */
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
                atomic_store(&c->slot[i].taken, false);
            }
}
