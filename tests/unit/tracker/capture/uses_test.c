/* SPDX-License-Identifier: MIT */
/* covers: uses.c */
/* Uses in a capture, from the calls of the tracker alone: what is written for what is alive and for what was freed. */
#include "tests/live_at.h"
#include "tests/unit/tracker/track_help.h"

#include "tracker/capture/uses.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define BASE UINT64_C(0x7f0000000000)
#define MB   UINT64_C(0x100000)

static char file[TRACK_PATH_MAX];

static void start(void)
{
    uses_init(true);
    track_path(file, track_scratch(), "a.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
}

static const struct read_event *free_of(const struct read_capture *capture, uint64_t addr)
{
    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->event[i].kind == FORMAT_EVENT_FREE && capture->event[i].addr == addr)
            return &capture->event[i];
    return NULL;
}

/* A use at a time of the test's own. */
static void use(uint64_t ptr, uint64_t at)
{
    uint64_t moment = at;

    uses_touch(ptr, 1, USE_SURE, &moment);
    CHECK_EQ(moment, at);
}

TEST(first_last_and_longest_gap_are_those_of_the_uses)
{
    struct read_capture *capture;
    const struct read_live *live;
    const struct read_event *dead;

    start();
    REQUIRE_EQ(track_alloc(BASE, MB, 1), 0);
    REQUIRE_EQ(track_alloc(BASE + MB, MB, 2), 0);
    use(BASE, 100);
    use(BASE + 5000, 250); /* inside */
    use(BASE + MB - 1, 1250);
    use(BASE, 1300);
    use(BASE + MB, 700);
    REQUIRE_EQ(track_free(BASE + MB, 3), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    live = live_at(capture, BASE);
    dead = free_of(capture, BASE + MB);
    REQUIRE(live && dead);
    CHECK_EQ(live->use_flags, FORMAT_USE_WATCHED);
    CHECK_EQ(live->uses.first_use, 100);
    CHECK_EQ(live->uses.last_use, 1300);
    CHECK_EQ(live->uses.longest_gap, 1000);
    CHECK_EQ(live->uses.gap_end, 1250);
    CHECK_EQ(live->use_count, 4);
    CHECK_EQ(dead->use_flags, FORMAT_USE_WATCHED);
    CHECK_EQ(dead->uses.first_use, 700);
    CHECK_EQ(dead->uses.last_use, 700);
    CHECK_EQ(dead->uses.longest_gap, 0);
    CHECK_EQ(dead->use_count, 1);
    read_close(capture);
    track_sweep();
}

static void write_to(uint64_t ptr, uint64_t size, uint64_t moment)
{
    uses_write(ptr, size, &moment);
}

/* A block that is written twice: the flags that it is left with, live and freed. */
static void must_end_with(uint64_t ptr, uint32_t flags)
{
    struct read_capture *capture = track_read(file);

    REQUIRE(capture && live_at(capture, ptr));
    CHECK_EQ(live_at(capture, ptr)->use_flags, flags);
    read_close(capture);
    REQUIRE_EQ(track_free(ptr, 50), 0);
    capture = track_read(file);
    REQUIRE(capture && free_of(capture, ptr));
    CHECK_EQ(free_of(capture, ptr)->use_flags, flags);
    read_close(capture);
    track_sweep();
}

TEST(a_write_that_nothing_used_before_all_of_it_is_replaced_is_dead)
{
    start();
    REQUIRE_EQ(track_alloc(BASE, MB, 1), 0);
    write_to(BASE + 64, 128, 100); /* a part */
    write_to(BASE, MB, 200);
    must_end_with(BASE, FORMAT_USE_WATCHED | FORMAT_USE_DEAD_WRITE);
}

TEST(a_use_between_two_writes_needs_the_first)
{
    start();
    REQUIRE_EQ(track_alloc(BASE, MB, 1), 0);
    write_to(BASE, MB, 100);
    use(BASE, 150);
    write_to(BASE, MB, 200);
    must_end_with(BASE, FORMAT_USE_WATCHED);
}

TEST(a_write_that_leaves_something_of_the_first_is_no_dead_one)
{
    start();
    REQUIRE_EQ(track_alloc(BASE, MB, 1), 0);
    REQUIRE_EQ(track_alloc(BASE + MB, MB, 2), 0);
    write_to(BASE, MB, 100);
    write_to(BASE + 1, 2 * MB - 1,
            200); /* all of the other block, which nothing has written before */
    must_end_with(BASE, FORMAT_USE_WATCHED);
}

/* Numbers of writes are a block's own: one that takes over a slot, an address and its range begins without. */
TEST(the_first_write_into_a_block_replaces_nothing)
{
    start();
    REQUIRE_EQ(track_alloc(BASE, MB, 1), 0);
    write_to(BASE, MB, 100);
    REQUIRE_EQ(track_free(BASE, 2), 0);
    REQUIRE_EQ(track_alloc(BASE, MB, 3), 0);
    write_to(BASE, MB, 200);
    must_end_with(BASE, FORMAT_USE_WATCHED);
}

/* The uses of a capture in order: the numbers of their blocks. */
static size_t order_of(const struct read_capture *capture, const struct read_event *ret_use[16])
{
    size_t count = 0;

    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->event[i].kind == FORMAT_EVENT_USE && count < 16)
            ret_use[count++] = &capture->event[i];
    return count;
}

