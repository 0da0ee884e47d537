/* SPDX-License-Identifier: MIT */
/* covers: capevents.c export_output.c */
/*
 * R47, at many moments: a process of several threads is killed, and what its capture says is compared with the books that
 * the process kept in memory that outlives it. Live table, totals, places and log may each differ from the books by the
 * operations that were under way, one for each thread, and by nothing else.
 */
#include "tests/unit/tracker/track_help.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define THREADS 4
#define SLOTS   64

/* A thread's books. */
struct books {
    _Atomic int64_t bytes, blocks;
    /* bytes of the operation under way: > 0 an allocation, < 0 a free, 0 none */
    _Atomic int64_t pending;
    _Atomic uint64_t operations;
    char rest[96];
};

static struct {
    struct books of[THREADS];
    _Atomic uint64_t seq;
} * ledger;

static uint64_t random_below(uint64_t *state, uint64_t end)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % end;
}

/* At one of 16 places. */
static void put(devptr_t ptr, uint64_t size, uint64_t seq)
{
    struct tag tag = track_tag(size);
    struct capture_alloc_info info = {.tag = &tag, .ptr = ptr, .seq = seq, .rule = -1};

    tag.pystack = (uint32_t)size % 16;
    (void)capture_alloc(&info);
}

static void operation(struct books *books, devptr_t ptr, uint64_t size, bool is_free)
{
    int64_t change = is_free ? -(int64_t)size : (int64_t)size;

    books->pending = change;
    if (is_free)
        (void)track_free(ptr, ++ledger->seq);
    else
        put(ptr, size, ++ledger->seq);
    books->bytes += change;
    books->blocks += is_free ? -1 : 1;
    books->operations++;
    books->pending = 0;
}

/* Allocates and frees at random for ever, at addresses of its own. */
static void *work(void *argument)
{
    size_t number = (size_t)argument;
    uint64_t state = number * 7919 + (uint64_t)getpid() + 1;
    uint64_t size[SLOTS] = {0};

    for (;;) {
        uint64_t i = random_below(&state, SLOTS);
        devptr_t ptr = (number + 1) << 40 | (i + 1) << 21;
        bool is_free = size[i] != 0;

        if (!is_free)
            size[i] = 1 + random_below(&state, 1 << 20);
        operation(&ledger->of[number], ptr, size[i], is_free);
        if (is_free)
            size[i] = 0;
    }
    return NULL;
}

static void run_until_killed(const char *file, enum format_trace trace)
{
    pthread_t thread;

    track_start(file, trace, 1u << 20);
    for (size_t i = 1; i < THREADS; i++)
        REQUIRE_EQ(pthread_create(&thread, NULL, work, (void *)i), 0);
    (void)work(NULL);
}

static uint64_t operations(void)
{
    uint64_t sum = 0;

    for (int i = 0; i < THREADS; i++)
        sum += ledger->of[i].operations;
    return sum;
}

/* Whether a difference is the sum of some of what was under way; each counts as `unit`, or as its bytes if that is 0. */
static bool is_explained(int64_t difference, int64_t unit)
{
    for (unsigned chosen = 0; chosen < 1u << THREADS; chosen++) {
        int64_t sum = 0;

        for (int i = 0; i < THREADS; i++) {
            int64_t pending = ledger->of[i].pending;

            if (chosen >> i & 1)
                sum += unit == 0 ? pending : pending > 0 ? unit : pending < 0 ? -unit : 0;
        }
        if (sum == difference)
            return true;
    }
    return false;
}

static int64_t live_by_place(const struct read_capture *capture)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < capture->place_count; i++)
        bytes += (int64_t)capture->place[i].live_bytes;
    return bytes;
}

/* What the places held at the high-water mark, less that mark. */
static int64_t shares_off(const struct read_capture *capture)
{
    int64_t bytes = -(int64_t)capture->high[0].bytes;

    for (size_t i = 0; i < capture->place_count; i++)
        bytes += (int64_t)capture->place[i].high_bytes;
    return bytes;
}

