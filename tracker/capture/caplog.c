/* SPDX-License-Identifier: MIT */
#include "tracker/capture/caplog.h"

#include "alloc/base/meta.h"
#include "tracker/base/counter.h"
#include "tracker/format/formatsum.h"
#include "tracker/stacks/thread.h"

#include <errno.h>
#include <stdatomic.h>

#define FIRST_EXTENT (UINT64_C(2) * FORMAT_CHUNK_BYTES)
#define CHUNKS_MAX   (1u << 22)

/* State of a chunk in memory: the file is never read back. */
struct chunk {
    struct format_chunk *base;
    struct eventcode code; /* like the other fields, written by its owner */
    uint64_t sum;          /* checksum of its records */
    uint64_t newest_seq;   /* of its events */
    uint32_t events;
    uint32_t used; /* bytes of its events */
    uint32_t next; /* in the list of sealed (full) or of half-full chunks */
};

static struct cappool pool;
static struct lock lock = LOCK_INIT(LOCK_RANK_CAPTURE);
static struct format_header *header; /* fixed by caplog_init */
static uint32_t ring_chunks;         /* fixed by caplog_init */

/* guarded by lock: */
static struct slab chunks;
static bool has_chunks;
static uint32_t sealed_head, sealed_tail;
static uint32_t half_full;
static uint64_t last_number;

/* Incremented by caplog_init: chunks that threads hold from earlier are invalid. */
static _Atomic uint32_t epoch;

void caplog_init(struct capfile *file, uint32_t chunks_max)
{
    cappool_init(&pool, file, FORMAT_EXTENT_EVENTS, FORMAT_CHUNK_BYTES, FIRST_EXTENT);
    lock_init(&lock, LOCK_RANK_CAPTURE);
    header = file->header;
    ring_chunks = chunks_max;
    if (!has_chunks)
        has_chunks = slab_init(&chunks, sizeof(struct chunk), CHUNKS_MAX) == 0;
    sealed_head = sealed_tail = half_full = 0;
    last_number = 0;
    atomic_fetch_add_explicit(&epoch, 1, memory_order_release);
}

static struct chunk *chunk_at(uint32_t number)
{
    return slab_at(&chunks, number);
}

static bool is_full(const struct chunk *chunk)
{
    return chunk->used > FORMAT_CHUNK_ROOM - EVENTCODE_ROOM;
}

static void seal_locked(uint32_t number)
{
    chunk_at(number)->next = 0;
    if (sealed_tail)
        chunk_at(sealed_tail)->next = number;
    else
        sealed_head = number;
    sealed_tail = number;
}

static uint32_t unseal_locked(void)
{
    uint32_t number = sealed_head;

    if (number != 0) {
        sealed_head = chunk_at(number)->next;
        if (sealed_head == 0)
            sealed_tail = 0;
    }
    return number;
}

static uint32_t take_half_full_locked(void)
{
    uint32_t number = half_full;

    if (number != 0)
        half_full = chunk_at(number)->next;
    return number;
}

/* Empties a chunk for its next use. Its number is 0 meanwhile: readers skip it. The length is
 * cleared first, so that a kill never leaves a length without a number. */
static void recycle(struct chunk *chunk, uint64_t number)
{
    counter_raise(&header->lost.recycled_seq, chunk->newest_seq);
    counter_add(&header->lost.events_recycled, chunk->events);
    __atomic_store_n(&chunk->base->used, 0, __ATOMIC_RELAXED);
    /* an exchange, since its acquire half keeps the later stores after it */
    (void)__atomic_exchange_n(&chunk->base->number, 0, __ATOMIC_ACQ_REL);
    *chunk = (struct chunk){.base = chunk->base, .sum = formatsum_chunk(number)};
    __atomic_store_n(&chunk->base->number, number, __ATOMIC_RELEASE);
}

/* A chunk that was never used; 0 with *ret_error if there is none. Allocates its record first, so
 * that the file does not grow in vain. */
