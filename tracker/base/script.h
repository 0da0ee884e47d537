/* SPDX-License-Identifier: MIT */
/*
 * script.h - finds the script or program in a command line: the script of an interpreter, else the
 * program.
 *
 *     python -u -W error train.py --lr 1                         train.py
 *     python -X dev -m pkg.train                                 the module pkg.train
 *     python -m torch.distributed.run --nproc-per-node 2 t.py    t.py
 *     accelerate launch train.py                                 train.py
 *     env A=1 timeout 10 python train.py                         train.py
 *     ./solve input                                              ./solve
 *
 * Knows CPython 3's options; of launchers and other interpreters it knows only some options that
 * take a value in the next word: a word that ends like a script is preferred. Pure, any thread, no
 * memory.
 */
#ifndef KEDGE_TRACKER_SCRIPT_H
#define KEDGE_TRACKER_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

enum script_kind {
    SCRIPT_NONE,   /* not an interpreter: the program's own file */
    SCRIPT_FILE,   /* a file, or a folder with a __main__ */
    SCRIPT_MODULE, /* a module's dotted name */
    SCRIPT_CODE,   /* the program text itself (-c) */
    SCRIPT_INPUT,  /* from standard input */
};

struct script {
    enum script_kind kind;
    /* Index of the word with `text`; for SCRIPT_INPUT and SCRIPT_NONE that of the program. */
    size_t word;
    /* Index of the program's word, after `env`, `timeout` and the like. */
    size_t program;
    /* Inside that word: in "-mpkg" it follows the option. "" without words. */
    const char *text;
    /* The module or script, in the interpreter's words, that runs this one: torch.distributed.run.
     * NULL: the interpreter does. */
    const char *runner;
};

/* Analyses the words at[0], at[1] ... */
struct script script_find(const char *const *at, size_t count);

/* Is it a file name of Python: "python", "python3.11", "pypy3", "python3-dbg"? */
bool script_is_python(const char *base);

/* The part after the last slash. */
const char *script_base(const char *path);

#endif
