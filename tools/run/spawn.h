/* SPDX-License-Identifier: MIT */
/*
 * spawn.h - finds our own parts and starts programs.
 *
 * The half of `kedge run` that touches the system; what a program is started *with* is launch.h's business. libkedge.so is
 * looked for beside the running executable (a build tree), then in the folder `kedge` of an installation's libraries, found
 * from the executable, so that an installation may be moved. The simulated device is $KEDGE_SIM, else `sim/` in either.
 *
 * A program with a DT_RPATH finds its libraries there before LD_LIBRARY_PATH: such a program gets the simulated runtime
 * preloaded, whose soname then satisfies it.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SPAWN_H
#define KEDGE_TOOLS_SPAWN_H

#include <stdbool.h>

#include "tools/base/echo.h"
#include "tools/run/launch.h"

/* The options that run and verify have in common. */
struct spawn_options {
    bool sim;
    const char *run; /* of spawn_new_run; NULL: old captures stay */
    const char *capture, *hints, *hints_mode, *mode, *trace, *api;
};

/* Rows of them that commands share whose fields begin with a struct spawn_options. */
/* clang-format off */
#define SPAWN_OPTIONS \
    {"sim", NULL, "run on the simulated device", ARGS_FLAG, offsetof(struct spawn_options, sim)}, \
    {"capture", "FILE", "where the capture goes; an old FILE gives way to it", ARGS_TEXT, offsetof(struct spawn_options, capture)}, \
    {"hints", "FILE", "liveness hints, or off", ARGS_TEXT, offsetof(struct spawn_options, hints)}, \
    {"hints-mode", "MODE", "off, shadow, poison, trap, live or trial, instead of the file's", ARGS_TEXT, offsetof(struct spawn_options, hints_mode)}, \
    {"mode", "MODE", "pool, track or off", ARGS_TEXT, offsetof(struct spawn_options, mode)}
/* clang-format on */

/* What is known about a program's file. */
struct spawn_program {
    bool is_elf;
    bool has_rpath;       /* DT_RPATH without DT_RUNPATH */
    int runtime;          /* N of a NEEDED libcudart.so.N, 0 = none */
    bool is_static;       /* no loader starts it */
    bool is_foreign;      /* its interpreter is the loader of another C library */
    bool answers_lookups; /* it exports dlsym or functions of the driver's look-up */
    bool is_kedge;        /* it is a libkedge.so */
    bool is_wide;         /* 64 bits */
    int machine;          /* e_machine of its header */
};

/* Everything a program is started with; 0, or an exit code after one line on stderr. launch_done gives it back. */
int spawn_prepare(const char *who, const struct spawn_options *options, char *const *command,
        struct launch *ret_launch);

/* Becomes the program; if that fails, returns 127 or 126 after one line on stderr, as spawn_check. */
int spawn_become(const char *who, const struct launch *launch);

/*
 * Starts the program and waits for it. Signals that would end kedge end the program and all that it
 * started (tree.h), and the exit code is then 128 and the signal's number. What it prints goes through `echo`, which the
 * caller ends; NULL: to where kedge's own output goes. 0 with *ret_status as waitpid gives it, or an exit code after one line on stderr. A program that cannot be
 * started ends with 127 or 126, after one line.
 */
int spawn_wait(const char *who, const struct launch *launch, struct echo *echo, int *ret_status);

/* A number for a run, hexadecimal, unlike that of any other. `size`: at least 17. */
void spawn_new_run(char *to, size_t size);

/* The capture that a run finds under the name of its own. */
struct spawn_old {
    char *file;   /* of this rank; NULL: the run has no name of its own, or a pattern */
    char run[24]; /* whose captures they are; "" = not known */
};

/*
 * Looks at what stands where the capture is to go. An old capture stays until the program begins a new one, which replaces it; one whose
 * process lives stays for good, and one line says so; what is neither empty nor a capture is an error. 0 or an exit code, as above.
 */
int spawn_look_for_old(const char *who, const char *capture, struct spawn_old *ret_old);

/*
 * Behind a run: where its capture has replaced the old one, the old run's other captures (FILE.N, FILE.N.M) go, too, but for those
 * whose processes live. What the user has copied or moved to such names stays: its numbers are those of no process. Ends `old`.
 */
void spawn_clear_old(struct spawn_old *old, const char *run);

/* 0 if the program is there and may be run; else 127 or 126, as shells have them, after one line on stderr. */
int spawn_check(const char *who, const char *program);

struct spawn_program spawn_look_at(const char *path);

/* Is the program this one? */
bool spawn_is_kedge(const char *program);

/* Why this program had no libkedge.so in it, as far as its file says; NULL = it does not. The caller frees it. */
char *spawn_why_without(const char *program);

/* A process of this run that lives, 0 = none is seen. */
int spawn_still_runs(const char *run);

#endif
