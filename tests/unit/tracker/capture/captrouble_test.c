/* SPDX-License-Identifier: MIT */
/* covers: capfile.c */
/*
 * What file systems do to a capture: the kernel's answers are ours here (the linker puts these in the place of the calls that
 * capfile.c makes). The call that meets trouble says so, the others go on, and what was written stays readable.
 */
#include "tests/unit/tracker/track_help.h"
#include "tracker/capture/capfile.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <time.h>

int __real_fallocate(int fd, int mode, off_t offset, off_t length);
ssize_t __real_pwrite(int fd, const void *bytes, size_t length, off_t offset);
void *__real_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);
int __real_open(const char *path, int flags, mode_t mode);
int __real_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __real_fchmod(int fd, mode_t mode);
int __real_fstatvfs(int fd, struct statvfs *ret_status);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t length, off_t offset);
void *__wrap_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);
int __wrap_open(const char *path, int flags, ...);
int __wrap_linkat(int from_fd, const char *from, int to_fd, const char *to, int flags);
int __wrap_fchmod(int fd, mode_t mode);
int __wrap_fstatvfs(int fd, struct statvfs *ret_status);

/* How the file system is. */
static struct disk {
    int no_fallocate;        /* errno of each fallocate, 0 = it works */
    int interrupts;          /* so many calls of fallocate and pwrite are interrupted */
    bool writes_little;      /* pwrite takes at most 1000 bytes */
    int64_t room;            /* bytes that can still be allocated; -1 = no bound */
    int no_mmap;             /* errno of each shared mapping, 0 = it works */
    bool maps_once;          /* the first mapping works */
    int no_tmpfile, no_link; /* errno */
    int no_fchmod;           /* errno */
    int64_t all;       /* bytes of the disk, of which `room` are free; 0 = as the real one says */
    long slow_ns;      /* each fallocate takes as long */
    atomic_bool hangs; /* until it is false again */
    atomic_bool holds; /* a thread is in the call that hangs */
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
    struct timespec slow = {0, disk.slow_ns};

