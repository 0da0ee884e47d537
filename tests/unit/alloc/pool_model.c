/* SPDX-License-Identifier: MIT */
#define KEDGE_CHECK_NO_MAIN
#include "tests/unit/alloc/pool_model.h"

#include <sched.h>

#include "tests/unit/alloc/pool_bench.h"

/* There is one thread: to give way to others took most of the time of a pool that waits for a submission under way. */
int sched_yield(void)
{
    return 0;
}

#define LIVE_MAX  160
#define DEAD_MAX  8192
#define RULES     6
#define CONTEXTS  2
#define POOLS     2
#define READERS   4
#define EVENTS    4
#define STREAM_LO UINT64_C(1)
#define STREAM_HI UINT64_C(6)
#define NO_STREAM UINT64_MAX

/* A part of a block that lies in one granule. */
struct part {
    devptr_t base;
    uint64_t size;
    uint64_t storage; /* of its first byte (fake_storage), 0 = not known */
};

#define PARTS_MAX 10

struct tenant {
    devptr_t base;
    uint64_t size;
    uint64_t owner;
    uint64_t stream; /* of the allocation, 0 = sync */
    uint64_t seq;
    int rule; /* -1 = none */
    enum hint_mode mode;
    uint32_t due_anchor;
    bool released; /* by an edge; on paper too */
    struct part parts[PARTS_MAX];
    size_t part_count;
};

/* A range whose tenant is gone, and what must be over before the next one. */
struct grave {
    struct part part;
    struct fake_clock clock; /* everything submitted before the free, */
    uint64_t stream, at;     /* or, if stream is not 0, this stream's position */
};

struct parked {
    bool inside;
    devptr_t base;
    uint64_t size, seq;
    uint64_t stream;
};

/* An event of the program's. */
struct event {
    uint64_t fence; /* 0 = not recorded */
    struct pool_order order;
};

struct model {
    struct bench *b;
    const uint8_t *bytes;
    size_t left;
    struct tenant live[LIVE_MAX];
    size_t live_count;
    struct grave graves[DEAD_MAX];
    size_t grave_count, graves_crowded;
    struct parked readers[READERS];
    struct event events[EVENTS];
    struct rule rules[RULES];
    uint32_t anchor; /* the open instance */
    uint32_t instance;
    uint64_t context[CONTEXTS], pool[POOLS];
    uint64_t next_key;
    uint64_t requested; /* of live tenants */
    bool is_mutated;
    struct model_floors floors;
};

static uint8_t byte_of(struct model *m)
{
    if (m->left == 0)
        return 0;
    m->left--;
    return *m->bytes++;
}

/* A broken promise; with a mutation it is what the test wants to see. */
static void broken(struct model *m, const char *what)
{
    m->floors.violations++;
    if (!m->is_mutated)
        (void)check_that(false, __FILE__, __LINE__, what);
}

static const char *const paths[RULES] = {"a", "a/b", "step", "a*", "", "step"};

static void make_rules(struct model *m)
{
    static const enum hint_mode modes[RULES] = {
            HINT_LIVE, HINT_TRAP, HINT_SHADOW, HINT_LIVE, HINT_SHADOW, HINT_POISON};

    for (int i = 0; i < RULES; i++) {
        struct rule *rule = &m->rules[i];

        rule->action = ACTION_RELEASE;
        rule->mode = modes[i];
        rule->pick.site[0] = (uint64_t)i + 1;
        rule->pick.site_count = 1;
        rule->pick.size_hi = UINT64_MAX;
        rule->pick.nth_hi = UINT32_MAX;
        rule->pick.device = -1;
        strcpy(rule->when.anchor, i == 4 ? "*" : paths[i]);
        rule->when.kind = i == 2 ? EDGE_ENTER : i == 4 ? EDGE_MARK : EDGE_EXIT;
        rule->min_size = i == 3 ? 2 * MiB : 0;
    }
    bench_rules(m->b, m->rules, RULES);
}

