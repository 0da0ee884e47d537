/* SPDX-License-Identifier: MIT */
/*
 * variables.h - variables of other libraries that are named like our exports.
 *
 * Libraries that load the driver themselves (cuew, the dynlink headers of NVIDIA's samples) export
 * variables named like its functions: `CUresult (*cuInit)(unsigned)`. kedge's export of that name
 * comes first in the global scope, so the loader binds the library's own references to our
 * function, and the library writes into code. A symbol table cannot say "for calls only". So
 * references that the loader would have bound to a variable without kedge are bound to that
 * variable: slots for addresses (GLOB_DAT, absolute words), and the program's copies of variables
 * (COPY).
 *
 * When: in our constructor, for objects loaded at the start; then in each dlsym and dlopen of the
 * program once something was loaded, since apart from its constructors no code of a library runs
 * before one of its symbols is looked up. In every KEDGE_MODE, because this undoes a side effect of
 * kedge.
 *
 * Not covered: reads of a constructor before it calls dlopen or dlsym; thread-local variables;
 * libraries loaded in the child of a fork.
 * Threads: any. Takes the lock of the loader's list, none of ours, no malloc unless such a variable
 * is there.
 */
#ifndef KEDGE_PRELOAD_VARIABLES_H
#define KEDGE_PRELOAD_VARIABLES_H

#include <stdatomic.h>
#include <stdbool.h>

/* Something was or will be loaded; stays set. */
extern atomic_bool variables_may_come;

/* Handles the objects loaded since the last call. */
void variables_look(void);

static inline void variables_check(void)
{
    if (atomic_load_explicit(&variables_may_come, memory_order_relaxed))
        variables_look();
}

/* Whether the global scope has a variable of that name directly after our export. */
bool variables_stands_next(const char *name);

/*
 * In the child of a fork: another thread may have held the loader's lock, so it is not taken again.
 */
void variables_fork_child(void);

#endif