    if (disk.slow_ns)
        (void)nanosleep(&slow, NULL);
    while (disk.hangs) {
        disk.holds = true;
        (void)usleep(1000);
    }
    if (mode != 0 && !disk.no_fallocate)
        return __real_fallocate(fd, mode, offset, length);
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
    if (fd >= 0 && disk.maps_once)
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

int __wrap_fchmod(int fd, mode_t mode)
{
    if (disk.no_fchmod) {
        errno = disk.no_fchmod;
        return -1;
    }
    return __real_fchmod(fd, mode);
}

int __wrap_fstatvfs(int fd, struct statvfs *ret_status)
{
    int r = __real_fstatvfs(fd, ret_status);

    if (r == 0 && disk.all) {
        ret_status->f_frsize = 4096;
        ret_status->f_blocks = (fsblkcnt_t)disk.all / 4096;
        ret_status->f_bavail = (fsblkcnt_t)disk.room / 4096;
    }
    return r;
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

TEST(what_a_file_system_cannot_do_is_lived_with_or_one_error)
{
    enum {
        NONE = EOPNOTSUPP
    };
    static const struct {
        const char *name;
        struct disk disk;
        int error;  /* of one call, 0 = of none */
        bool fails; /* there is no capture, and no file is left */
        int writes; /* at least */
    } rows[] = {
            {"zeroes for fallocate", {.room = -1, .no_fallocate = NONE, .writes_little = true}, 0,
                    false, 801},
            {"writes of those are interrupted and short",
                    {.room = -1, .no_fallocate = ENOSYS, .interrupts = 5, .writes_little = true}, 0,
                    false, 0},
            {"no room for the header", {.room = 1000}, -ENOSPC, true, 0},
            {"nor for its zeroes", {.room = 1000, .no_fallocate = NONE}, -ENOSPC, true, 0},
            {"no shared mappings (some network file systems)", {.room = -1, .no_mmap = ENODEV},
                    -ENODEV, true, 0},
            {"nor files without a name", {.room = -1, .no_mmap = ENODEV, .no_tmpfile = NONE},
                    -ENODEV, true, 0},
            {"a mapping that is refused later is as a full disk",
                    {.room = -1, .no_mmap = ENOMEM, .maps_once = true}, -ENOMEM, false, 0},
            {"no O_TMPFILE: a file is made by its name", {.room = -1, .no_tmpfile = NONE}, 0, false,
                    0},
            {"no /proc, or no hard links: so it is", {.room = -1, .no_link = ENOENT}, 0, false, 0},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int error = 0;

        CHECK_ROW(rows[i].name);
        start(FORMAT_TRACE_FULL);
        disk = rows[i].disk;
        calls_of_pwrite = 0;
        CHECK_EQ(run(&error), rows[i].error != 0);
        CHECK_EQ(error, rows[i].error);
        CHECK_EQ(disk.interrupts, 0);
        CHECK_GE(calls_of_pwrite, rows[i].writes);
        if (rows[i].fails) {
            CHECK_EQ(access(file, F_OK), -1);
            CHECK_STR_EQ(capture_path(), "");
        } else {
            check_whole(20000);
        }
        track_sweep();
    }
}

TEST(an_interrupted_call_is_made_again)
{
    int error = 0;

    start(FORMAT_TRACE_FULL);
    disk.interrupts = 3;
    CHECK_EQ(capstate_open(), 0);
    CHECK_EQ(disk.interrupts, 0);
    disk.interrupts = 3;
    CHECK_EQ(run(&error), 0);
    CHECK_EQ(error, 0);
    CHECK_EQ(disk.interrupts, 0);
    check_whole(20000);
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

/* The events leave a sixteenth of the disk to the others, the live table and the definitions do not. */
TEST(the_log_leaves_room_on_the_disk)
{
    struct read_capture *capture;
    uint64_t seq = 0;
    int errors = 0;

    start(FORMAT_TRACE_FULL);
    disk.all = disk.room = 4 << 20;
    for (uint64_t i = 1; i < 150000; i++) {
        uint64_t ptr = i * UINT64_C(0x9e3779b97f4a7c15) >> 20; /* so that records are long */

        errors += track_alloc(ptr, 1 + (ptr >> 10), ++seq) < 0;
        errors += track_free(ptr, ++seq) < 0;
    }
    CHECK_EQ(errors, 1);
    CHECK_GE(disk.room, 256 << 10);
    CHECK_LT(disk.room, 384 << 10);
    for (uint64_t i = 1; i <= 3000; i++)
        errors += track_alloc(i << 12, 10, ++seq) < 0;
    CHECK_EQ(errors, 1);
    CHECK_LT(disk.room, 256 << 10);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->live_count, 3000);
    CHECK_EQ(capture->lost.live_dropped, 0);
    CHECK_GT(capture->lost.events_recycled, 0);
    read_close(capture);
}

/* Where there is no fallocate, zeroes that cannot all be written are not begun: nobody would take them back. */
TEST(zeroes_that_do_not_fit_are_not_begun)
{
    start(FORMAT_TRACE_AGG);
    disk.no_fallocate = EOPNOTSUPP;
    CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
    calls_of_pwrite = 0;
    disk.all = 1 << 30;
    disk.room = 200 << 10; /* an extent of the live table has 256 KiB */
    for (uint64_t i = 2; i < 5000; i++)
        (void)track_alloc(i << 12, 10, i);
    CHECK_EQ(calls_of_pwrite, 0);
    CHECK_EQ(disk.room, 200 << 10);
}

/* The next extent would be an eighth of what is there. What is left of the disk is less, and is used all the same. */
TEST(a_large_extent_that_does_not_fit_is_tried_smaller)
{
    struct read_capture *capture;
    int errors = 0;

    start(FORMAT_TRACE_AGG);
    disk.room = (11 << 20) + (700 << 10);
    for (uint64_t i = 1; i <= 120000; i++)
        errors += track_alloc(i << 12, 10, i) < 0;
    CHECK_EQ(errors, 1);
    CHECK_LT(disk.room, 256 << 10);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->bad_records, 0);
    CHECK_EQ(capture->live_count + capture->lost.live_dropped, 120000);
    CHECK_EQ(capture->total.live_bytes, 1200000);
    read_close(capture);
}

/* Some network file systems, and those of other systems, have no modes. */
TEST(a_file_system_without_modes_is_used_as_it_is)
{
    int error = 0;

    (void)umask(0277);
    for (int variant = 0; variant < 2; variant++) {
        start(FORMAT_TRACE_FULL);
        disk.no_fchmod = variant ? EOPNOTSUPP : EPERM;
        CHECK_EQ(track_alloc(0x1000, 10, 1), 0);
        CHECK_STR_EQ(strrchr(capture_path(), '/'), "/t.kcap");
    }
    start(FORMAT_TRACE_FULL);
    disk.no_fchmod = EIO;
    CHECK_EQ(run(&error), 1);
    CHECK_EQ(error, -EIO);
}

#define CROWD 300

static pthread_barrier_t at_once;

static void *one_of_many(void *argument)
{
    uint64_t number = 1 + (uint64_t)(size_t)argument;

    (void)pthread_barrier_wait(&at_once);
    CHECK_EQ(track_alloc(number << 20, 10, number), 0);
    return NULL;
}

/* Threads that begin together on a slow disk: each area grows once or twice, not once for each of them. */
TEST(a_crowd_that_starts_at_once_shares_extents)
{
    pthread_t threads[CROWD];
    struct read_capture *capture;

    start(FORMAT_TRACE_AGG);
    disk.slow_ns = 20000000;
    CHECK_EQ(capstate_open(), 0);
    REQUIRE_EQ(pthread_barrier_init(&at_once, NULL, CROWD), 0);
    for (size_t i = 0; i < CROWD; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, one_of_many, (void *)i), 0);
    for (size_t i = 0; i < CROWD; i++)
        (void)pthread_join(threads[i], NULL);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->live_count, CROWD);
    CHECK_EQ(capture->lost.live_dropped, 0);
    CHECK_LT(capture->file_bytes, 2 << 20);
    read_close(capture);
}