static int64_t live_by_log(const struct read_capture *capture)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < capture->event_count; i++) {
        if (capture->event[i].kind == FORMAT_EVENT_ALLOC)
            bytes += (int64_t)capture->event[i].size;
        if (capture->event[i].kind == FORMAT_EVENT_FREE)
            bytes -= (int64_t)capture->event[i].size;
    }
    return bytes;
}

/* false = there is no file, and nothing that should be in one. */
static bool compare(const char *file, enum format_trace trace)
{
    struct read_capture *capture;
    int64_t bytes = 0, blocks = 0;

    if (access(file, F_OK) != 0) {
        CHECK_EQ(operations(), 0);
        return false;
    }
    capture = track_read(file);
    REQUIRE(capture != NULL);
    for (int i = 0; i < THREADS; i++) {
        bytes += ledger->of[i].bytes;
        blocks += ledger->of[i].blocks;
    }
    CHECK_EQ(capture->bad_records, 0);
    CHECK_EQ(capture->state, FORMAT_STATE_OPEN);
    CHECK_EQ(capture->trace, trace);
    CHECK(is_explained((int64_t)track_live_bytes(capture) - bytes, 0));
    CHECK(is_explained((int64_t)capture->live_count - blocks, 1));
    CHECK(is_explained((int64_t)capture->total.live_bytes - bytes, 0));
    CHECK(is_explained(live_by_place(capture) - bytes, 0));
    CHECK(is_explained(shares_off(capture), 0) || is_explained(-shares_off(capture), 0));
    if (trace == FORMAT_TRACE_FULL)
        CHECK(is_explained(live_by_log(capture) - bytes, 0));
    else
        CHECK(trace == FORMAT_TRACE_RING || capture->event_count == 0);
    read_close(capture);
    return true;
}

static void wait_for(uint64_t wanted, uint64_t further_ns)
{
    struct timespec step = {0, 30000}, further = {0, (long)further_ns};
    struct timespec start, now;

    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    while (operations() < wanted) {
        (void)nanosleep(&step, NULL);
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        REQUIRE(now.tv_sec - start.tv_sec < 60);
    }
    (void)nanosleep(&further, NULL);
}

/* Returns how many of the kills found a file. */
static int kill_many(int kills, enum format_trace trace, uint64_t wanted_most, uint64_t seed)
{
    const char *directory = track_scratch();
    uint64_t random = seed;
    int found = 0;

    ledger = mmap(NULL, sizeof *ledger, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(ledger != MAP_FAILED);
    for (int i = 0; i < kills; i++) {
        char file[TRACK_PATH_MAX];
        /* every fourth while the file is being made, or before; the others anywhere, early moments as often as late ones */
        uint64_t wanted = i % 4 == 0 ? 0 : wanted_most >> random_below(&random, 12);
        pid_t child;

        memset((void *)ledger, 0, sizeof *ledger);
        track_path(file, directory, "k.kcap");
        (void)unlink(file);
        child = fork();
        REQUIRE(child >= 0);
        if (child == 0)
            run_until_killed(file, trace);
        wait_for(wanted, random_below(&random, i % 4 == 0 ? 3000000 : 200000));
        (void)kill(child, SIGKILL);
        REQUIRE_EQ(waitpid(child, NULL, 0), child);
        found += compare(file, trace);
    }
    return found;
}

TEST(r47_a_hundred_kills_of_a_full_log)
{
    CHECK_GE(kill_many(100, FORMAT_TRACE_FULL, 4096, 3), 75);
}

TEST(r47_sixty_kills_of_a_table_without_a_log)
{
    CHECK_GE(kill_many(60, FORMAT_TRACE_AGG, 4096, 5), 45);
}

/* A ring of 1 MiB turns after some 115,000 operations. */
TEST(r47_forty_kills_of_a_ring)
{
    CHECK_GE(kill_many(40, FORMAT_TRACE_RING, 130000, 7), 30);
}
