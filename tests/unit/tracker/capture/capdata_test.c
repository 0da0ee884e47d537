/* SPDX-License-Identifier: MIT */
/* covers: capdata.c */
/* What a framework's objects say of memory, as a reader finds it. */
#include "tests/unit/tracker/track_help.h"
#include "tracker/capture/capture.h"

#include <stdio.h>
#include <string.h>

static char file[TRACK_PATH_MAX];

static void start(void)
{
    track_path(file, track_scratch(), "data.kcap");
    track_start(file, FORMAT_TRACE_AGG, 0);
}

static int put(enum format_data kind, uint64_t addr, const char *name)
{
    return capture_data(kind, 1, addr, 10, name, strlen(name));
}

TEST(storages_are_read_with_the_block_that_they_begin)
{
    struct read_capture *capture;

    start();
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    CHECK_EQ(put(FORMAT_DATA_ROOT, 0, "GPT"), 0);
    CHECK_EQ(put(FORMAT_DATA_PARAMETER, 0x1000, "wte.weight"), 0);
    CHECK_EQ(put(FORMAT_DATA_GRADIENT, 0x1008, "wte.weight"), 0); /* inside the block */
    CHECK_EQ(capture_data_end(2, FORMAT_DATA_BUSY), 0);
    capture = track_read(file);
    REQUIRE_EQ(capture->data_count, 4);
    CHECK_EQ(capture->data[0].kind, FORMAT_DATA_ROOT);
    CHECK_STR_EQ(capture->data[0].text, "GPT");
    CHECK_EQ(capture->data[1].kind, FORMAT_DATA_PARAMETER);
    CHECK_EQ(capture->data[1].seq, 1);
    CHECK_EQ(capture->data[1].address, 0x1000);
    CHECK_EQ(capture->data[1].size, 10);
    CHECK_EQ(capture->data[1].root, 1);
    CHECK_STR_EQ(capture->data[1].text, "wte.weight");
    CHECK_EQ(capture->data[2].seq, 0);
    CHECK_EQ(capture->data[3].kind, FORMAT_DATA_LOOK);
    CHECK_EQ(capture->data[3].size, 2);
    CHECK_EQ(capture->data[3].flags, FORMAT_DATA_BUSY);
    CHECK(capture->data[3].time_ns >= capture->data[1].time_ns);
    read_close(capture);
}

TEST(what_is_on_record_is_not_written_again_until_its_block_is_another_one)
{
    struct read_capture *capture;

    start();
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    CHECK_EQ(put(FORMAT_DATA_GRADIENT, 0x1000, "w"), 0);
    CHECK_EQ(put(FORMAT_DATA_GRADIENT, 0x1000, "w"), 0);
    CHECK_EQ(track_free(0x1000, 2), 0);
    CHECK_EQ(track_alloc(0x1000, 10, 3), 0);
    CHECK_EQ(put(FORMAT_DATA_GRADIENT, 0x1000, "w"), 0);
    CHECK_EQ(put(FORMAT_DATA_GRADIENT, 0x1000, "v"), 0); /* a second name */
    capture = track_read(file);
    REQUIRE_EQ(capture->data_count, 3);
    CHECK_EQ(capture->data[0].seq, 1);
    CHECK_EQ(capture->data[1].seq, 3);
    CHECK_STR_EQ(capture->data[2].text, "v");
    read_close(capture);
}

/* Other tensors come to its address, and no allocation tells. */
TEST(what_lies_inside_of_a_block_is_written_at_each_look)
{
    struct read_capture *capture;

    start();
    CHECK_EQ(track_alloc(0x1000, 10 + FORMAT_DATA_SLACK + 1, 1), 0);
    CHECK_EQ(track_alloc(0x9000, 10 + FORMAT_DATA_SLACK, 2), 0);
    for (unsigned look = 0; look < 2; look++) {
        CHECK_EQ(put(FORMAT_DATA_ROOT, 0, "GPT"), 0);
        CHECK_EQ(put(FORMAT_DATA_GRADIENT, 0x1000, "first of a segment"), 0);
        CHECK_EQ(put(FORMAT_DATA_GRADIENT, 0x1100, "w"), 0);
        CHECK_EQ(put(FORMAT_DATA_GRADIENT, 0x1100, "w"), 0);
        CHECK_EQ(put(FORMAT_DATA_GRADIENT, 0x9000, "a block"), 0);
        CHECK_EQ(capture_data_end(3, 0), 0);
    }
    capture = track_read(file);
    REQUIRE_EQ(capture->data_count, 5 + 3);
    CHECK_EQ(capture->data[1].seq, 0);
    CHECK_EQ(capture->data[3].seq, 2);
    CHECK_STR_EQ(capture->data[5].text, "first of a segment");
    CHECK_STR_EQ(capture->data[6].text, "w");
    CHECK_EQ(capture->data[7].kind, FORMAT_DATA_LOOK);
    read_close(capture);
}

TEST(records_are_bounded_and_the_caller_is_told)
{
    struct read_capture *capture;
    char name[16];
    int r = 0;

    start();
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    for (unsigned i = 0; i < FORMAT_DATA_MAX && r == 0; i++) {
        (void)snprintf(name, sizeof name, "%u", i);
        r = put(FORMAT_DATA_BUFFER, 0x1000, name);
    }
    CHECK_EQ(r, 0);
    CHECK_EQ(put(FORMAT_DATA_BUFFER, 0x1000, "one more"), 1);
    capture = track_read(file);
    CHECK_EQ(capture->data_count, FORMAT_DATA_MAX);
    read_close(capture);
}
