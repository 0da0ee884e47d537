/* SPDX-License-Identifier: MIT */
/*
 * framework.h - which framework a command is about to use, by looking, without starting it.
 *
 *     mpirun -np 2 python -u train.py        the interpreter is the first word that is one, or the first script with one in its #!
 *            train.py imports model, tqdm    names that are a framework's: found if it is installed
 *            model.py imports lightning      files beside the script, and in packages there, are looked through, too
 *            lightning's METADATA            a package of the interpreter's environment that says it wants torch, which is there: found
 *
 * What is imported under other names, made up at run time, or started by a shell is not found. An import that is never reached
 * counts, of what is installed; where no folder of installed packages is known, each import does.
 *
 * Reads files, at most FRAMEWORK_FILES_MAX of them. Threads: none. Memory: vec.h; all given back.
 */
#ifndef KEDGE_TOOLS_FRAMEWORK_H
#define KEDGE_TOOLS_FRAMEWORK_H

#include "tools/base/vec.h"

#define FRAMEWORK_FILES_MAX 200u

enum framework {
    FRAMEWORK_PYTORCH,
    FRAMEWORK_TENSORFLOW,
    FRAMEWORK_JAX,
    FRAMEWORK_PADDLE,
    FRAMEWORK_COUNT,
};

struct framework_found {
    unsigned which;   /* bit 1 << enum framework; 0 = none, or none that is known */
    int paddle_major; /* PaddlePaddle's version as it is installed, 0 = not known */
};

/*
 * `command` is NULL-terminated, `path` and `pythonpath` are lists with colons (NULL = empty), `directory` is the current one and `home`
 * the user's (NULL = unknown).
 */
struct framework_found framework_find(char *const *command, const char *path,
        const char *pythonpath, const char *directory, const char *home);

/* The script and the modules of the program's own that it imports, found the same way; for vec_free_texts. */
struct vec_texts framework_files(
        char *const *command, const char *path, const char *pythonpath, const char *directory);

/*
 * The file that execvp runs for a word (`path` NULL = where it looks then); where there is none, the first of that name, which may not
 * be run; else NULL. With a '/' in it the word is a file's name as it is.
 */
char *framework_program(const char *word, const char *path, const char *directory);

/* "PyTorch". */
const char *framework_name(enum framework which);

#endif
