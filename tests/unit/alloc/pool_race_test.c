/* SPDX-License-Identifier: MIT */
/* covers: pool.c */
#include "tests/unit/alloc/pool_bench.h"

/* Sixteen threads in the pool at once: programs that allocate, use and free on both APIs, with hints, while others
 * pass edges, let the device move, trim, look things up, and contexts and streams come and go. Under TSan this is the test
 * for races; everywhere it is one for overlaps, lost blocks and locks held in driver calls. */

enum {
    THREADS = 16,
    STEPS = 6000,
    LIVE = 12
};

struct range {
    devptr_t base;
    uint64_t size;
};

struct race {
    enum pool_remap remap;
    struct bench *b;
    struct rule rules[2];
    atomic_uint anchor;
    atomic_uint shown;
    atomic_bool stop;
    pthread_mutex_t mutex; /* guards `taken` */
    struct range taken[THREADS * LIVE];
};

struct worker {
    struct race *race;
    unsigned number;
    uint64_t random;
    pthread_t thread;
    devptr_t live[LIVE];
    uint64_t stream[LIVE];
    struct pool_pinned pinned[LIVE]; /* base 0: none */
    enum pool_pin kind[LIVE];
    struct rule *rule;
};

static uint64_t next_random(struct worker *w)
{
    w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return w->random >> 33;
}

static void enter(struct race *race, unsigned slot, devptr_t base, uint64_t size)
{
    pthread_mutex_lock(&race->mutex);
    for (unsigned i = 0; i < THREADS * LIVE; i++) {
        if (base < race->taken[i].base + race->taken[i].size && race->taken[i].base < base + size)
            (void)check_that(false, __FILE__, __LINE__, "two programs hold the same memory");
    }
    race->taken[slot] = (struct range){base, size};
    pthread_mutex_unlock(&race->mutex);
}

static void leave(struct race *race, unsigned slot)
{
    pthread_mutex_lock(&race->mutex);
    race->taken[slot] = (struct range){0, 0};
    pthread_mutex_unlock(&race->mutex);
}

static void take(struct worker *w, unsigned i)
{
    static const uint64_t sizes[] = {700, 5000, 300 * KiB, 3 * MiB};
    static const uint64_t whole[] = {5000, 3 * MiB, 5 * MiB, 11 * MiB}; /* what can move */
    uint64_t bits = next_random(w);
    bool moves = w->race->remap == POOL_REMAP_EAGER;
    uint64_t size = moves ? whole[bits % 4] : sizes[bits % 4];
    uint64_t stream = moves || bits >> 2 & 1 ? 1 + (bits >> 3) % 5 : 0;
    struct pool_request request = bench_request(size, stream);
    struct tag tag = {
            .site = bits >> 8 & 3 ? 1 + (bits >> 10 & 1) : 0,
            .size = size,
            .anchor = atomic_load(&w->race->anchor),
            .path = "step",
    };
    struct plan plan;
    struct outcome told;

    hint_plan(w->race->b->hints, &tag, &plan);
    request.plan = &plan;
    told.ptr = stream && !tag.site
            ? pool_alloc_on_quickly(w->race->b->pool, BENCH_POOL, stream, size).ptr
            : 0;
    if (!told.ptr && pool_alloc(w->race->b->pool, &request, &told) != 0)
        return;
    w->live[i] = told.ptr;
    w->stream[i] = stream;
    enter(w->race, w->number * LIVE + i, told.ptr, size);
}

static void give(struct worker *w, unsigned i)
{
    uint64_t bits = next_random(w);
    struct pool_free_request request = {
            .api = w->stream[i] && bits & 1 ? API_STREAM : API_SYNC,
            .stream = bits & 2 ? w->stream[i] : 1 + bits % 5,
            .may_fence = true,
    };
    const struct driver *driver = &w->race->b->fake->driver;
    struct outcome told;
    uint64_t fence;

    /* Who frees on another stream has made it wait for the uses. */
    if (w->stream[i] && request.stream != w->stream[i]
            && driver->stream_record(driver->self, w->stream[i], &fence) == 0) {
        (void)driver->stream_wait_fence(driver->self, request.stream, fence);
        driver->fence_put(driver->self, fence);
    }
    /* what was shown is nobody's before it is taken back (R24) */
    if (!w->pinned[i].base || w->kind[i] != POOL_PIN_SHOWN)
        leave(w->race, w->number * LIVE + i);
    if (request.api != API_STREAM || request.stream != w->stream[i]
            || !pool_free_on_quickly(w->race->b->pool, w->live[i], request.stream))
        CHECK_EQ(pool_free(w->race->b->pool, w->live[i], &request, &told), 0);
    w->live[i] = 0;
}

