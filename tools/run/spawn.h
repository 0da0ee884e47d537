/* SPDX-License-Identifier: MIT */
/*
 * spawn.h - finds kedge's own files and starts programs.
 *
 * The half of `kedge run` that touches the system; launch.h prepares the command line and
 * environment. libkedge.so is searched beside the running executable (a build tree), then in the
 * folder `kedge` of an installation's libraries, found from the executable, so that an installation
 * may be moved. The simulated device is $KEDGE_SIM, else `sim/` in either.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SPAWN_H
#define KEDGE_TOOLS_SPAWN_H

#include <stdbool.h>

#include "tools/base/echo.h"
#include "tools/run/launch.h"

/* The options that run and verify share. */
struct spawn_options {
    bool sim;
    const char *run; /* from spawn_new_run; NULL: old captures stay */
    const char *capture, *hints, *hints_mode, *mode, *trace, *api;
    bool is_silent; /* as in launch.h */
};

/* Rows of these options for commands whose fields begin with a struct spawn_options. */
/* clang-format off */
#define SPAWN_OPTIONS \
    {"sim", NULL, "run on the simulated device", ARGS_FLAG, offsetof(struct spawn_options, sim)}, \
    {"capture", "FILE", "where the capture goes; an old FILE gives way to it", ARGS_TEXT, offsetof(struct spawn_options, capture)}, \
    {"hints", "FILE", "liveness hints, or off", ARGS_TEXT, offsetof(struct spawn_options, hints)}, \
    {"hints-mode", "MODE", "off, shadow, poison, trap, live or trial, instead of the file's", ARGS_TEXT, offsetof(struct spawn_options, hints_mode)}, \
    {"mode", "MODE", "pool, track or off", ARGS_TEXT, offsetof(struct spawn_options, mode)}
/* clang-format on */

/* Facts about a program's file. */
struct spawn_program {
    bool is_elf;
    bool is_static;       /* no loader starts it */
    bool is_foreign;      /* its interpreter is the loader of another C library */
    bool answers_lookups; /* it exports dlsym or functions of the driver's look-up */
    bool is_kedge;        /* it is a libkedge.so */
    bool is_wide;         /* 64 bits */
    int machine;          /* e_machine of its header */
};

/* Prepares a program's start; 0, or an exit code after one line on stderr. launch_done frees it. */
int spawn_prepare(const char *who, const struct spawn_options *options, char *const *command,
        struct launch *ret_launch);

/*
 * Becomes the program; if that fails, returns 127 or 126 after one line on stderr, as spawn_check.
 */
int spawn_become(const char *who, const struct launch *launch);

/*
 * Starts the program and waits for it. Signals that would end kedge end the program and all its
 * descendants (tree.h), and the exit code is then 128 plus the signal's number. Its output goes
 * through `echo`, which the caller ends; NULL: to kedge's own output. 0 with *ret_status in
 * waitpid's form, or an exit code after one line on stderr. A program that cannot be started ends
 * with 127 or 126, after one line.
 */
int spawn_wait(const char *who, const struct launch *launch, struct echo *echo, int *ret_status);

/* A unique hexadecimal number for a run. `size`: at least 17. */
void spawn_new_run(char *to, size_t size);

/* An existing capture with the name of a run's. */
struct spawn_old {
    char *file;   /* of this rank; NULL: the run names none, or a pattern */
    char run[24]; /* the run of the captures; "" = unknown */
};

/*
 * Checks the file where the capture is to go. An old capture stays until the program begins a new
 * one, which replaces it; if its process still runs it stays for good, and one line says so; a file
 * that is neither empty nor a capture is an error. 0 or an exit code, as above.
 */
int spawn_look_for_old(const char *who, const char *capture, struct spawn_old *ret_old);

/*
 * After a run: if its capture has replaced the old one, the old run's other captures (FILE.N,
 * FILE.N.M) are removed, too, except those whose processes still run. Files that the user copied or
 * moved to such names stay: their numbers are those of no process. Ends `old`.
 */
void spawn_clear_old(struct spawn_old *old, const char *run);

/*
 * 0 if the program exists and may be run; else 127 or 126, as in shells, after one line on stderr.
 */
int spawn_check(const char *who, const char *program);

struct spawn_program spawn_look_at(const char *path);

/* Whether the program is kedge itself. */
bool spawn_is_kedge(const char *program);

/*
 * Why libkedge.so was not loaded into this program, as far as its file shows; NULL = unknown. The
 * caller frees it.
 */
char *spawn_why_without(const char *program);

/* A process of this run that still runs, 0 = none was found. */
int spawn_still_runs(const char *run);

#endif
