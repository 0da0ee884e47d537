/* SPDX-License-Identifier: MIT */
/*
 * bench.c - kedge's pool and two others (peers.h) under the same requests, with no device below. What `run` prints.
 *
 *     bench pair POLICY LIVE WORKLOAD PAIRS THREADS     a block freed, one allocated, PAIRS times in each thread
 *     bench lines streams LANES                         pairs on one stream and then on another, for lines.py; LANES 1: in lanes
 *     bench growth ENTRANCE                             one GiB is taken in blocks of 16 MiB
 *     bench replay POLICY TRACE                         a recorded trace (op,id,size,stream,...), four times
 *
 * POLICY    stream, sync    kedge as a hook uses it that has nobody to tell: the short form, else the long one
 *           streams         the same as stream, but each thread has a stream of its own
 *           stream-told     the long form, with an outcome each time, as it is when allocations are recorded
 *           list, map       the others
 * WORKLOAD  a size in bytes; `small`, `mixed`: in a working set of 64 blocks one at random is replaced by one of another
 *           size, up to 1 MiB or up to 16 MiB
 *
 * Prints one line of JSON. Times are the best of several rounds.
 */
#include "alloc/heap/heap.h"
#include "alloc/heap/lane.h"
#include "alloc/heap/streams.h"
#include "alloc/pool.h"
#include "tests/bench/nodevice.h"
#include "tests/bench/peers.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    HELD = 64,
    HOLES = 1000,
    SIZES = 16,
    ROUNDS = 5,
    PASSES = 4,
    THREADS_MAX = 64,
};

/* ---- a driver that counts ---- */

static struct {
    _Atomic(uint64_t) next_address;
    _Atomic(uint64_t) mem_alloc, mem_free, create, map, access, unmap, release, record, query, wait;
} device = {.next_address = UINT64_C(1) << 40};

#define COUNT(what) atomic_fetch_add_explicit(&device.what, 1, memory_order_relaxed)

static uint64_t take_addresses(uint64_t size)
{
    return atomic_fetch_add(&device.next_address, ((size + PAGE - 1) & ~(PAGE - 1)) + PAGE);
}

static int mem_alloc(void *self, uint64_t context, int number, uint64_t size, devptr_t *ret_ptr)
{
    (void)self;
    (void)context;
    (void)number;
    COUNT(mem_alloc);
    *ret_ptr = take_addresses(size);
    return 0;
}

static int mem_free(void *self, uint64_t context, devptr_t ptr)
{
    (void)self;
    (void)context;
    (void)ptr;
    COUNT(mem_free);
    return 0;
}

static int memory(void *self, int number, uint64_t *ret_total, uint64_t *ret_free)
{
    (void)self;
    (void)number;
    *ret_total = UINT64_C(80) << 30;
    *ret_free = *ret_total;
    return 0;
}

static int address_reserve(void *self, int number, uint64_t size, uint64_t align, devptr_t *ret_ptr)
{
    (void)self;
    (void)number;
    (void)align;
    *ret_ptr = take_addresses(size);
    return 0;
}

static int handle_create(void *self, int number, uint64_t size, uint64_t *ret_handle)
{
    (void)self;
    (void)number;
    (void)size;
    *ret_handle = COUNT(create) + 1;
    return 0;
}

static int handle_release(void *self, uint64_t handle)
{
    (void)self;
    (void)handle;
    COUNT(release);
    return 0;
}

static int map(void *self, devptr_t ptr, uint64_t size, uint64_t handle)
{
    (void)self;
    (void)ptr;
    (void)size;
    (void)handle;
    COUNT(map);
    return 0;
}

static int unmap(void *self, devptr_t ptr, uint64_t size)
{
    (void)self;
    (void)ptr;
    (void)size;
    COUNT(unmap);
    return 0;
}

static int set_access(void *self, enum heap_kind heap, uint64_t owner, int number, devptr_t ptr,
        uint64_t size, enum driver_access access)
{
    (void)self;
    (void)heap;
    (void)owner;
    (void)number;
    (void)ptr;
    (void)size;
    (void)access;
    COUNT(access);
    return 0;
}

static int fence_record(void *self, int number, uint64_t *ret_fence)
{
    (void)number;
    (void)self;
    COUNT(record);
    *ret_fence = 1;
    return 0;
}

static int stream_record(void *self, uint64_t stream, uint64_t *ret_fence)
{
    (void)stream;
    return fence_record(self, 0, ret_fence);
}

static int fence_query(void *self, uint64_t fence)
{
    (void)self;
    (void)fence;
    COUNT(query);
    return 0;
}

