/* SPDX-License-Identifier: MIT */
/* covers: capevict.c */
#include "tests/unit/tracker/track_help.h"

#include <fcntl.h>
#include <stdlib.h>

static void add_rules(unsigned count)
{
    struct rule rule = {.id = "set", .action = ACTION_EVICT, .mode = HINT_LIVE, .line = 3};

    for (unsigned i = 0; i < count; i++)
        CHECK_EQ(capture_rule(i, &rule), 0);
}

/* Each figure is another one, so that no two can be exchanged. */
static struct capture_evict make_step(int rule, int device, uint64_t step)
{
    struct capture_evict info = {.rule = rule, .what = {.device = device}};
    uint64_t *word = (uint64_t *)(void *)&info.what;

    for (size_t i = 0; i < offsetof(struct format_evict, device) / sizeof *word; i++)
        word[i] = 1000 * (step + 1) + i;
    info.what.step = step;
    info.what.flags = FORMAT_EVICT_PLANNED | FORMAT_EVICT_PAPER;
    return info;
}

static void start(char file[TRACK_PATH_MAX], const char *name)
{
    track_path(file, track_scratch(), name);
    track_start(file, FORMAT_TRACE_AGG, 0);
    add_rules(2);
}

TEST(steps_are_read_by_set_and_in_order)
{
    static const struct {
        int rule, device;
        uint64_t step;
    } told[] = {{1, 0, 1}, {0, 1, 0}, {1, 0, 0}, {0, 0, 2}};
    static const unsigned in_order[] = {3, 1, 2, 0};
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];

    start(file, "steps.kcap");
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    for (unsigned i = 0; i < 4; i++) {
        struct capture_evict info = make_step(told[i].rule, told[i].device, told[i].step);
        CHECK_EQ(capture_evict(&info), 0);
    }
    struct capture_evict stray = make_step(2, 0, 0);
    CHECK_EQ(capture_evict(&stray), 0); /* of no rule */

    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->bad_records, 1);
    REQUIRE_EQ(capture->evict_count, 4);
    for (unsigned i = 0; i < 4; i++) {
        unsigned at = in_order[i];
        struct capture_evict info = make_step(told[at].rule, told[at].device, told[at].step);

        CHECK_EQ(capture->evict[i].rule, info.rule);
        CHECK_EQ(memcmp(&capture->evict[i].what, &info.what, sizeof info.what), 0);
        CHECK(capture->evict[i].time_ns > 0);
    }
    read_close(capture);
}

/* A run of a million steps is no file of 200 MB, and what it keeps does not stop at any step. */
TEST(of_very_many_steps_fewer_and_fewer_are_kept)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];

    start(file, "many.kcap");
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    for (uint64_t step = 0; step < 8192; step++) {
        struct capture_evict info = make_step(0, 0, step);
        CHECK_EQ(capture_evict(&info), 0);
    }
    struct capture_evict last = make_step(0, 0, 8193);
    last.what.flags |= FORMAT_EVICT_RUNNING;
    CHECK_EQ(capture_evict(&last), 0); /* the end is always there */
    capture = track_read(file);
    REQUIRE(capture != NULL);
    REQUIRE_EQ(capture->evict_count, 1024 + 3 * 512 + 1);
    CHECK_EQ(capture->evict[1023].what.step, 1023);
    CHECK_EQ(capture->evict[1024].what.step, 1024);
    CHECK_EQ(capture->evict[1025].what.step, 1026);
    CHECK_EQ(capture->evict[1024 + 512 + 1].what.step, 2052);
    CHECK_EQ(capture->evict[1024 + 3 * 512].what.step, 8193);
    CHECK_EQ(capture->lost.defs_dropped, 0); /* left out by choice */
    read_close(capture);
}

static __attribute__((noinline)) void make_block(devptr_t ptr, uint64_t seq)
{
    struct tag tag;
    struct capture_alloc_info info = {.tag = &tag, .ptr = ptr, .seq = seq, .rule = 0};

    REQUIRE_EQ(where_am_i(NULL, 4096, 0, &tag), 0);
    CHECK_EQ(capture_alloc(&info), 0);
}

