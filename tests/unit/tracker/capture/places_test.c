/* SPDX-License-Identifier: MIT */
/* covers: intern.c capevents.c */
/* Area C: what it says is what a replay of all events says, without one event. */
#include "tests/unit/tracker/track_help.h"

#include "tracker/capture/capplace.h"
#include "tracker/stacks/intern.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#define THREADS 4
#define SLOTS   64
#define ROUNDS  20000
#define STACKS  40
#define DEVICES 3

static const char *paths[] = {"", "step", "step/forward"};

/* Stacks of the numbers that tags will have, each a frame longer than the one before; paths as anchors give them. */
static void intern_all(void)
{
    struct intern_frame frames[STACKS];

    for (uint32_t i = 1; i < STACKS; i++) {
        memmove(frames + 1, frames, (i - 1) * sizeof frames[0]);
        frames[0] = (struct intern_frame){0, 0x1000 + i};
        REQUIRE_EQ(intern_stack(frames, i), i);
    }
    for (size_t i = 1; i < 3; i++)
        paths[i] = intern_text(intern_string(paths[i], strlen(paths[i])));
}

static uint64_t random_below(uint64_t *state, uint64_t end)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % end;
}

static int put(devptr_t ptr, uint64_t size, uint64_t seq, const struct capplace_key *key)
{
    struct tag tag = track_tag(size);
    struct capture_alloc_info info = {.tag = &tag, .ptr = ptr, .seq = seq, .rule = -1};

    tag.stack = key->stack;
    tag.pystack = key->pystack;
    tag.path = paths[key->path];
    tag.anchor = key->path;
    tag.device = key->device;
    return capture_alloc(&info);
}

/* ---- the replay ---- */

struct book {
    struct capplace_key key; /* path: index into paths */
    uint64_t allocated_bytes, allocated_count, live_bytes, live_count, peak_bytes, peak_count;
    uint64_t temporary_bytes, temporary_count, high_bytes, high_count;
};

struct block {
    uint64_t addr, size;
    uint32_t thread, ordinal;
    struct book *book;
};

static struct replay {
    struct book book[STACKS * 2 * 3 * DEVICES];
    size_t books;
    struct block block[THREADS * (SLOTS + 1)];
    size_t blocks;
    uint32_t ordinal[64]; /* by thread number */
    uint64_t live[DEVICES], high[DEVICES], high_seq[DEVICES], high_time[DEVICES];
} replay;

static struct book *book_of(uint32_t stack, uint32_t pystack, const char *path, int device)
{
    for (size_t i = 0; i < replay.books; i++) {
        const struct capplace_key *key = &replay.book[i].key;

        if (key->stack == stack && key->pystack == pystack && strcmp(paths[key->path], path) == 0
                && key->device == device)
            return &replay.book[i];
    }
    REQUIRE(replay.books < sizeof replay.book / sizeof replay.book[0]);
    for (uint32_t i = 0; i < 3; i++)
        if (strcmp(paths[i], path) == 0)
            replay.book[replay.books].key = (struct capplace_key){stack, pystack, i, device};
    return &replay.book[replay.books++];
}

static void replay_alloc(const struct read_event *event)
{
    struct book *book = book_of(event->stack, event->pystack, event->path, event->device);
    int device = event->device;

    REQUIRE(replay.blocks < sizeof replay.block / sizeof replay.block[0]);
    replay.block[replay.blocks++] = (struct block){
            event->addr, event->size, event->thread, ++replay.ordinal[event->thread % 64], book};
    book->allocated_bytes += event->size;
    book->allocated_count++;
    book->live_bytes += event->size;
    book->live_count++;
    if (book->live_bytes > book->peak_bytes)
        book->peak_bytes = book->live_bytes;
    if (book->live_count > book->peak_count)
        book->peak_count = book->live_count;
    replay.live[device] += event->size;
    if (replay.live[device] <= replay.high[device])
        return;
    /* the whole truth at each new maximum, without any cleverness */
    replay.high[device] = replay.live[device];
    replay.high_seq[device] = event->seq;
    replay.high_time[device] = event->time_ns;
    for (size_t i = 0; i < replay.books; i++) {
        if (replay.book[i].key.device != device)
            continue;
        replay.book[i].high_bytes = replay.book[i].live_bytes;
        replay.book[i].high_count = replay.book[i].live_count;
    }
}