/* ── checks ── */

static bool meet(devptr_t a, uint64_t a_size, devptr_t b, uint64_t b_size)
{
    return a < b + b_size && b < a + a_size;
}

/* R1: what lay here before is over, or ordered before the stream that gets it now. */
static bool is_over(struct model *m, const struct grave *grave, uint64_t stream)
{
    uint64_t to = stream ? stream : NO_STREAM;

    if (grave->stream)
        return fake_is_ordered(m->b->fake, grave->stream, grave->at, to);
    for (uint64_t s = 0; s < FAKE_STREAMS; s++) {
        if (!fake_is_ordered(m->b->fake, s, grave->clock.at[s], to))
            return false;
    }
    return true;
}

static inline bool parts_meet(const struct part *a, const struct part *b)
{
    return meet(a->base, a->size, b->base, b->size)
            || (a->storage && b->storage && meet(a->storage, a->size, b->storage, b->size));
}

static void find_parts(struct model *m, struct tenant *tenant)
{
    devptr_t end = tenant->base + tenant->size;

    tenant->part_count = 0;
    for (devptr_t at = tenant->base; at < end;) {
        devptr_t next = (at | (2 * MiB - 1)) + 1;
        struct part *part = &tenant->parts[tenant->part_count++];

        REQUIRE(tenant->part_count <= PARTS_MAX);
        next = next < end ? next : end;
        *part = (struct part){
                .base = at, .size = next - at, .storage = fake_storage(m->b->fake, at)};
        at = next;
    }
}

/* Two live blocks have the same bytes of the device; what a hint has released has none. */
static bool share_storage(const struct tenant *a, const struct tenant *b)
{
    for (size_t i = 0; i < a->part_count; i++) {
        for (size_t j = 0; j < b->part_count; j++) {
            if (parts_meet(&a->parts[i], &b->parts[j]))
                return true;
        }
    }
    return false;
}

/* The newborn has memory that somebody had before. Is all of that grave among it? */
static bool check_grave(struct model *m, const struct tenant *tenant, const struct grave *grave)
{
    for (size_t i = 0; i < tenant->part_count; i++) {
        const struct part *part = &tenant->parts[i];

        if (!parts_meet(part, &grave->part))
            continue;
        if (!is_over(m, grave, tenant->stream))
            broken(m, "memory was handed out before its last use was over");
        return grave->part.base >= part->base
                && grave->part.base + grave->part.size <= part->base + part->size;
    }
    return false;
}

static void check_birth(struct model *m, struct tenant *tenant, const struct outcome *told)
{
    uint64_t align = tenant->size >= 2 * MiB && !tenant->stream ? 2 * MiB : 512;
    size_t kept = 0;

    CHECK_EQ(tenant->base % align, 0);
    CHECK_GE(told->rounded, tenant->size);
    CHECK_EQ(told->kind, OUTCOME_ALLOC);
    find_parts(m, tenant);
    for (size_t i = 0; i < m->live_count; i++) {
        if (meet(tenant->base, told->rounded, m->live[i].base, m->live[i].size))
            (void)check_that(false, __FILE__, __LINE__, "live blocks overlap");
        if (!m->live[i].released && share_storage(tenant, &m->live[i]))
            broken(m, "two live blocks have the same storage");
    }
    for (size_t i = 0; i < m->grave_count; i++) {
        if (check_grave(m, tenant, &m->graves[i]))
            continue;
        if (kept < i)
            m->graves[kept] = m->graves[i];
        kept++;
    }
    m->grave_count = kept;
    if (!fake_is_accessible(m->b->fake, tenant->base, tenant->size))
        (void)check_that(false, __FILE__, __LINE__, "a block without storage was handed out");
}

static void check_figures(struct model *m)
{
    struct pool_stats stats = bench_stats(m->b);

    CHECK_EQ(stats.live_count, m->live_count);
    CHECK_EQ(stats.live_requested, m->requested);
    CHECK_GE(stats.reserved + stats.husk, stats.live_rounded);
    BENCH_CHECK(m->b);
}

