/* SPDX-License-Identifier: MIT */
/* covers: read.c capevents.c */
#include "tests/unit/tracker/track_help.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>

/* The linker puts these in the place of what the reader calls. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *at, size_t size);
ssize_t __real_pread(int fd, void *to, size_t length, off_t offset);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *at, size_t size);
ssize_t __wrap_pread(int fd, void *to, size_t length, off_t offset);

static int refuse_at; /* the n-th request for memory from now is refused, 0 = none is */
static bool is_refused;
static unsigned
        pieces; /* the calls of pread so far, where it reads little at a time; 0 = it reads all */

static bool refuses(void)
{
    if (refuse_at == 0 || --refuse_at > 0)
        return false;
    is_refused = true;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return refuses() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return refuses() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *at, size_t size)
{
    return refuses() ? NULL : __real_realloc(at, size);
}

/* A byte, a thousand, and an interruption in turn. */
ssize_t __wrap_pread(int fd, void *to, size_t length, off_t offset)
{
    if (pieces > 0) {
        pieces++;
        if (pieces % 3 == 0) {
            errno = EINTR;
            return -1;
        }
        if (length > 1000)
            length = 1000;
        if (pieces % 3 == 1)
            length = 1;
    }
    return __real_pread(fd, to, length, offset);
}

/* Some chunks of events: a block comes and goes, inside of a step. */
static void fill(uint64_t events, uint64_t *io_seq)
{
    for (uint64_t i = 0; i < events; i += 2) {
        struct tag tag;

        (void)where_am_i(NULL, 100, 0, &tag);
        struct capture_alloc_info info = {.tag = &tag, .ptr = 0x1000, .seq = ++*io_seq, .rule = -1};
        (void)capture_alloc(&info);
        (void)track_free(0x1000, ++*io_seq);
    }
}

static void enter(const char *name, uint64_t *io_seq)
{
    struct edge edge;

    REQUIRE_EQ(anchor_push(NULL, name, &edge), 0);
    (void)capture_edge(&edge, ++*io_seq);
}

static struct read_capture *read_parts(const char *file, unsigned parts)
{
    struct read_capture *capture = NULL;

    REQUIRE_EQ(read_open_parts(file, parts, &capture, NULL), 0);
    return capture;
}

TEST(the_newest_events_are_few_and_the_last_is_among_them)
{
    char file[TRACK_PATH_MAX];
    uint64_t seq = 0;

    track_path(file, track_scratch(), "c.kcap");
    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    track_start(file, FORMAT_TRACE_FULL, 0);
    fill(60000, &seq);
    enter("step", &seq);
    fill(10, &seq);

    struct read_capture *all = read_parts(file, READ_ALL);
    struct read_capture *newest = read_parts(file, READ_NEWEST | READ_PLACES);
    REQUIRE_EQ(all->event_count, 60011);
    CHECK(all->has_all_events);
    REQUIRE(newest->event_count > 0);
    CHECK_LT(newest->event_count, 20000);
    CHECK(!newest->has_all_events);
    CHECK_EQ(newest->complete_after_seq, UINT64_MAX);
    /* what comes last, and in which step that was */
    const struct read_event *last = &newest->event[newest->event_count - 1];
    CHECK_EQ(last->seq, all->event[all->event_count - 1].seq);
    CHECK_STR_EQ(newest->event[newest->event_count - 2].path, "step");
    /* totals and places are there, other parts are not */
    CHECK_EQ(newest->total.allocated_count, all->total.allocated_count);
    REQUIRE_EQ(newest->place_count, all->place_count);
    CHECK_EQ(newest->place[0].allocated_bytes, all->place[0].allocated_bytes);
    read_close(newest);
    read_close(all);
}

enum {
    WRITERS = 12, /* more than chunks are read */
    CHUNKS = 8,
    EACH = 10, /* events */
};

static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static uint64_t turn, turn_seq;
static bool turns_back; /* later ones have smaller numbers */

