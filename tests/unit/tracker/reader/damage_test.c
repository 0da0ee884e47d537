/* SPDX-License-Identifier: MIT */
/* covers: read.c capture.c readbuild.c readtally.c */
/*
 * damage_test.c - what was changed in a capture since it was written is noticed, area by area; what was never written is none.
 */
#include "tests/unit/tracker/track_help.h"

#include "tracker/format/format.h"
#include "tracker/format/formatsum.h"
#include "tracker/stacks/intern.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdlib.h>

#define MB (UINT64_C(1) << 20)

static unsigned char *image;
static size_t image_bytes;

static void fail_to_allocate(uint64_t size, uint64_t seq)
{
    struct tag tag = track_tag(size);
    struct capture_oom_info info = {.tag = &tag, .seq = seq, .call = "cuMemAlloc_v2", .result = 2};

    CHECK_EQ(capture_oom(&info, NULL), 0);
}

/* A capture with all areas, as bytes: 40 allocations at four places, ten of them freed. */
static void make_image(void)
{
    char file[TRACK_PATH_MAX];
    struct stat status;
    int fd;

    track_path(file, track_scratch(), "a.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    for (uint32_t i = 0; i < 40; i++) {
        struct intern_frame frame = {.offset = 0x1000 + i % 4};
        struct tag tag = {.size = MB + i, .stack = intern_stack(&frame, 1), .path = ""};
        struct capture_alloc_info info = {
                .tag = &tag, .ptr = (i + 1) * 16 * MB, .seq = i + 1, .rule = -1};

        CHECK_EQ(capture_alloc(&info), 0);
    }
    for (uint32_t i = 0; i < 10; i++)
        CHECK_EQ(track_free((i + 1) * 16 * MB, 41 + i), 0);
    fail_to_allocate(90 * MB, 51);
    CHECK_EQ(capture_note(1, "a note of some length"), 0);
    capture_state(FORMAT_STATE_CLEAN, 0);

    fd = open(file, O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0 && fstat(fd, &status) == 0);
    image_bytes = (size_t)status.st_size;
    image = malloc(image_bytes);
    REQUIRE(image != NULL);
    REQUIRE_EQ(read(fd, image, image_bytes), (ssize_t)image_bytes);
    (void)close(fd);
}

/* Damaged areas as bits; all ones where it is no capture any more. */
static unsigned read_areas(size_t length)
{
    struct read_capture *capture;
    unsigned areas = 0;

    if (read_open_bytes(image, length, &capture, NULL) < 0)
        return ~0u;
    for (unsigned area = 0; area < READ_AREA_COUNT; area++)
        areas |= capture->damaged[area] > 0 ? 1u << area : 0;
    CHECK_EQ(read_is_damaged(capture), areas != 0);
    read_close(capture);
    return areas;
}

/* Each byte of a range, changed by itself, is damage of this area. `skip`: so many bytes in between are not looked at. */
static void every_byte_counts(uint64_t at, size_t bytes, size_t skip, enum read_area area)
{
    for (size_t i = 0; i < bytes; i += skip + 1) {
        image[at + i] ^= (unsigned char)(1 + i % 255);
        if ((read_areas(image_bytes) & 1u << area) == 0) {
            CHECK_EQ(read_areas(image_bytes), 1u << area);
            printf("    byte %zu of %zu at %llu\n", i, bytes, (unsigned long long)at);
        }
        image[at + i] ^= (unsigned char)(1 + i % 255);
    }
}

static struct format_extent extent_of(enum format_extent_kind kind)
{
    struct format_extent extent = {0};

    for (uint32_t i = 0; i < FORMAT_EXTENTS_MAX && extent.kind != kind; i++)
        memcpy(&extent, image + FORMAT_DIRECTORY_OFFSET + i * sizeof extent, sizeof extent);
    REQUIRE_EQ(extent.kind, kind);
    return extent;
}

