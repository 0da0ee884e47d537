/* SPDX-License-Identifier: MIT */
/*
 * top_process.h - the process behind a capture while it runs.
 *
 * The library keeps its capture mapped and no descriptor of it open, so /proc/PID/maps ties a
 * process to a capture. That works for containers too, where the pid in the file differs from the
 * pid here.
 *
 *     PID ─► its mapped captures, else those of its descendants   FILE ─► its process
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_TOP_PROCESS_H
#define KEDGE_TOOLS_TOP_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

struct top_process {
    pid_t pid; /* pid here; 0: no process was found */
    int fd;    /* readable once the process has ended; -1: none */
    /* false: whether it runs is unknown, since its host or its user is another one */
    bool is_known;
};

/*
 * The capture of a process, or of the only process below it that has one. Returns 0 with a path
 * that the caller frees, or an exit code of the tool after one line on stderr with the reason, which
 * begins with `tool` ("kedge top"). `word` is a number, or the capture's name itself.
 */
int top_process_find(const char *tool, const char *word, char **ret_path);

/*
 * The process that writes this capture; `host` and `pid` are from its header. Free with
 * top_process_done.
 */
struct top_process top_process_of(const char *path, const char *host, pid_t pid);
void top_process_done(struct top_process *running);

/* Whether it is known to have ended. */
bool top_process_has_ended(const struct top_process *running);

#endif