/* In turn; none ends before all have written, so that each has a chunk of its own. */
static void *write_in_turn(void *argument)
{
    (void)pthread_mutex_lock(&turn_lock);
    while (turn != (uintptr_t)argument)
        (void)pthread_cond_wait(&turn_changed, &turn_lock);
    if (turns_back) {
        turn_seq = (WRITERS - 1 - turn) * EACH;
        (void)usleep(5000); /* more than a tick of the clock */
    }
    fill(EACH, &turn_seq);
    turn++;
    (void)pthread_cond_broadcast(&turn_changed);
    while (turn != WRITERS)
        (void)pthread_cond_wait(&turn_changed, &turn_lock);
    (void)pthread_mutex_unlock(&turn_lock);
    return NULL;
}

static void all_write_in_turn(void)
{
    pthread_t threads[WRITERS];

    for (uintptr_t i = 0; i < WRITERS; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, write_in_turn, (void *)i), 0);
    for (int i = 0; i < WRITERS; i++)
        REQUIRE_EQ(pthread_join(threads[i], NULL), 0);
}

/* The first chunk of the log changes places with the last one, and so on. */
static void turn_chunks_around(const char *file)
{
    static unsigned char chunk[2][FORMAT_CHUNK_BYTES];
    struct format_extent extent[64];
    off_t place[256];
    int count = 0;
    int fd = open(file, O_RDWR | O_CLOEXEC);

    REQUIRE(fd >= 0);
    REQUIRE_EQ(pread(fd, extent, sizeof extent, FORMAT_DIRECTORY_OFFSET), sizeof extent);
    for (int i = 0; i < 64; i++)
        for (uint64_t at = 0; extent[i].kind == FORMAT_EXTENT_EVENTS && at < extent[i].length;
                at += FORMAT_CHUNK_BYTES) {
            REQUIRE(count < 256);
            place[count++] = (off_t)(extent[i].offset + at);
        }
    REQUIRE(count >= WRITERS);
    for (int at = 0; at < count / 2; at++) {
        off_t pair[2] = {place[at], place[count - 1 - at]};

        for (int i = 0; i < 2; i++)
            REQUIRE_EQ(pread(fd, chunk[i], sizeof chunk[i], pair[i]), sizeof chunk[i]);
        for (int i = 0; i < 2; i++)
            REQUIRE_EQ(pwrite(fd, chunk[i], sizeof chunk[i], pair[1 - i]), sizeof chunk[i]);
    }
    (void)close(fd);
}

TEST(the_newest_chunks_are_those_that_were_begun_last)
{
    char file[TRACK_PATH_MAX];
    struct read_capture *newest;

    track_path(file, track_scratch(), "n.kcap");
    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    track_start(file, FORMAT_TRACE_FULL, 0);
    all_write_in_turn();
    /* wherever in the file they are: a ring begins again at its beginning */
    for (int round = 0; round < 2; round++) {
        newest = read_parts(file, READ_NEWEST);
        REQUIRE_EQ(newest->event_count, CHUNKS * EACH);
        for (size_t i = 0; i < newest->event_count; i++)
            CHECK_EQ(newest->event[i].seq, (WRITERS - CHUNKS) * EACH + 1 + i);
        read_close(newest);
        turn_chunks_around(file);
    }
}

TEST(parts_that_are_not_asked_for_are_empty)
{
    char file[TRACK_PATH_MAX];
    uint64_t seq = 0;
    struct tag tag;

    track_path(file, track_scratch(), "c.kcap");
    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    track_start(file, FORMAT_TRACE_FULL, 0);
    fill(10, &seq);
    (void)where_am_i(NULL, 7, 0, &tag);
    (void)capture_alloc(
            &(struct capture_alloc_info){.tag = &tag, .ptr = 0x9000, .seq = ++seq, .rule = -1});
    struct read_capture *none = read_parts(file, 0);
    CHECK_EQ(none->event_count + none->place_count + none->live_count, 0);
    CHECK_EQ(none->total.live_bytes, 7);
    CHECK(!read_is_damaged(none));
    struct read_capture *live = read_parts(file, READ_LIVE);
    REQUIRE_EQ(live->live_count, 1);
    CHECK_EQ(live->live[0].size, 7);
    CHECK(read_site(live, live->live[0].stack) != 0);
    read_close(live);
    read_close(none);
}

struct worker {
    uint64_t first_seq, events;
    bool waits;
    pthread_barrier_t *done;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    uint64_t seq = worker->first_seq;