static int fence_wait(void *self, uint64_t fence, uint32_t timeout_ms)
{
    (void)self;
    (void)fence;
    (void)timeout_ms;
    COUNT(wait);
    return 0;
}

static int stream_wait_fence(void *self, uint64_t stream, uint64_t fence)
{
    (void)stream;
    return fence_wait(self, fence, 0);
}

static const struct driver driver = DRIVER_HERE;

/* ---- policies ---- */

static struct {
    const char *name;
    struct peer *peer;
    bool told;
    uint64_t stream; /* 0: the sync API */
    bool apart;      /* each thread has another stream */
} policy;
static struct pool *pool;
static _Thread_local uint64_t stream_here;

static bool choose(const char *name)
{
    struct pool_opts opts;

    policy.name = name;
    if (strcmp(name, "list") == 0)
        policy.peer = peer_list();
    else if (strcmp(name, "map") == 0)
        policy.peer = peer_map();
    else if (strncmp(name, "stream", 6) == 0)
        policy.stream = 1;
    else if (strcmp(name, "sync") != 0)
        return false;
    policy.told = strcmp(name, "stream-told") == 0;
    policy.apart = strcmp(name, "streams") == 0;
    stream_here = policy.stream;
    if (policy.peer)
        return true;
    pool_opts_init(&opts);
    if (pool_new(&driver, &opts, &pool) != 0)
        return false;
    if (!policy.told)
        pool_is_not_recorded(pool);
    return true;
}

static devptr_t take_fully(uint64_t size)
{
    struct pool_request request = {
            .size = size,
            .owner = 1,
            .stream = stream_here,
            .api = policy.stream ? API_STREAM : API_SYNC,
            .may_call = true,
            .may_fence = true,
            .may_wait = true,
    };
    struct outcome told;

    if (pool_alloc(pool, &request, &told) != 0)
        abort();
    return told.ptr;
}

static void give_fully(devptr_t ptr)
{
    struct pool_free_request request = {
            .api = policy.stream ? API_STREAM : API_SYNC,
            .stream = stream_here,
            .may_fence = true,
    };
    struct outcome told;

    if (pool_free(pool, ptr, &request, &told) != 0)
        abort();
}

static devptr_t take(uint64_t size)
{
    devptr_t ptr = 0;

    if (policy.peer)
        return policy.peer->alloc(policy.peer, size);
    if (policy.told)
        return take_fully(size);
    ptr = policy.stream ? pool_alloc_on_quickly(pool, 1, stream_here, size).ptr
                        : pool_alloc_quickly(pool, 1, size).ptr;
    return ptr ? ptr : take_fully(size);
}

static void give(devptr_t ptr)
{
    if (policy.peer)
        policy.peer->free(policy.peer, ptr);
    else if (policy.told
            || !(policy.stream ? pool_free_on_quickly(pool, ptr, stream_here)
                               : pool_free_quickly(pool, ptr)))
        give_fully(ptr);
}

static uint64_t reserved(void)
{
    struct pool_stats stats;

    if (policy.peer)
        return policy.peer->reserved;
    pool_stats(pool, -1, &stats);
    return stats.reserved_high;
}

/* ---- pairs ---- */

static const uint64_t sizes[SIZES] = {512, 1024, 2048, 4096, 5000, 10000, 20000, 40000, 65536,
        100000, 300000, 1 << 20, 3 << 20, 5 << 20, 8 << 20, 16 << 20};

struct worker {
    pthread_t thread;
    devptr_t held[HELD];
    uint64_t state;
    long pairs;
    uint64_t stream;
    uint64_t size; /* 0: out of the first `kinds` sizes */
    unsigned kinds;
};

static uint32_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* What callgrind looks at. */
void counted(struct worker *worker);

__attribute__((noinline)) void counted(struct worker *worker)
{
    for (long i = 0; i < worker->pairs; i++) {
        if (worker->size) {
            give(take(worker->size));
        } else {
            uint32_t chosen = next(&worker->state);
            devptr_t *slot = &worker->held[chosen % HELD];

            give(*slot);
            *slot = take(sizes[chosen / HELD % worker->kinds]);
        }
    }
}

static void *work(void *data)
{
    const struct worker *worker = data;

    stream_here = worker->stream;
    counted(data);
    return NULL;
}