/* The driver did not take its storage: it is a block like any other. */
static void take_refusal(struct model *m, const struct outcome *told)
{
    for (size_t i = 0; i < m->live_count; i++) {
        if (m->live[i].base != told->ptr || m->live[i].seq != told->alloc_seq)
            continue;
        m->live[i].released = false;
        m->live[i].rule = -1;
    }
}

static void step_poll(struct model *m)
{
    struct outcome told[4];
    size_t count;

    do {
        (void)pool_poll(m->b->pool, !m->b->fake->capturing, told, 4, &count);
        m->floors.husks += count;
        for (size_t i = 0; i < count; i++) {
            if (told[i].kind == OUTCOME_WRITTEN)
                broken(m, "what was written before its edge is told as a late write");
            if (told[i].kind == OUTCOME_REFUSED)
                take_refusal(m, &told[i]);
        }
    } while (count == 4);
}

/* pool_find and pool_touch against the model, at a random place of a random tenant. */
static void check_tenant(struct model *m, const struct tenant *tenant, uint64_t offset)
{
    struct block_info info;
    struct pool_hit hit;
    bool touched = pool_touch(m->b->pool, tenant->base + offset, 1, &hit);

    if (!touched && tenant->released)
        step_poll(m); /* a refusal that was not told yet */
    REQUIRE_EQ(pool_find(m->b->pool, tenant->base + offset, &info), 0);
    CHECK_EQ(info.base, tenant->base);
    CHECK_EQ(info.size, tenant->size);
    CHECK_EQ(info.owner, tenant->owner);
    CHECK_EQ(info.alloc_seq, tenant->seq);
    CHECK_EQ(info.stream, tenant->stream);
    CHECK_EQ(touched, tenant->released);
    if (touched) {
        CHECK_EQ(hit.base, tenant->base);
        CHECK_EQ(hit.rule, tenant->rule);
        CHECK_EQ(hit.mode, tenant->mode);
    }
    if (!tenant->released)
        CHECK(fake_is_accessible(m->b->fake, tenant->base, tenant->size));
}

/* ── steps ── */

static uint64_t size_of(struct model *m)
{
    uint8_t kind = byte_of(m);
    uint64_t n = 1 + (uint64_t)byte_of(m);

    switch (kind % 5) {
    case 0:
        return n;
    case 1:
        return n * 512;
    case 2:
        return n * 7 * KiB;
    case 3:
        return n * 64 * KiB;
    default:
        return 2 * MiB + n * 11 * KiB;
    }
}

static void step_alloc(struct model *m, bool on_stream, bool hinted)
{
    uint8_t choice = byte_of(m);
    uint64_t stream = on_stream ? STREAM_LO + choice % (STREAM_HI - STREAM_LO + 1) : 0;
    struct pool_request request = bench_request(size_of(m), stream);
    struct plan plan = {.rule = -1};
    struct tenant *tenant = &m->live[m->live_count];
    struct tag tag = {.size = request.size, .path = paths[byte_of(m) % 3], .device = 0};

    if (m->live_count == LIVE_MAX)
        return;
    request.owner = on_stream ? m->pool[choice / 16 % POOLS] : m->context[choice / 16 % CONTEXTS];
    request.may_wait = choice % 7 != 0;
    request.may_call = !m->b->fake->capturing;
    request.may_fence = !m->b->fake->capturing;
    if (hinted) {
        tag.site = 1 + byte_of(m) % RULES;
        tag.anchor = m->anchor;
        hint_plan(m->b->hints, &tag, &plan);
        CHECK_EQ(plan.rule, (int)tag.site - 1);
        request.plan = &plan;
    }
    if (!bench_ask(m->b, &request)) {
        m->floors.refusals++;
        return;
    }
    m->floors.allocs++;
    *tenant = (struct tenant){
            .base = m->b->last.ptr,
            .size = request.size,
            .owner = request.owner,
            .stream = stream,
            .seq = m->b->last.seq,
            .rule = m->b->last.mode == HINT_OFF ? -1 : plan.rule,
            .mode = m->b->last.mode,
            .due_anchor = plan.due_anchor,
    };
    CHECK_EQ(m->b->last.size, request.size);
    check_birth(m, tenant, &m->b->last);
    m->live_count++;
    m->requested += request.size;
}