/* The first published record of an area. */
static uint64_t record_of(enum format_extent_kind kind, size_t unit)
{
    struct format_extent extent = extent_of(kind);
    uint64_t state;

    for (uint64_t at = 0; at < extent.length; at += unit) {
        memcpy(&state, image + extent.offset + at, sizeof state);
        if (state != 0)
            return extent.offset + at;
    }
    REQUIRE(false);
    return 0;
}

TEST(a_changed_byte_of_what_was_written_is_damage)
{
    struct format_chunk chunk;
    uint64_t at;

    make_image();
    REQUIRE_EQ(read_areas(image_bytes), 0);
    at = record_of(FORMAT_EXTENT_LIVE, sizeof(struct format_live));
    every_byte_counts(at, offsetof(struct format_live, hint), 0, READ_AREA_LIVE);
    every_byte_counts(at + offsetof(struct format_live, pystack), 4, 0, READ_AREA_LIVE);
    every_byte_counts(at + offsetof(struct format_live, sum), 8, 0, READ_AREA_LIVE);
    at = record_of(FORMAT_EXTENT_PLACES, sizeof(struct format_place));
    every_byte_counts(at, sizeof(struct format_place), 0, READ_AREA_PLACES);
    at = record_of(FORMAT_EXTENT_OOM, sizeof(struct format_oom));
    every_byte_counts(at, sizeof(struct format_oom), 0, READ_AREA_FAILURES);
    at = record_of(FORMAT_EXTENT_EVENTS, FORMAT_CHUNK_BYTES);
    memcpy(&chunk, image + at, sizeof chunk);
    REQUIRE((uint32_t)chunk.used > 500);
    every_byte_counts(at, 16, 0, READ_AREA_EVENTS);
    every_byte_counts(at + sizeof chunk, (uint32_t)chunk.used, 0, READ_AREA_EVENTS);
    every_byte_counts(extent_of(FORMAT_EXTENT_DEFS).offset, 200, 0, READ_AREA_DEFS);
    every_byte_counts(FORMAT_DIRECTORY_OFFSET, sizeof(struct format_extent), 0, READ_AREA_HEADER);
    every_byte_counts(offsetof(struct format_header, exe), sizeof(((struct format_header *)0)->exe),
            40, READ_AREA_HEADER);
    every_byte_counts(offsetof(struct format_header, sum), 8, 0, READ_AREA_HEADER);
    /* all figures of the header, since the program came to its end: of calls that cannot be told only `kedge run` knows */
    at = offsetof(struct format_header, state);
    every_byte_counts(at, offsetof(struct format_header, exe) - at, 0, READ_AREA_HEADER);
    at = offsetof(struct format_header, class_count);
    every_byte_counts(at, offsetof(struct format_header, unseen) - at, 0, READ_AREA_HEADER);
    at = offsetof(struct format_header, sum);
    every_byte_counts(at, sizeof(struct format_header) - at, 0, READ_AREA_HEADER);
    free(image);
}

/* ---- the seal ---- */

static struct format_header header_of(void)
{
    struct format_header header;

    memcpy(&header, image, sizeof header);
    return header;
}

static struct format_header header_in(const char *file)
{
    struct format_header header = {.seal = 0};
    int fd = open(file, O_RDONLY | O_CLOEXEC);

    REQUIRE(fd >= 0);
    REQUIRE_EQ(read(fd, &header, sizeof header), (ssize_t)sizeof header);
    (void)close(fd);
    return header;
}

/* Captures of earlier writers, and those that nobody could seal. */
TEST(a_header_without_a_seal_is_no_damage)
{
    struct format_header header;

    make_image();
    header = header_of();
    REQUIRE(header.seal != 0);
    header.seal = 0;
    memcpy(image, &header, sizeof header);
    CHECK_EQ(read_areas(image_bytes), 0);
    header.total.peak_bytes++;
    memcpy(image, &header, sizeof header);
    CHECK_EQ(read_areas(image_bytes), 0);
    header.state = 0;
    memcpy(image, &header, sizeof header);
    CHECK_EQ(read_areas(image_bytes), 1u << READ_AREA_HEADER);
    free(image);
}