static void *open_it(void *argument)
{
    (void)argument;
    CHECK_EQ(capstate_open(), 0);
    return NULL;
}

/* A file system that hangs while the file is made holds up each of the others once; what they do meanwhile is counted as lost. */
TEST(what_is_not_recorded_while_the_file_is_made_is_counted)
{
    struct read_capture *capture;
    pthread_t opener;

    start(FORMAT_TRACE_FULL);
    disk.hangs = true;
    REQUIRE_EQ(pthread_create(&opener, NULL, open_it, NULL), 0);
    while (!disk.holds) /* else this thread makes the file */
        (void)usleep(1000);
    for (uint64_t i = 1; i <= 10; i++)
        CHECK_EQ(track_alloc(i << 12, 10, i), 0);
    CHECK_EQ(track_free(1 << 12, 11), 0);
    CHECK_EQ(capture_setting("said", "meanwhile"), 0);
    disk.hangs = false;
    (void)pthread_join(opener, NULL);
    CHECK_EQ(track_alloc(11 << 12, 10, 12), 0);
    capture = track_read(file);
    REQUIRE(capture != NULL);
    CHECK_EQ(capture->event_count, 1);
    CHECK_EQ(capture->lost.events_dropped, 11);
    CHECK(!capture->has_all_events);
    REQUIRE_EQ(capture->setting_count, 1);
    CHECK_STR_EQ(capture->setting[0].value, "meanwhile");
    read_close(capture);
}

/* A store that the file system cannot keep: from there on memory stands in the place of the file. */
TEST(a_fault_in_what_is_mapped_of_a_capture_is_told_from_any_other)
{
    char line[4096];
    unsigned mapped = 0;
    FILE *maps;

    start(FORMAT_TRACE_FULL);
    REQUIRE_EQ(track_alloc(0x1000, 512, 1), 0);
    maps = fopen("/proc/self/maps", "re");
    REQUIRE(maps != NULL);
    while (fgets(line, sizeof line, maps)) {
        char *behind = NULL;
        char *begin = (char *)strtoul(line, &behind, 16);  /* NOLINT(performance-no-int-to-ptr) */
        char *end = (char *)strtoul(behind + 1, NULL, 16); /* NOLINT(performance-no-int-to-ptr) */

        if (!strstr(line, "/t.kcap"))
            continue;
        mapped++;
        CHECK(capfile_fault(end - 1));
        CHECK(capfile_fault(begin));
    }
    (void)fclose(maps);
    CHECK_GT(mapped, 1);
    CHECK(!capfile_fault(&mapped));
    CHECK(!capfile_fault(NULL));
    CHECK_EQ(track_alloc(0x2000, 512, 2), 0);
}
