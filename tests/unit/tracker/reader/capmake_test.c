/* SPDX-License-Identifier: MIT */
/* covers: capmake.c reader.c */
#include "tests/check.h"
#include "tracker/reader/capmake.h"
#include "tracker/reader/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EVENTS  60000 /* of about 20 bytes: several extents of chunks */
#define STRINGS 3000
#define LIVES   1500

static struct format_header header;

static struct read_capture *read_back(int fd)
{
    struct read_capture *capture = NULL;
    struct read_error error = {.text = ""};
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (read_open_parts(path, READ_ALL, &capture, &error) != 0)
        printf("    %s\n", error.text);
    return capture;
}

static void put_strings(struct capmake *make)
{
    for (uint32_t i = 1; i <= STRINGS; i++) {
        struct format_def def = {.kind = FORMAT_DEF_STRING, .id = i};
        char text[128];

        (void)snprintf(text, sizeof text, "%0*u", (int)(i % 100) + 5, i);
        CHECK_EQ(capmake_def(make, &def, sizeof def, text, strlen(text)), 0);
    }
}

/* Addresses far from each other, so that records have many lengths. */
static uint64_t address_of(uint64_t seq)
{
    return seq * seq * UINT64_C(0x9e3779b97f4a7c15) >> (seq % 40);
}

static void put_events(struct capmake *make)
{
    for (uint64_t seq = 1; seq <= EVENTS; seq++) {
        struct format_event event = {.head = FORMAT_EVENT_ALLOC | 3u << 16,
                .thread = (uint32_t)(seq % 7),
                .seq = seq,
                .time_ns = seq * 100,
                .u.alloc = {.addr = address_of(seq),
                        .size = seq * 3,
                        .path = (uint32_t)(seq % STRINGS)}};

        CHECK_EQ(capmake_event(make, &event), 0);
    }
}

static void put_lives(struct capmake *make)
{
    for (uint64_t i = 1; i <= LIVES; i++) {
        struct format_live slot = {
                .state = i << 1 | 1, .addr = i * 512, .size = i, .rule = -1, .pystack = 0};

        CHECK_EQ(capmake_live(make, &slot), 0);
    }
}

TEST(what_is_put_in_is_read_back_whole)
{
    int fd = memfd_create("capture", MFD_CLOEXEC);
    struct capmake *make = capmake_new(fd);
    struct format_place place = {.state = 3, .device = 0, .live_bytes = 77, .path = 5};
    struct format_oom oom = {.state = 3, .requested = 4711, .path = 6};
    uint64_t wrong = 0;

    REQUIRE(make != NULL);
    put_strings(make);
    put_events(make);
    put_lives(make);
    CHECK_EQ(capmake_place(make, &place), 0);
    CHECK_EQ(capmake_oom(make, &oom), 0);
    memset(&header, 0, sizeof header);
    header.state = FORMAT_STATE_CLEAN;
    header.trace = FORMAT_TRACE_FULL;
    (void)snprintf(header.rank, sizeof header.rank, "12");
    CHECK_EQ(capmake_done(make, &header), 0);
    capmake_free(make);

    struct read_capture *capture = read_back(fd);

    REQUIRE(capture != NULL);
    CHECK(!read_is_damaged(capture));
    CHECK(capture->has_all_events);
    CHECK_EQ(capture->bad_records, 0);
    CHECK_STR_EQ(capture->rank, "12");
    REQUIRE(capture->event_count == EVENTS);
    for (uint64_t i = 0; i < EVENTS; i++) {
        const struct read_event *event = &capture->event[i];
        uint64_t seq = i + 1;

        wrong += event->seq != seq || event->addr != address_of(seq) || event->size != seq * 3
                || event->time_ns != seq * 100 || event->thread != seq % 7 || event->device != 3
                || (event->path_number != 0 && strtoul(event->path, NULL, 10) != seq % STRINGS);
    }
    CHECK_EQ(wrong, 0);
    CHECK_STR_EQ(reader_string(capture, STRINGS), "03000");
    CHECK_EQ(capture->live_count, LIVES);
    CHECK_EQ(capture->live[LIVES - 1].addr, LIVES * 512);
    REQUIRE(capture->place_count == 1 && capture->oom_record_count == 1);
    CHECK_EQ(capture->place[0].live_bytes, 77);
    CHECK_STR_EQ(capture->place[0].path, reader_string(capture, 5));
    CHECK_EQ(capture->oom[0].what.requested, 4711);
    read_close(capture);
    (void)close(fd);
}

TEST(a_capture_of_nothing_is_one)
{
    int fd = memfd_create("capture", MFD_CLOEXEC);
    struct capmake *make = capmake_new(fd);
    struct read_capture *capture;

    REQUIRE(make != NULL);
    memset(&header, 0, sizeof header);
    header.state = FORMAT_STATE_CLEAN;
    header.trace = FORMAT_TRACE_FULL;
    CHECK_EQ(capmake_done(make, &header), 0);
    capmake_free(make);
    capture = read_back(fd);
    REQUIRE(capture != NULL);
    CHECK(!read_is_damaged(capture));
    CHECK_EQ(capture->event_count + capture->live_count + capture->note_count, 0);
    read_close(capture);
    (void)close(fd);
}