/* Libraries free what they have while the process ends, behind the program's own end. */
TEST(what_is_written_behind_the_end_breaks_the_seal)
{
    char file[TRACK_PATH_MAX];
    struct read_capture *capture;

    track_path(file, track_scratch(), "a.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(16 * MB, MB, 1), 0);
    capture_state(FORMAT_STATE_CLEAN, 0);
    CHECK(header_in(file).seal != 0);
    CHECK(capture_path()[0] != '\0');
    CHECK_EQ(track_free(16 * MB, 2), 0);
    CHECK_EQ(header_in(file).seal, 0);
    CHECK_EQ(capture_note(1, "one more"), 0);
    capture_state(FORMAT_STATE_CLEAN, FORMAT_EXIT_KNOWN);
    CHECK(header_in(file).seal != 0);
    CHECK_EQ(capture_note(1, "and one more"), 0);
    CHECK_EQ(header_in(file).seal, 0);
    capture_state(FORMAT_STATE_CLEAN, FORMAT_EXIT_KNOWN | 3);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK(capture->is_sealed && !read_is_damaged(capture));
    CHECK_EQ(capture->state_detail, FORMAT_EXIT_KNOWN | 3);
    read_close(capture);
}

static sem_t did, may_end;

static void *take_part(void *unused)
{
    (void)unused;
    CHECK_EQ(track_alloc(32 * MB, MB, 2), 0);
    REQUIRE_EQ(sem_post(&did), 0);
    while (sem_wait(&may_end) != 0)
        ;
    return NULL;
}

/* It may be in the middle of a change that the seal would not have. */
TEST(beside_another_thread_that_took_part_nothing_is_sealed)
{
    char file[TRACK_PATH_MAX];
    pthread_t thread;

    track_path(file, track_scratch(), "a.kcap");
    track_start(file, FORMAT_TRACE_FULL, 0);
    CHECK_EQ(track_alloc(16 * MB, MB, 1), 0);
    REQUIRE(sem_init(&did, 0, 0) == 0 && sem_init(&may_end, 0, 0) == 0);
    REQUIRE_EQ(pthread_create(&thread, NULL, take_part, NULL), 0);
    while (sem_wait(&did) != 0)
        ;
    capture_state(FORMAT_STATE_CLEAN, 0);
    CHECK_EQ(header_in(file).seal, 0);
    REQUIRE_EQ(sem_post(&may_end), 0);
    REQUIRE_EQ(pthread_join(thread, NULL), 0);
    capture_state(FORMAT_STATE_CLEAN, 0);
    CHECK(header_in(file).seal != 0);
}

/* What `kedge run` adds up when the process is gone. */
TEST(hints_and_uses_of_live_blocks_have_a_sum_once_the_process_is_gone)
{
    struct read_capture *capture;
    struct format_header header;
    uint64_t at;

    make_image();
    REQUIRE_EQ(read_open_bytes(image, image_bytes, &capture, NULL), 0);
    header = header_of();
    header.loose_sum = capture->loose_sum;
    header.seal = formatsum_seal(&header);
    read_close(capture);
    memcpy(image, &header, sizeof header);
    REQUIRE_EQ(read_areas(image_bytes), 0);
    at = record_of(FORMAT_EXTENT_LIVE, sizeof(struct format_live));
    every_byte_counts(at, sizeof(struct format_live), 0, READ_AREA_LIVE);
    every_byte_counts(
            offsetof(struct format_header, unseen), sizeof header.unseen, 0, READ_AREA_HEADER);
    free(image);
}

/* ---- the directory ---- */

TEST(an_extent_that_is_hidden_is_damage)
{
    struct format_extent extent;
    struct format_header header;

    make_image();
    header = header_of();
    header.seal = 0; /* else its sum would tell */
    memcpy(image, &header, sizeof header);
    REQUIRE_EQ(read_areas(image_bytes), 0);
    memcpy(&extent, image + FORMAT_DIRECTORY_OFFSET, sizeof extent);
    extent.kind = FORMAT_EXTENT_NONE;
    memcpy(image + FORMAT_DIRECTORY_OFFSET, &extent, sizeof extent);
    CHECK(read_areas(image_bytes) & 1u << READ_AREA_HEADER);
    extent.sum = 0; /* claimed, and not published yet */
    memcpy(image + FORMAT_DIRECTORY_OFFSET, &extent, sizeof extent);
    CHECK_EQ(read_areas(image_bytes), 0);
    header.extent_count--;
    memcpy(image, &header, sizeof header);
    CHECK(read_areas(image_bytes) & 1u << READ_AREA_HEADER);
    free(image);
}

/* ---- accounts that do not agree, although each record has its sum ---- */

/* What read_begin finds: areas as bits; *ret_torn: figures that may be a kill's. */
static unsigned begin_areas(uint64_t *ret_torn)
{
    char file[TRACK_PATH_MAX];
    struct read_capture *capture;
    struct format_header header = header_of();
    unsigned areas = 0;
    int fd;

    header.sum = formatsum_header(&header);
    header.seal = header.seal ? formatsum_seal(&header) : 0;
    memcpy(image, &header, sizeof header);
    track_path(file, track_directory, "b.kcap");
    fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0);
    REQUIRE_EQ(write(fd, image, image_bytes), (ssize_t)image_bytes);
    (void)close(fd);
    REQUIRE_EQ(read_begin(file, &capture, NULL), 0);
    for (unsigned area = 0; area < READ_AREA_COUNT; area++)
        areas |= capture->damaged[area] > 0 ? 1u << area : 0;
    *ret_torn = capture->torn;
    read_close(capture);
    return areas;
}

