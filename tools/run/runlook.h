/* SPDX-License-Identifier: MIT */
/*
 * runlook.h - why no process of a run has a capture, as far as that can be known.
 *
 * What the processes noted themselves (tracker/base/runmark.h) comes first: whether libkedge.so was in
 * one, whether that loaded a driver, what cuInit answered, whether kedge acted. Where it was in
 * none, the program's file says why. What is not known is not said: then what was seen is listed.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_RUNLOOK_H
#define KEDGE_TOOLS_RUNLOOK_H

struct runmark;

struct runlook {
    struct runmark *mark; /* NULL: the system has no such files */
    int fd;               /* -1: closed */
};

/* Before the program is started: *ret_path is what RUNMARK_VARIABLE is to have, NULL = none. The
 * caller frees it. */
void runlook_begin(struct runlook *look, const char *run, char **ret_path);

/* The program has ended: no process can open the file any more. */
void runlook_close(struct runlook *look);

/*
 * One line without its end; `program` as it was called, `run` as CONFIG_RUN, `signal`: what ended
 * it, 0 = it ended by itself. The caller frees it.
 */
char *runlook_why(const struct runlook *look, const char *program, const char *run, int signal);

void runlook_done(struct runlook *look);

#endif
