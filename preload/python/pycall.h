/* SPDX-License-Identifier: MIT */
/*
 * pycall.h - functions of the program's interpreter, found by name, and Python code of ours in it.
 *
 *     pycall_begin ─► pycall_text(text, function, arguments) ─► ... ─► pycall_end
 *         a namespace of its own, with `modules`: no module is added, and nothing of it stays;
 *         tracers and profilers of the program see nothing (CPython 3.11 on)
 *
 * Threads: those that hold the GIL of the main interpreter. No lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_PYCALL_H
#define KEDGE_PRELOAD_PYCALL_H

#include "preload/anchors/pyhost.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * For a list F(result, name, params) of functions as in Python's documentation: members of a struct
 * that begins with them, and their names.
 */
#define PYCALL_MEMBER(result, name, params) \
    result(*name) params; /* NOLINT(bugprone-macro-parentheses) */
#define PYCALL_NAME(result, name, params) #name,

/*
 * Finds `count` functions or objects of the interpreter by name; `members` is a struct that begins
 * with as many pointers. False: one is missing.
 */
bool pycall_find(void *members, const char *const *names, size_t count);

/* ---- a text --------------------------------------------------------------------------------- */

struct pycall {
    struct pyhost_object *space; /* the namespace; NULL: nothing can run */
    void *thread;
};

/* Whether texts can run in this interpreter. */
bool pycall_can(void);

void pycall_begin(struct pycall *call);

/*
 * Runs the text, and then its function. `args`: a new tuple, which is taken; NULL: it could not be
 * made. The answer is new; NULL: an error is set.
 */
struct pyhost_object *pycall_text(struct pycall *call, const unsigned char *text, const char *name,
        struct pyhost_object *args);

/* `what`: of pycall_forget_error. */
void pycall_end(struct pycall *call, const char *what);

/*
 * Notes an error in the capture, and clears it; an interrupt stays. `what`, a format with %s for its
 * class, says what is not known: "tensors are not known: %s in the history".
 */
void pycall_forget_error(const char *what) __attribute__((format(printf, 1, 0)));

#endif