TEST(the_order_of_uses_is_that_of_the_calls)
{
    static const uint64_t blocks[] = {1, 2, 2, 1, 6, 1};
    static const uint64_t times[] = {100, 100, 200, 300, 400, 500};
    const struct read_event *use_event[16];
    struct read_capture *capture;
    uint64_t moment = 100;

    uses_keep_order(true);
    start();
    REQUIRE_EQ(track_alloc(BASE, 2 * MB, 1), 0);
    REQUIRE_EQ(track_alloc(BASE + 2 * MB, 2 * MB, 2), 0);
    REQUIRE_EQ(track_alloc(BASE + 4 * MB, 2 * MB - 1, 4), 0); /* no unit of moves */
    /* one call: twice the same block, and one that is perhaps none */
    uses_touch(BASE, 1, USE_SURE, &moment);
    uses_touch(BASE + 100, 8, USE_SURE, &moment);
    uses_touch(BASE + 2 * MB, 1, USE_MAY, &moment);
    use(BASE + 4 * MB, 150);
    use(BASE + 2 * MB, 200);
    use(BASE, 300);
    REQUIRE_EQ(track_free(BASE + 2 * MB, 5), 0);
    REQUIRE_EQ(track_alloc(BASE + 2 * MB, 2 * MB, 6), 0);
    use(BASE + 2 * MB, 400);
    use(BASE, 500);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    REQUIRE_EQ(order_of(capture, use_event), 6);
    for (size_t i = 0; i < 6; i++) {
        CHECK_EQ(use_event[i]->block, blocks[i]);
        CHECK_EQ(use_event[i]->time_ns, times[i]);
        CHECK_EQ(use_event[i]->use_flags, i == 1 ? FORMAT_USE_MAY : 0);
        CHECK_EQ(use_event[i]->thread, use_event[0]->thread);
    }
    CHECK_EQ(capture->bad_records, 0);
    CHECK_EQ(live_at(capture, BASE)->use_count, 4); /* the figures are those without the order */
    read_close(capture);
    track_sweep();
}

TEST(without_the_order_no_use_is_an_event)
{
    const struct read_event *use_event[16];
    struct read_capture *capture;

    start();
    REQUIRE_EQ(track_alloc(BASE, 2 * MB, 1), 0);
    use(BASE, 100);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(order_of(capture, use_event), 0);
    CHECK_EQ(live_at(capture, BASE)->use_count, 1);
    read_close(capture);
    track_sweep();
}

/* A ring that is too small loses the oldest uses, and says from where on they are complete. */
TEST(a_small_ring_loses_the_oldest_uses)
{
    struct read_capture *capture;
    size_t count = 0;

    uses_init(true);
    uses_keep_order(true);
    track_path(file, track_scratch(), "a.kcap");
    track_start(file, FORMAT_TRACE_RING, 1 << 20);
    REQUIRE_EQ(track_alloc(BASE, 2 * MB, 1), 0);
    for (uint64_t i = 0; i < 400000; i++)
        use(BASE, 1000 * (i + 1));
    capture = track_read(file);
    REQUIRE(capture != NULL);
    for (size_t i = 0; i < capture->event_count; i++)
        count += capture->event[i].kind == FORMAT_EVENT_USE;
    CHECK_GT(count, 1000);
    CHECK(!capture->has_all_events);
    CHECK_EQ(count + capture->lost.events_recycled, 400001);
    read_close(capture);
    track_sweep();
}

