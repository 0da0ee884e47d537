/* SPDX-License-Identifier: MIT */
/* covers: swap.c pool_evict.c */
/*
 * Random programs whose blocks go out and come in, on a device that runs late and a driver that fails: what a block has is what was
 * written last, nothing faults, and the handles on the device's own books are within the caps. What another thread could do
 * while a driver call is made is done inside of it.
 */
#include "tests/unit/alloc/pool_bench.h"

enum {
    BLOCKS = 12,
    CALLS = 3, /* on their way at once */
    CALL_BLOCKS = 3,
    STREAMS = 5, /* 1 .. STREAMS */
    OPERATIONS = 90,
    SEEDS = 3000,
    RULES = 3,
};

/* What random programs have met. */
struct floors {
    uint64_t calls, refused, outs, ins, waits, failures, captures, hangs, pins, frees, contexts,
            edges, rooms, paper, capped, inside, streams, managed;
};

static struct floors floors;

struct item {
    devptr_t ptr;
    uint64_t size, seq;
    uint64_t value;   /* that was written last, 0 = none */
    uint64_t writer;  /* the stream that did */
    uint32_t readers; /* streams since then, by bit */
    int rule;         /* -1 = none */
    unsigned open;    /* calls on their way that name it */
    bool is_mine;     /* has a handle of its own, so that its content can be told */
    bool is_pinned;
};

struct open_call {
    struct pool_call call;
    uint64_t stream; /* that it runs on */
    int block[CALL_BLOCKS];
    int count;
    bool is_beginning, is_open, writes;
};

struct program {
    struct bench *b;
    struct rule rules[RULES];
    struct item item[BLOCKS];
    struct open_call open[CALLS];
    uint64_t random, next_value;
    bool fails, mixes_apis, interferes;
    bool is_making;
    /* addresses of contexts that have ended, which nothing can be copied from or to */
    devptr_t dead_below;
    bool is_inside;    /* of a driver call */
    uint32_t gone;     /* streams, by bit */
    bool has_plain;    /* blocks that do not go out */
    bool was_kept;     /* something stays in for good */
    bool is_disturbed; /* a driver call has failed, or waits have */
};

static uint64_t below(struct program *p, uint64_t end)
{
    return bench_random(&p->random, end);
}

static bool one_in(struct program *p, uint64_t count)
{
    return below(p, count) == 0;
}

/* ---- memory that is refused ---- */

void *__real_meta_get(size_t size); /* NOLINT(bugprone-reserved-identifier): the linker's name */

static struct program *refusing;
static uint64_t refusals;

void *__wrap_meta_get(size_t size); /* NOLINT(bugprone-reserved-identifier): the linker's name */

void *__wrap_meta_get(size_t size) /* NOLINT(bugprone-reserved-identifier): the linker's name */
{
    if (refusing && one_in(refusing, 8)) {
        refusals++;
        refusing->is_disturbed = true;
        return NULL;
    }
    return __real_meta_get(size);
}

/* ---- what another thread does meanwhile ---- */

static struct program *outer;
static struct driver real;

static void interfere(struct program *p);

static int after(int r)
{
    if (!outer->is_inside && one_in(outer, 6)) {
        outer->is_inside = true;
        interfere(outer);
        outer->is_inside = false;
    }
    return r;
}

static int map(void *self, devptr_t ptr, uint64_t size, uint64_t handle)
{
    return after(real.map(self, ptr, size, handle));
}

static int unmap(void *self, devptr_t ptr, uint64_t size)
{
    return after(real.unmap(self, ptr, size));
}

static int set_access(void *self, enum heap_kind heap, uint64_t owner, int device, devptr_t ptr,
        uint64_t size, enum driver_access access)
{
    return after(real.set_access(self, heap, owner, device, ptr, size, access));
}

static int content(void *self, enum heap_kind heap, uint64_t owner, int device, enum driver_way way,
        devptr_t ptr, void *host, uint64_t size, const uint64_t *fences, uint32_t count,
        uint64_t *ret_fence)
{
    if (ptr < outer->dead_below)
        return after(FAKE_FAILURE);
    return after(real.content(
            self, heap, owner, device, way, ptr, host, size, fences, count, ret_fence));
}

