/* SPDX-License-Identifier: MIT */
/* covers: capold.c */
/* Whose a capture is that has the name already (R102). */
#include "tests/check.h"
#include "tracker/capture/capold.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct format_header header, space;

struct place {
    char folder[32];
    char path[64];
};

/* A folder with a capture of process `pid`, run "a1". */
static void place_new(struct place *place, uint32_t pid)
{
    (void)snprintf(place->folder, sizeof place->folder, "/tmp/kedge-capold-XXXXXX");
    REQUIRE(mkdtemp(place->folder) != NULL);
    (void)snprintf(place->path, sizeof place->path, "%s/f.kcap", place->folder);
    memset(&header, 0, sizeof header);
    memcpy(header.magic, FORMAT_MAGIC, sizeof header.magic);
    header.state = FORMAT_STATE_OPEN;
    header.pid = pid;
    (void)gethostname(header.host, sizeof header.host - 1);
    (void)snprintf(header.run, sizeof header.run, "a1");
}

static void place_write(const struct place *place, size_t bytes)
{
    int fd = open(place->path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    REQUIRE(fd >= 0);
    REQUIRE_EQ(write(fd, &header, bytes), (ssize_t)bytes);
    (void)close(fd);
}

static void place_done(const struct place *place)
{
    (void)unlink(place->path);
    CHECK_EQ(rmdir(place->folder), 0);
}

TEST(r102_a_capture_that_a_process_has_mapped_is_live)
{
    struct place place;
    void *mapped;
    int fd;

    place_new(&place, (uint32_t)getpid());
    place_write(&place, sizeof header);
    CHECK_EQ(capold_look(place.path, &space),
            CAPOLD_ENDED); /* the number lives, but maps no such file */
    fd = open(place.path, O_RDWR);
    REQUIRE(fd >= 0);
    mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    REQUIRE(mapped != MAP_FAILED);
    (void)close(fd);
    CHECK_EQ(capold_look(place.path, &space), CAPOLD_LIVE);
    CHECK_EQ(space.pid, getpid());
    CHECK_EQ(capold_remove(place.path, "b2", &space), -EBUSY);
    CHECK_EQ(capold_remove(place.path, "a1", &space), -EEXIST);
    (void)munmap(mapped, 4096);
    fd = open(place.path, O_RDONLY);
    REQUIRE(fd >= 0);
    mapped = mmap(
            NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0); /* by who reads it, not by who writes it */
    REQUIRE(mapped != MAP_FAILED);
    (void)close(fd);
    CHECK_EQ(capold_look(place.path, &space), CAPOLD_ENDED);
    (void)munmap(mapped, 4096);
    CHECK_EQ(capold_remove(place.path, "b2", &space), 0);
    CHECK_EQ(capold_look(place.path, &space), CAPOLD_NONE);
    CHECK_EQ(capold_remove(place.path, "b2", &space), -ENOENT);
    place_done(&place);
}

TEST(r102_a_capture_of_a_process_that_is_gone_has_ended)
{
    struct place place;
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    REQUIRE(pid > 0 && waitpid(pid, NULL, 0) == pid);
    place_new(&place, (uint32_t)pid);
    place_write(&place, sizeof header);
    CHECK_EQ(capold_look(place.path, &space), CAPOLD_ENDED);
    CHECK_EQ(capold_remove(place.path, "a1", &space), -EEXIST); /* of this very run */
    CHECK_EQ(capold_look(place.path, &space), CAPOLD_ENDED);
    place_done(&place);
}

TEST(r102_a_capture_of_another_host_is_live_until_it_was_closed)
{
    struct place place;

    place_new(&place, 1);
    (void)snprintf(header.host, sizeof header.host, "no-host-of-ours");
    place_write(&place, sizeof header);
    CHECK_EQ(capold_look(place.path, &space), CAPOLD_LIVE);
    header.state = FORMAT_STATE_CLEAN;
    place_write(&place, sizeof header);
    CHECK_EQ(capold_look(place.path, &space), CAPOLD_ENDED);
    place_done(&place);
}

TEST(what_is_no_capture_is_not_removed_and_an_empty_file_is)
{
    struct place place;

    place_new(&place, 1);
    memcpy(header.magic, "precious", sizeof header.magic);
    place_write(&place, sizeof header);
    CHECK_EQ(capold_look(place.path, &space), CAPOLD_OTHER);
    CHECK_EQ(capold_remove(place.path, "b2", &space), -EINVAL);
    place_write(&place, 4);
    CHECK_EQ(capold_remove(place.path, "b2", &space), -EINVAL);
    CHECK_EQ(capold_look(place.folder, &space), CAPOLD_OTHER);
    place_write(&place, 0);
    CHECK_EQ(capold_look(place.path, &space), CAPOLD_ENDED);
    CHECK_EQ(capold_remove(place.path, "b2", &space), 0);
    place_done(&place);
}

TEST(r102_two_processes_of_a_run_do_not_remove_one_after_the_other)
{
    struct place place;
    int fd;

    place_new(&place, 1);
    (void)snprintf(header.host, sizeof header.host, "no-host-of-ours");
    header.state = FORMAT_STATE_CLEAN;
    place_write(&place, sizeof header);
    fd = open(place.path, O_RDONLY); /* the other one has it, and is about to remove it */
    REQUIRE(fd >= 0);
    REQUIRE_EQ(flock(fd, LOCK_EX), 0);
    CHECK_EQ(capold_remove(place.path, "b2", &space), -EBUSY);
    (void)close(fd);
    CHECK_EQ(capold_remove(place.path, "b2", &space), 0);
    place_done(&place);
}