/* What is over for everybody says nothing of any newborn. Looked for when the graves are twice as many as were left the last time. */
static void clear_graves(struct model *m)
{
    size_t kept = 0;

    if (m->grave_count < m->graves_crowded)
        return;
    for (size_t i = 0; i < m->grave_count; i++) {
        if (!is_over(m, &m->graves[i], 0))
            m->graves[kept++] = m->graves[i];
    }
    m->grave_count = kept;
    m->graves_crowded = 2 * kept + 64;
}

static void bury(struct model *m, const struct tenant *tenant, uint64_t stream)
{
    struct grave grave = {.clock = fake_clock(m->b->fake), .stream = stream};

    clear_graves(m);
    grave.at = grave.clock.at[stream];
    for (size_t i = 0; i < tenant->part_count && m->grave_count < DEAD_MAX; i++) {
        grave.part = tenant->parts[i];
        if (tenant->released && tenant->mode != HINT_SHADOW)
            grave.part.storage = 0;
        m->graves[m->grave_count++] = grave;
    }
}

static bool is_parked_on(const struct model *m, const struct tenant *tenant)
{
    for (int i = 0; i < READERS; i++) {
        if (m->readers[i].inside && m->readers[i].seq == tenant->seq)
            return true;
    }
    return false;
}

static void step_free(struct model *m)
{
    size_t which = m->live_count ? byte_of(m) % m->live_count : 0;
    uint8_t how = byte_of(m);
    struct tenant tenant = m->live[which];
    struct pool_free_request request = {.may_fence = !m->b->fake->capturing};
    struct outcome told;

    /* A program does not free what it is just about to submit work on. */
    if (!m->live_count || is_parked_on(m, &tenant))
        return;
    if (how % 3 != 0) {
        request.api = API_STREAM;
        request.stream = how % 3 == 1 && tenant.stream
                ? tenant.stream
                : STREAM_LO + how / 3 % (STREAM_HI - STREAM_LO + 1);
        request.record_now = how & 64;
        /* Freed on another stream, which the program has made wait for the uses. */
        if (tenant.stream && request.stream != tenant.stream) {
            uint64_t fence;

            if (m->b->fake->capturing || m->b->fake->fail_at)
                return;
            if (m->b->fake->driver.stream_record(m->b->fake, tenant.stream, &fence) == 0) {
                (void)m->b->fake->driver.stream_wait_fence(m->b->fake, request.stream, fence);
                m->b->fake->driver.fence_put(m->b->fake, fence);
            }
        }
    }
    CHECK_EQ(pool_free(m->b->pool, tenant.base, &request, &told), 0);
    CHECK_EQ(told.kind, OUTCOME_FREE);
    CHECK_EQ(told.size, tenant.size);
    CHECK_EQ(told.alloc_seq, tenant.seq);
    /* A stream-ordered free promises the order of that stream alone, if the block is stream-ordered memory. */
    bury(m, &tenant, tenant.stream && request.stream ? request.stream : 0);
    m->live[which] = m->live[--m->live_count];
    m->requested -= tenant.size;
    m->floors.frees++;
    /* once only, and never an interior pointer */
    if (how & 128)
        CHECK_NE(pool_free(m->b->pool, tenant.base, &request, &told), 0);
}

static void step_bad_free(struct model *m)
{
    struct pool_free_request request = {.api = API_SYNC};
    struct outcome told;
    const struct tenant *tenant;

    CHECK_EQ(pool_free(m->b->pool, 512 + (devptr_t)byte_of(m), &request, &told), -ENOENT);
    if (!m->live_count)
        return;
    tenant = &m->live[byte_of(m) % m->live_count];
    if (tenant->size > 1)
        CHECK_EQ(pool_free(m->b->pool, tenant->base + tenant->size / 2, &request, &told), -EINVAL);
}

