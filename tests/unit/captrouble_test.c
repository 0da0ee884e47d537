/* SPDX-License-Identifier: MIT */
/*
 * What file systems do to a capture: the kernel's answers are ours here (the linker puts these in the place of the calls that
 * capfile.c makes). The call that meets trouble says so, the others go on, and what was written stays readable.
 */
#include "tests/unit/track_help.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>

int __real_fallocate(int fd, int mode, off_t offset, off_t length);
ssize_t __real_pwrite(int fd, const void *bytes, size_t length, off_t offset);
void *__real_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);
int __real_open(const char *path, int flags, mode_t mode);
int __real_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t length, off_t offset);
void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);
int __wrap_open(const char *path, int flags, ...);
int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);

/* How the file system is. */
static struct {
    int no_fallocate;        /* errno of each fallocate, 0 = it works */
    int interrupts;          /* so many calls of fallocate and pwrite are interrupted */
    bool writes_little;      /* pwrite takes at most 1000 bytes */
    int64_t room;            /* bytes that can still be allocated; -1 = no bound */
    int no_mmap;             /* errno of each shared mapping, 0 = it works */
    bool maps_once;          /* the first mapping works */
    int no_tmpfile, no_link; /* errno */
} disk;

static int calls_of_pwrite;

static bool takes(int64_t bytes)
{
    if (disk.room >= 0 && disk.room < bytes)
        return false;
    if (disk.room >= 0)
        disk.room -= bytes;
    return true;
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t length)
{
    if (disk.interrupts > 0 && disk.interrupts-- > 0)
        errno = EINTR;
    else if (disk.no_fallocate)
        errno = disk.no_fallocate;
    else if (!takes(length))
        errno = ENOSPC;
    else
        return __real_fallocate(fd, mode, offset, length);
    return -1;
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
    calls_of_pwrite++;
    if (disk.interrupts > 0 && disk.interrupts-- > 0) {
        errno = EINTR;
        return -1;
    }
    if (disk.writes_little && length > 1000)
        length = 1000;
    if (!takes((int64_t)length)) {
        errno = ENOSPC;
        return -1;
    }
    return __real_pwrite(fd, bytes, length, offset);
}

void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
    if (fd >= 0 && disk.no_mmap && !disk.maps_once) {
        errno = disk.no_mmap;
        return MAP_FAILED;
    }
    if (fd >= 0)
        disk.maps_once = false;
    return __real_mmap(at, length, protection, flags, fd, offset);
}

int __wrap_open(const char *path, int flags, ...)
{
    mode_t mode = 0;

    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list args;

        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    if ((flags & O_TMPFILE) == O_TMPFILE && disk.no_tmpfile) {
        errno = disk.no_tmpfile;
        return -1;
    }
    return __real_open(path, flags, mode);
}

int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    if (disk.no_link) {
        errno = disk.no_link;
        return -1;
    }
    return __real_linkat(from_fd, from, to_fd, to, flags);
}

static char file[TRACK_PATH_MAX];

static void start(enum format_trace trace)
{
    memset(&disk, 0, sizeof disk);
    disk.room = -1;
    track_path(file, track_scratch(), "t.kcap");
    track_start(file, trace, 0);
}

/* 20,000 pairs; 10 bytes stay. Returns how many calls said that there is trouble. */
static int run(int *ret_error)
{
    uint64_t seq = 0;
    int errors = 0;

    for (uint64_t i = 0; i < 20000; i++) {
        int r = track_alloc((1 + i % 5000) << 12, 10, ++seq);

        errors += r < 0;
        *ret_error = r < 0 ? r : *ret_error;
        r = i == 19999 ? 0 : track_free((1 + i % 5000) << 12, ++seq);
        errors += r < 0;
        *ret_error = r < 0 ? r : *ret_error;
    }
    return errors;
}

static void check_whole(uint64_t pairs)
{
    struct read_capture *capture = track_read(file);

    REQUIRE(capture != NULL);
    CHECK_EQ(capture->bad_records, 0);
    CHECK_EQ(capture->total.allocated_count, pairs);
    CHECK_EQ(capture->total.live_bytes, 10);
    if (capture->lost.live_dropped == 0)
        CHECK_EQ(track_live_bytes(capture), 10);
    read_close(capture);
}

TEST(a_file_system_without_fallocate_gets_zeroes)
{
    int error = 0;

    start(FORMAT_TRACE_FULL);
    disk.no_fallocate = EOPNOTSUPP;
    disk.writes_little = true;
    CHECK_EQ(run(&error), 0);
    CHECK_EQ(error, 0);
    CHECK_GT(calls_of_pwrite, 800);
    check_whole(20000);
}

