/* SPDX-License-Identifier: MIT */
#include "tools/output/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/output/ours.h"
#include "tracker/capture/capold.h"

#define LINKS_MAX 40 /* the kernel's limit */

const struct args_option outfile_option = {"force", NULL,
        "replace a file that kedge did not write, or that people edit (hints); never a capture",
        ARGS_FLAG, 0};

struct identity {
    dev_t device;
    ino_t number;
};

/* For the one command of the process. */
static bool is_forced;
static struct identity *inputs;
static size_t input_count, input_room;

void outfile_force(bool is_given)
{
    is_forced = is_given;
}

void outfile_reads(const char *path)
{
    struct stat status;

    if (stat(path, &status) == 0 && S_ISREG(status.st_mode))
        VEC_PUSH(inputs, input_count, input_room) = (struct identity){status.st_dev, status.st_ino};
}

/* ---- whether a file may be replaced ---- */

static bool outfile_is_read(const struct stat *status)
{
    for (size_t i = 0; i < input_count; i++)
        if (inputs[i].device == status->st_dev && inputs[i].number == status->st_ino)
            return true;
    return false;
}

static int outfile_refuse(const char *who, const char *path, const char *why)
{
    render_print(stderr, "%s: %s %s\n", who, path, why);
    return -EEXIST;
}

static int outfile_fail(const char *who, const char *path, int error)
{
    render_print(stderr, "%s: %s: %s\n", who, path, strerror(error));
    return -error;
}

/* NULL: a capture may replace it. */
static const char *why_no_capture(const char *path, enum outfile_kind kind)
{
    struct format_header header;

    if (kind != OUTFILE_CAPTURE)
        return "is a capture, whose place nothing else takes; name another file";
    if (capold_look(path, &header) == CAPOLD_LIVE)
        return "is a capture that its process may still write; name another file";
    return NULL;
}

/* NULL: it may be replaced. */
static const char *outfile_why_not(const char *path, enum ours what, enum outfile_kind kind)
{
    if (what == OURS_CAPTURE)
        return why_no_capture(path, kind);
    if (is_forced)
        return NULL;
    if (kind == OUTFILE_HINTS)
        return "is there already; --force replaces it";
    if (what == OURS_NOT)
        return "is there already, and does not begin as a file that kedge wrote; --force replaces "
               "it";
    if (what == OURS_BUNDLE && kind != OUTFILE_BUNDLE && kind != OUTFILE_CAPTURE)
        return "is a bundle with a capture in it; --force replaces it";
    return NULL;
}

/* ---- the file ---- */

/* The target of the link at `path`, as a path from here; NULL: it is no link. */
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

/* The last file of a chain of links, which need not exist. NULL: the links form a circle. */
static char *outfile_follow(const char *path)
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

/* Why no file can be made there: an errno; 0: its folder is there and may be written. */
static int no_place(const char *path)
{
    char *target = outfile_follow(path);
    const char *slash = target ? strrchr(target, '/') : NULL;
    char *folder = slash ? vec_format("%.*s", (int)(slash - target + 1), target) : vec_text(".");
    int error = access(folder, W_OK) == 0 ? 0 : errno;

    free(folder);
    free(target);
    return error;
}

int outfile_look(const char *who, const char *path, enum outfile_kind kind)
{
    struct stat status;
    enum ours what;

    if (strcmp(path, "-") == 0)
        return 0;
    if (stat(path, &status) != 0) {
        int error = no_place(path);
        return error ? outfile_fail(who, path, error) : 0;
    }
    if (S_ISDIR(status.st_mode))
        return outfile_fail(who, path, EISDIR);
    if (!S_ISREG(status.st_mode) || status.st_size == 0)
        return 0;
    if (outfile_is_read(&status))
        return outfile_refuse(who, path, "is what is read; name another file");
    int r = ours_look(path, &what);
    if (r < 0)
        return outfile_fail(who, path, -r);
    const char *why = outfile_why_not(path, what, kind);
    return why ? outfile_refuse(who, path, why) : 0;
}

