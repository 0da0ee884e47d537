/* SPDX-License-Identifier: MIT */
#include "tests/sim/base/sim_core.h"

#include "tests/sim/base/sim_config.h"
#include "tests/sim/base/sim_faults.h"
#include "tests/sim/base/sim_log.h"
#include "tests/sim/base/sim_park.h"
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/driver/sim_reads.h"
#include "tests/sim/driver/sim_stacks.h"
#include "tests/sim/graph/sim_capture.h"
#include "tests/sim/graph/sim_userobject.h"
#include "tests/sim/stream/sim_queue.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct simcuda_stats sim_stats;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic(void (*)(const char *)) call_hook;
static atomic_bool initialised;
static atomic_bool forked;
static uint64_t random_state;
static atomic_uint_fast64_t threads;
static __thread struct sim_thread self;

/* CUDA does not survive a fork: in the child every call says "not initialised". */
static void in_child(void)
{
    if (atomic_load(&initialised))
        atomic_store(&forked, true);
    sim_unlock();
}

static void boot(void)
{
    sim_config_read();
    random_state = sim_config.seed * 0x9e3779b97f4a7c15U + 0x1234567U;
    sim_log_open();
    sim_stacks_open();
    pthread_atfork(sim_lock, sim_unlock, in_child);
}

struct sim_thread *sim_self(void)
{
    if (self.number == 0)
        self.number = atomic_fetch_add(&threads, 1) + 1;
    return &self;
}

void sim_lock(void)
{
    pthread_once(&once, boot);
    pthread_mutex_lock(&lock);
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void sim_sleep(unsigned ms)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(ms % 1000) * 1000000L;
    until.tv_sec += (time_t)(ms / 1000) + until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&progress, &lock, &until);
}

void sim_sleep_on(pthread_cond_t *condition)
{
    pthread_cond_wait(condition, &lock);
}

void sim_wake(void)
{
    pthread_cond_broadcast(&progress);
}