static void empty_record(enum format_extent_kind kind, size_t unit)
{
    memset(image + record_of(kind, unit), 0, sizeof(uint64_t));
}

static void drop_a_block(void)
{
    empty_record(FORMAT_EXTENT_LIVE, sizeof(struct format_live));
}

/* The first one is that of what finds none: nothing did. */
static void drop_a_place(void)
{
    struct format_extent extent = extent_of(FORMAT_EXTENT_PLACES);
    struct format_place place = {.state = 0};
    uint64_t at = extent.offset;

    for (; place.allocated_count == 0; at += sizeof place)
        memcpy(&place, image + at, sizeof place);
    memset(image + at - sizeof place, 0, sizeof place.state);
}

static void drop_a_failure(void)
{
    empty_record(FORMAT_EXTENT_OOM, sizeof(struct format_oom));
}

static void drop_a_chunk(void)
{
    memset(image + record_of(FORMAT_EXTENT_EVENTS, FORMAT_CHUNK_BYTES), 0, FORMAT_CHUNK_BYTES);
}

static void drop_the_names(void)
{
    struct format_extent extent = extent_of(FORMAT_EXTENT_DEFS);

    memset(image + extent.offset, 0, extent.length);
}

static void grow_a_block(void)
{
    unsigned char *at = image + record_of(FORMAT_EXTENT_LIVE, sizeof(struct format_live));
    struct format_live slot;

    memcpy(&slot, at, sizeof slot);
    slot.size++;
    slot.sum = formatsum_live(&slot);
    memcpy(at, &slot, sizeof slot);
}

static void change_total(size_t at)
{
    uint64_t figure;

    memcpy(&figure, image + at, sizeof figure);
    figure++;
    memcpy(image + at, &figure, sizeof figure);
}

static void change_allocated(void)
{
    change_total(offsetof(struct format_header, total.allocated_bytes));
}

static void change_freed_count(void)
{
    change_total(offsetof(struct format_header, total.freed_count));
}

static void change_failures(void)
{
    change_total(offsetof(struct format_header, oom_count));
}

static void lower_last_seq(void)
{
    struct format_header header = header_of();

    header.last_seq = 3;
    memcpy(image, &header, sizeof header);
}