/* From here on standard output is used for the file alone. */
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
    /*
     * The owner first, since changing it clears bits of the mode. A user who may not change owners
     * keeps the file.
     */
    if (old && (old->st_uid != geteuid() || old->st_gid != getegid()))
        (void)!fchown(file->fd, old->st_uid, old->st_gid);
    if (fchmod(file->fd, mode) == 0)
        return 0;
    int error = errno;
    (void)close(file->fd);
    (void)unlink(file->draft);
    return -error;
}

/*
 * The target of the links, unless opening `path` gives another file (/dev/stdout of a file that was
 * removed).
 */
static bool find_path(struct outfile *file, const char *path, const struct stat *old)
{
    struct stat found;

    file->path = outfile_follow(path);
    return file->path
            && (!old
                    || (stat(file->path, &found) == 0 && found.st_dev == old->st_dev
                            && found.st_ino == old->st_ino));
}

static mode_t outfile_mode(enum outfile_kind kind, const struct stat *old)
{
    bool is_for_runs = kind >= OUTFILE_FOR_RUNS;

    if (old)
        return old->st_mode & (is_for_runs ? 0755 : 0777);
    return is_for_runs ? 0644 : 0600;
}

/* 0, or -errno. */
static int outfile_open_path(const char *path, enum outfile_kind kind, struct outfile *file)
{
    struct stat old;
    bool is_there = stat(path, &old) == 0;
    const struct stat *known = is_there ? &old : NULL;

    if (strcmp(path, "-") == 0)
        return file->fd = take_stdout();
    if (!is_there && errno != ENOENT)
        return -errno;
    file->was_there = is_there;
    if ((!is_there || S_ISREG(old.st_mode)) && find_path(file, path, known))
        return make_draft(file, outfile_mode(kind, known), known);
    free(file->path);
    file->path = NULL;
    file->fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC | (is_there ? O_TRUNC : 0));
    return file->fd < 0 ? -errno : 0;
}

int outfile_open(
        const char *who, const char *path, enum outfile_kind kind, struct outfile *ret_file)
{
    struct outfile file = {.fd = -1, .who = who, .name = path, .kind = kind};
    int r = outfile_look(who, path, kind);

    if (r < 0)
        return r;
    r = outfile_open_path(path, kind, &file);
    if (r < 0) {
        free(file.path);
        free(file.draft);
        return outfile_fail(who, path, -r);
    }
    *ret_file = file;
    return 0;
}

/* Checked again: the file may have changed since it was opened. */
static int outfile_take_place(const struct outfile *file)
{
    if (!file->was_there) {
        if (renameat2(AT_FDCWD, file->draft, AT_FDCWD, file->path, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST && errno != EINVAL && errno != ENOSYS) /* a system without the call */
            return outfile_fail(file->who, file->name, errno);
    }
    int r = outfile_look(file->who, file->path, file->kind);
    if (r == 0 && rename(file->draft, file->path) != 0)
        r = outfile_fail(file->who, file->name, errno);
    return r;
}

int outfile_done(struct outfile *file, bool is_whole)
{
    int r = close(file->fd) == 0 ? 0 : -errno;

    if (r < 0 && is_whole)
        (void)outfile_fail(file->who, file->name, -r);
    if (file->draft && is_whole && r == 0)
        r = outfile_take_place(file);
    if (file->draft && (!is_whole || r < 0))
        (void)unlink(file->draft);
    free(file->path);
    free(file->draft);
    *file = (struct outfile){.fd = -1};
    return r;
}

int outfile_write(
        const char *who, const char *path, enum outfile_kind kind, const char *text, size_t length)
{
    struct outfile file = {.fd = -1};
    int r = outfile_open(who, path, kind, &file);

    if (r < 0)
        return r;
    r = render_write(file.fd, text, length);
    if (r < 0)
        (void)outfile_fail(who, path, -r);
    int end = outfile_done(&file, r == 0);
    return r < 0 ? r : end;
}
