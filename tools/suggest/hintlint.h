/* SPDX-License-Identifier: MIT */
/*
 * hintlint.h - remarks on hint files that are valid but that a reviewer would question.
 *
 * Each remark is one sentence with the problem and its remedy, at the value in the file that it
 * concerns. A warning concerns a hint that does more, less or something else than it seems to; a
 * note is only advice.
 *
 *     model.yaml:7:16: warning: hint a: mode live releases at every anchor's exit: name the ...
 *
 * Knows only the file: no capture, no program. Quadratic in the number of hints. Threads: none.
 * Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_HINTLINT_H
#define KEDGE_TOOLS_HINTLINT_H

#include "tracker/hints/hintfile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether `proof` of a hint, NULL without one, has content. */
bool hintlint_is_proof(const char *proof);

/* The beginning of a proof that `kedge suggest` left to be written: it counts as none. */
#define HINTLINT_PROOF_OPEN "to be answered:"

struct hintlint_remark {
    uint32_t line, column; /* from 1 */
    bool is_note;
    const char *hint; /* the hint's id in the file; NULL: about the file as a whole */
    char *text;
};

/* {0} is empty. */
struct hintlint {
    struct hintlint_remark *remarks; /* in the order of their places */
    size_t count, room;
    size_t warnings; /* number of warnings */
};

/* Adds the remarks on `file`, which was read from these bytes. */
void hintlint_hints(
        const struct hintfile *file, const char *bytes, size_t length, struct hintlint *lint);

void hintlint_done(struct hintlint *lint);

#endif