TEST(a_new_tenant_begins_without_uses)
{
    struct read_capture *capture;

    start();
    REQUIRE_EQ(track_alloc(BASE, MB, 1), 0);
    use(BASE, 100);
    REQUIRE_EQ(track_free(BASE, 2), 0);
    use(BASE, 200); /* of nobody */
    REQUIRE_EQ(track_alloc(BASE, MB, 3), 0);
    capture = track_read(file);
    REQUIRE(capture && live_at(capture, BASE));
    CHECK_EQ(live_at(capture, BASE)->uses.last_use, 0);
    CHECK_EQ(live_at(capture, BASE)->use_count, 0);
    CHECK_EQ(live_at(capture, BASE)->use_flags, FORMAT_USE_WATCHED);
    read_close(capture);
    track_sweep();
}

/* Of one number, since one address has several. */
static const struct read_event *event_of(const struct read_capture *capture, uint64_t seq)
{
    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->event[i].seq == seq)
            return &capture->event[i];
    return NULL;
}

/* The pool hands a block out again before its free is on record: two lives that end late, in either order. */
TEST(a_free_that_arrives_late_has_its_own_uses)
{
    static const uint64_t orders[][2] = {{2, 4}, {4, 2}};

    for (size_t i = 0; i < 2; i++) {
        struct read_capture *capture;

        start();
        REQUIRE_EQ(track_alloc(BASE, MB, 1), 0);
        use(BASE, 100);
        use(BASE, 150);
        REQUIRE_EQ(track_alloc(BASE, 2 * MB, 3), 0);
        use(BASE, 200);
        REQUIRE_EQ(track_alloc(BASE, MB, 5), 0);
        REQUIRE_EQ(track_free(BASE, orders[i][0]), 0);
        REQUIRE_EQ(track_free(BASE, orders[i][1]), 0);
        capture = track_read(file);
        REQUIRE(capture && event_of(capture, 2) && event_of(capture, 4));
        CHECK_EQ(event_of(capture, 2)->size, MB);
        CHECK_EQ(event_of(capture, 2)->use_count, 2);
        CHECK_EQ(event_of(capture, 2)->uses.first_use, 100);
        CHECK_EQ(event_of(capture, 2)->uses.last_use, 150);
        CHECK_EQ(event_of(capture, 2)->uses.longest_gap, 50);
        CHECK_EQ(event_of(capture, 2)->use_flags, FORMAT_USE_WATCHED);
        CHECK_EQ(event_of(capture, 4)->size, 2 * MB);
        CHECK_EQ(event_of(capture, 4)->use_count, 1);
        CHECK_EQ(event_of(capture, 4)->uses.last_use, 200);
        CHECK_EQ(event_of(capture, 4)->use_flags, FORMAT_USE_WATCHED);
        REQUIRE(live_at(capture, BASE));
        CHECK_EQ(live_at(capture, BASE)->use_count, 0);
        CHECK_EQ(capture->lost.implied_frees, 0);
        read_close(capture);
        track_sweep();
    }
}

/* A program whose frees are never seen leaves no room that grows; what comes late all the same is itself. */
TEST(frees_that_never_come_take_no_others_place)
{
    enum {
        LIVES = 1000
    };
    struct read_capture *capture;

    start();
    for (uint64_t i = 0; i < LIVES; i++)
        REQUIRE_EQ(track_alloc(BASE, MB, 1 + 2 * i), 0);
    use(BASE, 300);
    REQUIRE_EQ(track_alloc(BASE, MB, 2 * LIVES + 1), 0);
    REQUIRE_EQ(track_free(BASE, 2 * LIVES), 0);
    REQUIRE_EQ(track_free(BASE, 2), 0); /* nobody remembers that life */
    capture = track_read(file);
    REQUIRE(capture && event_of(capture, 2 * LIVES) && event_of(capture, 2));
    CHECK_EQ(event_of(capture, 2 * LIVES)->use_count, 1);
    CHECK_EQ(event_of(capture, 2)->use_count, 0);
    CHECK_EQ(event_of(capture, 2)->use_flags, 0);
    CHECK_EQ(capture->lost.implied_frees, LIVES - 2);
    read_close(capture);
    track_sweep();
}

