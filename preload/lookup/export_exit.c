/* SPDX-License-Identifier: MIT */
/*
 * The exports by which a program exits without its exit handlers, as children of Python's
 * multiprocessing do: they record in the capture that it exited by itself, and its status. The
 * capture of a killed process lacks this record. Async-signal-safe: the real function is looked up
 * when the library is loaded.
 *
 * This file is part of the shared objects alone (CMakeLists.txt): linked into a test program it
 * would be that program's.
 */
#include "preload/base/guard.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"

#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC visibility push(default)

typedef void (*exit_function)(int);

/*
 * NOLINTBEGIN(readability-redundant-declaration,bugprone-reserved-identifier): these declarations
 * export the functions
 */
void _exit(int status);
void _Exit(int status);
/* NOLINTEND(readability-redundant-declaration,bugprone-reserved-identifier) */

/* fixed by the constructor, before the program's first instruction */
static exit_function exit_real;

__attribute__((constructor)) static void exit_find(void)
{
    guard_push();
    exit_real = (exit_function)resolve_next("_exit");
    guard_pop();
}

void _exit(int status)
{
    life_exits(status);
    if (exit_real)
        exit_real(status);
    for (;;) /* called before the constructor */
        (void)syscall(SYS_exit_group, status);
}

void _Exit(int status)
{
    _exit(status);
}
