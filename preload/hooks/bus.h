/* SPDX-License-Identifier: MIT */
/*
 * bus.h - handles SIGBUS from a store into a capture whose file was lost (R101, a store never ends
 * the program).
 *
 * If the capture was truncated, or its file system has failed, a store into its mapping raises
 * SIGBUS. Then memory replaces the mapping (capture_fault), the store is repeated, and the capture
 * is no longer written. Any other SIGBUS belongs to the program and has the same effect as without
 * kedge: it calls the program's handler, with the mask and flags that it asked for, or ends the
 * program with that signal (R48, handlers chain on).
 *
 * The program queries and sets its action through our exports (export_signal.c), which store it
 * here, so it always sees its own. Not covered: direct system calls of the program, and sigset. A
 * thread that blocks SIGBUS is ended by the kernel.
 *
 * Async-signal-safe, any thread.
 */
#ifndef KEDGE_PRELOAD_BUS_H
#define KEDGE_PRELOAD_BUS_H

#include <signal.h>

typedef int (*bus_sigaction)(int, const struct sigaction *, struct sigaction *);

/* Installs the handler. `real`: sigaction after ours; NULL: no effect. */
void bus_start(bus_sigaction real);

/* sigaction of SIGBUS for the program. */
int bus_action(bus_sigaction real, const struct sigaction *act, struct sigaction *ret_old);

#endif