static int fence_wait(void *self, uint64_t fence, uint32_t timeout_ms)
{
    return after(real.fence_wait(self, fence, timeout_ms));
}

static int fence_query(void *self, uint64_t fence)
{
    return after(real.fence_query(self, fence));
}

static int stream_record(void *self, uint64_t stream, uint64_t *ret_fence)
{
    return after(real.stream_record(self, stream, ret_fence));
}

static int handle_create(void *self, int device, uint64_t size, uint64_t *ret_handle)
{
    return after(real.handle_create(self, device, size, ret_handle));
}

static int managed_alloc(void *self, enum heap_kind heap, uint64_t owner, int device, uint64_t size,
        devptr_t *ret_ptr, uint64_t *ret_context)
{
    return after(real.managed_alloc(self, heap, owner, device, size, ret_ptr, ret_context));
}

static int mem_free(void *self, uint64_t context, devptr_t ptr)
{
    return after(real.mem_free(self, context, ptr));
}

static int host_take(void *self, uint64_t size, bool pinned, void **ret_host)
{
    return after(real.host_take(self, size, pinned, ret_host));
}

static void interfere_with(struct driver *driver)
{
    driver->map = map;
    driver->unmap = unmap;
    driver->set_access = set_access;
    driver->content = content;
    driver->fence_wait = fence_wait;
    driver->fence_query = fence_query;
    driver->stream_record = stream_record;
    driver->handle_create = handle_create;
    driver->managed_alloc = managed_alloc;
    driver->mem_free = mem_free;
    driver->host_take = host_take;
}

/* ---- the program ---- */

static struct rule random_rule(struct program *p, uint64_t site)
{
    static const enum hint_mode modes[] = {
            HINT_LIVE, HINT_LIVE, HINT_LIVE, HINT_POISON, HINT_TRAP, HINT_SHADOW};
    struct rule rule = {
            .action = ACTION_EVICT,
            .mode = modes[below(p, 6)],
            .pick = {.site = {site},
                    .site_count = 1,
                    .size_hi = UINT64_MAX,
                    .nth_hi = UINT32_MAX,
                    .device = -1},
            .when = {.anchor = "step", .kind = EDGE_ENTER},
            .min_size = 2 * MiB,
            .evict = {.cap = 2 * MiB * (6 + below(p, 14)),
                    .warmup_percent = one_in(p, 3) ? 60 : 100,
                    .prefetch = (uint32_t)below(p, 4),
                    .victim = (enum rule_victim)below(p, 3),
                    .policy = one_in(p, 6) ? RULE_POLICY_CPU : RULE_POLICY_AUTO,
                    .less_other = one_in(p, 6),
                    .clean = one_in(p, 3),
                    .backing = one_in(p, 3) ? RULE_BACKING_MANAGED : RULE_BACKING_PINNED,
                    .cyclic = one_in(p, 2)},
    };

    if (one_in(p, 5))
        rule.evict.host_budget = 20 * MiB;
    return rule;
}

static void begin(struct program *p, uint64_t seed)
{
    struct fake_driver *fake;
    struct pool_opts opts;

    *p = (struct program){.random = seed * 77 + 5};
    p->fails = one_in(p, 2);
    p->mixes_apis = one_in(p, 2);
    p->has_plain = one_in(p, 2);
    pool_opts_init(&opts);
    opts.epoch_count = 1 + (uint32_t)below(p, 8);
    opts.fence_timeout_ms = 400;
    fake = fake_new(one_in(p, 3) ? 48 * MiB : 4 * GiB);
    fake->no_managed = one_in(p, 8);
    p->interferes = one_in(p, 2);
    real = fake->driver;
    outer = p;
    if (p->interferes)
        interfere_with(&fake->driver);
    p->b = bench_over(fake, &opts);
    p->rules[0] = random_rule(p, 1);
    p->rules[1] = random_rule(p, 2);
    p->rules[2] = (struct rule){.action = ACTION_RESTORE,
            .mode = HINT_LIVE,
            .of = (int)below(p, 2),
            .when = {.anchor = "wake", .kind = EDGE_MARK}};
    bench_rules(p->b, p->rules, RULES);
    refusing = one_in(p, 8) ? p : NULL;
}