static uint32_t fresh_chunk(int *ret_error)
{
    struct format_chunk *base;
    uint32_t number = 0;
    uint32_t got = 0;

    lock_take(&lock);
    if (has_chunks)
        number = slab_take(&chunks);
    lock_drop(&lock);
    if (number == 0) {
        *ret_error = -ENOMEM;
        return 0;
    }
    base = cappool_take(&pool, 1, &got, ret_error);
    lock_take(&lock);
    if (base) {
        *chunk_at(number) = (struct chunk){.base = base, .sum = formatsum_chunk(++last_number)};
        __atomic_store_n(&base->number, last_number, __ATOMIC_RELEASE);
    } else {
        slab_put(&chunks, number);
        number = 0;
    }
    lock_drop(&lock);
    return number;
}

static uint32_t used_chunk(void)
{
    uint64_t number = 0;
    uint32_t chunk;

    lock_take(&lock);
    chunk = unseal_locked();
    if (chunk != 0)
        number = ++last_number;
    lock_drop(&lock);
    if (chunk != 0)
        recycle(chunk_at(chunk), number);
    return chunk;
}

/* Gets another chunk for this thread, and seals the full one. 0 = none, events are lost. */
static uint32_t next_chunk(uint32_t full, int *ret_error)
{
    uint32_t chunk;
    bool is_ring_full;

    *ret_error = 0;
    lock_take(&lock);
    if (full != 0)
        seal_locked(full);
    chunk = take_half_full_locked();
    is_ring_full = ring_chunks != 0 && chunks.used >= ring_chunks;
    lock_drop(&lock);
    if (chunk == 0 && is_ring_full)
        chunk = used_chunk();
    if (chunk == 0)
        chunk = fresh_chunk(
                ret_error); /* also for a ring whose chunks all belong to other threads */
    if (chunk == 0)
        chunk = used_chunk();
    return chunk;
}

/* The chunk for this thread's next event, NULL = none. */
static struct chunk *own_chunk(struct thread *thread, int *ret_error)
{
    uint32_t now = atomic_load_explicit(&epoch, memory_order_acquire);

    *ret_error = 0;
    if (thread->chunk_epoch != now) {
        thread->chunk = 0;
        thread->chunk_epoch = now;
    }
    if (thread->chunk == 0 || is_full(chunk_at(thread->chunk)))
        thread->chunk = next_chunk(thread->chunk, ret_error);
    return thread->chunk != 0 ? chunk_at(thread->chunk) : NULL;
}

int caplog_append(struct format_event *event, uint32_t of)
{
    struct thread *thread = thread_self();
    struct chunk *chunk = NULL;
    unsigned char *record;
    size_t length;
    int r = -ENOMEM;

    if (thread)
        chunk = own_chunk(thread, &r);
    if (!chunk) {
        counter_add(&header->lost.events_dropped, 1);
        return r;
    }
    event->thread = of ? of : thread->number;
    record = (unsigned char *)(chunk->base + 1) + chunk->used;
    length = eventcode_put(&chunk->code, event, record);
    chunk->sum = formatsum_open(chunk->sum, record, length); /* EVENTCODE_ROOM is left after it */
    chunk->used += (uint32_t)length;
    /* release: a reader that sees the length sees the event, and a kill leaves no length without
     * its sum */
    __atomic_store_n(&chunk->base->used, formatsum_used(chunk->used, chunk->sum), __ATOMIC_RELEASE);
    chunk->events++;
    if (event->seq > chunk->newest_seq)
        chunk->newest_seq = event->seq;
    return r;
}

static void caplog_thread_exit(struct thread *thread)
{
    if (thread->chunk == 0
            || thread->chunk_epoch != atomic_load_explicit(&epoch, memory_order_acquire))
        return;
    lock_take(&lock);
    if (is_full(chunk_at(thread->chunk))) {
        seal_locked(thread->chunk);
    } else {
        chunk_at(thread->chunk)->next = half_full;
        half_full = thread->chunk;
    }
    lock_drop(&lock);
    thread->chunk = 0;
}

THREAD_AT_EXIT(caplog_thread_exit);

void caplog_fork_child(void)
{
    lock_init(&lock, LOCK_RANK_CAPTURE);
    /* No thread has a chunk any more: the chunks belong to the parent. */
    atomic_fetch_add_explicit(&epoch, 1, memory_order_release);
}
