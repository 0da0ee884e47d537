/* SPDX-License-Identifier: MIT */
/*
 * stated_steps.h - the steps that a program states by its anchors.
 *
 * Anchors whose paths differ only in digits are one family ("step_17" and "step_18", and all
 * instances of "train/step"). A family is taken for the steps if its last part names steps (step,
 * iter, batch), else if it is outermost, occurs at least three times, and most of the allocations
 * were made in it. Of several the outermost is taken, then the one with most of the allocations.
 * Its instances must follow one another: ranges that overlap, as of several threads, are no steps.
 *
 *     range   from its enter to its exit        mark   from one to the next, or to the end
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_STATED_STEPS_H
#define KEDGE_TOOLS_STATED_STEPS_H

#include "tools/trace/trace.h"

struct stated_steps_span {
    uint32_t first, behind; /* event indices */
    uint32_t anchor;
};

struct stated_steps {
    char *family; /* "SOT_CALL_#"; NULL: the program states none */
    struct stated_steps_span *spans;
    size_t count;
};

/* The family of a path: runs of digits are '#'. The caller frees it. */
char *stated_steps_fold(const char *path);

/* Whether the last part of a path names steps. */
bool stated_steps_says_step(const char *path);

void stated_steps_find(const struct trace *trace, struct stated_steps *ret);

/* The same by uses of blocks instead of allocations: steps may allocate nothing. */
void stated_steps_find_by_uses(const struct trace *trace, struct stated_steps *ret);
void stated_steps_done(struct stated_steps *stated);

#define STATED_ROUNDS 8

/*
 * All families whose instances repeat, at least three times, and follow one another: [0] the steps,
 * or without steps the outermost one with most of the allocations; then those around it, and the
 * outermost ones beside it (epochs, evaluations), the outermost first. Their number.
 */
size_t stated_steps_rounds(const struct trace *trace, struct stated_steps ret[STATED_ROUNDS]);

#endif