static void step_use(struct model *m)
{
    const struct tenant *tenant;
    uint64_t stream;

    if (!m->live_count)
        return;
    tenant = &m->live[byte_of(m) % m->live_count];
    stream = tenant->stream ? tenant->stream : byte_of(m) % FAKE_STREAMS;
    check_tenant(m, tenant, byte_of(m) % tenant->size);
    if (!tenant->released || tenant->mode == HINT_SHADOW)
        (void)fake_submit(m->b->fake, stream, tenant->base, tenant->size);
}

/* A thread stops between its guard and the driver, or goes on. */
static void step_reader(struct model *m)
{
    unsigned which = byte_of(m) % READERS;
    struct parked *reader = &m->readers[which];
    const struct tenant *tenant;

    if (reader->inside) {
        (void)fake_submit(m->b->fake, reader->stream, reader->base, reader->size);
        fake_reader_leave(m->b->fake, which);
        reader->inside = false;
        return;
    }
    if (!m->live_count)
        return;
    tenant = &m->live[byte_of(m) % m->live_count];
    if (tenant->released)
        return;
    fake_reader_enter(m->b->fake, which);
    *reader = (struct parked){
            .inside = true,
            .base = tenant->base,
            .size = tenant->size,
            .seq = tenant->seq,
            .stream = tenant->stream ? tenant->stream : 1 + which,
    };
}

static void forget_event(struct model *m, struct event *event)
{
    if (event->fence)
        m->b->fake->driver.fence_put(m->b->fake, event->fence);
    event->fence = 0;
}

/* The program records an event on a stream, or makes one wait for it. */
static void step_event(struct model *m)
{
    struct fake_driver *fake = m->b->fake;
    uint8_t choice = byte_of(m);
    struct event *event = &m->events[choice % EVENTS];
    uint64_t stream = STREAM_LO + choice / EVENTS % (STREAM_HI - STREAM_LO + 1);

    if (fake->capturing || fake->fail_at)
        return;
    if (choice < 96 || !event->fence) {
        forget_event(m, event);
        pool_events_now(m->b->pool, stream, &event->order);
        if (fake->driver.stream_record(fake, stream, &event->fence) != 0)
            event->fence = 0;
    } else if (fake->driver.stream_wait_fence(fake, stream, event->fence) == 0) {
        pool_events_follow(m->b->pool, stream, &event->order);
    }
}

static void step_edge(struct model *m)
{
    uint8_t choice = byte_of(m);
    struct edge edge = {
            .kind = (enum edge_kind)(choice % 3),
            .anchor = m->anchor,
            .instance = m->instance,
            .path = paths[choice / 4 % 3],
    };
    struct outcome told[3];
    size_t count, expected = 0;

    for (size_t i = 0; i < m->live_count; i++) {
        struct tenant *tenant = &m->live[i];
        struct plan plan = {.rule = tenant->rule, .due_anchor = tenant->due_anchor};

        if (tenant->rule < 0 || tenant->released || !hint_is_due(m->b->hints, &plan, &edge))
            continue;
        tenant->released = true;
        expected++;
        if (tenant->mode == HINT_SHADOW)
            m->floors.shadows++;
        else
            m->floors.releases++;
    }
    do {
        REQUIRE_EQ(pool_edge(m->b->pool, &edge, told, 3, &count), 0);
        REQUIRE(count <= expected);
        expected -= count;
    } while (count == 3);
    CHECK_EQ(expected, 0);
    if (choice & 64) {
        m->anchor++;
        m->instance++;
    }
}

static void step_device(struct model *m)
{
    uint8_t choice = byte_of(m);

    if (choice % 16 == 0)
        fake_drain(m->b->fake);
    else
        (void)fake_step(m->b->fake, choice % FAKE_STREAMS);
    m->b->fake->hangs = choice >= 192;
}