static void replay_free(const struct read_event *event)
{
    struct block *block = replay.block;
    struct book *book;

    while (block < replay.block + replay.blocks && block->addr != event->addr)
        block++;
    REQUIRE(block < replay.block + replay.blocks);
    book = block->book;
    book->live_bytes -= block->size;
    book->live_count--;
    replay.live[book->key.device] -= block->size;
    if (block->thread == event->thread
            && replay.ordinal[event->thread % 64] - block->ordinal <= 1) {
        book->temporary_bytes += block->size;
        book->temporary_count++;
    }
    *block = replay.block[--replay.blocks];
}

static void replay_all(const struct read_capture *capture)
{
    memset(&replay, 0, sizeof replay);
    for (size_t i = 0; i < capture->event_count; i++) {
        if (capture->event[i].kind == FORMAT_EVENT_ALLOC)
            replay_alloc(&capture->event[i]);
        if (capture->event[i].kind == FORMAT_EVENT_FREE)
            replay_free(&capture->event[i]);
    }
}

static void compare_sums(const struct read_place *place, const struct book *book)
{
    CHECK_EQ(place->allocated_bytes, book->allocated_bytes);
    CHECK_EQ(place->allocated_count, book->allocated_count);
    CHECK_EQ(place->live_bytes, book->live_bytes);
    CHECK_EQ(place->live_count, book->live_count);
    CHECK_EQ(place->temporary_bytes, book->temporary_bytes);
    CHECK_EQ(place->temporary_count, book->temporary_count);
}

/* ---- programs ---- */

static pthread_mutex_t in_order = PTHREAD_MUTEX_INITIALIZER;
static bool is_ordered;
static _Atomic uint64_t seq;

/* What a thread passes to the next one to free. */
static _Atomic devptr_t handed[THREADS];

static void call(devptr_t ptr, uint64_t size, const struct capplace_key *key)
{
    if (is_ordered)
        (void)pthread_mutex_lock(&in_order);
    if (size)
        (void)put(ptr, size, ++seq, key);
    else
        (void)track_free(ptr, ++seq);
    if (is_ordered)
        (void)pthread_mutex_unlock(&in_order);
}

/* Grows and shrinks, so that there are peaks of all heights; frees blocks of others, and some of its own at once. */
static void *work(void *argument)
{
    size_t number = (size_t)argument;
    uint64_t state = 1234567 * (number + 1);
    bool is_live[SLOTS] = {false};
    devptr_t at[SLOTS] = {0};

    for (uint64_t i = 0; i < ROUNDS; i++) {
        uint64_t slot = random_below(&state, SLOTS);
        uint64_t likely = 40 + 55 * (i / 700 % 2); /* per cent of blocks that are to live */
        devptr_t ptr = (number + 1) << 40 | (slot + 1) << 24 | i << 44;
        struct capplace_key key = {(uint32_t)random_below(&state, STACKS), (uint32_t)i % 2,
                (uint32_t)random_below(&state, 3), (int)random_below(&state, DEVICES)};
        devptr_t theirs = atomic_exchange(&handed[number], 0);

        if (theirs)
            call(theirs, 0, NULL);
        if (is_live[slot]) {
            if (random_below(&state, 100) < likely)
                continue;
            is_live[slot] = false;
            theirs = 0;
            if (!(slot % 8 == 0
                        && atomic_compare_exchange_strong(
                                &handed[(number + 1) % THREADS], &theirs, at[slot])))
                call(at[slot], 0, NULL);
        } else if (random_below(&state, 100) < likely) {
            at[slot] = ptr;
            is_live[slot] = true;
            call(ptr, 1 + random_below(&state, 1 << 20), &key);
        }
    }
    return NULL;
}

