/* SPDX-License-Identifier: MIT */
/*
 * pyhost.h - watches functions of a Python interpreter from outside: nothing of the program's can see it.
 *
 *     interpreter ─► audit hook of C (PEP 578) ─► pyparts_look, until the frameworks' functions are found
 *     a call of a watched function ─► a function of ours in its vectorcall slot (PEP 590)
 *                                         ─► pyloop_enter ─► the function itself ─► pyloop_leave
 *
 * Interpreters are started as they would be: no module, path, variable or finder is ours. A watched
 * function is the same object with the same code; it has no frame of ours above or below it, so
 * tracebacks, warnings, signatures, tracers and compilers see what they would. A slot of C's is
 * used only by calls that the interpreter makes from C: `f(*args)`, `object(...)`, a `for`; CPython
 * 3.11 makes others without it. pyparts.c watches functions that are called in this way.
 *
 * No code of Python's runs between a call and its enter, and none between leave and return: members
 * are read in the dicts of objects and classes, past properties, descriptors, `__getattr__` and
 * metaclasses, and the functions that are called are C's. If asking fails, its exception is the
 * program's only if that is none of `Exception` (an interrupt), and the function is not called then.
 *
 * CPython 3.10 to 3.15 with a GIL, its main interpreter. Others are left alone.
 * Threads: any that holds the GIL. No lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_PYHOST_H
#define KEDGE_PRELOAD_PYHOST_H

#include "preload/anchors/pyloop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pyhost_object; /* of the interpreter's */

/* Which functions of frameworks are watched is for others to say (pyparts.h). */
struct pyhost_parts {
    void (*look)(void);             /* at each event of the interpreter's */
    void (*look_for_classes)(void); /* at each backward pass */
    void (*forget)(void);           /* the interpreter has ended */
};

/* From the constructor, if anchors of Python are wanted. `names`: modules inside of a forward have ranges, too. */
void pyhost_start(bool names, const struct pyhost_parts *of_frameworks);

/* A file is about to be loaded: an extension of Python's has an interpreter, which may have come late. Any thread. */
void pyhost_library_comes(const char *file);

/*
 * The following are for pyparts.c, with the GIL. References are borrowed from what the interpreter keeps, except where
 * "new" is said; NULL = there is none. No exception is left.
 */
bool pyhost_has_module(const char *module);
struct pyhost_object *pyhost_in_module(const char *module, const char *name);
struct pyhost_object *pyhost_own(struct pyhost_object *of, const char *name); /* in its own dict */
struct pyhost_object *pyhost_in_class(
        struct pyhost_object *type, const char *name);                   /* as it stands there */
struct pyhost_object *pyhost_new_subclasses(struct pyhost_object *type); /* a list */
size_t pyhost_list_size(struct pyhost_object *list);
struct pyhost_object *pyhost_list_at(struct pyhost_object *list, size_t i);
void pyhost_drop(struct pyhost_object *of); /* NULL: nothing */

enum pyhost_framework {
    PYHOST_TORCH,
    PYHOST_PADDLE, /* of a function with decorators (functools.wraps) the innermost one is watched */
};

/* Watches a function of Python's. True if it is watched, already or from here on. */
bool pyhost_watch_function(
        struct pyhost_object *function, enum pyloop_kind kind, enum pyhost_framework framework);

/* Watches a method of C's as PYLOOP_BACKWARD, in calls with a true `accumulate_grad`. `engine`: its class has the method. */
bool pyhost_watch_engine(struct pyhost_object *engine, const char *method);

/* What tells whether gradients are computed. Kept for good. */
bool pyhost_ask_grad(struct pyhost_object *function); /* of PyTorch; false: no function of C's */
void pyhost_ask_tracer(struct pyhost_object *state);  /* of PaddlePaddle; what has the tracer */

#endif
