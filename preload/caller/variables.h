/* SPDX-License-Identifier: MIT */
/*
 * variables.h - variables of other libraries that are named like our exports.
 *
 * Loaders of the driver in a library of their own (cuew, the dynlink headers of NVIDIA's samples) have exported variables by
 * the names of the functions: `CUresult (*cuInit)(unsigned)`. Our export of that name stands before them in the global scope, so
 * the loader binds the library's own references to our function, and the library writes into code. A symbol table
 * cannot say "for calls only". So what the loader has bound to us although it would find a variable without us is bound to
 * that variable: in slots for addresses (GLOB_DAT, absolute words), and in the program's copies of variables (COPY).
 *
 * When: in our constructor, for what is there at the start; then in each dlsym and dlopen of the program once something
 * was loaded, since nothing of a library runs before somebody asks for a symbol of it, but its constructors. In every
 * KEDGE_MODE: this takes back a change of ours.
 *
 * Not seen: what a constructor reads before it calls dlopen or dlsym; thread-local variables; the child of a fork loads
 * something.
 * Threads: any. Takes the lock of the loader's list, none of ours, no malloc unless such a variable is there.
 */
#ifndef KEDGE_PRELOAD_VARIABLES_H
#define KEDGE_PRELOAD_VARIABLES_H

#include <stdatomic.h>
#include <stdbool.h>

/* Something was or will be loaded; set for good. */
extern atomic_bool variables_may_come;

/* Looks at what was loaded since the last call. */
void variables_look(void);

static inline void variables_check(void)
{
    if (atomic_load_explicit(&variables_may_come, memory_order_relaxed))
        variables_look();
}

/* Whether the global scope has a variable of that name behind our export, and nothing before it. */
bool variables_stands_next(const char *name);

/* In the child of a fork: the loader's lock may be taken for good. */
void variables_fork_child(void);

#endif