/* One that is there still. */
static uint64_t stream_of(struct program *p)
{
    uint64_t stream;

    do
        stream = 1 + below(p, STREAMS);
    while (p->gone >> stream & 1);
    return stream;
}

static void make(struct program *p, struct item *item)
{
    static const uint64_t sizes[] = {2 * MiB, 4 * MiB, 6 * MiB, 16 * MiB};
    uint64_t stream = p->mixes_apis && one_in(p, 2) ? stream_of(p) : 0;
    uint64_t site = p->has_plain ? below(p, 3) : 1 + below(p, 2);
    uint64_t size = sizes[below(p, 4)] - (one_in(p, 4) ? 100 : 0);
    struct tag tag = {.site = site, .size = size, .path = ""};
    struct pool_request request = bench_request(size, stream);
    struct plan plan;
    devptr_t ptr;

    hint_plan(p->b->hints, &tag, &plan);
    request.plan = &plan;
    *item = (struct item){.rule = -1};
    p->is_making = true;
    ptr = bench_ask(p->b, &request);
    p->is_making = false;
    item->ptr = ptr;
    if (!item->ptr)
        return;
    item->size = size;
    item->seq = p->b->last.seq;
    item->is_mine = (p->b->last.how & OUTCOME_HINTED) != 0;
    item->rule = site ? (int)site - 1 : -1;
    floors.managed += item->is_mine && p->b->fake->managed > 0;
    floors.paper += site && !item->is_mine;
    p->has_plain |= !item->is_mine; /* too small, or on paper */
}

/* The program orders its streams itself. A driver that fails once does not keep it from that. */
static void wait_for(struct program *p, uint64_t from, uint64_t to)
{
    const struct driver *driver = &real;
    bool captures = p->b->fake->capturing;
    uint64_t fence;
    int r = -1;

    if (from == to || from == 0 || p->gone >> from & 1)
        return; /* all others wait for one that is gone */
    p->b->fake->capturing = false;
    while (driver->stream_record(driver->self, from, &fence) != 0)
        ;
    while (r != 0)
        r = driver->stream_wait_fence(driver->self, to, fence);
    driver->fence_put(driver->self, fence);
    p->b->fake->capturing = captures;
}

static void order(struct program *p, struct item *item, uint64_t stream, bool writes)
{
    wait_for(p, item->writer, stream);
    for (uint64_t other = 1; writes && other <= STREAMS; other++)
        if (item->readers >> other & 1)
            wait_for(p, other, stream);
}

static void work(struct program *p, struct item *item, uint64_t stream, bool writes)
{
    order(p, item, stream, writes);
    if (!item->is_mine) {
        fake_submit(p->b->fake, stream, item->ptr, item->size);
    } else {
        if (item->value)
            fake_check(p->b->fake, stream, item->ptr, item->value);
        item->readers |= 1u << stream;
    }
    if (!item->is_mine || !writes)
        return;
    item->value = ++p->next_value;
    fake_write(p->b->fake, stream, item->ptr, item->value);
    item->writer = stream;
    item->readers = 0;
}

/* What the call needs of a hint is less than the cap even if nothing else can go out. */
static bool must_succeed(const struct program *p, const struct pool_short *why)
{
    uint64_t in_the_way = 0;

    for (int i = 0; i < BLOCKS; i++) {
        const struct item *item = &p->item[i];

        if (item->ptr && (item->open || item->is_pinned || item->rule < 0 || !item->is_mine))
            return false;
        in_the_way += item->ptr ? item->size : 0;
    }
    return !p->is_disturbed && !p->interferes && !p->was_kept
            && !(why->rule >= 0 && why->needed > why->room) && p->b->fake->memory > 1 * GiB
            && in_the_way > 0;
}

static int bring(struct program *p, struct pool_call *call, struct pool_short *why)
{
    int r;

    for (;;) {
        r = pool_call_begin(p->b->pool, call);
        if (r != -EAGAIN)
            return r;
        floors.waits++;
        r = pool_call_bring(p->b->pool, call, why);
        if (r != 0)
            return r;
    }
}

static void end_call(struct program *p, struct open_call *open)
{
    for (int i = 0; i < open->count; i++) {
        work(p, &p->item[open->block[i]], open->stream, open->writes);
        p->item[open->block[i]].open--;
    }
    pool_call_end(p->b->pool, &open->call);
    open->is_open = false;
    floors.calls++;
}

