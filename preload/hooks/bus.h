/* SPDX-License-Identifier: MIT */
/*
 * bus.h - a store into the capture that meets no file (R101, a store never ends the program).
 *
 * Where somebody cuts the capture, or its file system has gone, a store into its mapping raises SIGBUS. Then memory is put where
 * the file was (capture_fault), the store is made again, and the capture is no longer written. Any other SIGBUS is the program's
 * and goes on as it would without kedge: to its handler, with the mask and flags that it asked for, or it ends the program with
 * that signal (R48, handlers chain on).
 *
 * The program asks for and sets its action through our exports (export_signal.c), which keep it here: it sees its own, whenever it
 * sets it. Not seen: system calls that a program makes by itself, sigset. A thread that blocks SIGBUS is ended by the kernel.
 *
 * Async-signal-safe, any thread.
 */
#ifndef KEDGE_PRELOAD_BUS_H
#define KEDGE_PRELOAD_BUS_H

#include <signal.h>

typedef int (*bus_sigaction)(int, const struct sigaction *, struct sigaction *);

/* From here on SIGBUS comes here first. `real`: sigaction behind ours; NULL: nothing is done. */
void bus_start(bus_sigaction real);

/* sigaction of SIGBUS, as the program calls it. */
int bus_action(bus_sigaction real, const struct sigaction *act, struct sigaction *ret_old);

#endif
