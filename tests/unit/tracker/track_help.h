/* SPDX-License-Identifier: MIT */
/*
 * track_help.h - what the tests of tracker/ share: a scratch directory, tags made by hand, captures opened for reading.
 */
#ifndef KEDGE_TESTS_UNIT_TRACK_HELP_H
#define KEDGE_TESTS_UNIT_TRACK_HELP_H

#include "tests/check.h"
#include "tracker/capture/capstate.h"
#include "tracker/capture/capture.h"
#include "tracker/reader/read.h"
#include "tracker/where/anchor.h"
#include "tracker/where/where.h"

#include <dirent.h>
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRACK_PATH_MAX 512

static char track_directory[64];
static pid_t track_owner;

static inline void track_sweep(void)
{
    DIR *directory = opendir(track_directory);
    struct dirent *entry;

    while (directory && (entry = readdir(directory)) != NULL)
        (void)unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory)
        (void)closedir(directory);
    (void)rmdir(track_directory);
}

/* At exit; a child of the test leaves the directory alone, and a test that failed leaves it to look at. */
static inline void track_leave(void)
{
    if (getpid() == track_owner && check_state.failures == 0)
        track_sweep();
}

/* A new directory under the current one, gone at the end. The tests of one program run in processes of their own. */
static inline const char *track_scratch(void)
{
    if (track_owner == 0)
        REQUIRE_EQ(atexit(track_leave), 0);
    track_owner = getpid();
    (void)snprintf(
            track_directory, sizeof track_directory, "track-scratch-%d-XXXXXX", (int)getpid());
    REQUIRE(mkdtemp(track_directory) != NULL);
    return track_directory;
}

static inline void track_path(char *to, const char *directory, const char *name)
{
    REQUIRE(snprintf(to, TRACK_PATH_MAX, "%s/%s", directory, name) < TRACK_PATH_MAX);
}

/* So many children in turn, while other threads are at work: 0, or the status of the first that did not end well, or in time. */
static inline int track_forks(int count, void (*child)(void))
{
    int status = 0;

    for (int i = 0; i < count && status == 0; i++) {
        pid_t pid = fork();

        REQUIRE(pid >= 0);
        if (pid == 0) {
            (void)alarm(20);
            child();
            _exit(99);
        }
        REQUIRE_EQ(waitpid(pid, &status, 0), pid);
    }
    return status;
}

static inline struct tag track_tag(uint64_t size)
{
    return (struct tag){.size = size, .device = 0, .path = ""};
}

/* An allocation of `size` bytes at `ptr` with number `seq`, from nowhere in particular. */
static inline int track_alloc(devptr_t ptr, uint64_t size, uint64_t seq)
{
    struct tag tag = track_tag(size);
    struct capture_alloc_info info = {.tag = &tag, .ptr = ptr, .seq = seq, .rule = -1};

    return capture_alloc(&info);
}

static inline int track_free(devptr_t ptr, uint64_t seq)
{
    struct capture_free_info info = {.ptr = ptr, .seq = seq, .device = -1};

    return capture_free(&info);
}

static inline void track_start(const char *file, enum format_trace trace, uint64_t ring_bytes)
{
    struct capture_opts opts = {.file = file, .trace = trace, .ring_bytes = ring_bytes};

    REQUIRE_EQ(capture_init(&opts), 0);
}

static inline struct read_capture *track_read(const char *file)
{
    struct read_capture *capture = NULL;
    struct read_error error;

    if (read_open_parts(file, READ_ALL, &capture, &error) < 0) {
        printf("    %s: %s\n", file, error.text);
        return NULL;
    }
    return capture;
}

static inline uint64_t track_live_bytes(const struct read_capture *capture)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < capture->live_count; i++)
        bytes += capture->live[i].size;
    return bytes;
}

/* where_init with the real loader, for tests that want stacks. */
static inline int track_where(enum unwind_mode mode)
{
    struct where_opts opts = {.unwind = {.mode = mode, .ops = {dlopen, dlsym}}};

    return where_init(&opts);
}

#endif
