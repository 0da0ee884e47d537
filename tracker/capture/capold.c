/* SPDX-License-Identifier: MIT */
#include "tracker/capture/capold.h"

#include "tracker/base/script.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A line of /proc/PID/maps: "begin-end rwxp offset major:minor inode   path". */
struct mapped_file {
    uint64_t inode;
    const char *name; /* the last component of the file's path */
};

static const char *capold_next_field(const char *line)
{
    line += strcspn(line, " ");
    return line + strspn(line, " ");
}

/* Captures are mapped shared; a private mapping is, for example, a library on another file system
 * with the same numbers. The inode alone would suffice, but some file systems report another number
 * here than stat does. Comparing the name instead is safe. */
static bool capold_is_line_of(const char *line, const struct mapped_file *file)
{
    const char *slash = strrchr(line, '/');
    const char *at = capold_next_field(line);

    if (strcspn(at, "s") >= strcspn(at, " "))
        return false;
    if (slash && strcmp(slash + 1, file->name) == 0)
        return true;
    for (int field = 1; field < 4; field++)
        at = capold_next_field(at);
    return strtoull(at, NULL, 10) == file->inode;
}

/* Do the lines of `fd` name the file? Lines longer than the buffer are cut. */
static bool capold_is_in(int fd, const struct mapped_file *file)
{
    static char text[4096];
    size_t used = 0;
    ssize_t n;

    while ((n = read(fd, text + used, sizeof text - 1 - used)) > 0) {
        char *end, *line = text;

        used += (size_t)n;
        text[used] = '\0';
        for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            if (capold_is_line_of(line, file))
                return true;
        }
        used -= (size_t)(line - text);
        memmove(text, line, used);
        if (used == sizeof text - 1)
            used = 0;
    }
    return false;
}

static bool capold_is_written_by(uint32_t pid, const struct mapped_file *file)
{
    char path[32];
    bool is_written;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%" PRIu32 "/maps", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) /* the process ended, if there is a /proc that says so */
        return errno != ENOENT || access("/proc/self/maps", F_OK) != 0;
    is_written = capold_is_in(fd, file);
    (void)close(fd);
    return is_written;
}

static bool capold_is_live(
        const struct format_header *header, const struct stat *about, const char *path)
{
    struct mapped_file file = {(uint64_t)about->st_ino, script_base(path)};
    char host[sizeof header->host] = "";

    (void)gethostname(host, sizeof host - 1);
    if (strncmp(host, header->host, sizeof host) != 0)
        return header->state != FORMAT_STATE_CLEAN;
    return capold_is_written_by(header->pid, &file);
}

static enum capold capold_look_at(int fd, const char *path, struct format_header *ret_header)
{
    struct stat about;
    ssize_t n;

    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        return CAPOLD_OTHER;
    n = pread(fd, ret_header, sizeof *ret_header, 0);
    if (n == 0)
        return CAPOLD_ENDED;
    if (n < (ssize_t)sizeof ret_header->magic
            || memcmp(ret_header->magic, FORMAT_MAGIC, sizeof ret_header->magic) != 0) {
        memset(ret_header, 0, sizeof *ret_header);
        return CAPOLD_OTHER;
    }
    if (n == (ssize_t)sizeof *ret_header && ret_header->pid == 0)
        return CAPOLD_ENDED; /* kedge import made it from another tool's record */
    return capold_is_live(ret_header, &about, path) ? CAPOLD_LIVE : CAPOLD_ENDED;
}

/* Opens without waiting for a pipe. */
static int capold_open(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

enum capold capold_look(const char *path, struct format_header *ret_header)
{
    int fd = capold_open(path);
    enum capold found;

    memset(ret_header, 0, sizeof *ret_header);
    if (fd < 0)
        return CAPOLD_NONE;
    found = capold_look_at(fd, path, ret_header);
    (void)close(fd);
    return found;
}

/* Is the open file still the one of this name? Another process may have replaced it. */
static bool capold_is_same(int fd, const char *path)
{
    struct stat opened, named;

    return fstat(fd, &opened) == 0 && stat(path, &named) == 0 && opened.st_dev == named.st_dev
            && opened.st_ino == named.st_ino;
}

static int capold_remove_open(
        int fd, const char *path, const char *run, struct format_header *header)
{
    switch (capold_look_at(fd, path, header)) {
    case CAPOLD_LIVE:
        return strncmp(header->run, run, sizeof header->run) == 0 ? -EEXIST : -EBUSY;
    case CAPOLD_OTHER:
        return -EINVAL;
    default:
        break;
    }
    if (strncmp(header->run, run, sizeof header->run) == 0)
        return -EEXIST;
    /* Two processes of one run may come here at once, and the second must not remove the file of
     * the first. */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || !capold_is_same(fd, path))
        return -EBUSY;
    return unlink(path) == 0 ? 0 : -errno;
}

int capold_remove(const char *path, const char *run, struct format_header *space)
{
    int fd = capold_open(path);
    int r;

    memset(space, 0, sizeof *space);
    if (fd < 0)
        return -errno;
    r = capold_remove_open(fd, path, run, space);
    (void)close(fd);
    return r;
}
