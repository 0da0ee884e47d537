/* SPDX-License-Identifier: MIT */
#include "tracker/base/ownfile.h"

#include "tracker/base/errtext.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int ownfile_say(int r, const char *text, const char **ret_what)
{
    *ret_what = text;
    return r;
}

static int ownfile_check(
        int fd, size_t max, bool is_ours, size_t *ret_length, const char **ret_what)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return ownfile_say(-errno, errtext(errno), ret_what);
    if (!S_ISREG(status.st_mode))
        return ownfile_say(-EINVAL, "not a regular file", ret_what);
    if (is_ours && status.st_uid != geteuid() && status.st_uid != 0)
        return ownfile_say(-EPERM, "is owned by another user", ret_what);
    if (is_ours && status.st_mode & (S_IWGRP | S_IWOTH))
        return ownfile_say(-EPERM, "is writable by group or others", ret_what);
    if ((uint64_t)status.st_size > max)
        return ownfile_say(-EFBIG, "is too large", ret_what);
    *ret_length = (size_t)status.st_size;
    return 0;
}

static int read_bytes(int fd, char *to, size_t *length)
{
    size_t used = 0;

    while (used < *length) {
        ssize_t got = read(fd, to + used, *length - used);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        used += (size_t)got;
    }
    *length = used;
    return 0;
}

size_t ownfile_fill(const char *path, char *to, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || read_bytes(fd, to, &size) < 0)
        size = 0;
    if (fd >= 0)
        (void)close(fd);
    return size;
}

static int load_file(const char *path, size_t max, bool is_ours, char **ret_bytes,
        size_t *ret_length, const char **ret_what)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    size_t length = 0;
    char *bytes = NULL;
    int r;

    if (fd < 0)
        return ownfile_say(-errno, errtext(errno), ret_what);
    r = ownfile_check(fd, max, is_ours, &length, ret_what);
    if (r == 0) {
        bytes = malloc(length + 1);
        r = bytes ? read_bytes(fd, bytes, &length) : -ENOMEM;
        if (r == 0)
            bytes[length] = '\0';
        else
            *ret_what = errtext(-r);
    }
    (void)close(fd);
    if (r < 0) {
        free(bytes);
        return r;
    }
    *ret_bytes = bytes;
    *ret_length = length;
    return 0;
}

int ownfile_read(
        const char *path, size_t max, char **ret_bytes, size_t *ret_length, const char **ret_what)
{
    return load_file(path, max, true, ret_bytes, ret_length, ret_what);
}

char *ownfile_any(const char *path, size_t max, size_t *ret_length)
{
    char *bytes = NULL;
    const char *unused;

    (void)load_file(path, max, false, &bytes, ret_length, &unused);
    return bytes;
}