TEST(accounts_that_do_not_agree_are_damage_although_each_record_has_its_sum)
{
    static const struct {
        void (*change)(void);
        enum read_area area;
    } rows[] = {
            {drop_a_block, READ_AREA_TOTALS},
            {drop_a_place, READ_AREA_TOTALS},
            {drop_a_failure, READ_AREA_TOTALS},
            {drop_a_chunk, READ_AREA_TOTALS},
            {drop_the_names, READ_AREA_DEFS},
            {grow_a_block, READ_AREA_TOTALS},
            {change_allocated, READ_AREA_TOTALS},
            {change_freed_count, READ_AREA_TOTALS},
            {change_failures, READ_AREA_TOTALS},
            {lower_last_seq, READ_AREA_TOTALS},
    };
    unsigned char *whole;
    uint64_t torn;

    make_image();
    REQUIRE_EQ(begin_areas(&torn), 0);
    CHECK_EQ(torn, 0);
    whole = malloc(image_bytes);
    REQUIRE(whole != NULL);
    memcpy(whole, image, image_bytes);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rows[i].change();
        CHECK(begin_areas(&torn) & 1u << rows[i].area);
        if (!(begin_areas(&torn) & 1u << rows[i].area))
            printf("    change %zu\n", i);
        memcpy(image, whole, image_bytes);
    }
    free(whole);
    free(image);
}

/* The allocation is in log and live table, and not in the totals yet. */
TEST(r47_what_was_under_way_at_a_kill_is_told_and_is_no_damage)
{
    struct format_header header;
    uint64_t torn;

    make_image();
    header = header_of();
    header.seal = 0;
    header.state = FORMAT_STATE_OOM;
    header.total.allocated_bytes -= MB;
    header.total.allocated_count--;
    header.total.live_bytes -= MB;
    memcpy(image, &header, sizeof header);
    CHECK_EQ(begin_areas(&torn), 0);
    CHECK(torn > 0);
    header.total.allocated_bytes -= 2 * MB;
    memcpy(image, &header, sizeof header);
    CHECK_EQ(begin_areas(&torn), 1u << READ_AREA_TOTALS);
    free(image);
}

/* What nobody wrote yet, and what was given back, may hold anything. */
TEST(bytes_that_hold_nothing_are_no_damage)
{
    struct format_extent live, events;
    struct format_chunk chunk;
    uint64_t at, state;

    make_image();
    events = extent_of(FORMAT_EXTENT_EVENTS);
    memcpy(&chunk, image + events.offset, sizeof chunk);
    memset(image + events.offset + sizeof chunk + (uint32_t)chunk.used, 0xa5,
            FORMAT_CHUNK_ROOM - (uint32_t)chunk.used);
    live = extent_of(FORMAT_EXTENT_LIVE);
    for (at = live.offset; at < live.offset + live.length; at += sizeof(struct format_live)) {
        memcpy(&state, image + at, sizeof state);
        if (state == 0)
            memset(image + at + sizeof state, 0xa5, sizeof(struct format_live) - sizeof state);
    }
    CHECK_EQ(read_areas(image_bytes), 0);
    free(image);
}

TEST(a_file_that_was_cut_is_damaged)
{
    make_image();
    for (size_t length = FORMAT_HEADER_BYTES; length < image_bytes; length += 10000)
        CHECK_EQ(read_areas(length) & 1u << READ_AREA_HEADER, 1u << READ_AREA_HEADER);
    free(image);
}

/* Killed while a place was being changed: its figures are right but for one operation. */
TEST(r47_a_place_that_was_being_changed_is_no_damage)
{
    const uint64_t changing = FORMAT_PLACE_CHANGING;
    uint64_t at;

    make_image();
    at = record_of(FORMAT_EXTENT_PLACES, sizeof(struct format_place));
    memcpy(image + at + offsetof(struct format_place, changing), &changing, sizeof changing);
    image[at + offsetof(struct format_place, live_bytes)] ^= 1;
    CHECK_EQ(read_areas(image_bytes), 0);
    free(image);
}
