/* SPDX-License-Identifier: MIT */
#include "preload/base/threadmem.h"

#include "alloc/base/lock.h"
#include "alloc/base/meta.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* A slot is a pointer of its owner's type. */
typedef void *threadmem_slot __attribute__((may_alias));

struct threadmem {
    struct threadmem *next;
    threadmem_slot *slot;
    void *before; /* the slot's previous value */
    size_t size;
    _Alignas(16) char memory[];
};

static __thread struct threadmem *records __attribute__((tls_model("initial-exec")));

static pthread_once_t threadmem_once = PTHREAD_ONCE_INIT;
static pthread_key_t threadmem_key;
static bool threadmem_has_key; /* fixed by threadmem_once */

/* Destructors that run later in this thread find its slots empty and may allocate again. */
static void threadmem_thread_ends(void *unused)
{
    struct threadmem *record = records;

    (void)unused;
    records = NULL;
    while (record) {
        struct threadmem *next = record->next;

        *record->slot = record->before;
        meta_put(record, record->size);
        record = next;
    }
}

static void threadmem_make_key(void)
{
    threadmem_has_key = pthread_key_create(&threadmem_key, threadmem_thread_ends) == 0;
}

void threadmem_prepare(void)
{
    (void)pthread_once(&threadmem_once, threadmem_make_key);
}

void *threadmem_make(void *slot, size_t size)
{
    threadmem_slot *at = slot;
    void *before = *at;
    struct threadmem *record;

    threadmem_prepare();
    if (!threadmem_has_key || lock_is_held())
        return NULL;
    size += sizeof *record;
    record = meta_get(size);
    if (!record)
        return NULL;
    if (*at != before) { /* a signal handler filled the slot meanwhile */
        meta_put(record, size);
        return *at;
    }
    *record = (struct threadmem){records, at, before, size};
    atomic_signal_fence(memory_order_seq_cst);
    records = record;
    *at = record->memory;
    (void)pthread_setspecific(threadmem_key, &threadmem_key);
    return record->memory;
}
