/* SPDX-License-Identifier: MIT */
#include "tracker/stacks/thread.h"

#include "alloc/base/lock.h"
#include "alloc/base/meta.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

__thread struct thread *thread_current;

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key; /* fixed by key_once */

static struct lock lock = LOCK_INIT(LOCK_RANK_TRACKER);
/* guarded by lock: */
static struct thread *free_records;
static uint32_t last_number, ended_count;

/* The array that THREAD_AT_EXIT fills; the linker defines the two names.
 * NOLINTBEGIN(bugprone-reserved-identifier) */
extern const thread_exit __start_kedge_thread_exits[] __attribute__((weak, visibility("hidden")));
extern const thread_exit __stop_kedge_thread_exits[] __attribute__((weak, visibility("hidden")));
/* NOLINTEND(bugprone-reserved-identifier) */

static void thread_ended(void *record)
{
    struct thread *thread = record;

    for (const thread_exit *fn = __start_kedge_thread_exits; fn < __stop_kedge_thread_exits; fn++)
        (*fn)(thread);
    thread_current = NULL;
    lock_take(&lock);
    thread->next_free = free_records;
    free_records = thread;
    ended_count++;
    lock_drop(&lock);
}

uint32_t thread_living(void)
{
    uint32_t living;

    lock_take(&lock);
    living = last_number - ended_count;
    lock_drop(&lock);
    return living;
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, thread_ended) == 0;
}

static struct thread *thread_new_record(void)
{
    struct thread *thread;
    uint32_t number;

    lock_take(&lock);
    thread = free_records;
    if (thread)
        free_records = thread->next_free;
    number = ++last_number;
    lock_drop(&lock);

    if (thread) {
        struct walkmemo *walkmemo = thread->walkmemo;

        *thread = (struct thread){.walkmemo = walkmemo};
    } else
        thread = meta_get(sizeof *thread);
    if (!thread)
        return NULL;
    thread->number = number;
    thread->tid = (uint32_t)syscall(SYS_gettid);
    thread->is_main = thread->tid == (uint32_t)getpid();
    return thread;
}

void thread_prepare(void)
{
    (void)pthread_once(&key_once, make_key);
}

struct thread *thread_make(void)
{
    (void)pthread_once(&key_once, make_key);
    thread_current = thread_new_record();
    if (thread_current && has_key)
        (void)pthread_setspecific(key, thread_current); /* on failure the record is not reused */
    return thread_current;
}

void thread_fork_child(void)
{
    lock_init(&lock, LOCK_RANK_TRACKER);
    free_records = NULL; /* may have been half changed in the parent at the fork */
    if (thread_current) {
        thread_current->tid = (uint32_t)syscall(SYS_gettid);
        thread_current->is_main = true;
    }
}