TEST(an_interrupted_call_is_made_again)
{
    int error = 0;

    start(FORMAT_TRACE_FULL);
    disk.interrupts = 3;
    CHECK_EQ(capture_open(), 0);
    CHECK_EQ(disk.interrupts, 0);
    disk.interrupts = 3;
    CHECK_EQ(run(&error), 0);
    CHECK_EQ(error, 0);
    CHECK_EQ(disk.interrupts, 0);
    check_whole(20000);
}

/* Interrupted and short writes where there is no fallocate. */
TEST(an_interrupted_write_goes_on_where_it_was)
{
    int error = 0;

    start(FORMAT_TRACE_FULL);
    disk.no_fallocate = ENOSYS;
    disk.interrupts = 5;
    disk.writes_little = true;
    CHECK_EQ(run(&error), 0);
    CHECK_EQ(error, 0);
    CHECK_EQ(disk.interrupts, 0);
    check_whole(20000);
}

TEST(a_disk_without_room_for_the_header_leaves_no_file)
{
    int error = 0;

    for (int variant = 0; variant < 2; variant++) {
        start(FORMAT_TRACE_FULL);
        disk.room = 1000;
        disk.no_fallocate = variant ? EOPNOTSUPP : 0;
        CHECK_EQ(run(&error), 1);
        CHECK_EQ(error, -ENOSPC);
        CHECK_EQ(access(file, F_OK), -1);
        CHECK_STR_EQ(capture_path(), "");
    }
}

/* The disk is full at each possible moment: one error for all areas of the file, and the figures go on. */
TEST(a_disk_that_is_full_at_any_moment_is_told_and_lived_with)
{
    for (int64_t room = 1 << 15; room < 3 << 20; room += 290000) {
        int error = 0;
        int errors;

        start(FORMAT_TRACE_FULL);
        disk.room = room;
        errors = run(&error);
        CHECK_LE(errors, 1);
        CHECK(errors == 0 || error == -ENOSPC);
        check_whole(20000);
        capture_state(FORMAT_STATE_CLEAN, 0);
        track_sweep();
    }
}

/* Where files cannot be mapped (some network file systems), there is no capture, and no file is left. */
TEST(a_file_system_without_shared_mappings_is_one_error)
{
    int error = 0;

    for (int variant = 0; variant < 2; variant++) {
        start(FORMAT_TRACE_FULL);
        disk.no_mmap = ENODEV;
        disk.no_tmpfile = variant ? EOPNOTSUPP : 0;
        CHECK_EQ(run(&error), 1);
        CHECK_EQ(error, -ENODEV);
        CHECK_EQ(access(file, F_OK), -1);
    }
}

TEST(a_mapping_that_is_refused_later_is_as_a_full_disk)
{
    int error = 0;
    int errors;

    start(FORMAT_TRACE_FULL);
    disk.no_mmap = ENOMEM;
    disk.maps_once = true;
    errors = run(&error);
    CHECK_EQ(errors, 1);
    CHECK_EQ(error, -ENOMEM);
    check_whole(20000);
}

/* Without O_TMPFILE, and without /proc or hard links, a file is made by its name. */
TEST(a_file_is_made_by_its_name_where_it_cannot_be_made_without)
{
    for (int variant = 0; variant < 2; variant++) {
        int error = 0;

        start(FORMAT_TRACE_FULL);
        disk.no_tmpfile = variant ? 0 : EOPNOTSUPP;
        disk.no_link = variant ? ENOENT : 0;
        CHECK_EQ(run(&error), 0);
        CHECK_EQ(error, 0);
        check_whole(20000);
        track_sweep();
    }
}

TEST(r52_by_its_name_an_existing_file_is_not_opened_either)
{
    int error = 0;
    struct stat status;
    char other[TRACK_PATH_MAX + 16];
    int fd;

    start(FORMAT_TRACE_FULL);
    disk.no_tmpfile = EISDIR; /* as old kernels say */
    fd = open(file, O_CREAT | O_WRONLY, 0600);
    REQUIRE(fd >= 0);
    (void)close(fd);
    CHECK_EQ(run(&error), 0);
    CHECK_EQ(error, 0);
    REQUIRE_EQ(stat(file, &status), 0);
    CHECK_EQ(status.st_size, 0);
    (void)snprintf(other, sizeof other, "%s.%d", file, (int)getpid());
    CHECK_EQ(access(other, F_OK), 0);
}