TEST(a_range_is_a_use_of_every_block_in_it)
{
    struct read_capture *capture;
    uint64_t moment = 0;

    start();
    for (uint64_t i = 0; i < 4; i++)
        REQUIRE_EQ(track_alloc(BASE + i * 2 * MB, MB, i + 1), 0);
    uses_touch(
            BASE + MB + 5, 4 * MB, USE_SURE, &moment); /* begins between two, ends in the third */
    CHECK(moment > 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    for (uint64_t i = 0; i < 4; i++)
        CHECK_EQ(live_at(capture, BASE + i * 2 * MB)->uses.last_use, i == 1 || i == 2 ? moment : 0);
    read_close(capture);
    track_sweep();
}

TEST(words_that_may_be_addresses_are_marked)
{
    struct read_capture *capture;
    uint64_t moment = 0;

    start();
    REQUIRE_EQ(track_alloc(BASE, MB, 1), 0);
    uses_touch(BASE + 8, 1, USE_MAY, &moment);
    uses_touch(12345, 1, USE_MAY, &moment);
    uses_touch(UINT64_MAX, 1, USE_MAY, &moment);
    capture = track_read(file);
    REQUIRE(capture && live_at(capture, BASE));
    CHECK_EQ(live_at(capture, BASE)->use_flags, FORMAT_USE_WATCHED | FORMAT_USE_MAY);
    CHECK_EQ(live_at(capture, BASE)->use_count, 1);
    read_close(capture);
    track_sweep();
}

TEST(what_lived_while_a_call_was_not_seen_is_marked)
{
    struct read_capture *capture;
    uint64_t moment = 0;

    start();
    REQUIRE_EQ(track_alloc(BASE, MB, 1), 0);
    REQUIRE_EQ(track_alloc(BASE + MB, MB, 2), 0);
    REQUIRE_EQ(track_free(BASE, 3), 0); /* before */
    uses_unseen(&moment);
    REQUIRE_EQ(track_alloc(BASE, MB, 4), 0); /* after */
    REQUIRE_EQ(track_alloc(BASE + 2 * MB, MB, 5), 0);
    REQUIRE_EQ(track_free(BASE + 2 * MB, 6), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->unseen.count, 1);
    CHECK_EQ(capture->unseen.last_ns, moment);
    CHECK_EQ(capture->unseen.is_on, 1);
    CHECK_EQ(free_of(capture, BASE)->use_flags, FORMAT_USE_WATCHED);
    CHECK_EQ(free_of(capture, BASE + 2 * MB)->use_flags, FORMAT_USE_WATCHED);
    CHECK_EQ(live_at(capture, BASE)->use_flags, FORMAT_USE_WATCHED);
    CHECK_EQ(live_at(capture, BASE + MB)->use_flags, FORMAT_USE_WATCHED | FORMAT_USE_UNSEEN);
    read_close(capture);
    REQUIRE_EQ(track_free(BASE + MB, 7), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(free_of(capture, BASE + MB)->use_flags, FORMAT_USE_WATCHED | FORMAT_USE_UNSEEN);
    read_close(capture);
    track_sweep();
}

TEST(what_was_shown_to_others_is_marked)
{
    struct read_capture *capture;

    start();
    REQUIRE_EQ(track_alloc(BASE, MB, 1), 0);
    REQUIRE_EQ(track_alloc(BASE + MB, MB, 2), 0);
    uses_shown(BASE + 100, 1);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(live_at(capture, BASE)->use_flags, FORMAT_USE_WATCHED | FORMAT_USE_SHOWN);
    CHECK_EQ(live_at(capture, BASE + MB)->use_flags, FORMAT_USE_WATCHED);
    read_close(capture);
    track_sweep();
}

/* A physical handle is recorded under a number; its uses come by the addresses where it is mapped. */
TEST(memory_under_a_handle_is_used_where_it_is_mapped)
{
    uint64_t key = UINT64_C(0x0500000000000007);
    struct tag tag = track_tag(2 * MB);
    struct capture_alloc_info info = {.tag = &tag,
            .ptr = key,
            .seq = 1,
            .memclass = MEMCLASS_VMM,
            .native = true,
            .rule = -1};
    struct read_capture *capture;

    start();
    REQUIRE_EQ(capture_alloc(&info), 0);
    capture_mapped(key, BASE, MB);
    capture_mapped(key, BASE + 4 * MB, MB);
    use(BASE + 10, 100);
    use(BASE + 4 * MB, 300);
    capture_mapped(key, BASE, 0);
    use(BASE, 400);
    capture = track_read(file);
    REQUIRE(capture && live_at(capture, key));
    CHECK_EQ(live_at(capture, key)->uses.first_use, 100);
    CHECK_EQ(live_at(capture, key)->uses.last_use, 300);
    CHECK_EQ(live_at(capture, key)->use_flags, FORMAT_USE_WATCHED);
    read_close(capture);
    track_sweep();
}

TEST(off_nothing_is_recorded)
{
    struct read_capture *capture;
    uint64_t moment = 0;

    start();
    uses_init(false);
    REQUIRE_EQ(track_alloc(BASE, MB, 1), 0);
    uses_touch(BASE, 1, USE_SURE, &moment);
    uses_unseen(&moment);
    uses_shown(BASE, 1);
    capture = track_read(file);
    REQUIRE(capture && live_at(capture, BASE));
    CHECK_EQ(moment, 0);
    CHECK_EQ(live_at(capture, BASE)->use_flags, 0);
    CHECK_EQ(live_at(capture, BASE)->uses.last_use, 0);
    CHECK_EQ(capture->unseen.count, 0);
    CHECK_EQ(capture->unseen.is_on, 0);
    read_close(capture);
    track_sweep();
}

/* ---- several threads ------------------------------------------------------------------------ */

enum {
    THREADS = 3,
    USES = 40000,
};

static _Atomic uint64_t ticks = 1;

static void *use_all_the_time(void *data)
{
    (void)data;
    for (int i = 0; i < USES; i++) {
        /* now and then a long one */
        uint64_t moment = atomic_fetch_add(&ticks, i % 97 == 0 ? 50u + (unsigned)i : 1u);

        uses_touch(BASE + (uint64_t)i % MB, 1, USE_SURE, &moment);
    }
    return NULL;
}

TEST(threads_that_use_one_block_lose_nothing)
{
    struct read_capture *capture;
    const struct read_live *live;
    pthread_t thread[THREADS];

    start();
    REQUIRE_EQ(track_alloc(BASE, MB, 1), 0);
    for (int t = 0; t < THREADS; t++)
        REQUIRE_EQ(pthread_create(&thread[t], NULL, use_all_the_time, NULL), 0);
    for (int t = 0; t < THREADS; t++)
        REQUIRE_EQ(pthread_join(thread[t], NULL), 0);
    capture = track_read(file);
    REQUIRE(capture && live_at(capture, BASE));
    live = live_at(capture, BASE);
    CHECK_EQ(live->use_count, THREADS * USES);
    CHECK(live->uses.first_use <= 1 + THREADS * 50);
    CHECK(live->uses.last_use < ticks);
    CHECK(live->uses.last_use >= ticks - 1 - THREADS * (50 + USES));
    /* between the longest step of the clock and what a stopped thread may add to it */
    CHECK(live->uses.longest_gap >= 50);
    CHECK(live->uses.gap_end <= live->uses.last_use);
    CHECK(live->uses.gap_end - live->uses.longest_gap >= live->uses.first_use);
    read_close(capture);
    track_sweep();
}

TEST(uses_are_there_after_a_kill)
{
    struct read_capture *capture;
    pid_t child;
    int status;

    uses_init(true);
    track_path(file, track_scratch(), "a.kcap");
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        track_start(file, FORMAT_TRACE_AGG, 0);
        (void)track_alloc(BASE, MB, 1);
        use(BASE, 100);
        use(BASE, 900);
        (void)kill(getpid(), SIGKILL);
    }
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    capture = track_read(file);
    REQUIRE(capture && live_at(capture, BASE));
    CHECK_EQ(live_at(capture, BASE)->uses.first_use, 100);
    CHECK_EQ(live_at(capture, BASE)->uses.longest_gap, 800);
    read_close(capture);
    track_sweep();
}
