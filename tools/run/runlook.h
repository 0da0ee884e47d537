/* SPDX-License-Identifier: MIT */
/*
 * runlook.h - finds why no process of a run has a capture, as far as that can be known.
 *
 * The processes' own notes come first (tracker/base/runmark.h): whether libkedge.so was in one,
 * whether it loaded a driver, the result of cuInit, whether kedge acted. If it was in none, the
 * program's file shows why. An unknown reason is not guessed: then the observations are listed.
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

/*
 * Before the program is started: *ret_path is the value for RUNMARK_VARIABLE, NULL = none. The
 * caller frees it.
 */
void runlook_begin(struct runlook *look, const char *run, char **ret_path);

/* The program has ended: no process can open the file any more. */
void runlook_close(struct runlook *look);

/*
 * One line without its end; `program` as it was named, `run` as CONFIG_RUN, `signal`: the signal
 * that ended it, 0 = none. The caller frees it.
 */
char *runlook_why(const struct runlook *look, const char *program, const char *run, int signal);

void runlook_done(struct runlook *look);

#endif
