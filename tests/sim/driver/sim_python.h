/* SPDX-License-Identifier: MIT */
/*
 * sim_python.h - the Python frames of the calling thread, by CPython's public C interface (3.9 and later).
 *
 * A framework lets go of the GIL before it asks for memory, so a thread that has a thread state takes the GIL
 * here and gives it back: the interface may be used in no other way. That orders the program's threads otherwise than
 * a run without it, and would wait for ever where one thread asks for memory under a lock that another one, with
 * the GIL, waits for: a run that does that does not end, and says so. Collections of garbage stay away meanwhile, so
 * that no finaliser of the program runs inside its own allocation. Threads without a thread state are left alone: the
 * interface would make one for them.
 *
 * Threads: any, without a lock that a thread with the GIL may wait for.
 */
#ifndef KEDGE_TESTS_SIM_SIM_PYTHON_H
#define KEDGE_TESTS_SIM_SIM_PYTHON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * "\tN" and, for each frame from the innermost out, "\tfunction\tfile\tline"; the function by its qualified name where the
 * interpreter has that (3.11). N is 0 for a thread without frames and in a process without an interpreter.
 */
void sim_python_put(FILE *line);

/* Whether an address is in the function that runs Python code, as the interpreter's symbol table bounds it. */
bool sim_python_is_loop(uintptr_t address);

#endif
