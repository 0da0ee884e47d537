/* SPDX-License-Identifier: MIT */
/*
 * framework.h - finds the frameworks that a command will use, without starting it.
 *
 *     mpirun -np 2 python -u train.py        the first word that is an interpreter or a #! script
 *            train.py imports model, tqdm    names that are a framework's: found if it is installed
 *            model.py imports lightning      files and packages beside the script are searched, too
 *            lightning's METADATA            an installed package that requires torch: found
 *
 * Imports under other names, names computed at run time, and programs started by a shell are not
 * found. An import that is never reached counts if the framework is installed; if no folder of
 * installed packages is known, each import counts.
 *
 * Reads files, at most FRAMEWORK_FILES_MAX of them. Threads: none. Memory: vec.h; all freed.
 */
#ifndef KEDGE_TOOLS_FRAMEWORK_H
#define KEDGE_TOOLS_FRAMEWORK_H

#include "tools/base/vec.h"
#include "tools/run/needs.h"

#define FRAMEWORK_FILES_MAX 200u

enum framework {
    FRAMEWORK_PYTORCH,
    FRAMEWORK_TENSORFLOW,
    FRAMEWORK_JAX,
    FRAMEWORK_PADDLE,
    FRAMEWORK_COUNT,
};

struct framework_found {
    unsigned which;   /* bit 1 << enum framework; 0 = none, or no known one */
    int paddle_major; /* the installed PaddlePaddle's version, 0 = unknown */
    struct needs own; /* of PyTorch's own allocator, which must stay; none without PyTorch */
};

/*
 * `command` is NULL-terminated, `path` and `pythonpath` are lists with colons (NULL = empty),
 * `directory` is the current one and `home` the user's (NULL = unknown).
 */
struct framework_found framework_find(char *const *command, const char *path,
        const char *pythonpath, const char *directory, const char *home);

/*
 * The script and the modules of the program's own that it imports, found the same way; free with
 * vec_free_texts.
 */
struct vec_texts framework_files(
        char *const *command, const char *path, const char *pythonpath, const char *directory);

/*
 * The file that execvp runs for a word (`path` NULL = its default path). If there is none, the
 * first file of that name that may not be run; else NULL. A word with a '/' is a file's name
 * itself.
 */
char *framework_program(const char *word, const char *path, const char *directory);

/* "PyTorch". */
const char *framework_name(enum framework which);

#endif
