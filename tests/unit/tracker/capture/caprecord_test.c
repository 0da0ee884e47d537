/* SPDX-License-Identifier: MIT */
/* covers: caprecord.c readrecord.c */
/* A framework's own record, as a reader finds it. */
#include "tests/unit/tracker/track_help.h"
#include "tracker/capture/capture.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static char file[TRACK_PATH_MAX];

static void start(void)
{
    track_path(file, track_scratch(), "record.kcap");
    track_start(file, FORMAT_TRACE_AGG, 0);
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
}

static int put(const char *text, uint32_t why)
{
    struct format_record what = {.why = why, .flags = FORMAT_RECORD_CUT, .bound = 9, .peak = {77}};

    return capture_record(&what, text, strlen(text));
}

static bool has_text(const struct read_capture *capture, const char *text)
{
    const struct read_record *record = &capture->record;

    return record->bytes && record->what.bytes == strlen(text)
            && memcmp(record->bytes, text, strlen(text)) == 0;
}

TEST(the_newest_record_is_read)
{
    struct read_capture *capture;

    start();
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK(capture->record.bytes == NULL);
    read_close(capture);
    CHECK_EQ(put("first", FORMAT_RECORD_OOM), 0);
    CHECK_EQ(put("the second", FORMAT_RECORD_END), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK(has_text(capture, "the second"));
    CHECK_EQ(capture->record.what.why, FORMAT_RECORD_END);
    CHECK_EQ(capture->record.what.flags, FORMAT_RECORD_CUT);
    CHECK_EQ(capture->record.what.bound, 9);
    CHECK_EQ(capture->record.what.peak[0], 77);
    CHECK(!read_is_damaged(capture));
    read_close(capture);
}

TEST(there_are_as_many_as_the_bound_says)
{
    struct read_capture *capture;
    char text[16];

    start();
    for (unsigned i = 0; i <= FORMAT_RECORDS_MAX; i++) {
        (void)snprintf(text, sizeof text, "number %u", i);
        CHECK_EQ(put(text, FORMAT_RECORD_OOM), 0);
    }
    capture = track_read(file);
    REQUIRE(capture != NULL);
    (void)snprintf(text, sizeof text, "number %u", FORMAT_RECORDS_MAX - 1);
    CHECK(has_text(capture, text));
    read_close(capture);
}

TEST(without_a_file_nothing_is_kept)
{
    track_path(file, track_scratch(), "none.kcap");
    track_start(file, FORMAT_TRACE_AGG, 0);
    CHECK_EQ(put("nothing", FORMAT_RECORD_END), 0);
    CHECK_EQ(access(file, F_OK), -1);
}

TEST(a_changed_record_is_damage)
{
    static const char text[] = "some text that is found again";
    char bytes[1 << 16];
    struct read_capture *capture;
    int fd;
    ssize_t length;

    start();
    CHECK_EQ(put(text, FORMAT_RECORD_END), 0);
    fd = open(file, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    for (off_t at = 0; (length = pread(fd, bytes, sizeof bytes, at)) > 0; at += length) {
        const char *found = memmem(bytes, (size_t)length, text, strlen(text));
        if (found)
            CHECK_EQ(pwrite(fd, "X", 1, at + (found - bytes)), 1);
    }
    (void)close(fd);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK(capture->record.bytes == NULL);
    CHECK_EQ(capture->damaged[READ_AREA_RECORD], 1);
    read_close(capture);
}
