/* SPDX-License-Identifier: MIT */
/*
 * ran.h - what runs here, and where, as lines of a receipt (R108).
 *
 *     /proc/self/cmdline, environment, script ─► ran_look ─► facts ─┬─► the capture (settings "ran.KEY"), for `kedge verify`
 *                                                                   └─► ran_differs(receipt): what has changed, in words
 *
 *     kedge        version and identity of libkedge.so
 *     driver       the CUDA version that it states
 *     device       "simulated"; of a GPU nothing, since asking for its name needs a CUDA call: ran_other_gpu, later
 *     program      of where.h
 *     interpreter  of a script: its path, not followed to a shared one, since an environment's packages hang on it
 *     script       its path and its content, or a module's name
 *     directory    where such a name, or the text of -c, finds its modules
 *     variables    those of the environment that decide what is allocated how, and where modules are found
 *     rank         "-" without one
 *     arguments    the words behind the program, with the script by its name alone: for people
 *     command      the same with # for numbers, which may be others: a run may be longer than its trial
 *
 * What is neither: input, data, other variables. Files are read, in all a few MiB: once, when hints are loaded.
 * Threads: none; the facts are read-only from then on. Memory: malloc.
 */
#ifndef KEDGE_TRACKER_RAN_H
#define KEDGE_TRACKER_RAN_H

#include "tracker/hints/receipt.h"

#include <stdbool.h>
#include <stddef.h>

#define RAN_FACTS_MAX 12u

/* Settings of a capture that are lines of a receipt begin so. */
#define RAN_SETTING "ran."

struct ran_fact {
    const char *key;
    char value[RECEIPT_VALUE_MAX];
};

struct ran {
    struct ran_fact fact[RAN_FACTS_MAX];
    size_t count;
    char directory[4096]; /* the current one; "" = not known */
    char path[8192];      /* of ran_look: a thread's stack may be small */
    char text[4096];
};

struct ran_opts {
    const char *program; /* where_program() */
    const char *version; /* of kedge */
    int driver;
    bool is_simulated;
    const char *rank; /* "" = none */
    char *const *env;
};

/* NULL: there is no memory. For good, or free() it. */
struct ran *ran_look(const struct ran_opts *opts);

/* What the receipt says otherwise, in words; false: nothing. Modules that are loaded are compared, too (intern.h). */
bool ran_differs(const struct ran *ran, const struct receipt *receipt, char *ret_why, size_t room);

/* Does the receipt name this GPU's kind? `gpu`: "NVIDIA H100 GPU-1234...". The simulated device is none. */
bool ran_other_gpu(const struct receipt *receipt, const char *gpu, char *ret_why, size_t room);

/* Is a Python file, as the interpreter calls it, one of those that the receipt names? */
bool ran_names_file(const struct ran *ran, const struct receipt *receipt, const char *file);

#endif
