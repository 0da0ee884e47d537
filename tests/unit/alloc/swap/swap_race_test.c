/* SPDX-License-Identifier: MIT */
/* covers: swap.c */
/*
 * Threads whose blocks go out and come in under one cap: what each wrote last is there at its next use, nothing faults, and the
 * device holds no more than the cap. Under TSan this is the test for races.
 */
#include "tests/unit/alloc/pool_bench.h"

#include <sched.h>

enum {
    PROGRAMS = 5,
    OWN = 4,    /* blocks of each */
    SHARED = 3, /* that all read, and nobody writes once they are filled */
    SHARED_VALUE = 900000,
    STEPS = 700,
    IN_A_CALL = 2,
    STREAM_OF_SHARED = FAKE_STREAMS - 1,
};

#define BLOCK (4 * MiB)
/* what all programs need at once, and two blocks more; and less, so that calls wait for one another */
#define WIDE  ((PROGRAMS * IN_A_CALL + 2) * BLOCK)
#define TIGHT ((PROGRAMS + 1) * BLOCK)

struct item {
    devptr_t ptr;
    uint64_t seq, value;
};

struct race {
    struct bench *b;
    struct rule rule;
    struct item shared[SHARED];
    atomic_bool stop;
    atomic_ulong calls, waits, refused, rooms, steps, pins, handed;
    _Atomic(devptr_t) orphan; /* to be freed by another thread */
};

struct worker {
    struct race *race;
    unsigned number;
    uint64_t random, stream;
    pthread_t thread;
    struct item own[OWN];
};

static uint64_t below(struct worker *w, uint64_t end)
{
    return bench_random(&w->random, end);
}

static void make(struct race *race, struct item *item)
{
    struct tag tag = {.size = BLOCK, .path = ""};
    struct pool_request request = bench_request(BLOCK, 0);
    struct outcome told;
    struct plan plan;

    hint_plan(race->b->hints, &tag, &plan);
    request.plan = &plan;
    *item = (struct item){.ptr = 0};
    if (!check_that(pool_alloc(race->b->pool, &request, &told) == 0, __FILE__, __LINE__,
                "a block that needs no storage yet"))
        return;
    item->ptr = told.ptr;
    item->seq = told.seq;
}

static void give(struct race *race, devptr_t ptr)
{
    struct pool_free_request request = {.api = API_SYNC, .may_fence = true};
    struct outcome told;

    if (ptr)
        CHECK_EQ(pool_free(race->b->pool, ptr, &request, &told), 0);
}

/* ---- calls ---- */

/* As preload makes it: named and begun inside a reader section, brought in outside. */
static int begin(struct worker *w, struct pool_call *call)
{
    struct pool *pool = w->race->b->pool;
    struct pool_short why;
    int r;

    for (;;) {
        fake_reader_enter(w->race->b->fake, w->number);
        r = pool_call_begin(pool, call);
        if (r == 0)
            return 0;
        fake_reader_leave(w->race->b->fake, w->number);
        atomic_fetch_add(&w->race->waits, 1);
        r = pool_call_bring(pool, call, &why);
        if (r != 0)
            return r;
    }
}

static void use(struct worker *w, struct item *item, bool writes)
{
    struct fake_driver *fake = w->race->b->fake;

    if (item->value)
        fake_check(fake, w->stream, item->ptr, item->value);
    if (!writes)
        return;
    item->value = (uint64_t)w->number * 100000 + below(w, 100000) + 1;
    fake_write(fake, w->stream, item->ptr, item->value);
}

static void call(struct worker *w)
{
    struct item *own = &w->own[below(w, OWN)];
    struct item *other = below(w, 2) ? &w->race->shared[below(w, SHARED)] : &w->own[below(w, OWN)];
    struct pool_call call = {.stream = below(w, 4) ? w->stream : 0};
    bool is_shared = other->value > SHARED_VALUE;

    CHECK_EQ(pool_call_name(w->race->b->pool, own->ptr + 5, 8, true, &call), 0);
    CHECK_EQ(pool_call_name(w->race->b->pool, other->ptr, 8, !is_shared, &call), 0);
    if (begin(w, &call) != 0) {
        atomic_fetch_add(&w->race->refused, 1);
    } else {
        if (below(w, 8) == 0)
            (void)sched_yield();
        use(w, own, true);
        use(w, other, !is_shared);
        fake_reader_leave(w->race->b->fake, w->number);
        atomic_fetch_add(&w->race->calls, 1);
    }
    pool_call_end(w->race->b->pool, &call);
}