static struct read_capture *run(const char *name, enum format_trace trace)
{
    pthread_t threads[THREADS];
    char file[TRACK_PATH_MAX];
    struct read_capture *capture;

    track_path(file, track_scratch(), name);
    track_start(file, trace, 0);
    intern_all();
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->bad_records, 0);
    CHECK_EQ(capture->places_lost, 0);
    return capture;
}

static void compare_places(const struct read_capture *capture, bool with_shares)
{
    size_t named = 0;

    for (size_t i = 0; i < capture->place_count; i++) {
        const struct read_place *place = &capture->place[i];
        const struct book *book;

        if (place->is_other) {
            CHECK_EQ(place->allocated_count, 0);
            continue;
        }
        named++;
        book = book_of(place->stack, place->pystack, place->path, place->device);
        compare_sums(place, book);
        if (!with_shares)
            continue;
        CHECK_EQ(place->peak_bytes, book->peak_bytes);
        CHECK_EQ(place->peak_count, book->peak_count);
        CHECK_EQ(place->high_bytes, book->high_bytes);
        CHECK_EQ(place->high_count, book->high_count);
    }
    CHECK_EQ(named, replay.books);
    CHECK_GT(named, STACKS * DEVICES);
}

/* Four threads whose calls come in the order of their numbers: each figure is the replay's. */
TEST(places_say_what_a_replay_says)
{
    struct read_capture *capture;

    is_ordered = true;
    capture = run("ordered.kcap", FORMAT_TRACE_FULL);
    CHECK_EQ(capture->has_all_events, true);
    CHECK_GT(capture->event_count, THREADS * ROUNDS / 8);
    replay_all(capture);
    compare_places(capture, true);
    for (int i = 0; i < DEVICES; i++) {
        uint64_t shares = 0, temporary = 0;

        CHECK_EQ(capture->high[i].bytes, replay.high[i]);
        CHECK_EQ(capture->high[i].seq, replay.high_seq[i]);
        CHECK_EQ(capture->high[i].time_ns, replay.high_time[i]);
        for (size_t j = 0; j < capture->place_count; j++) {
            if (capture->place[j].device != i)
                continue;
            shares += capture->place[j].high_bytes;
            temporary += capture->place[j].temporary_count;
        }
        CHECK_EQ(shares, replay.high[i]);
        CHECK_GT(temporary, 0);
    }
    read_close(capture);
}

/* Whose block it was is known when its free comes, also when another block has taken its address by then. */
TEST(a_late_free_tells_that_its_block_was_temporary)
{
    char file[TRACK_PATH_MAX];
    struct read_capture *capture;
    uint64_t count = 0, bytes = 0;

    track_path(file, track_scratch(), "late.kcap");
    track_start(file, FORMAT_TRACE_AGG, 0);
    CHECK_EQ(track_alloc(0x1000, 100, 1), 0);
    CHECK_EQ(track_alloc(0x1000, 300, 3), 0);
    CHECK_EQ(track_free(0x1000, 2), 0);
    CHECK_EQ(track_alloc(0x2000, 700, 5), 0);
    CHECK_EQ(track_alloc(0x3000, 900, 6), 0);
    CHECK_EQ(track_alloc(0x1000, 500, 7), 0);
    CHECK_EQ(track_free(0x1000, 4), 0); /* three of this thread's blocks later: none */
    capture = track_read(file);
    REQUIRE(capture != NULL);
    for (size_t i = 0; i < capture->place_count; i++) {
        count += capture->place[i].temporary_count;
        bytes += capture->place[i].temporary_bytes;
    }
    CHECK_EQ(count, 1);
    CHECK_EQ(bytes, 100);
    read_close(capture);
}

