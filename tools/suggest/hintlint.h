/* SPDX-License-Identifier: MIT */
/*
 * hintlint.h - what the grammar of hint files allows and a reviewer would still ask about.
 *
 * Each remark is one plain sentence that says what is wrong and what to do, at the value in the file that it is about. A
 * warning is about a hint that does more, less or something else than it seems to; a note is only worth a thought.
 *
 *     model.yaml:7:16: warning: hint a: mode live releases at every anchor's exit: name the anchor after which ...
 *
 * Knows the file and nothing else: no capture, no program. Quadratic in the number of hints. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_HINTLINT_H
#define KEDGE_TOOLS_HINTLINT_H

#include "tracker/hints/hintfile.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `proof` of a hint, NULL without one: does it say anything? */
bool hintlint_is_proof(const char *proof);

/* How a proof begins that `kedge suggest` left to be written: there is none yet. */
#define HINTLINT_PROOF_OPEN "to be answered:"

struct hintlint_remark {
    uint32_t line, column; /* from 1 */
    bool is_note;
    const char *hint; /* its id, in the file; NULL: about the file as a whole */
    char *text;
};

/* {0} is empty. */
struct hintlint {
    struct hintlint_remark *remarks; /* in the order of their places */
    size_t count, room;
    size_t warnings; /* remarks that are no notes */
};

/* Adds what there is to say about `file`, which was read from these bytes. */
void hintlint_hints(
        const struct hintfile *file, const char *bytes, size_t length, struct hintlint *lint);

void hintlint_done(struct hintlint *lint);

#endif
