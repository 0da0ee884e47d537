/* SPDX-License-Identifier: MIT */
#include "tools/run/top_process.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tools/base/cmdexit.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/load/captures.h"
#include "tools/run/tree.h"

/* ---- mappings ------------------------------------------------------------------------------- */

/* A shared mapping of a file, from a line of /proc/PID/maps. */
struct mapping {
    unsigned long inode;
    char *path; /* path in the process's own view */
};

struct mappings {
    struct mapping *at;
    size_t count, room;
    int error;        /* -errno: they cannot be read */
    bool has_library; /* libkedge.so is mapped */
};

/* The field so many spaces further on, "" after the last. */
static char *field_at(char *line, unsigned number)
{
    for (; number > 0; number--) {
        line += strcspn(line, " ");
        line += strspn(line, " ");
    }
    return line;
}

/* ADDRESSES FLAGS OFFSET DEVICE INODE PATH */
static void top_process_add_line(struct mappings *mappings, char *line)
{
    line[strcspn(line, "\n")] = '\0';

    const char *flags = field_at(line, 1);
    unsigned long inode = strtoul(field_at(line, 4), NULL, 10);
    char *path = field_at(line, 5);
    bool is_again = mappings->count && mappings->at[mappings->count - 1].inode == inode;

    if (*path != '/')
        return;
    mappings->has_library |= strstr(path, "/libkedge.so") != NULL;
    if (strncmp(flags, "rw-s", 4) != 0 || is_again)
        return;
    VEC_PUSH(mappings->at, mappings->count, mappings->room) =
            (struct mapping){inode, vec_text(path)};
}

static struct mappings read_mappings(pid_t pid)
{
    struct mappings mappings = {0};
    char *name = vec_format("/proc/%d/maps", pid);
    FILE *file = fopen(name, "re");
    char *line = NULL;
    size_t size = 0;

    if (!file)
        mappings.error = -errno;
    while (file && getline(&line, &size, file) > 0)
        top_process_add_line(&mappings, line);
    if (file && ferror(file))
        mappings.error = -EIO;
    if (file)
        (void)fclose(file);
    free(line);
    free(name);
    return mappings;
}

static void mappings_done(struct mappings *mappings)
{
    for (size_t i = 0; i < mappings->count; i++)
        free(mappings->at[i].path);
    free(mappings->at);
}

/*
 * The capture among the mappings, by a path that can be opened here; the one begun last. NULL:
 * none.
 */
static char *capture_of(pid_t pid, const struct mappings *mappings)
{
    struct format_header header;
    uint64_t newest = 0;
    char *found = NULL;

    for (size_t i = 0; i < mappings->count; i++) {
        char *path = vec_text(mappings->at[i].path);
        if (!captures_read_header(path, &header)) {
            free(path);
            path = vec_format("/proc/%d/root%s", pid, mappings->at[i].path); /* in a container */
        }
        if (captures_read_header(path, &header) && header.start_real_ns >= newest) {
            newest = header.start_real_ns;
            free(found);
            found = path;
        } else {
            free(path);
        }
    }
    return found;
}

static bool has_file(pid_t pid, const struct stat *file, int *ret_error)
{
    struct mappings mappings = read_mappings(pid);
    bool is_there = false;

    for (size_t i = 0; i < mappings.count; i++)
        is_there |= mappings.at[i].inode == (unsigned long)file->st_ino;
    *ret_error = mappings.error;
    mappings_done(&mappings);
    return is_there;
}

/* ---- processes ------------------------------------------------------------------------------ */

static bool top_process_is_below(pid_t pid, pid_t top)
{
    do {
        pid = tree_parent(pid);
    } while (pid > 0 && pid != top);
    return pid == top;
}

/* ---- the capture of a process --------------------------------------------------------------- */

struct find {
    struct vec_texts paths;
    struct vec_texts names; /* "124 (a.kcap)" */
};

static void top_process_add_capture(pid_t pid, struct find *find)
{
    struct mappings mappings = read_mappings(pid);
    char *path = capture_of(pid, &mappings);

    mappings_done(&mappings);
    if (!path)
        return;
    char *name = vec_format("%d (%s)", pid, path);
    if (vec_add_once(&find->paths, path)) /* a forked child has its parent's capture mapped */
        (void)vec_add_text(&find->names, name);
    else
        free(name);
}

