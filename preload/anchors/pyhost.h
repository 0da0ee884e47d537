/* SPDX-License-Identifier: MIT */
/*
 * pyhost.h - watches functions of a Python interpreter from outside, invisible to the program.
 *
 *     interpreter ─► audit hook of C (PEP 578) ─► pyparts_look, until all functions are found
 *     a call of a watched function ─► a function of ours in its vectorcall slot (PEP 590)
 *                                         ─► pyloop_enter ─► the function itself ─► pyloop_leave
 *
 * Interpreters start as without kedge: no module, path, variable or finder is added. A watched
 * function is the same object with the same code, and no frame of ours is above or below it, so
 * tracebacks, warnings, signatures, tracers and compilers see no difference. A slot of C's is used
 * only by calls that the interpreter makes from C: `f(*args)`, `object(...)`, a `for`; CPython 3.11
 * makes others without it. pyparts.c watches functions that are called in this way.
 *
 * No code of Python's runs between a call and its enter, and none between leave and return: members
 * are read in the dicts of objects and classes, past properties, descriptors, `__getattr__` and
 * metaclasses, and the functions that are called are C's. If a query fails, its exception reaches
 * the program only if it is not an `Exception` (an interrupt); the watched function is not called
 * then.
 *
 * CPython 3.10 to 3.15 with a GIL, its main interpreter. Others are left alone.
 * Threads: any that holds the GIL. No lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_PYHOST_H
#define KEDGE_PRELOAD_PYHOST_H

#include "preload/anchors/pyloop.h"

#include <stdbool.h>
#include <stddef.h>

struct pyhost_object; /* an object of the interpreter */

enum pyhost_framework {
    PYHOST_TORCH,
    PYHOST_PADDLE, /* for a decorated function (functools.wraps) the innermost one is watched */
};

/*
 * A call of a watched function: of an outermost module, an optimizer's step, or PyTorch's backward
 * pass that has ended.
 */
struct pyhost_moment {
    enum pyhost_framework framework;
    enum pyloop_kind kind;
    bool is_begin;                     /* else it has ended, without an exception */
    bool trains;                       /* it is part of training, not of an evaluation */
    struct pyhost_object *const *args; /* as of a vectorcall: [0] is the module, the optimizer */
    size_t count;
    struct pyhost_object *names; /* of keyword arguments, a tuple; NULL: none */
};

/* A module that this thread is calling, on the stack of its call. */
struct pyhost_inner {
    struct pyhost_object *module;
    struct pyhost_inner *outer; /* NULL: it is the outermost */
};

/* The modules that choose the functions to watch (pyparts.h). */
struct pyhost_parts {
    void (*look)(void);             /* called at each audit event of the interpreter */
    void (*look_for_classes)(void); /* called at each backward pass */
    void (*forget)(void);           /* called when the interpreter has ended */
    void (*at)(const struct pyhost_moment *moment); /* NULL: nobody asks, as below */
    /*
     * The name of a module that is called outermost: "" of the first model, else one that no other
     * module has. NULL: there is none. Valid until the next call.
     */
    const char *(*name)(struct pyhost_object *module);
    /* Writes the name of one inside of others, of ANCHOR_NAME_MAX bytes. False: it has none there. */
    bool (*inner)(const struct pyhost_inner *call, char *name);
};

/*
 * From the constructor, if anchors of Python are wanted. `names`: modules inside a forward get
 * ranges, too.
 */
void pyhost_start(bool names, const struct pyhost_parts *of_frameworks);

/*
 * A file is about to be loaded: a Python extension implies an interpreter, which may have been
 * loaded late. Any thread.
 */
void pyhost_library_comes(const char *file);

/*
 * The following are for pyparts.c, with the GIL. References are borrowed from the interpreter
 * unless the name says "new"; NULL = not found. No exception is left set.
 */
bool pyhost_has_module(const char *module);
struct pyhost_object *pyhost_in_module(const char *module, const char *name);
struct pyhost_object *pyhost_own(struct pyhost_object *of, const char *name); /* in its own dict */
struct pyhost_object *pyhost_own_at(
        struct pyhost_object *of, struct pyhost_object *key); /* no type */
struct pyhost_object *pyhost_in_dict(struct pyhost_object *dict, struct pyhost_object *key);
bool pyhost_next(struct pyhost_object *dict, intptr_t *io_at, struct pyhost_object **ret_key,
        struct pyhost_object **ret_value);           /* of what is no dict: nothing */
const char *pyhost_text(struct pyhost_object *text); /* valid as long as it; NULL: it is none */
struct pyhost_object *pyhost_new_key(const char *name);
struct pyhost_object *pyhost_keep(struct pyhost_object *of); /* a reference more */
struct pyhost_object *pyhost_in_class(
        struct pyhost_object *type, const char *name); /* without calling descriptors */
struct pyhost_object *pyhost_new_subclasses(struct pyhost_object *type); /* a list */
size_t pyhost_list_size(struct pyhost_object *list);
struct pyhost_object *pyhost_list_at(struct pyhost_object *list, size_t i);
void pyhost_drop(struct pyhost_object *of); /* NULL: no effect */

/* Watches a Python function. True if it is watched, already or from here on. */
bool pyhost_watch_function(
        struct pyhost_object *function, enum pyloop_kind kind, enum pyhost_framework framework);

/*
 * Watches a C method as PYLOOP_BACKWARD, in calls with a true `accumulate_grad`. `engine`: its
 * class has the method.
 */
bool pyhost_watch_engine(struct pyhost_object *engine, const char *method);

/*
 * How many calls of this method are running, in all threads: PyTorch's backward passes. -1: it is not
 * watched, so this is not known.
 */
int pyhost_passes(void);

/* The same of PaddlePaddle's `backward`, 0 without PaddlePaddle. */
int pyhost_paddle_passes(void);

/* How many of PyTorch's have begun. */
uint64_t pyhost_passes_begun(void);

/*
 * For the rooms above. A function of the interpreter's C interface; NULL: it has none of this name.
 * Only while the interpreter is known, which it is in all functions that it calls.
 */
void *pyhost_function(const char *name);

/* The name of a class, valid as long as it. */
const char *pyhost_type_name(const struct pyhost_object *type);

/*
 * Puts `ours` in the place of the C function that fills in new objects of a class that C made
 * (tp_init), which *ret_theirs gets; the class's `__init__` stays what it is. True if it is there.
 */
typedef int (*pyhost_init)(
        struct pyhost_object *self, struct pyhost_object *args, struct pyhost_object *keywords);
bool pyhost_watch_init(struct pyhost_object *type, pyhost_init ours, pyhost_init *ret_theirs);

/* `before` runs in front of each call of this Python function that C makes. For one function. */
bool pyhost_watch_before(struct pyhost_object *function, void (*before)(void));

/*
 * The object that says whether gradients are computed, kept for good: PyTorch's function (false: it
 * is not a C function), PaddlePaddle's object that has the tracer (true).
 */
bool pyhost_ask_grad(struct pyhost_object *function);
bool pyhost_ask_tracer(struct pyhost_object *state);

#endif