/* splitmix64: any seed, 0 included, gives a good sequence. */
uint64_t sim_random(void)
{
    uint64_t x = random_state += 0x9e3779b97f4a7c15U;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

void sim_say(const char *format, ...)
{
    char line[512] = "simcuda: ";
    size_t used = strlen(line);
    va_list args;

    va_start(args, format);
    int length = vsnprintf(line + used, sizeof(line) - used - 1, format, args);
    va_end(args);
    used += length < 0 ? 0 : (size_t)length;
    if (used > sizeof(line) - 2)
        used = sizeof(line) - 2;
    line[used++] = '\n';
    if (write(STDERR_FILENO, line, used) < 0)
        return; /* nobody reads it */
}

void *sim_new(size_t size)
{
    return sim_grow(NULL, size);
}

void *sim_grow(void *old, size_t size)
{
    void *grown = old ? realloc(old, size) : calloc(1, size);

    if (!grown) {
        sim_say("out of host memory for the device's own tables");
        _exit(70);
    }
    return grown;
}

/* ---- the frame of a call ---- */

static int check_start(const char *name, unsigned needs)
{
    if (atomic_load(&forked))
        return needs & SIM_NEED_INIT || strcmp(name, "cuInit") == 0 ? CUDA_ERROR_NOT_INITIALIZED
                                                                    : CUDA_SUCCESS;
    if (strcmp(name, "cuInit") == 0)
        atomic_store(&initialised, true);
    else if (needs & SIM_NEED_INIT && !atomic_load(&initialised))
        return CUDA_ERROR_NOT_INITIALIZED;
    return CUDA_SUCCESS;
}

int sim_enter(struct sim_call *call, const char *name, unsigned needs)
{
    struct sim_thread *me = sim_self();
    void (*hook)(const char *) = atomic_load(&call_hook);
    bool sticky = false;
    int r;

    *call = (struct sim_call){.name = name};
    pthread_once(&once, boot);
    if (hook)
        hook(name);
    sim_park_enter(name);
    sim_lock();
    call->locked = true;
    r = (int)sim_faults_count(name, &sticky);
    if (sticky)
        sim_context_break((CUresult)r);
    if (r)
        return r;
    if (me->in_host_function && needs != SIM_NEED_NOTHING) {
        sim_stats.host_refusals++;
        return CUDA_ERROR_NOT_PERMITTED;
    }
    r = check_start(name, needs);
    if (r)
        return r;
    if (!(needs & SIM_IS_QUERY))
        me->calls++;
    sim_queue_entry();
    if ((needs & SIM_NEED_CONTEXT) == SIM_NEED_CONTEXT) {
        r = sim_context_current(&call->ctx);
        if (r)
            return r;
    }
    if (needs & SIM_NEED_SAFE)
        return sim_capture_unsafe_call();
    return CUDA_SUCCESS;
}

CUresult sim_leave(struct sim_call *call, int result)
{
    if (call->locked) {
        if (!sim_self()->in_host_function)
            sim_queue_exit();
        sim_log_call(call->name, sim_self()->number, result, call->detail);
        sim_unlock();
        sim_park_leave(call->name);
        if (result == CUDA_SUCCESS && call->born_bytes)
            sim_stacks_born("driver", call->born, call->born_bytes);
        sim_reads_note();
        sim_userobject_drain();
    }
    return (CUresult)result;
}

void sim_note(struct sim_call *call, const char *format, ...)
{
    size_t used = strlen(call->detail);
    va_list args;

    if (!sim_log_is_open())
        return;
    va_start(args, format);
    (void)vsnprintf(call->detail + used, sizeof(call->detail) - used, format, args);
    va_end(args);
}

void simcuda_set_call_hook(void (*hook)(const char *call))
{
    atomic_store(&call_hook, hook);
}

uint64_t simcuda_calls(const char *call)
{
    sim_lock();
    uint64_t calls = sim_faults_calls(call);
    sim_unlock();
    return calls;
}

int simcuda_stats(struct simcuda_stats *stats)
{
    if (stats->size != sizeof(*stats))
        return -1;
    sim_lock();
    size_t size = stats->size;
    *stats = sim_stats;
    stats->size = size;
    stats->devices = sim_config.devices;
    for (int i = 0; i < sim_config.devices; i++)
        stats->total[i] = sim_config.memory;
    sim_unlock();
    return 0;
}

uint64_t simcuda_digest_copies(void)
{
    uint64_t count;

    sim_lock();
    count = sim_stats.digest_copies;
    sim_unlock();
    return count;
}

/* ---- handles: an open hash of pointers ---- */

struct slot {
    const void *object;
    enum sim_kind kind;
};

static struct slot *slots;
static size_t slots_count, slots_used; /* used: entries and tombstones */
static const char tombstone;

static size_t slot_start(const void *object)
{
    return (size_t)(((uintptr_t)object >> 4) * 0x9e3779b97f4a7c15U >> 20);
}

static struct slot *slot_of(const void *object)
{
    if (slots_count == 0)
        return NULL;
    for (size_t i = slot_start(object);; i++) {
        struct slot *slot = &slots[i & (slots_count - 1)];
        if (slot->object == object)
            return slot;
        if (!slot->object)
            return NULL;
    }
}

static void slot_put(const void *object, enum sim_kind kind)
{
    for (size_t i = slot_start(object);; i++) {
        struct slot *slot = &slots[i & (slots_count - 1)];
        if (slot->object)
            continue;
        *slot = (struct slot){object, kind};
        slots_used++;
        return;
    }
}

static void slots_rehash(void)
{
    struct slot *old = slots;
    size_t old_count = slots_count, live = 0;

    for (size_t i = 0; i < old_count; i++)
        live += old[i].object && old[i].object != &tombstone;
    slots_count = 256;
    while (slots_count < live * 4)
        slots_count *= 2;
    slots = sim_new(slots_count * sizeof(*slots));
    slots_used = 0;
    for (size_t i = 0; i < old_count; i++)
        if (old[i].object && old[i].object != &tombstone)
            slot_put(old[i].object, old[i].kind);
    free(old);
}

void sim_handle_add(const void *object, enum sim_kind kind)
{
    if ((slots_used + 1) * 2 > slots_count)
        slots_rehash();
    slot_put(object, kind);
}

void sim_handle_remove(const void *object)
{
    struct slot *slot = slot_of(object);

    if (slot)
        slot->object = &tombstone;
}

bool sim_handle_is(const void *object, enum sim_kind kind)
{
    struct slot *slot = object ? slot_of(object) : NULL;

    return slot && slot->kind == kind;
}
