/* SPDX-License-Identifier: MIT */
/*
 * script.h - which word of a command line names what runs: the script of an interpreter, else the program itself.
 *
 *     python -u -W error train.py --lr 1     train.py
 *     python -X dev -m pkg.train             the module pkg.train
 *     python -m torch.distributed.run --nproc-per-node 2 train.py, accelerate launch train.py      train.py
 *     env A=1 timeout 10 python train.py     train.py
 *     ./solve input                          ./solve
 *
 * Options are those that CPython 3 takes; of launchers and of other interpreters the ones that take a value in a word of its own are
 * known in part: a word that ends as scripts do is preferred. Pure, any thread, no memory.
 */
#ifndef KEDGE_TRACKER_SCRIPT_H
#define KEDGE_TRACKER_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

enum script_kind {
    SCRIPT_NONE,   /* a program that is no interpreter: its own file */
    SCRIPT_FILE,   /* a file, or a folder with a __main__ */
    SCRIPT_MODULE, /* a module's dotted name */
    SCRIPT_CODE,   /* the text itself (-c) */
    SCRIPT_INPUT,  /* from standard input */
};

struct script {
    enum script_kind kind;
    /* In which `text` stands; of SCRIPT_INPUT and SCRIPT_NONE the program's. */
    size_t word;
    /* The word of the program itself, behind `env`, `timeout` and the like. */
    size_t program;
    /* Within that word: "-mpkg" has it behind the option. "" where there are no words. */
    const char *text;
    /* The module or script, of an interpreter's own words, that runs this one: torch.distributed.run. NULL: the interpreter does. */
    const char *runner;
};

/* Of the words at[0], at[1] ... */
struct script script_find(const char *const *at, size_t count);

/* Is it a Python's file name: "python", "python3.11", "pypy3", "python3-dbg"? */
bool script_is_python(const char *base);

/* The part behind the last slash. */
const char *script_base(const char *path);

#endif