static void look(struct worker *w, unsigned i)
{
    struct block_info info;
    struct pool_hit hit;

    if (!w->live[i])
        return;
    CHECK_EQ(pool_find(w->race->b->pool, w->live[i] + next_random(w) % 500, &info), 0);
    CHECK_EQ(info.base, w->live[i]);
    (void)pool_touch(w->race->b->pool, w->live[i], 100, &hit);
    (void)pool_touch(w->race->b->pool, w->live[i] - 64 * MiB, 128 * MiB, &hit);
}

/* Somebody relies on the block, or does no more; the pin may outlive the program's hold. */
static void pin(struct worker *w, unsigned i)
{
    struct pool_hit hit;

    if (w->pinned[i].base) {
        if (!w->live[i] && w->kind[i] == POOL_PIN_SHOWN)
            leave(w->race, w->number * LIVE + i);
        pool_unpin(w->race->b->pool, w->pinned[i].base, w->pinned[i].alloc_seq, w->kind[i]);
        w->pinned[i].base = 0;
    } else if (w->live[i]) {
        w->kind[i] = (enum pool_pin)(next_random(w) % POOL_PIN_COUNT);
        if (pool_pin(w->race->b->pool, w->live[i], 1, w->kind[i], &w->pinned[i], &hit) != 0)
            w->pinned[i].base = 0;
        else if (w->kind[i] == POOL_PIN_SHOWN)
            atomic_fetch_add(&w->race->shown, 1);
    }
}

/* What is pinned is there: no edge has released it (R80). */
static void use_pinned(struct worker *w, unsigned i)
{
    if (w->live[i] && w->pinned[i].base)
        CHECK(fake_is_accessible(w->race->b->fake, w->live[i], 512));
}

/* A submission as preload makes it: inside a reader section, and not on what is released. */
static void use(struct worker *w, unsigned i)
{
    struct pool_hit hit;

    if (!w->live[i])
        return;
    fake_reader_enter(w->race->b->fake, w->number);
    if (!pool_touch(w->race->b->pool, w->live[i], 512, &hit))
        fake_submit(w->race->b->fake, w->stream[i], w->live[i], 512);
    fake_reader_leave(w->race->b->fake, w->number);
}

static void pass_edge(struct race *race)
{
    struct edge edge = {.kind = EDGE_EXIT, .path = "step"};
    struct outcome told[16];
    size_t count;

    edge.anchor = atomic_fetch_add(&race->anchor, 1);
    do
        (void)pool_edge(race->b->pool, &edge, told, 16, &count);
    while (count == 16);
    do
        (void)pool_poll(race->b->pool, true, told, 16, &count);
    while (count == 16);
}

static void *program(void *arg)
{
    struct worker *w = arg;

    for (int step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)(next_random(w) % LIVE);

        if (step % 200 == 199)
            pass_edge(w->race);
        switch (next_random(w) % 9) {
        case 0:
        case 1:
        case 2:
            if (!w->live[i] && !w->pinned[i].base)
                take(w, i);
            break;
        case 3:
        case 4:
            if (w->live[i])
                give(w, i);
            break;
        case 5:
            look(w, i);
            use_pinned(w, i);
            break;
        case 6:
            pin(w, i);
            break;
        default:
            use(w, i);
            break;
        }
    }
    for (unsigned i = 0; i < LIVE; i++) {
        if (w->live[i])
            give(w, i);
        if (w->pinned[i].base)
            pin(w, i);
    }
    return NULL;
}