/*
 * Four threads at once: what is added up is the replay's, and the shares are those of one moment, at a peak that is the
 * replay's but for what was under way.
 */
TEST(shares_are_of_one_moment_whatever_the_threads_do)
{
    struct read_capture *capture = run("free.kcap", FORMAT_TRACE_FULL);

    replay_all(capture);
    compare_places(capture, false);
    for (int i = 0; i < DEVICES; i++) {
        uint64_t shares = 0;

        for (size_t j = 0; j < capture->place_count; j++)
            if (capture->place[j].device == i)
                shares += capture->place[j].high_bytes;
        CHECK_EQ(shares, capture->high[i].bytes);
        CHECK_GE(capture->high[i].bytes + THREADS * (1 << 20), replay.high[i]);
        CHECK_LE(capture->high[i].bytes, replay.high[i] + THREADS * (1 << 20));
    }
    read_close(capture);
}

TEST(without_a_log_places_are_there)
{
    struct read_capture *capture;
    uint64_t live = 0;

    capture = run("agg.kcap", FORMAT_TRACE_AGG);
    CHECK_EQ(capture->event_count, 0);
    for (size_t i = 0; i < capture->place_count; i++)
        live += capture->place[i].live_bytes;
    CHECK_EQ(live, capture->total.live_bytes);
    CHECK_EQ(live, track_live_bytes(capture));
    CHECK_GT(capture->high[0].bytes, 0);
    read_close(capture);
}

/* While nothing has been freed since the maximum, now is the peak. */
TEST(a_peak_that_lasts_is_shared_by_what_lives)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    const struct capplace_key a = {0, 1, 0, 0}, b = {0, 2, 0, 0};

    track_path(file, track_scratch(), "now.kcap");
    track_start(file, FORMAT_TRACE_AGG, 0);
    CHECK_EQ(put(0x1000, 100, 1, &a), 0);
    CHECK_EQ(put(0x2000, 50, 2, &b), 0);
    CHECK_EQ(track_free(0x1000, 3), 0); /* peak 150: a 100, b 50 */
    CHECK_EQ(put(0x3000, 40, 4, &b), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->high[0].bytes, 150);
    CHECK_EQ(capture->high[0].seq, 2);
    CHECK_EQ(capture->place[0].pystack, 1);
    CHECK_EQ(capture->place[0].high_bytes, 100);
    CHECK_EQ(capture->place[0].live_bytes, 0);
    CHECK_EQ(capture->place[1].high_bytes, 50);
    CHECK_EQ(capture->place[1].live_bytes, 90);
    read_close(capture);
    CHECK_EQ(put(0x4000, 61, 5, &b), 0); /* 151: a new peak, and it lasts */
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->high[0].bytes, 151);
    CHECK_EQ(capture->high[0].seq, 5);
    CHECK_EQ(capture->place[0].pystack, 2);
    CHECK_EQ(capture->place[0].high_bytes, 151);
    CHECK_EQ(capture->place[1].high_bytes, 0);
    read_close(capture);
}

/* Pinned host memory, imports: no device memory of the process, no share in its peak. */
TEST(what_is_no_device_memory_has_no_place)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    struct tag tag = track_tag(500);
    struct capture_alloc_info info = {
            .tag = &tag, .ptr = 0x9000, .seq = 1, .rule = -1, .memclass = MEMCLASS_HOST};

    track_path(file, track_scratch(), "host.kcap");
    track_start(file, FORMAT_TRACE_AGG, 0);
    CHECK_EQ(capture_alloc(&info), 0);
    CHECK_EQ(track_free(0x9000, 2), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->place_count, 0);
    CHECK_EQ(capture->high[0].bytes, 0);
    read_close(capture);
}