static void refuse(struct program *p, struct open_call *open, const struct pool_short *why)
{
    for (int i = 0; i < open->count; i++)
        p->item[open->block[i]].open--;
    CHECK(!must_succeed(p, why));
    pool_call_end(p->b->pool, &open->call);
    open->is_open = false;
    floors.refused++;
}

static void begin_call(struct program *p, struct open_call *open)
{
    struct pool_short why = {.rule = -1};
    int r = 0;

    open->stream = stream_of(p);
    open->writes = one_in(p, 2);
    open->call.stream = one_in(p, 5) ? 0 : open->stream;
    for (int i = 0; i < CALL_BLOCKS && (i == 0 || one_in(p, 3)); i++) {
        int n = (int)below(p, BLOCKS);

        if (p->item[n].ptr)
            open->block[open->count++] = n;
    }
    for (int i = 0; i < open->count && r == 0; i++)
        r = pool_call_name(p->b->pool, p->item[open->block[i]].ptr + below(p, 1 * MiB), 8,
                open->writes, &open->call);
    if (r == 0 && one_in(p, 60))
        r = pool_call_name(p->b->pool, 0, UINT64_MAX, false, &open->call);
    open->is_open = true;
    for (int i = 0; i < open->count; i++)
        p->item[open->block[i]].open++;
    if (r != 0 || bring(p, &open->call, &why) != 0) {
        refuse(p, open, &why);
        return;
    }
    for (int i = 0; i < open->count; i++) {
        struct item *item = &p->item[open->block[i]];

        if (item->is_mine)
            CHECK(fake_is_accessible(p->b->fake, item->ptr, item->size));
    }
}

static void call(struct program *p)
{
    struct open_call *open = &p->open[below(p, CALLS)];

    if (open->is_beginning)
        return;
    if (!open->is_open) {
        *open = (struct open_call){.is_beginning = true};
        begin_call(p, open);
        open->is_beginning = false;
    }
    if (open->is_open && !one_in(p, 4))
        end_call(p, open);
}

static void give(struct program *p, struct item *item)
{
    struct pool_free_request request = {.api = API_SYNC, .may_fence = !p->b->fake->capturing};
    struct pool_pinned pinned;
    struct outcome told;
    struct pool_hit hit;

    if (!item->ptr || item->open)
        return;
    if (one_in(p, 20) && pool_pin(p->b->pool, item->ptr, 1, POOL_PIN_SHOWN, &pinned, &hit) == 0)
        p->was_kept = true;
    CHECK_EQ(pool_free(p->b->pool, item->ptr, &request, &told), 0);
    floors.frees++;
    item->ptr = 0;
    item->is_pinned = false;
}

static void pin(struct program *p, struct item *item)
{
    struct pool_pinned pinned;
    struct pool_hit hit;

    if (!item->ptr)
        return;
    if (item->is_pinned)
        pool_unpin(p->b->pool, item->ptr, item->seq, POOL_PIN_LIVE);
    else if (pool_pin(p->b->pool, item->ptr, 1, POOL_PIN_LIVE, &pinned, &hit) != 0)
        return;
    item->is_pinned = !item->is_pinned;
    floors.pins++;
}

/* ---- what happens beside it ---- */

static void pass_edge(struct program *p)
{
    struct edge edge = {.kind = EDGE_ENTER, .anchor = 1, .path = "step"};
    struct outcome told[8];
    struct pool_evict_step was;
    size_t count;

    if (one_in(p, 3))
        edge = (struct edge){.kind = EDGE_MARK, .anchor = 2, .path = "wake"};
    if (pool_edge(p->b->pool, &edge, told, 8, &count) != 0)
        CHECK(refusing != NULL);
    while (pool_evict_next_step(p->b->pool, &was))
        floors.edges++;
    (void)pool_evict_now(p->b->pool, (int)below(p, 2), 0, &was);
}

static void poll(struct program *p)
{
    struct outcome told[8];
    size_t count;

    do {
        if (pool_poll(p->b->pool, !p->b->fake->capturing, told, 8, &count) != 0)
            CHECK(p->is_disturbed);
        for (size_t i = 0; i < count; i++)
            p->was_kept |= told[i].kind == OUTCOME_KEPT;
    } while (count == 8);
}

