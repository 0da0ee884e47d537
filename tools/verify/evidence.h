/* SPDX-License-Identifier: MIT */
/*
 * evidence.h - what one process of a trial run left that speaks against all hints, whatever it ended with (R108).
 *
 * A process tells by its capture: that the device failed, that kedge stopped or lost something, that the process did not end by
 * itself. What speaks against a hint by name is cmd_verify.c's.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_EVIDENCE_H
#define KEDGE_TOOLS_EVIDENCE_H

#include "tools/load/load.h"

/* Statuses other than 0 that processes of a run without hints ended with: they are the program's own. */
struct evidence_ends {
    bool has[256];
};

void evidence_learn(struct evidence_ends *ends, const struct read_capture *capture);

/* In words, for the caller to free; NULL: nothing. */
char *evidence_against(const struct load *load, const struct evidence_ends *ends);

/*
 * The same of what the processes printed on standard error, where the library says what it could not write into a capture, or has no
 * capture for: the line, for the caller to free; NULL: nothing.
 */
char *evidence_in_lines(const char *text, size_t length);

/* Has the device failed? */
bool evidence_is_fault(const struct read_capture *capture);

#endif