static double now(clockid_t clock)
{
    struct timespec time;

    (void)clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* Live ones, and holes between them. */
static void fill(long live)
{
    devptr_t holes[HOLES];
    uint64_t state = 1;
    long every = live > HOLES ? live / HOLES : 1;
    int count = 0;

    for (long i = 0; i < live; i++) {
        (void)take(512 + next(&state) % (i % 64 == 0 ? 1 << 14 : 1 << 10));
        if (i % every == 0 && count < HOLES)
            holes[count++] = take(512 + next(&state) % (1 << 12));
    }
    while (count > 0)
        give(holes[--count]);
}

/* Threads that the scheduler happens to leave on one processor take turns and never meet: each is given one, in turn. */
static void spread(pthread_attr_t *attr, int number)
{
    cpu_set_t ours, one;
    size_t cpu = 0;

    if (sched_getaffinity(0, sizeof ours, &ours) != 0 || CPU_COUNT(&ours) == 0)
        return;
    for (number %= CPU_COUNT(&ours); !CPU_ISSET(cpu, &ours) || number-- > 0;)
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)pthread_attr_setaffinity_np(attr, sizeof one, &one);
}

static void start(struct worker *worker, int number)
{
    pthread_attr_t attr;

    if (pthread_attr_init(&attr) != 0)
        abort();
    spread(&attr, number);
    if (pthread_create(&worker->thread, &attr, work, worker) != 0)
        abort();
    (void)pthread_attr_destroy(&attr);
}

/* Of a pair, in ns. */
struct cost {
    double time;
    double cpu; /* of the threads together: no other program that runs beside is in it, and spinning is */
};

static struct cost round_of(struct worker *workers, int threads, long pairs)
{
    double begin = now(CLOCK_MONOTONIC);
    double used = now(CLOCK_PROCESS_CPUTIME_ID);

    for (int i = 0; i < threads; i++) {
        workers[i].pairs = pairs;
        if (threads > 1)
            start(&workers[i], i);
    }
    if (threads == 1)
        counted(&workers[0]);
    for (int i = 0; i < threads && threads > 1; i++)
        (void)pthread_join(workers[i].thread, NULL);
    return (struct cost){
            (now(CLOCK_MONOTONIC) - begin) / (double)pairs / threads,
            (now(CLOCK_PROCESS_CPUTIME_ID) - used) / (double)pairs / threads,
    };
}

static void keep_least(double *least, double value)
{
    if (*least == 0 || value < *least)
        *least = value;
}

static int pair(long live, const char *workload, long pairs, int threads)
{
    static struct worker workers[THREADS_MAX];
    struct pool_stats before = {0}, after = {0};
    struct cost best = {0, 0};

    if (threads < 1 || threads > THREADS_MAX || pairs < 1)
        return 2;
    fill(live);
    for (int i = 0; i < threads; i++) {
        workers[i].size = strtoull(workload, NULL, 10);
        workers[i].kinds = strcmp(workload, "small") == 0 ? 12 : SIZES;
        workers[i].state = 7 + (uint64_t)i;
        workers[i].stream = policy.stream + (policy.apart ? (uint64_t)i : 0);
        stream_here = workers[i].stream;
        for (int k = 0; k < HELD; k++)
            workers[i].held[k] =
                    take(workers[i].size ? workers[i].size : sizes[(unsigned)k % workers[i].kinds]);
        for (int k = 0; k < HELD && workers[i].size; k++)
            give(workers[i].held[k]);
    }
    stream_here = policy.stream;
    (void)round_of(workers, threads, pairs);
    if (pool)
        pool_stats(pool, -1, &before);
    for (int i = 0; i < ROUNDS; i++) {
        struct cost each = round_of(workers, threads, pairs);

        keep_least(&best.time, each.time);
        keep_least(&best.cpu, each.cpu);
    }
    if (pool)
        pool_stats(pool, -1, &after);
    printf("{\"policy\": \"%s\", \"live\": %ld, \"workload\": \"%s\", \"threads\": %d, \"ns\": "
           "%.1f, \"cpu_ns\": %.1f, "
           "\"misses\": %llu, \"driver_calls\": %llu}\n",
            policy.name, live, workload, threads, best.time, best.cpu,
            (unsigned long long)(after.misses - before.misses),
            (unsigned long long)(after.driver_calls - before.driver_calls));
    return 0;
}

/* ---- lines ---- */

/* Where lines.py begins a new list of what is written. */
void marked(void);

__attribute__((noinline)) void marked(void)
{
    __asm__ volatile("");
}

static void open_lane(uint64_t stream)
{
    struct heap *heap;

    (void)lock_take_lent(&pool->lock);
    heap = heap_get(pool, HEAP_MAPPED, 1, -1);
    lane_open(pool, heap_class(heap, streams_find(pool, stream)));
    lock_drop_lent(&pool->lock, lanes_are_open(pool));
}