static void disturb(struct program *p)
{
    static const int codes[] = {DRIVER_OUT_OF_MEMORY, FAKE_FAILURE, -EBUSY, -ENOENT};
    struct fake_driver *fake = p->b->fake;

    if (!p->fails)
        return;
    p->is_disturbed = true;
    switch (below(p, 4)) {
    case 0:
        fake->capturing = !fake->capturing;
        floors.captures++;
        break;
    case 1:
        fake->hangs = !fake->hangs;
        floors.hangs++;
        break;
    case 2:
        fake->host_max = fake->host_max ? 0 : 1 + below(p, 40 * MiB);
        break;
    default:
        fake->fail_code = codes[below(p, 4)];
        fake->fail_at = 1 + (int)below(p, 12);
        floors.failures++;
        break;
    }
}

static void end_context(struct program *p)
{
    bool is_open = p->is_making;

    for (int i = 0; i < CALLS; i++)
        is_open |= p->open[i].is_open || p->open[i].is_beginning;
    if (is_open || p->mixes_apis || !one_in(p, 6))
        return;
    fake_drain(p->b->fake);
    for (int i = 0; i < BLOCKS; i++)
        p->item[i].ptr = 0;
    p->dead_below = p->b->fake->next_address;
    pool_context_gone(p->b->pool, BENCH_CONTEXT);
    fake_context_gone(p->b->fake, BENCH_CONTEXT);
    floors.contexts++;
}

/* A stream ends with work on it, for which the others wait. */
static void end_stream(struct program *p)
{
    uint64_t stream = stream_of(p);

    for (int i = 0; i < CALLS; i++)
        if ((p->open[i].is_open || p->open[i].is_beginning) && p->open[i].stream == stream)
            return;
    if (__builtin_popcount(p->gone) >= STREAMS - 2)
        return;
    for (uint64_t other = 1; other <= STREAMS; other++)
        if (!(p->gone >> other & 1))
            wait_for(p, stream, other);
    pool_stream_gone(p->b->pool, stream);
    p->b->fake->streams[stream].gone = true;
    p->gone |= 1u << stream;
    floors.streams++;
}

static void stand_by(struct program *p)
{
    if (one_in(p, 40))
        end_stream(p);
    switch (below(p, 10)) {
    case 0:
        pass_edge(p);
        break;
    case 1:
        floors.rooms += pool_evict_make_room(p->b->pool, 0, 2 * MiB * below(p, 12)) > 0;
        break;
    case 2:
        (void)pool_trim_device(p->b->pool, 0, one_in(p, 2));
        break;
    case 3:
        poll(p);
        break;
    case 4:
        disturb(p);
        break;
    case 5:
        end_context(p);
        break;
    case 6:
        pin(p, &p->item[below(p, BLOCKS)]);
        break;
    case 7:
        if (one_in(p, 8)) {
            struct item *item = &p->item[below(p, BLOCKS)];

            if (item->ptr)
                pool_evict_keep(p->b->pool, item->ptr, POOL_KEPT_POINTER);
            p->was_kept = true;
        }
        break;
    default:
        for (uint64_t i = below(p, 12); i > 0; i--)
            (void)fake_step(p->b->fake, below(p, FAKE_QUEUES));
        break;
    }
}

static void operate(struct program *p)
{
    struct item *item = &p->item[below(p, BLOCKS)];

    switch (below(p, 10)) {
    case 0:
    case 1:
        if (!item->ptr)
            make(p, item);
        break;
    case 2:
        if (one_in(p, 2))
            give(p, item);
        break;
    case 3:
    case 4:
    case 5:
        stand_by(p);
        break;
    default:
        call(p);
        break;
    }
    if (pool_evict_has_more(p->b->pool) && one_in(p, 2))
        pool_evict_go_on(p->b->pool);
}