/* Somebody relies on a block for a while. Its storage is there at the end of a call that names it. */
static void pin(struct worker *w)
{
    struct item *own = &w->own[below(w, OWN)];
    struct pool_call call = {.stream = w->stream};
    struct pool *pool = w->race->b->pool;
    struct pool_pinned pinned;
    struct pool_hit hit;

    if (pool_pin(pool, own->ptr, 1, POOL_PIN_LIVE, &pinned, &hit) != 0)
        return;
    CHECK_EQ(pool_call_name(pool, own->ptr, 1, true, &call), 0);
    if (begin(w, &call) == 0) {
        pool_call_end(pool, &call);
        fake_reader_leave(w->race->b->fake, w->number);
        (void)sched_yield();
        CHECK(fake_is_accessible(w->race->b->fake, own->ptr, BLOCK));
        use(w, own, true);
        atomic_fetch_add(&w->race->pins, 1);
    } else {
        pool_call_end(pool, &call);
    }
    pool_unpin(pool, pinned.base, pinned.alloc_seq, POOL_PIN_LIVE);
}

/* A block of its own makes room for a new one; who frees it is this thread or another one, perhaps while it is on its way. */
static void change(struct worker *w)
{
    struct item *own = &w->own[below(w, OWN)];

    if (below(w, 2)) {
        give(w->race, atomic_exchange(&w->race->orphan, own->ptr));
        atomic_fetch_add(&w->race->handed, 1);
    } else {
        give(w->race, own->ptr);
    }
    make(w->race, own);
}

static void *program(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < STEPS && atomic_load(&check_state.failures) == 0; i++) {
        switch (below(w, 16)) {
        case 0:
            change(w);
            break;
        case 1:
            pin(w);
            break;
        case 2:
            give(w->race, atomic_exchange(&w->race->orphan, 0));
            break;
        default:
            call(w);
            break;
        }
        if (pool_evict_has_more(w->race->b->pool))
            pool_evict_go_on(w->race->b->pool);
    }
    for (int i = 0; i < OWN; i++)
        give(w->race, w->own[i].ptr);
    return NULL;
}

/* ---- beside them ---- */

static void *device(void *arg)
{
    struct worker *w = arg;

    while (!atomic_load(&w->race->stop)) {
        for (int i = 0; i < 20; i++)
            (void)fake_step(w->race->b->fake, below(w, FAKE_QUEUES));
        (void)sched_yield();
    }
    return NULL;
}

static void pass_edge(struct race *race)
{
    struct edge edge = {.kind = EDGE_ENTER, .anchor = 1, .path = "step"};
    struct outcome told[8];
    struct pool_evict_step was;
    size_t count;

    CHECK_EQ(pool_edge(race->b->pool, &edge, told, 8, &count), 0);
    while (pool_evict_next_step(race->b->pool, &was))
        atomic_fetch_add(&race->steps, 1);
    (void)pool_evict_now(race->b->pool, 0, 0, &was);
}

static void *world(void *arg)
{
    struct worker *w = arg;
    struct pool *pool = w->race->b->pool;
    struct block_info info;
    size_t count;

    while (!atomic_load(&w->race->stop)) {
        switch (below(w, 8)) {
        case 0:
            pass_edge(w->race);
            break;
        case 1:
            if (pool_evict_make_room(pool, 0, (1 + below(w, 3)) * BLOCK) > 0)
                atomic_fetch_add(&w->race->rooms, 1);
            break;
        case 2:
            (void)pool_trim_device(pool, 0, below(w, 2));
            break;
        case 3:
            (void)pool_poll(pool, true, NULL, 0, &count);
            break;
        case 4:
            (void)bench_stats(w->race->b);
            CHECK_EQ(pool_find(pool, w->race->shared[below(w, SHARED)].ptr + 9, &info), 0);
            break;
        case 5:
            BENCH_CHECK(w->race->b);
            break;
        default:
            pool_evict_go_on(pool);
            (void)sched_yield();
            break;
        }
    }
    return NULL;
}

/* ---- the race ---- */

