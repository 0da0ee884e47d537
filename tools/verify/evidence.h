/* SPDX-License-Identifier: MIT */
/*
 * evidence.h - evidence of one process of a trial run against all hints, whatever its exit status
 * (R108, evidence per program).
 *
 * The process's capture shows that the device failed, that kedge stopped or lost something, or that
 * the process did not end by itself. cmd_verify.c handles evidence against single hints.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EVIDENCE_H
#define KEDGE_TOOLS_EVIDENCE_H

#include "tools/load/load.h"

/* Nonzero exit statuses of processes in a run without hints: they are the program's own. */
struct evidence_ends {
    bool has[256];
};

void evidence_learn(struct evidence_ends *ends, const struct read_capture *capture);

/* As text, which the caller frees; NULL: none. */
char *evidence_against(const struct load *load, const struct evidence_ends *ends);

/*
 * The same from lines that the processes printed on standard error, where the library reports what
 * it could not write into a capture, or has no capture for: the line, which the caller frees; NULL:
 * none.
 */
char *evidence_in_lines(const char *text, size_t length);

/* Whether the device has failed. */
bool evidence_is_fault(const struct read_capture *capture);

#endif