static void pairs(int count)
{
    while (count-- > 0)
        give(take(1024));
}

static int lines(bool lanes)
{
    devptr_t held[2];

    for (unsigned i = 0; i < 2; i++) {
        stream_here = i + 1;
        pairs(2);
        held[i] = take(1024);
    }
    for (unsigned i = 0; i < 2 && lanes; i++)
        open_lane(i + 1);
    for (unsigned i = 0; i < 2; i++) {
        stream_here = i + 1;
        give(held[i]);
        pairs(1); /* takes its numbers */
    }
    for (unsigned i = 0; i < 2; i++) {
        stream_here = i + 1;
        marked();
        pairs(HELD);
        marked();
    }
    printf("{\"marked\": %llu, \"stack\": %llu}\n", (unsigned long long)(uintptr_t)marked,
            (unsigned long long)(uintptr_t)held);
    return 0;
}

/* ---- growth ---- */

static int growth(void)
{
    for (int i = 0; i < 64; i++)
        (void)take(UINT64_C(16) << 20);
    printf("{\"policy\": \"%s\", \"mem_alloc\": %llu, \"mem_create\": %llu, \"mem_map\": %llu, "
           "\"set_access\": %llu}\n",
            policy.name, (unsigned long long)device.mem_alloc, (unsigned long long)device.create,
            (unsigned long long)device.map, (unsigned long long)device.access);
    return 0;
}

/* ---- replay ---- */

struct event {
    bool is_free;
    uint32_t id;
    uint64_t size;
};

static struct event *events;
static size_t event_count, id_count;

static bool read_trace(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[256];
    size_t room = 0;

    if (!file)
        return false;
    while (fgets(line, sizeof line, file)) {
        unsigned long long size = 0;
        unsigned id;
        char op;

        if (sscanf(line, "%c,%u,%llu", &op, &id, &size) < 2 || (op != 'a' && op != 'f'))
            continue;
        if (event_count == room) {
            room = room ? room * 2 : 4096;
            events = realloc(events, room * sizeof *events);
            if (!events)
                abort();
        }
        events[event_count++] = (struct event){op == 'f', id, size ? size : 1};
        if (id >= id_count)
            id_count = (size_t)id + 1;
    }
    (void)fclose(file);
    return event_count > 0;
}

static int replay(const char *path)
{
    uint64_t live = 0, peak = 0;
    devptr_t *ptrs;
    uint64_t *held;
    double best = 0;
    size_t done = 0;

    if (!read_trace(path))
        return 2;
    ptrs = calloc(id_count, sizeof *ptrs);
    held = calloc(id_count, sizeof *held);
    if (!ptrs || !held)
        abort();
    for (int pass = 0; pass < PASSES; pass++) {
        double begin = now(CLOCK_MONOTONIC);
        double each;

        done = 0;
        for (size_t i = 0; i < event_count; i++) {
            const struct event *event = &events[i];
            devptr_t *ptr = &ptrs[event->id];

            if (event->is_free == !*ptr)
                continue;
            if (event->is_free) {
                give(*ptr);
                *ptr = 0;
                live -= held[event->id];
            } else {
                *ptr = take(event->size);
                held[event->id] = (event->size + 511) & ~UINT64_C(511);
                live += held[event->id];
                peak = live > peak ? live : peak;
            }
            done++;
        }
        for (size_t i = 0; i < id_count; i++) {
            if (!ptrs[i])
                continue;
            give(ptrs[i]);
            ptrs[i] = 0;
            done++;
        }
        live = 0;
        each = (now(CLOCK_MONOTONIC) - begin) / (double)done;
        best = best == 0 || each < best ? each : best;
    }
    printf("{\"policy\": \"%s\", \"ns\": %.1f, \"events\": %zu, \"e\": %.4f}\n", policy.name, best,
            done, (double)peak / (double)reserved());
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3 || !choose(argv[2]))
        return 2;
    if (argc == 7 && strcmp(argv[1], "pair") == 0)
        return pair(strtol(argv[3], NULL, 10), argv[4], strtol(argv[5], NULL, 10), atoi(argv[6]));
    if (argc == 4 && strcmp(argv[1], "lines") == 0 && policy.apart)
        return lines(strcmp(argv[3], "1") == 0);
    if (argc == 3 && strcmp(argv[1], "growth") == 0)
        return growth();
    if (argc == 4 && strcmp(argv[1], "replay") == 0)
        return replay(argv[3]);
    return 2;
}