/* What happens beside the programs. */
static void *world(void *arg)
{
    struct worker *w = arg;
    struct pool *pool = w->race->b->pool;
    struct pool_stats stats;
    uint64_t bytes;

    while (!atomic_load(&w->race->stop)) {
        unsigned what = (unsigned)(next_random(w) % 10);

        /* what is given back cannot move */
        if (what >= 2 && what <= 4 && w->race->remap == POOL_REMAP_EAGER)
            what = 5;
        switch (what) {
        case 0:
        case 8:
        case 9:
            pass_edge(w->race);
            break;
        case 1:
            pool_stats(pool, -1, &stats);
            (void)pool_heap_stats(pool, HEAP_MAPPED, BENCH_POOL, &stats);
            break;
        case 2:
            (void)pool_trim(pool, HEAP_MAPPED, BENCH_POOL, 8 * MiB, &bytes);
            break;
        case 3:
            pool_synchronised(pool);
            break;
        case 4:
            (void)pool_trim_device(pool, 0, next_random(w) % 2);
            break;
        case 5:
            pool_context_gone(pool, 4000 + next_random(w) % 4); /* others' */
            break;
        default:
            for (int i = 0; i < 20; i++)
                (void)fake_step(w->race->b->fake, next_random(w) % FAKE_STREAMS);
            break;
        }
    }
    return NULL;
}

static void run_race(uint64_t memory, enum pool_remap remap)
{
    struct race *race = calloc(1, sizeof(*race));
    struct worker workers[THREADS];
    struct pool_opts opts;

    REQUIRE(race != NULL);
    pool_opts_init(&opts);
    opts.epoch_count = 8;
    opts.remap = remap;
    race->remap = remap;
    race->b = bench_new_with(memory, &opts);
    pthread_mutex_init(&race->mutex, NULL);
    atomic_store(&race->anchor, 1);
    for (int i = 0; i < 2; i++) {
        race->rules[i] = (struct rule){
                .action = ACTION_RELEASE,
                .mode = i ? HINT_SHADOW : HINT_LIVE,
                .pick = {.site = {(uint64_t)i + 1},
                        .site_count = 1,
                        .size_hi = UINT64_MAX,
                        .nth_hi = UINT32_MAX,
                        .device = -1},
                .when = {.anchor = "step", .kind = EDGE_EXIT},
                .min_size = 2 * MiB,
        };
    }
    bench_rules(race->b, race->rules, 2);
    memset(workers, 0, sizeof(workers));
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].race = race;
        workers[i].number = i;
        workers[i].random = i + 1;
        REQUIRE_EQ(pthread_create(&workers[i].thread, NULL, i < THREADS - 2 ? program : world,
                           &workers[i]),
                0);
    }
    for (unsigned i = 0; i < THREADS - 2; i++)
        pthread_join(workers[i].thread, NULL);
    atomic_store(&race->stop, true);
    for (unsigned i = THREADS - 2; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    {
        struct pool_stats stats = bench_stats(race->b);

        printf("allocs %llu hits %llu epochs %llu points %llu released %llu waits %llu trims "
               "%llu moved %llu\n",
                (unsigned long long)stats.allocs, (unsigned long long)stats.hits,
                (unsigned long long)stats.epochs, (unsigned long long)stats.points,
                (unsigned long long)stats.released_count, (unsigned long long)stats.host_waits,
                (unsigned long long)stats.trims, (unsigned long long)stats.granules_moved);
        CHECK_EQ(stats.live_count, 0);
        CHECK_EQ(stats.live_requested, 0);
        CHECK_GT(stats.allocs, 1000);
        CHECK_GT(stats.epochs, 10);
        if (remap != POOL_REMAP_EAGER)
            CHECK_GT(stats.trims, 0);
        CHECK_GT(stats.quarantined_high, 0);
        CHECK_GT(atomic_load(&race->shown), 0);
        CHECK_EQ(stats.quarantined, 0); /* every pin was taken back */
        CHECK_GT(stats.released_count, 0);
        if (remap == POOL_REMAP_EAGER)
            CHECK_GT(stats.granules_moved, 0);
    }
    bench_end(race->b);
    pthread_mutex_destroy(&race->mutex);
    free(race);
}

TEST(sixteen_threads_with_room)
{
    run_race(4 * GiB, POOL_REMAP_LAZY);
}

TEST(sixteen_threads_on_a_device_that_is_full)
{
    run_race(120 * MiB, POOL_REMAP_LAZY);
}

TEST(r36_sixteen_threads_while_storage_moves)
{
    run_race(4 * GiB, POOL_REMAP_EAGER);
}