    fill(worker->events, &seq);
    if (worker->waits) {
        (void)pthread_barrier_wait(worker->done);
        (void)pthread_barrier_wait(worker->done);
    }
    return NULL;
}

static bool has_event(const struct read_capture *capture, uint64_t seq)
{
    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->event[i].seq == seq)
            return true;
    return false;
}

TEST(a_slow_thread_in_an_old_chunk_is_among_the_newest)
{
    char file[TRACK_PATH_MAX];
    pthread_barrier_t done;
    pthread_t threads[2];
    uint64_t seq = 1000000;

    track_path(file, track_scratch(), "c.kcap");
    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    track_start(file, FORMAT_TRACE_FULL, 0);
    REQUIRE_EQ(pthread_barrier_init(&done, NULL, 2), 0);
    /* the first chunk belongs to a thread that writes little, the others are full long ago */
    struct worker slow = {1, 10, true, &done};
    REQUIRE_EQ(pthread_create(&threads[0], NULL, work, &slow), 0);
    (void)pthread_barrier_wait(&done);
    struct worker busy = {100, 200000, false, &done};
    REQUIRE_EQ(pthread_create(&threads[1], NULL, work, &busy), 0);
    REQUIRE_EQ(pthread_join(threads[1], NULL), 0);
    fill(2, &seq);
    struct read_capture *newest = read_parts(file, READ_NEWEST);
    REQUIRE(newest->event_count > 12);
    CHECK(has_event(newest, 2));
    CHECK_EQ(newest->event[newest->event_count - 1].seq, 1000002);
    CHECK_LT(newest->event_count, 50000);
    read_close(newest);
    (void)pthread_barrier_wait(&done);
    REQUIRE_EQ(pthread_join(threads[0], NULL), 0);
    (void)pthread_barrier_destroy(&done);
}

TEST(events_come_by_their_numbers_whenever_they_were_written)
{
    char file[TRACK_PATH_MAX];
    struct read_capture *capture;

    track_path(file, track_scratch(), "o.kcap");
    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    track_start(file, FORMAT_TRACE_FULL, 0);
    turns_back = true;
    all_write_in_turn();
    capture = read_parts(file, READ_ALL);
    REQUIRE_EQ(capture->event_count, WRITERS * EACH);
    for (size_t i = 0; i < capture->event_count; i++)
        CHECK_EQ(capture->event[i].seq, 1 + i);
    read_close(capture);
}

/* ---- trouble ---- */

TEST(what_is_read_in_pieces_is_read_whole)
{
    char file[TRACK_PATH_MAX];
    struct read_capture *whole, *parts;
    uint64_t seq = 0;

    track_path(file, track_scratch(), "c.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    fill(1000, &seq);
    whole = read_parts(file, READ_ALL);
    pieces = 1;
    parts = read_parts(file, READ_ALL);
    CHECK_GT(pieces, 100);
    pieces = 0;
    CHECK_EQ(parts->event_count, 1000);
    CHECK_EQ(parts->has_all_events, whole->has_all_events);
    CHECK(!read_is_damaged(parts));
    CHECK_EQ(parts->place_count, whole->place_count);
    CHECK_EQ(parts->total.allocated_count, whole->total.allocated_count);
    read_close(parts);
    read_close(whole);
}

TEST(memory_that_ends_anywhere_is_said_and_leaves_nothing)
{
    static const unsigned asked[] = {READ_ALL, READ_NEWEST};
    char file[TRACK_PATH_MAX];
    uint64_t seq = 0;

    track_path(file, track_scratch(), "c.kcap");
    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    track_start(file, FORMAT_TRACE_FULL, 0);
    enter("step", &seq);
    fill(100, &seq);
    for (int i = 0; i < 2; i++) {
        FAIL_NTH(n, fired)
        {
            struct read_capture *capture = NULL;
            struct read_error error = {.text = ""};
            int r;

            is_refused = false;
            refuse_at = n;
            r = read_open_parts(file, asked[i], &capture, &error);
            refuse_at = 0;
            fired = is_refused;
            CHECK_EQ(r, fired ? -ENOMEM : 0);
            CHECK_EQ(capture == NULL, fired);
            CHECK_EQ(error.text[0] != '\0', fired);
            read_close(capture);
        }
    }
}