TEST(a_block_that_stays_is_read_with_its_reason_and_call_site)
{
    struct read_capture *capture;
    struct edge edge;
    char file[TRACK_PATH_MAX];

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    start(file, "kept.kcap");
    REQUIRE_EQ(anchor_push(NULL, "setup", &edge), 0);
    make_block(0x7f0000000000, 7);
    REQUIRE_EQ(anchor_pop(NULL, &edge), 0);
    CHECK_EQ(capture_evict_kept(1, 0x7f0000000000, 4096, 0, FORMAT_KEPT_POINTER, 7), 0);
    CHECK_EQ(capture_evict_kept(0, 0x7f0000400000, 10, 3, FORMAT_KEPT_COUNT, 8), 0); /* not live */
    CHECK_EQ(capture_evict_kept(2, 0x7f0000400000, 10, 0, FORMAT_KEPT_GRAPH, 8), 0); /* no rule */

    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->bad_records, 1);
    REQUIRE_EQ(capture->kept_count, 2);
    const struct read_kept *kept = capture->kept;
    CHECK_EQ(kept[0].rule, 1);
    CHECK_EQ(kept[0].device, 0);
    CHECK_EQ(kept[0].why, FORMAT_KEPT_POINTER);
    CHECK_EQ(kept[0].addr, 0x7f0000000000);
    CHECK_EQ(kept[0].size, 4096);
    CHECK_EQ(kept[0].seq, 7);
    REQUIRE_EQ(capture->live_count, 1);
    CHECK(kept[0].stack != 0);
    CHECK_EQ(kept[0].stack, capture->live[0].stack);
    CHECK_EQ(kept[0].pystack, capture->live[0].pystack);
    CHECK_STR_EQ(kept[0].path, "setup");
    CHECK_EQ(kept[1].why, FORMAT_KEPT_NONE); /* a reason of a later version */
    CHECK_EQ(kept[1].device, 3);
    CHECK_EQ(kept[1].stack, 0);
    CHECK_STR_EQ(kept[1].path, "");
    read_close(capture);
}

TEST(a_call_that_was_not_made_is_read_with_what_it_needed)
{
    struct read_capture *capture;
    struct edge edge;
    char file[TRACK_PATH_MAX];

    start(file, "short.kcap");
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    REQUIRE_EQ(anchor_push(NULL, "step", &edge), 0);
    CHECK_EQ(capture_evict_short(1, 2, 300, 200, 256), 0);
    CHECK_EQ(capture_evict_short(2, 2, 300, 200, 256), 0); /* of no rule */

    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->bad_records, 1);
    REQUIRE_EQ(capture->short_count, 1);
    const struct read_short *what = capture->shorts;
    CHECK_EQ(what->rule, 1);
    CHECK_EQ(what->device, 2);
    CHECK_EQ(what->needed, 300);
    CHECK_EQ(what->room, 200);
    CHECK_EQ(what->cap, 256);
    CHECK_STR_EQ(what->path, "step");
    CHECK_EQ(what->instance, 0);
    read_close(capture);
}

TEST(what_is_beyond_the_bounds_is_counted_as_lost)
{
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];

    start(file, "bounds.kcap");
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    for (unsigned i = 0; i < FORMAT_KEPT_MAX + 3; i++)
        CHECK_EQ(capture_evict_kept(0, 0x1000, 10, 0, FORMAT_KEPT_GRAPH, 1), 0);
    for (unsigned i = 0; i < FORMAT_SHORT_MAX + 2; i++)
        CHECK_EQ(capture_evict_short(0, 0, 3, 2, 2), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->kept_count, FORMAT_KEPT_MAX);
    CHECK_EQ(capture->short_count, FORMAT_SHORT_MAX);
    CHECK_EQ(capture->lost.defs_dropped, 5);
    read_close(capture);
}

TEST(without_a_capture_nothing_is_written)
{
    struct capture_evict info = make_step(0, 0, 0);
    char file[TRACK_PATH_MAX];

    start(file, "none.kcap");
    CHECK_EQ(capture_evict(&info), 0);
    CHECK_EQ(capture_evict_kept(0, 0x1000, 10, 0, FORMAT_KEPT_GRAPH, 1), 0);
    CHECK_EQ(capture_evict_short(0, 0, 3, 2, 2), 0);
    CHECK_EQ(access(file, F_OK), -1);
}

/* Where the step's bytes stand in the file. */
static off_t find_step(int fd, const struct format_evict *what)
{
    struct format_evict there;

    for (off_t at = FORMAT_HEADER_BYTES;
            pread(fd, &there, sizeof there, at) == (ssize_t)sizeof there; at += 8)
        if (memcmp(&there, what, sizeof there) == 0)
            return at;
    return -1;
}

TEST(a_step_that_was_changed_is_left_out_and_said_to_be)
{
    struct capture_evict info = make_step(0, 0, 0);
    struct read_capture *capture;
    char file[TRACK_PATH_MAX];
    off_t at;
    int fd;

    start(file, "damaged.kcap");
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    CHECK_EQ(capture_evict(&info), 0);
    fd = open(file, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    at = find_step(fd, &info.what);
    REQUIRE(at > 0);
    at += (off_t)offsetof(struct format_evict, moved_out);
    CHECK_EQ(pwrite(fd, "\377", 1, at), 1);
    (void)close(fd);

    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->evict_count, 0);
    CHECK_EQ(capture->damaged[READ_AREA_DEFS], 1);
    CHECK(read_is_damaged(capture));
    read_close(capture);
}
