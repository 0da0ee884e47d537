/* SPDX-License-Identifier: MIT */
#include "preload/base/msg.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tracker/base/utf8.h"

static atomic_int msg_lines;
static atomic_int msg_level = MSG_WARN;

/* The file behind descriptor 2 when the library was loaded; fixed in the constructor. */
static struct {
    bool is_known, is_open;
    dev_t device;
    ino_t inode;
} msg_file;

void msg_start(void)
{
    int saved = errno;
    struct stat status;

    msg_file.is_open = fstat(STDERR_FILENO, &status) == 0;
    if (msg_file.is_open) {
        msg_file.device = status.st_dev;
        msg_file.inode = status.st_ino;
    }
    msg_file.is_known = true;
    errno = saved;
}

/*
 * Whether descriptor 2 is still that file: a program may close it, and the next file it opens gets
 * the number.
 */
static bool msg_has_file(void)
{
    struct stat status;

    if (!msg_file.is_known)
        return true;
    return msg_file.is_open && fstat(STDERR_FILENO, &status) == 0
            && status.st_dev == msg_file.device && status.st_ino == msg_file.inode;
}

void msg_set_level(enum msg_level level)
{
    atomic_store(&msg_level, (int)level);
}

/* One line in one write, so that lines of several threads do not mix. */
__attribute__((format(printf, 1, 0))) static void print(const char *format, va_list args)
{
    char line[MSG_LINE];
    int saved = errno;
    size_t used = (size_t)snprintf(line, sizeof line, "kedge[%d]: ", (int)getpid());
    size_t room = sizeof line - used - 1; /* one byte is for the newline */
    int length = vsnprintf(line + used, room, format, args);
    ssize_t written;

    if (length > 0)
        used += (size_t)length < room ? (size_t)length : room - 1;
    /* names come from the program: no line breaks, no terminal control sequences */
    utf8_clean(line, used, "");
    line[used++] = '\n';
    /*
     * not write(): it is a cancellation point, and kedge's export of it scans the data as the
     * program's output
     */
    written = msg_has_file() ? (ssize_t)syscall(SYS_write, STDERR_FILENO, line, used) : 0;
    (void)written; /* a failed write has no other place to be reported */
    errno = saved;
}

void msg_warn(const char *format, ...)
{
    va_list args;
    int number;

    if (atomic_load(&msg_level) < MSG_WARN)
        return;
    number = atomic_fetch_add(&msg_lines, 1);
    if (number >= MSG_MAX) {
        atomic_store(&msg_lines, MSG_MAX); /* keeps the counter from wrapping round */
        return;
    }
    va_start(args, format);
    print(number == MSG_MAX - 1 ? "further warnings are in the capture" : format, args);
    va_end(args);
}

void msg_info(const char *format, ...)
{
    va_list args;

    if (atomic_load(&msg_level) < MSG_INFO)
        return;
    va_start(args, format);
    print(format, args);
    va_end(args);
}