static void interfere(struct program *p)
{
    floors.inside++;
    switch (below(p, 8)) {
    case 0:
    case 1:
        give(p, &p->item[below(p, BLOCKS)]);
        break;
    case 2:
        pin(p, &p->item[below(p, BLOCKS)]);
        break;
    case 3:
        pass_edge(p);
        break;
    case 4:
        poll(p);
        break;
    case 5:
        end_context(p);
        break;
    case 6:
        call(p);
        break;
    default:
        pool_evict_go_on(p->b->pool);
        break;
    }
}

/* ---- what must hold ---- */

/* Each heap has a shelf of its own. */
static uint64_t bound(const struct program *p)
{
    uint64_t caps = p->rules[0].evict.cap + p->rules[1].evict.cap;

    return p->mixes_apis ? 2 * caps : caps;
}

static bool is_bounded(const struct program *p)
{
    return !p->has_plain && !p->is_disturbed && !p->interferes && !p->was_kept;
}

static void check_now(struct program *p, uint64_t seed)
{
    struct fake_driver *fake = p->b->fake;
    const char *what = "";
    bool is_whole = pool_check(p->b->pool, &what) == 0;

    if (is_bounded(p)) {
        CHECK(fake->held_high <= bound(p));
        CHECK_EQ(fake->page_faults, 0);
        floors.capped++;
    }
    CHECK(fake->held <= fake->memory);
    CHECK_EQ(fake->wrong, 0);
    CHECK_EQ(fake->faults, 0);
    CHECK_EQ(fake->misuses, 0);
    CHECK(is_whole);
    if (atomic_load(&check_state.failures) > 0)
        printf("    seed %llu: %s %s\n", (unsigned long long)seed, what,
                fake->misuses ? fake->misuse : "");
}

static void end(struct program *p, uint64_t seed)
{
    struct fake_driver *fake = p->b->fake;

    refusing = NULL;
    p->is_inside = true;
    fake->capturing = fake->hangs = false;
    fake->fail_at = 0;
    fake->host_max = 0;
    for (int i = 0; i < CALLS; i++)
        if (p->open[i].is_open)
            end_call(p, &p->open[i]);
    fake_drain(fake);
    check_now(p, seed);
    for (int i = 0; i < BLOCKS; i++)
        give(p, &p->item[i]);
    floors.outs += fake->outs;
    floors.ins += fake->ins;
    bench_end(p->b);
}

static void run(uint64_t seed)
{
    static struct program p;

    begin(&p, seed);
    for (int i = 0; i < OPERATIONS && atomic_load(&check_state.failures) == 0; i++) {
        operate(&p);
        if (i % 16 == 15)
            check_now(&p, seed);
    }
    end(&p, seed);
}

TEST(contents_outlive_whatever_happens_to_their_blocks)
{
    const char *only = getenv("TEST_SEED"); /* NOLINT(concurrency-mt-unsafe): one thread */

    if (only) {
        run(strtoull(only, NULL, 10));
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS && atomic_load(&check_state.failures) == 0; seed++)
        run(seed);
    printf("calls %llu refused %llu outs %llu ins %llu waits %llu failures %llu refusals %llu "
           "captures %llu hangs %llu "
           "pins %llu frees %llu contexts %llu steps %llu rooms %llu paper %llu capped %llu inside "
           "%llu streams %llu managed %llu\n",
            (unsigned long long)floors.calls, (unsigned long long)floors.refused,
            (unsigned long long)floors.outs, (unsigned long long)floors.ins,
            (unsigned long long)floors.waits, (unsigned long long)floors.failures,
            (unsigned long long)refusals, (unsigned long long)floors.captures,
            (unsigned long long)floors.hangs, (unsigned long long)floors.pins,
            (unsigned long long)floors.frees, (unsigned long long)floors.contexts,
            (unsigned long long)floors.edges, (unsigned long long)floors.rooms,
            (unsigned long long)floors.paper, (unsigned long long)floors.capped,
            (unsigned long long)floors.inside, (unsigned long long)floors.streams,
            (unsigned long long)floors.managed);
    CHECK(floors.calls && floors.refused && floors.outs && floors.ins && floors.waits);
    CHECK(floors.failures && refusals && floors.captures && floors.hangs && floors.pins);
    CHECK(floors.frees && floors.contexts && floors.edges && floors.rooms && floors.paper);
    CHECK(floors.inside && floors.streams && floors.managed);
    CHECK_GT(floors.capped, 100);
}
