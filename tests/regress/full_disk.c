/* SPDX-License-Identifier: MIT */
/*
 * full_disk.c - a disk that is full after TEST_DISK_ROOM bytes, for files whose name ends in .kcap: preloaded, it stands in for
 * fallocate. A limit of the process (RLIMIT_FSIZE) would meet the simulated device too.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) int fallocate(int fd, int mode, off_t offset, off_t length);

static atomic_long taken;

/* A file that has no name yet is one of ours as well: "/folder/#123 (deleted)". */
static bool is_capture(int fd)
{
    char link[32], name[4096];
    ssize_t length;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, name, sizeof name - 1);
    name[length > 0 ? length : 0] = '\0';
    return strstr(name, ".kcap") != NULL || strstr(name, "/#") != NULL;
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
    static __typeof__(&fallocate) real;
    const char *room = getenv("TEST_DISK_ROOM");

    if (!real)
        real = (__typeof__(real))dlsym(RTLD_NEXT, "fallocate");
    if (room && is_capture(fd)
            && atomic_fetch_add(&taken, (long)length) + (long)length > strtol(room, NULL, 10)) {
        errno = ENOSPC;
        return -1;
    }
    return real(fd, mode, offset, length);
}