static void fill_shared(struct race *race)
{
    struct worker w = {.race = race, .number = PROGRAMS, .stream = STREAM_OF_SHARED};

    for (int i = 0; i < SHARED; i++) {
        struct pool_call call = {.stream = w.stream};

        make(race, &race->shared[i]);
        CHECK_EQ(pool_call_name(race->b->pool, race->shared[i].ptr, 8, true, &call), 0);
        REQUIRE_EQ(begin(&w, &call), 0);
        race->shared[i].value = SHARED_VALUE + 1 + (uint64_t)i;
        fake_write(race->b->fake, w.stream, race->shared[i].ptr, race->shared[i].value);
        pool_call_end(race->b->pool, &call);
        fake_reader_leave(race->b->fake, w.number);
    }
    fake_drain(race->b->fake); /* before others read */
}

static struct race *new_race(const struct rule_evict *evict)
{
    struct race *race = calloc(1, sizeof(*race));
    struct pool_opts opts;

    REQUIRE(race != NULL);
    pool_opts_init(&opts);
    opts.epoch_count = 4;
    opts.fence_timeout_ms = UINT32_MAX; /* the fake's clock is fast where a thread does not run */
    race->b = bench_new_with(4 * GiB, &opts);
    race->rule = (struct rule){.action = ACTION_EVICT,
            .mode = HINT_LIVE,
            .pick = {.size_hi = UINT64_MAX, .nth_hi = UINT32_MAX, .device = -1},
            .when = {.anchor = "step", .kind = EDGE_ENTER},
            .min_size = 2 * MiB,
            .evict = *evict};
    bench_rules(race->b, &race->rule, 1);
    fill_shared(race);
    return race;
}

static void finish(struct race *race)
{
    struct fake_driver *fake = race->b->fake;

    give(race, atomic_load(&race->orphan));
    for (int i = 0; i < SHARED; i++)
        give(race, race->shared[i].ptr);
    fake_drain(fake);
    printf("calls %lu waits %lu refused %lu outs %llu ins %llu rooms %lu steps %lu pins %lu handed "
           "%lu\n",
            atomic_load(&race->calls), atomic_load(&race->waits), atomic_load(&race->refused),
            (unsigned long long)fake->outs, (unsigned long long)fake->ins,
            atomic_load(&race->rooms), atomic_load(&race->steps), atomic_load(&race->pins),
            atomic_load(&race->handed));
    CHECK(race->calls > 500 && race->waits && race->steps && race->pins);
    CHECK(race->rooms > 0 || race->rule.evict.policy == RULE_POLICY_CPU);
    CHECK(fake->outs > 0 && fake->ins > 0 && race->handed > 0);
    CHECK_EQ(race->refused, 0);
    CHECK_EQ(fake->wrong, 0);
    CHECK(fake->held_high <= race->rule.evict.cap);
    CHECK_EQ(bench_stats(race->b).live_count, 0);
    BENCH_CHECK(race->b);
    bench_end(race->b);
    free(race);
}

static void run_race(struct rule_evict evict)
{
    static void *(*const beside[])(void *) = {device, world, world};
    struct race *race = new_race(&evict);
    struct worker workers[PROGRAMS + 3] = {0};

    for (unsigned i = 0; i < PROGRAMS + 3; i++) {
        struct worker *w = &workers[i];

        *w = (struct worker){.race = race, .number = i, .random = i + 1, .stream = i + 1};
        for (int n = 0; i < PROGRAMS && n < OWN; n++)
            make(race, &w->own[n]);
    }
    for (unsigned i = 0; i < PROGRAMS + 3; i++)
        REQUIRE_EQ(pthread_create(&workers[i].thread, NULL,
                           i < PROGRAMS ? program : beside[i - PROGRAMS], &workers[i]),
                0);
    for (unsigned i = 0; i < PROGRAMS; i++)
        pthread_join(workers[i].thread, NULL);
    atomic_store(&race->stop, true);
    for (unsigned i = PROGRAMS; i < PROGRAMS + 3; i++)
        pthread_join(workers[i].thread, NULL);
    finish(race);
}

TEST(r36_eight_threads_while_blocks_go_out_and_come_in)
{
    run_race((struct rule_evict){.cap = WIDE, .cyclic = true, .prefetch = 2});
}

TEST(r36_eight_threads_that_wait_for_one_another)
{
    run_race((struct rule_evict){.cap = TIGHT, .victim = RULE_VICTIM_LRU});
}

TEST(r36_eight_threads_and_blocks_that_are_not_copied_again)
{
    run_race((struct rule_evict){.cap = WIDE, .cyclic = true, .prefetch = 1, .clean = true});
}

TEST(r36_eight_threads_where_all_goes_out_that_no_call_names)
{
    run_race((struct rule_evict){.cap = WIDE, .policy = RULE_POLICY_CPU});
}
