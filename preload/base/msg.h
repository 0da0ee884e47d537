/* SPDX-License-Identifier: MIT */
/*
 * msg.h - the only file that prints.
 *
 * One line each, to stderr: "kedge[pid]: what happened, what happens next". Each line is one system
 * call and bypasses stdio, because a hook may be entered while stdio's locks are held; errno is
 * kept. Nothing is written once descriptor 2 is another file than when the library was loaded: that
 * file is the program's data. At most MSG_MAX lines per process; the last one says so, and later
 * messages are only in the capture.
 *
 * Lines are cut at MSG_LINE bytes. Any thread, any context, no lock, no memory.
 */
#ifndef KEDGE_PRELOAD_MSG_H
#define KEDGE_PRELOAD_MSG_H

enum {
    MSG_MAX = 16,
    MSG_LINE = 512,
};

/* Values of KEDGE_LOG, in the order of its words. */
enum msg_level {
    MSG_OFF,
    MSG_WARN,
    MSG_INFO,
    MSG_DEBUG,
};

void msg_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line at KEDGE_LOG=info; not counted. */
void msg_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

void msg_set_level(enum msg_level level);

/*
 * Remembers which file standard error is; without this call every line is written. Once, in the
 * constructor.
 */
void msg_start(void);

#endif
