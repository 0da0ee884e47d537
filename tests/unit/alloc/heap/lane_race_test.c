/* SPDX-License-Identifier: MIT */
/* covers: lane.c */
/* Threads that allocate and free by the short forms, on streams of their own and on one that two share, while others look, trim,
 * and take streams away. Under TSan this is the test for races in lanes. */
#include "alloc/heap/lane.h"
#include "tests/unit/alloc/pool_bench.h"

#include <sched.h>

enum {
    THREADS = 8,
    STREAMS = THREADS - 1, /* the last two threads share one */
    HELD = 16,
    ROUNDS = 100,
};

struct race {
    struct bench *b;
    pthread_barrier_t begun;
    atomic_bool stop;
    atomic_uint open; /* how often lanes were seen open */
    atomic_uint owner[1 << 16];
};

struct worker {
    struct race *race;
    unsigned number;
    unsigned state;
    uint64_t stream;
    pthread_t thread;
    devptr_t held[HELD];
    uint64_t sizes[HELD];
};

static const uint64_t sizes[] = {512, 5000, 5100, 40 * KiB, 1 * MiB};

/* Of addresses in the range that all blocks come from, by units of 64 KiB: nobody has two at a time of the larger ones. */
static void mark(struct worker *w, unsigned i, unsigned from, unsigned to)
{
    unsigned was = from;

    if (w->sizes[i] == 1 * MiB
            && !atomic_compare_exchange_strong(
                    &w->race->owner[w->held[i] / (64 * KiB) % (1 << 16)], &was, to))
        (void)check_that(false, __FILE__, __LINE__, "two threads hold the same memory");
}

static void take(struct worker *w, unsigned i, uint64_t size)
{
    w->sizes[i] = size;
    w->held[i] = pool_alloc_on_quickly(w->race->b->pool, BENCH_POOL, w->stream, size).ptr;
    if (!w->held[i]) {
        struct pool_request request = bench_request(size, w->stream);
        struct outcome told;

        if (pool_alloc(w->race->b->pool, &request, &told) != 0)
            abort();
        w->held[i] = told.ptr;
    }
    mark(w, i, 0, w->number + 1);
}

static void give(struct worker *w, unsigned i)
{
    struct pool_free_request request = {.api = API_STREAM, .stream = w->stream, .may_fence = true};
    struct pool_taken taken;
    struct outcome told;

    mark(w, i, w->number + 1, 0);
    if (pool_free_on_told(w->race->b->pool, w->held[i], w->stream, &taken)) {
        CHECK_EQ(taken.size, w->sizes[i]);
    } else {
        CHECK_EQ(pool_free(w->race->b->pool, w->held[i], &request, &told), 0);
    }
    w->held[i] = 0;
}

/* All hold all they ever hold at one time, which is the peak; then blocks of the same sizes come and go. */
static void *program(void *arg)
{
    struct worker *w = arg;

    for (unsigned i = 0; i < HELD; i++)
        take(w, i, sizes[i % (sizeof sizes / sizeof sizes[0])]);
    (void)pthread_barrier_wait(&w->race->begun);
    while (!atomic_load(&w->race->stop)) {
        unsigned i = (unsigned)rand_r(&w->state) % HELD;

        if (w->held[i])
            give(w, i);
        else
            take(w, i, w->sizes[i]);
        if (lanes_are_open(w->race->b->pool))
            atomic_fetch_add_explicit(&w->race->open, 1, memory_order_relaxed);
    }
    for (unsigned i = 0; i < HELD; i++)
        if (w->held[i])
            give(w, i);
    return NULL;
}

static void look(struct pool *pool, unsigned what)
{
    const char *broken = "";
    struct pool_stats stats;
    struct block_info info;
    uint64_t bytes;

    switch (what) {
    case 0:
        if (pool_check(pool, &broken) != 0)
            (void)check_that(false, __FILE__, __LINE__, broken);
        break;
    case 1:
        pool_stats(pool, -1, &stats);
        CHECK_GE(stats.used_high, stats.used);
        CHECK_EQ(stats.allocs - stats.frees, stats.live_count);
        (void)pool_find(pool, 2 * MiB, &info);
        break;
    case 2:
        (void)pool_trim(pool, HEAP_MAPPED, BENCH_POOL, 8 * MiB, &bytes);
        break;
    default:
        pool_stream_gone(pool, STREAMS + 2); /* nobody's */
        break;
    }
}

/* Lanes are opened for those who find the lock taken: it is, until somebody sleeps at it, or all go by it. */
static void crowd(struct race *race) TSA(no_thread_safety_analysis)
{
    struct pool *pool = race->b->pool;

    (void)lock_take_lent(&pool->lock);
    for (int i = 0; atomic_load(&pool->lock.word) == 1 && (i < 100 || !lanes_are_open(pool)); i++)
        sched_yield();
    lock_drop_lent(&pool->lock, lanes_are_open(pool));
}

static void *world(void *arg)
{
    struct worker *w = arg;

    (void)pthread_barrier_wait(&w->race->begun);
    /* On a loaded machine a thread that finds the lock taken may sleep before it is given a lane, in
     * all of few rounds. */
    for (int round = 0; round < ROUNDS || (!atomic_load(&w->race->open) && round < 100 * ROUNDS);
            round++) {
        unsigned enough = atomic_load(&w->race->open) + 2000;

        crowd(w->race);
        while (lanes_are_open(w->race->b->pool) && atomic_load(&w->race->open) < enough)
            sched_yield();
        look(w->race->b->pool, (unsigned)round % 4);
    }
    atomic_store(&w->race->stop, true);
    return NULL;
}

static uint64_t peak_of(unsigned threads)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < HELD; i++)
        sum += (sizes[i % (sizeof sizes / sizeof sizes[0])] + 511) & ~UINT64_C(511);
    return sum * threads;
}

TEST(r36_eight_threads_on_lanes_while_others_look_and_trim)
{
    struct race *race = calloc(1, sizeof(*race));
    struct worker workers[THREADS + 1];
    struct pool_stats stats;
    unsigned open;

    REQUIRE(race != NULL);
    race->b = bench_new(8 * GiB);
    REQUIRE_EQ(pthread_barrier_init(&race->begun, NULL, THREADS + 1), 0);
    memset(workers, 0, sizeof(workers));
    for (unsigned i = 0; i <= THREADS; i++) {
        workers[i].race = race;
        workers[i].number = i;
        workers[i].state = i + 1;
        workers[i].stream = 1 + i % STREAMS;
        REQUIRE_EQ(pthread_create(
                           &workers[i].thread, NULL, i < THREADS ? program : world, &workers[i]),
                0);
    }
    for (unsigned i = 0; i <= THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    stats = bench_stats(race->b);
    open = atomic_load(&race->open);
    printf("allocs %llu hits %llu with lanes open %u\n", (unsigned long long)stats.allocs,
            (unsigned long long)stats.hits, open);
    BENCH_CHECK(race->b);
    CHECK_EQ(stats.live_count, 0);
    CHECK_EQ(stats.used, 0);
    CHECK_EQ(stats.allocs, stats.frees);
    CHECK_EQ(stats.used_high, peak_of(THREADS));
    CHECK_GT(open, 0);
    bench_end(race->b);
    (void)pthread_barrier_destroy(&race->begun);
    free(race);
}
