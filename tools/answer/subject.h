/* SPDX-License-Identifier: MIT */
/*
 * subject.h - what a sentence of the answer is about: a line of the program, or what grows below
 * one line.
 *
 * The sites that grow in as many of the same rounds are one leak. Its subject is the innermost line
 * that most of its growth goes through, and nothing else: "evaluate run.py:90" of what each layer
 * keeps there, though training goes through the layers, too.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SUBJECT_H
#define KEDGE_TOOLS_SUBJECT_H

#include "tools/answer/answer_lines.h"
#include "tools/steps/growth.h"

/* What all subjects are made of. */
struct subject_facts {
    const struct load *load;
    struct symbols *symbols;
    struct growth growth;
    char **titles; /* of all stacks of the trace */
    const struct answer_lines *lines;
};

struct subject {
    char *title; /* NULL: there is no subject */
    bool *has;   /* per stack of the trace */
    uint64_t bytes, blocks;
    bool grows;
    struct growth_site growth; /* the sum of its sites that are one leak, which gains most */
    struct growth_site all; /* of subject_growing: the sum of all that grows, if it is one leak */
};

struct subject subject_of_line(const struct subject_facts *facts, const struct answer_line *line);

/* What gains most, if it gained at least a twentieth of what all lines hold, and holds as much. */
struct subject subject_growing(const struct subject_facts *facts);

void subject_done(struct subject *subject);

#endif
