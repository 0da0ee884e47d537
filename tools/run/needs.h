/* SPDX-License-Identifier: MIT */
/*
 * needs.h - what a program's source names that PyTorch's backend:cudaMallocAsync lacks.
 *
 * PyTorch fixes its backend when it is imported, before the program's own code runs, so the sources
 * are looked through before the start (framework.h finds them). A name counts wherever it stands,
 * except in comments and in texts of several lines. Names put together at run time, and those in
 * installed packages, are not found.
 *
 * Threads: none. Memory: none.
 */
#ifndef KEDGE_TOOLS_NEEDS_H
#define KEDGE_TOOLS_NEEDS_H

#include <stdbool.h>

struct needs {
    bool records;     /* memory history or snapshots, whatever came first */
    const char *what; /* "MemPool"; NULL = nothing was found */
    char place[160];  /* "train.py:12" of the first */
};

/* Looks through a source for what was not found before. `file` NULL: the text of -c. */
void needs_look(struct needs *io_needs, const char *file, const char *text);

#endif