static void find_below(pid_t top, struct find *find)
{
    DIR *folder = opendir("/proc");
    pid_t pid;

    while ((pid = tree_next(folder)) != 0)
        if (top_process_is_below(pid, top))
            top_process_add_capture(pid, find);
    if (folder)
        (void)closedir(folder);
}

static void say_why_not(const char *tool, pid_t pid, const struct mappings *mappings)
{
    if (mappings->error == -ENOENT || mappings->error == -ESRCH)
        (void)fprintf(stderr, "%s: no process %d\n", tool, pid);
    else if (mappings->error)
        (void)fprintf(stderr,
                "%s: process %d: its mappings cannot be read (%s): name its capture's "
                "file\n",
                tool, pid, strerror(-mappings->error));
    else if (mappings->has_library)
        (void)fprintf(stderr,
                "%s: process %d runs under kedge and writes no capture: it has not used the "
                "device yet, or captures are off\n",
                tool, pid);
    else
        (void)fprintf(stderr,
                "%s: process %d does not run under kedge (kedge run -- PROGRAM starts "
                "one)\n",
                tool, pid);
}

static void say_which(const char *tool, pid_t pid, const struct find *find)
{
    (void)fprintf(stderr, "%s: several processes below %d write captures: ", tool, pid);
    for (size_t i = 0; i < find->names.count; i++)
        render_print(stderr, "%s%s", i ? ", " : "", find->names.at[i]);
    (void)fputs("; name one of them\n", stderr);
}

static int top_process_look(const char *tool, pid_t pid, char **ret_path)
{
    struct mappings mappings = read_mappings(pid);
    struct find find = {0};
    int r = CMD_DONE;

    *ret_path = capture_of(pid, &mappings);
    if (!*ret_path && !mappings.error)
        find_below(pid, &find);
    if (!*ret_path && find.paths.count == 1)
        *ret_path = vec_text(find.paths.at[0]);
    if (!*ret_path) {
        r = CMD_BAD;
        if (find.paths.count > 1)
            say_which(tool, pid, &find);
        else
            say_why_not(tool, pid, &mappings);
    }
    vec_free_texts(&find.paths);
    vec_free_texts(&find.names);
    mappings_done(&mappings);
    return r;
}

int top_process_find(const char *tool, const char *word, char **ret_path)
{
    unsigned long pid = strtoul(word, NULL, 10);

    if (word[strspn(word, "0123456789")] != '\0') { /* 7 is a process, ./7 a file */
        *ret_path = vec_text(word);
        return CMD_DONE;
    }
    if (pid > 0 && pid <= INT_MAX)
        return top_process_look(tool, (pid_t)pid, ret_path);
    (void)fprintf(stderr, "%s: no process %s\n", tool, word);
    return CMD_BAD;
}

/* ---- the process of a capture --------------------------------------------------------------- */

/* The process that has the file mapped; 0: none. */
static pid_t find_writer(const struct stat *file)
{
    DIR *folder = opendir("/proc");
    int error;
    pid_t pid;

    do {
        pid = tree_next(folder);
    } while (pid > 0 && !has_file(pid, file, &error));
    if (folder)
        (void)closedir(folder);
    return pid;
}

static bool is_this_host(const char *host)
{
    struct utsname name;

    return uname(&name) == 0 && strcmp(name.nodename, host) == 0;
}

struct top_process top_process_of(const char *path, const char *host, pid_t pid)
{
    struct top_process running = {.fd = -1, .is_known = true};
    struct stat file;
    int error = 0;

    if (stat(path, &file) != 0)
        return running;
    if (pid > 0 && has_file(pid, &file, &error))
        running.pid = pid;
    else
        running.pid = find_writer(&file);
    if (running.pid)
        running.fd = (int)syscall(
                SYS_pidfd_open, running.pid, 0); /* glibc has a function for it from 2.36 on */
    else
        running.is_known = is_this_host(host) && error != -EACCES && error != -EPERM;
    return running;
}

void top_process_done(struct top_process *running)
{
    if (running->fd >= 0)
        (void)close(running->fd);
}

bool top_process_has_ended(const struct top_process *running)
{
    struct pollfd end = {.fd = running->fd, .events = POLLIN};

    if (!running->is_known)
        return false;
    if (running->fd < 0)
        return !running->pid || tree_parent(running->pid) == 0;
    return poll(&end, 1, 0) == 1;
}