TEST(what_was_not_finished_is_no_capture)
{
    int fd = memfd_create("capture", MFD_CLOEXEC);
    struct capmake *make = capmake_new(fd);

    REQUIRE(make != NULL);
    put_events(make);
    capmake_free(make);
    CHECK(lseek(fd, 0, SEEK_END) > 0);
    CHECK(read_back(fd) == NULL);
    (void)close(fd);
}

TEST(the_first_error_of_writing_stays)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct capmake *make = capmake_new(fd);

    REQUIRE(make != NULL);
    for (int i = 0; i < 2000; i++) {
        struct format_live slot = {.state = 3};

        (void)capmake_live(make, &slot);
    }
    memset(&header, 0, sizeof header);
    CHECK_EQ(capmake_done(make, &header), -EBADF);
    CHECK_EQ(capmake_place(make, &(struct format_place){.state = 3}), -EBADF);
    capmake_free(make);
    (void)close(fd);
}

TEST(a_definition_longer_than_a_block_is_refused_alone)
{
    static char text[FORMAT_DEFS_BLOCK];
    int fd = memfd_create("capture", MFD_CLOEXEC);
    struct capmake *make = capmake_new(fd);
    struct format_def def = {.kind = FORMAT_DEF_NOTE, .id = 0};
    struct read_capture *capture;

    REQUIRE(make != NULL);
    memset(text, 'x', sizeof text);
    CHECK_EQ(capmake_def(make, &def, sizeof def, text, sizeof text), -E2BIG);
    CHECK_EQ(capmake_def(make, &def, sizeof def, text, sizeof text - sizeof def), 0);
    CHECK_EQ(capmake_def(make, &def, sizeof def, "short", 5), 0);
    memset(&header, 0, sizeof header);
    CHECK_EQ(capmake_done(make, &header), 0);
    capmake_free(make);
    capture = read_back(fd);
    REQUIRE(capture != NULL && capture->note_count == 2);
    CHECK_EQ(strlen(capture->note[0].text), sizeof text - sizeof def);
    CHECK_STR_EQ(capture->note[1].text, "short");
    read_close(capture);
    (void)close(fd);
}

/* Numbers for which there is no word: of the event alone. */
TEST(an_event_that_makes_no_sense_is_left_out)
{
    static const struct {
        struct format_event event;
        bool makes_sense;
    } rows[] = {
            {{.head = FORMAT_EVENT_EDGE, .u.edge = {.kind = 0}}, true},
            {{.head = FORMAT_EVENT_EDGE, .u.edge = {.kind = EDGE_KIND_COUNT - 1}}, true},
            {{.head = FORMAT_EVENT_EDGE, .u.edge = {.kind = EDGE_KIND_COUNT}}, false},
            {{.head = FORMAT_EVENT_HINT, .u.hint = {.what = FORMAT_HINT_NONE}}, false},
            {{.head = FORMAT_EVENT_HINT, .u.hint = {.what = FORMAT_HINT_NONE + 1}}, true},
            {{.head = FORMAT_EVENT_HINT, .u.hint = {.what = FORMAT_HINT_COUNT - 1}}, true},
            {{.head = FORMAT_EVENT_HINT, .u.hint = {.what = FORMAT_HINT_COUNT}}, false},
            {{.head = FORMAT_EVENT_HINT,
                     .u.hint = {.what = FORMAT_HINT_NONE + 1, .mode = HINT_MODE_COUNT - 1}},
                    true},
            {{.head = FORMAT_EVENT_HINT,
                     .u.hint = {.what = FORMAT_HINT_NONE + 1, .mode = HINT_MODE_COUNT}},
                    false},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int fd = memfd_create("capture", MFD_CLOEXEC);
        struct capmake *make = capmake_new(fd);
        struct format_event event = rows[i].event;
        struct read_capture *capture;

        REQUIRE(make != NULL);
        event.seq = 1;
        CHECK_EQ(capmake_event(make, &event), 0);
        event = (struct format_event){.head = FORMAT_EVENT_ALLOC, .seq = 2};
        CHECK_EQ(capmake_event(make, &event), 0);
        memset(&header, 0, sizeof header);
        header.state = FORMAT_STATE_CLEAN;
        header.trace = FORMAT_TRACE_FULL;
        CHECK_EQ(capmake_done(make, &header), 0);
        capmake_free(make);
        capture = read_back(fd);
        REQUIRE(capture != NULL);
        CHECK_EQ(capture->event_count, 1 + rows[i].makes_sense);
        CHECK_EQ(capture->bad_records, !rows[i].makes_sense);
        read_close(capture);
        (void)close(fd);
    }
}
