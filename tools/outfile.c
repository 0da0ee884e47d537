/* SPDX-License-Identifier: MIT */
#include "tools/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/vec.h"

#define LINKS_MAX 40 /* as the kernel follows */

/* Where the link at `path` leads, as a path from here; NULL: it is no link. */
static char *read_link(const char *path)
{
    char target[4096];
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    const char *slash = strrchr(path, '/');

    if (length < 0)
        return NULL;
    target[length] = '\0';
    if (target[0] == '/' || !slash)
        return vec_text(target);
    return vec_format("%.*s/%s", (int)(slash - path), path, target);
}

/* The last file of a chain of links, which need not be there. NULL: they lead in a circle. */
static char *follow(const char *path)
{
    char *at = vec_text(path);

    for (int i = 0; i < LINKS_MAX; i++) {
        char *next = read_link(at);
        if (!next)
            return at;
        free(at);
        at = next;
    }
    free(at);
    return NULL;
}

/* Standard output is ours alone from here on. */
static int take_stdout(void)
{
    (void)fflush(stdout);
    int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

    if (fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return -errno;
    return fd;
}

static int make_draft(struct outfile *file, mode_t mode, const struct stat *old)
{
    file->draft = vec_format("%s.%ld.new", file->path, (long)getpid());
    file->fd = open(file->draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file->fd < 0)
        return -errno;
    /* The owner first, since a change of it takes bits of the mode away. Who may not give files away keeps what it writes. */
    if (old && (old->st_uid != geteuid() || old->st_gid != getegid()))
        (void)!fchown(file->fd, old->st_uid, old->st_gid);
    if (fchmod(file->fd, mode) == 0)
        return 0;
    int error = errno;
    (void)close(file->fd);
    (void)unlink(file->draft);
    return -error;
}

/* What links lead to, unless it is another file than the one that opening `path` gives (/dev/stdout of a file that was removed). */
static bool find_path(struct outfile *file, const char *path, const struct stat *old)
{
    struct stat found;

    file->path = follow(path);
    return file->path
            && (!old
                    || (stat(file->path, &found) == 0 && found.st_dev == old->st_dev
                            && found.st_ino == old->st_ino));
}

int outfile_open(const char *path, enum outfile_kind kind, struct outfile *ret_file)
{
    struct outfile file = {.fd = -1};
    struct stat old;
    bool is_there = stat(path, &old) == 0;
    mode_t mode = kind == OUTFILE_PRIVATE ? 0600 : 0644;
    int r;

    if (is_there)
        mode = old.st_mode & (kind == OUTFILE_PRIVATE ? 0777 : 0755);
    if (strcmp(path, "-") == 0) {
        r = file.fd = take_stdout();
    } else if (!is_there && errno != ENOENT) {
        r = -errno;
    } else if ((!is_there || S_ISREG(old.st_mode))
            && find_path(&file, path, is_there ? &old : NULL)) {
        r = make_draft(&file, mode, is_there ? &old : NULL);
    } else {
        free(file.path);
        file.path = NULL;
        file.fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC | (is_there ? O_TRUNC : 0));
        r = file.fd < 0 ? -errno : 0;
    }
    if (r < 0) {
        free(file.path);
        free(file.draft);
        return r;
    }
    *ret_file = file;
    return 0;
}

int outfile_done(struct outfile *file, bool is_whole)
{
    int r = close(file->fd) == 0 ? 0 : -errno;

    if (file->draft && is_whole && r == 0 && rename(file->draft, file->path) != 0)
        r = -errno;
    if (file->draft && (!is_whole || r < 0))
        (void)unlink(file->draft);
    free(file->path);
    free(file->draft);
    *file = (struct outfile){.fd = -1};
    return r;
}

static int write_all(int fd, const char *text, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t n = write(fd, text + done, length - done);
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0)
            done += (size_t)n;
    }
    return 0;
}

int outfile_write(
        const char *who, const char *path, enum outfile_kind kind, const char *text, size_t length)
{
    struct outfile file;
    int r = outfile_open(path, kind, &file);

    if (r == 0) {
        int end;
        r = write_all(file.fd, text, length);
        end = outfile_done(&file, r == 0);
        r = r < 0 ? r : end;
    }
    if (r < 0)
        (void)fprintf(stderr, "%s: %s: %s\n", who, path, strerror(-r));
    return r;
}

bool outfile_is_taken(const char *path)
{
    struct stat status;

    return strcmp(path, "-") != 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode)
            && status.st_size > 0;
}