static void step_trim(struct model *m)
{
    uint8_t choice = byte_of(m);
    uint64_t keep = (uint64_t)byte_of(m) * MiB;
    struct pool_stats before, after;
    uint64_t bytes;

    if (m->b->fake->capturing)
        return;
    switch (choice % 4) {
    case 0:
        (void)pool_trim_device(m->b->pool, 0, choice & 16);
        break;
    case 1:
        pool_synchronised(m->b->pool);
        break;
    default:
        if (pool_heap_stats(m->b->pool, HEAP_MAPPED, m->pool[0], &before) != 0)
            return;
        CHECK_EQ(pool_trim(m->b->pool, HEAP_MAPPED, m->pool[0], keep, &bytes), 0);
        (void)pool_heap_stats(m->b->pool, HEAP_MAPPED, m->pool[0], &after);
        CHECK_EQ(before.reserved - after.reserved, bytes);
        if (before.reserved >= keep)
            CHECK_GE(after.reserved, keep);
        break;
    }
}

static void step_trouble(struct model *m)
{
    uint8_t choice = byte_of(m);

    if (m->b->fake->fired)
        m->floors.failures++;
    m->b->fake->fired = false;
    switch (choice % 4) {
    case 0:
        m->b->fake->fail_at = 1 + byte_of(m) % 8;
        m->b->fake->fail_code = choice & 16 ? DRIVER_OUT_OF_MEMORY : FAKE_FAILURE;
        break;
    case 1:
        m->b->fake->fail_at = 0;
        break;
    case 2:
        m->b->fake->capturing = true;
        break;
    default:
        m->b->fake->capturing = false;
        break;
    }
}

/* The blocks that die with a context: those whose segment is of it. */
static void forget_context(struct model *m, uint64_t context)
{
    struct block_info info;

    for (size_t i = 0; i < m->live_count;) {
        const struct tenant *tenant = &m->live[i];

        REQUIRE_EQ(pool_find(m->b->pool, tenant->base, &info), 0);
        if (info.context == context || (!tenant->stream && tenant->owner == context)) {
            m->requested -= tenant->size;
            m->live[i] = m->live[--m->live_count];
        } else {
            i++;
        }
    }
}

static void step_death(struct model *m)
{
    uint8_t choice = byte_of(m);
    unsigned which = choice / 8 % CONTEXTS;

    for (int i = 0; i < READERS; i++) {
        if (m->readers[i].inside)
            return; /* its block may die under it, which no program does */
    }
    if (choice & 1) {
        fake_drain(m->b->fake);
        forget_context(m, m->context[which]);
        fake_context_gone(m->b->fake, m->context[which]);
        pool_context_gone(m->b->pool, m->context[which]);
        m->context[which] = m->next_key++;
    } else if (choice & 2) {
        CHECK(pool_heap_gone(m->b->pool, m->pool[which]) != 1);
        m->pool[which] = m->next_key++;
    } else {
        pool_stream_gone(m->b->pool, STREAM_LO + choice / 8 % (STREAM_HI - STREAM_LO + 1));
    }
}

static void step(struct model *m)
{
    static void (*const others[])(struct model *) = {step_bad_free, step_use, step_use, step_reader,
            step_reader, step_edge, step_poll, step_device, step_device, step_device, step_trim,
            step_trouble, step_event, step_event, step_event};
    uint8_t choice = byte_of(m);

    if (choice < 40)
        step_alloc(m, false, choice < 12);
    else if (choice < 90)
        step_alloc(m, true, choice < 52);
    else if (choice < 160)
        step_free(m);
    else if (choice < 254)
        others[choice % (sizeof(others) / sizeof(*others))](m);
    else
        step_death(m);
}