/* The table is bounded: what comes later is added up in one place, and said. */
TEST(beyond_the_bound_there_is_one_place_for_the_rest)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    uint64_t number = 0, bytes = 0, others = 0;
    size_t other_places = 0;

    track_path(file, track_scratch(), "many.kcap");
    track_start(file, FORMAT_TRACE_AGG, 0);
    for (uint32_t i = 1; i <= CAPPLACE_MAX + 1000; i++) {
        struct capplace_key key = {0, i, 0, (int)(i % 2)};

        (void)put(0x1000, 10, ++number, &key);
        (void)track_free(0x1000, ++number);
    }
    capture = track_read(file);
    REQUIRE(capture != NULL);
    for (size_t i = 0; i < capture->place_count; i++) {
        bytes += capture->place[i].allocated_bytes;
        other_places += capture->place[i].is_other;
        others += capture->place[i].is_other ? capture->place[i].allocated_count : 0;
    }
    CHECK_EQ(other_places, 2);
    CHECK_EQ(bytes, 10 * (CAPPLACE_MAX + 1000));
    CHECK_EQ(capture->places_lost, others);
    CHECK_GE(others, 1000);
    CHECK_LE(others, 1100);
    CHECK_LE(capture->place_count, CAPPLACE_MAX);
    CHECK_LE(capture->file_bytes, 12u << 20);
    read_close(capture);
}

/* An anchor with a name of its own for each step fills the table. A stack that comes later is told all the same, without its anchor. */
TEST(beyond_the_bound_of_anchors_stacks_are_told_apart)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    uint64_t number = 0, late = 0;

    track_path(file, track_scratch(), "anchors.kcap");
    track_start(file, FORMAT_TRACE_AGG, 0);
    for (uint32_t i = 1; i <= CAPPLACE_MAX; i++) {
        struct tag tag = track_tag(10);
        struct capture_alloc_info info = {.tag = &tag, .ptr = 0x1000, .seq = ++number, .rule = -1};
        char name[32];

        (void)snprintf(name, sizeof name, "step_%" PRIu32, i);
        tag.path = intern_text(intern_string(name, strlen(name)));
        tag.anchor = i;
        tag.pystack = i <= CAPPLACE_MAX - 10 ? 1 : i; /* ten stacks that come late */
        CHECK_EQ(capture_alloc(&info), 0);
        CHECK_EQ(track_free(0x1000, ++number), 0);
    }
    capture = track_read(file);
    REQUIRE(capture != NULL);
    for (size_t i = 0; i < capture->place_count; i++) {
        const struct read_place *place = &capture->place[i];

        late += place->pystack > CAPPLACE_MAX - 10 && place->allocated_count == 1
                && strcmp(place->path, "(other anchors)") == 0;
    }
    CHECK_EQ(late, 10);
    CHECK_EQ(capture->places_lost, 0);
    read_close(capture);
}

/* On a full disk the rest goes to "other" too: one error, and no figure is lost. */
TEST(on_a_full_disk_the_rest_goes_to_other)
{
    struct read_capture *capture;
    struct rlimit limit = {1u << 20, RLIM_INFINITY};
    char file[TRACK_PATH_MAX];
    uint64_t number = 0, bytes = 0;
    int errors = 0;

    track_path(file, track_scratch(), "full.kcap");
    REQUIRE_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    track_start(file, FORMAT_TRACE_AGG, 0);
    for (uint32_t i = 1; i <= 20000; i++) {
        struct capplace_key key = {0, i, 0, 0};

        errors += put(0x1000, 10, ++number, &key) < 0;
        errors += track_free(0x1000, ++number) < 0;
    }
    CHECK_EQ(errors, 1);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    for (size_t i = 0; i < capture->place_count; i++)
        bytes += capture->place[i].allocated_bytes;
    CHECK_EQ(bytes, 200000);
    CHECK_GT(capture->places_lost, 0);
    CHECK_EQ(capture->high[0].bytes, 10);
    read_close(capture);
}
