/* SPDX-License-Identifier: MIT */
/*
 * ran.h - the running program and its environment, as lines of a receipt (R108, evidence of a
 * receipt).
 *
 *     /proc/self/cmdline, environment, script ─► ran_look ─► facts
 *         ─┬─► the capture (settings "ran.KEY"), for `kedge verify`
 *          └─► ran_differs(receipt): the differences, in words
 *
 *     kedge        version and identity of libkedge.so
 *     driver       the CUDA version that it reports
 *     device       "simulated"; nothing for a GPU, whose name needs a CUDA call (ran_other_gpu)
 *     program      of where.h
 *     interpreter  of a script: its path, with links unresolved, since an environment's packages
 *                  depend on it
 *     script       its path and its content, or a module's name
 *     directory    where such a name, or the text of -c, finds its modules
 *     variables    environment variables that decide how memory is allocated and where modules
 *                  are found
 *     rank         "-" without one
 *     arguments    the words after the program, the script by its name only: for people
 *     command      the same with # for numbers, which may differ: a run may be longer than its
 *                  trial
 *
 * Not recorded: input, data, other variables. Files are read, a few MiB in all: once, when hints
 * are loaded.
 * Threads: none; the facts are read-only afterwards. Memory: malloc.
 */
#ifndef KEDGE_TRACKER_RAN_H
#define KEDGE_TRACKER_RAN_H

#include "tracker/hints/receipt.h"

#include <stdbool.h>
#include <stddef.h>

#define RAN_FACTS_MAX 12u

/* Prefix of capture settings that are lines of a receipt. */
#define RAN_SETTING "ran."

struct ran_fact {
    const char *key;
    char value[RECEIPT_VALUE_MAX];
};

struct ran {
    struct ran_fact fact[RAN_FACTS_MAX];
    size_t count;
    char directory[4096]; /* the current one; "" = unknown */
    char path[8192];      /* for ran_look: a thread's stack may be small */
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

/* NULL: no memory. Kept for good, or freed with free(). */
struct ran *ran_look(const struct ran_opts *opts);

/* Describes the first difference from the receipt; false: none. Also compares loaded modules
 * (intern.h). */
bool ran_differs(const struct ran *ran, const struct receipt *receipt, char *ret_why, size_t room);

/* Does the receipt lack this GPU's kind? `gpu`: "NVIDIA H100 GPU-1234...". The simulated device is
 * no GPU. */
bool ran_other_gpu(const struct receipt *receipt, const char *gpu, char *ret_why, size_t room);

/* Does the receipt name this Python file, given as the interpreter names it? */
bool ran_names_file(const struct ran *ran, const struct receipt *receipt, const char *file);

#endif
