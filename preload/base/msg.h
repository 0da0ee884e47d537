/* SPDX-License-Identifier: MIT */
/*
 * msg.h - the only file that prints.
 *
 * One line each, to stderr: "kedge[pid]: what happened, what happens next". Written by one system call and through no stream,
 * because a hook may be entered where stdio's locks are held; errno is kept. Nothing is written where descriptor 2 is not the
 * file that it was when the library was loaded: the number is the program's, and what it has opened there is its data. At most MSG_MAX lines per process, the last of
 * which says that it is the last; after that the capture is the place to look.
 *
 * Lines are cut at MSG_LINE bytes. Any thread, any context, no lock, no memory.
 */
#ifndef KEDGE_PRELOAD_MSG_H
#define KEDGE_PRELOAD_MSG_H

enum {
    MSG_MAX = 16,
    MSG_LINE = 512,
};

/* KEDGE_LOG, in the order of its words. */
enum msg_level {
    MSG_OFF,
    MSG_WARN,
    MSG_INFO,
    MSG_DEBUG,
};

void msg_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same at KEDGE_LOG=info; not counted. */
void msg_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

void msg_set_level(enum msg_level level);

/* Notes which file standard error is; without it each line is written. Once, in the constructor. */
void msg_start(void);

#endif
