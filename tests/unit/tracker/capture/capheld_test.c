/* SPDX-License-Identifier: MIT */
/* covers: capheld.c */
/* Walks through a Python program's objects, as a reader finds them. */
#include "tests/unit/tracker/track_help.h"
#include "tracker/capture/capture.h"
#include "tracker/stacks/intern.h"

#include <string.h>

static char file[TRACK_PATH_MAX];

static void start(void)
{
    track_path(file, track_scratch(), "held.kcap");
    track_start(file, FORMAT_TRACE_AGG, 0);
}

static uint32_t stack_number(uint64_t offset)
{
    struct intern_frame frame = {.offset = offset};

    return intern_stack(&frame, 1);
}

static int put(uint32_t walk, uint64_t bytes, uint64_t count, const char *text)
{
    struct capture_block sum = {.size = bytes, .stack = stack_number(7)};

    return capture_held(walk, &sum, count, text, strlen(text));
}

TEST(live_blocks_are_listed_by_device_and_counted_beyond_the_room)
{
    struct capture_block blocks[2];
    uint64_t bytes = 1;

    start();
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    CHECK_EQ(track_alloc(0x2000, 20, 2), 0);
    CHECK_EQ(track_alloc(0x3000, 40, 3), 0);
    CHECK_EQ(track_free(0x2000, 4), 0);
    CHECK_EQ(capture_live(-1, blocks, 2, &bytes), 2);
    CHECK_EQ(bytes, 50);
    CHECK_EQ(blocks[0].addr + blocks[1].addr, 0x4000);
    CHECK_EQ(capture_live(0, blocks, 1, &bytes), 2);
    CHECK_EQ(capture_live(1, NULL, 0, &bytes), 0);
    CHECK_EQ(bytes, 0);
}

TEST(a_walk_is_read_with_its_records)
{
    struct format_def_walk what = {.why = FORMAT_WALK_OOM,
            .bytes = 99,
            .count = 3,
            .objects = 5,
            .flags = FORMAT_WALK_CUT};
    struct read_capture *capture;
    uint32_t walk;

    start();
    CHECK_EQ(capture_walk_begin(), 0); /* no file yet */
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    walk = capture_walk_begin();
    CHECK(walk != 0);
    CHECK_EQ(put(walk, 10, 1, "tensor\ncache[3]"), 0);
    CHECK_EQ(put(walk, 20, 2, ""), 0);
    CHECK_EQ(capture_walk(walk, &what), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->bad_records, 0);
    REQUIRE_EQ(capture->walk_count, 1);
    CHECK_EQ(capture->walk[0].def.id, walk);
    CHECK_EQ(capture->walk[0].bytes, 99);
    CHECK_EQ(capture->walk[0].flags, FORMAT_WALK_CUT);
    CHECK_EQ(capture->walk[0].failures, 0);
    REQUIRE_EQ(capture->held_count, 2);
    CHECK_EQ(capture->held[0].walk, walk);
    CHECK_EQ(capture->held[0].stack, stack_number(7));
    CHECK_STR_EQ(capture->held[0].text, "tensor\ncache[3]");
    CHECK_EQ(capture->held[1].bytes, 20);
    CHECK_EQ(capture->held[1].count, 2);
    CHECK_STR_EQ(capture->held[1].text, "");
    read_close(capture);
}

TEST(tensors_inside_of_blocks_are_read_with_their_row)
{
    uint64_t addresses[FORMAT_HELD_AT_MAX + 2];
    struct read_capture *capture;
    uint32_t walk;

    for (uint64_t i = 0; i < FORMAT_HELD_AT_MAX + 2; i++)
        addresses[i] = 0x100000 + i * 512;
    start();
    CHECK_EQ(track_alloc(0x100000, 1 << 22, 1), 0);
    walk = capture_walk_begin();
    CHECK_EQ(put(walk, 10, 1, "tensor\ncache[3]"), 0);
    CHECK_EQ(put(walk, 20, 2, "tensor\nkept"), 0);
    CHECK_EQ(capture_held_at(walk, addresses, FORMAT_HELD_AT_MAX + 2), 0);
    capture = track_read(file);
    REQUIRE_EQ(capture->held_at_count, 2);
    CHECK_EQ(capture->bad_records, 0);
    CHECK_EQ(capture->held_at[0].walk, walk);
    CHECK_EQ(capture->held_at[0].row, 1);
    CHECK_EQ(capture->held_at[0].count, FORMAT_HELD_AT_MAX);
    CHECK_EQ(capture->held_at[0].address[1], addresses[1]);
    CHECK_EQ(capture->held_at[1].row, 1);
    CHECK_EQ(capture->held_at[1].count, 2);
    CHECK_EQ(capture->held_at[1].address[1], addresses[FORMAT_HELD_AT_MAX + 1]);
    read_close(capture);
}

TEST(walks_and_records_are_bounded)
{
    struct format_def_walk what = {.why = FORMAT_WALK_END};
    struct read_capture *capture;
    uint32_t walks = 0;

    start();
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    for (unsigned i = 0; i < 2 * FORMAT_WALKS_MAX; i++) {
        uint32_t walk = capture_walk_begin();

        walks += walk != 0;
        CHECK_EQ(put(walk, 1, 1, "tensor"), 0);
        CHECK_EQ(capture_walk(walk, &what), 0);
    }
    for (unsigned i = 0; i < 2 * FORMAT_HELD_MAX; i++)
        CHECK_EQ(put(1, 1, 1, "tensor"), 0);
    CHECK_EQ(walks, FORMAT_WALKS_MAX);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->walk_count, FORMAT_WALKS_MAX);
    CHECK_EQ(capture->held_count, FORMAT_WALKS_MAX - 1 + FORMAT_HELD_MAX);
    read_close(capture);
    for (unsigned i = 0; i < FORMAT_HELD_ALL_MAX; i++)
        CHECK_EQ(put(2 + i / FORMAT_HELD_MAX, 1, 1, "tensor"), 0);
    CHECK_EQ(capture_walk_begin(), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->held_count, FORMAT_HELD_ALL_MAX);
    read_close(capture);
}