static void finish(struct model *m)
{
    struct pool_stats stats = bench_stats(m->b);
    uint64_t faults;

    m->b->fake->fail_at = 0;
    m->b->fake->capturing = false;
    for (unsigned i = 0; i < READERS; i++) {
        if (m->readers[i].inside) {
            (void)fake_submit(
                    m->b->fake, m->readers[i].stream, m->readers[i].base, m->readers[i].size);
            fake_reader_leave(m->b->fake, i);
        }
    }
    for (unsigned i = 0; i < EVENTS; i++)
        forget_event(m, &m->events[i]);
    m->floors.epochs = stats.epochs;
    m->floors.points = stats.points;
    m->floors.cross_reuses = stats.cross_reuses;
    m->floors.followed = stats.followed;
    m->floors.inserted_waits = stats.inserted_waits;
    m->floors.host_waits = stats.host_waits;
    m->floors.remaps = stats.remaps;
    m->floors.moved = stats.granules_moved;
    m->floors.aliased = stats.granules_aliased;
    m->floors.trims = stats.trims;
    fake_drain(m->b->fake);
    faults = m->b->fake->faults;
    if (m->is_mutated)
        m->b->fake->faults = 0;
    m->floors.violations += faults;
    bench_end(m->b);
}

void model_run(const uint8_t *bytes, size_t count, bool is_mutated, struct model_floors *add)
{
    struct model *m = calloc(1, sizeof(*m));
    struct pool_opts opts;
    uint8_t choice;

    if (!m)
        abort();
    pool_opts_init(&opts);
    m->bytes = bytes;
    m->left = count;
    m->is_mutated = is_mutated;
    m->anchor = 1;
    m->context[0] = 1;
    m->context[1] = 2;
    m->pool[0] = 3;
    m->pool[1] = 4;
    m->next_key = 5;
    opts.epoch_count = 4 + byte_of(m) % 16;
    opts.remap = (enum pool_remap)(byte_of(m) % POOL_REMAP_COUNT);
    opts.budget = byte_of(m) % 2 ? 12 * MiB : 0;
    m->b = bench_new_with((1 + (uint64_t)byte_of(m) % 8) * 24 * MiB, &opts);
    choice = byte_of(m);
    m->b->fake->no_vmm = choice % 8 == 0;
    make_rules(m);
    while (m->left) {
        step(m);
        check_figures(m);
        if (atomic_load(&check_state.failures))
            break; /* the first is the one to look at */
    }
    finish(m);
    for (size_t i = 0; i < sizeof(*add) / sizeof(uint64_t); i++)
        ((uint64_t *)add)[i] += ((const uint64_t *)&m->floors)[i];
    free(m);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

void model_run_seed(uint64_t seed, bool is_mutated, struct model_floors *add)
{
    static uint8_t bytes[4000];
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)next_random(&state);
    model_run(bytes, sizeof(bytes), is_mutated, add);
    if (atomic_load(&check_state.failures))
        printf("    seed %llu\n", (unsigned long long)seed);
}

void model_print(const struct model_floors *floors)
{
    printf("allocs %llu frees %llu refusals %llu epochs %llu points %llu cross %llu followed %llu "
           "ordered %llu "
           "waits %llu "
           "releases %llu husks %llu shadows %llu remaps %llu moved %llu aliased %llu trims %llu "
           "failures %llu violations %llu\n",
            (unsigned long long)floors->allocs, (unsigned long long)floors->frees,
            (unsigned long long)floors->refusals, (unsigned long long)floors->epochs,
            (unsigned long long)floors->points, (unsigned long long)floors->cross_reuses,
            (unsigned long long)floors->followed, (unsigned long long)floors->inserted_waits,
            (unsigned long long)floors->host_waits, (unsigned long long)floors->releases,
            (unsigned long long)floors->husks, (unsigned long long)floors->shadows,
            (unsigned long long)floors->remaps, (unsigned long long)floors->moved,
            (unsigned long long)floors->aliased, (unsigned long long)floors->trims,
            (unsigned long long)floors->failures, (unsigned long long)floors->violations);
}
