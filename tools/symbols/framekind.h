/* SPDX-License-Identifier: MIT */
/*
 * framekind.h - whose code a frame is: the program's, a package's or a framework's.
 *
 * Titles (title.h) and printed stacks (stackfold.h) prefer the kinds in this order:
 *
 *     PROGRAM_PYTHON     not of a package that was installed, nor of Python itself
 *     PROGRAM_NATIVE     no framework, interpreter, libffi, CUDA, kedge or libc
 *     PACKAGE_PYTHON     transformers, timm, ...
 *     FRAMEWORK_PYTHON   torch, paddle, jax, ...
 *     FRAMEWORK_NATIVE   a framework's native code with a name, apart from its allocator
 *     LIBRARY            such code without a name
 *
 * Does not read files. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_FRAMEKIND_H
#define KEDGE_TOOLS_FRAMEKIND_H

#include "tools/symbols/symbols.h"

enum framekind {
    FRAMEKIND_PROGRAM_PYTHON,
    FRAMEKIND_PROGRAM_NATIVE,
    FRAMEKIND_PACKAGE_PYTHON,
    FRAMEKIND_FRAMEWORK_PYTHON,
    FRAMEKIND_FRAMEWORK_NATIVE,
    FRAMEKIND_LIBRARY,
    FRAMEKINDS,
    FRAMEKIND_NONE, /* CUDA, kedge, libc, and what a framework calls each module through */
};

enum framekind framekind_of(const struct symbols_line *line);

/*
 * Whether a frame is PyTorch's function that allocates a workspace for cuBLAS. The first matrix
 * product of a thread calls it, and the workspace stays for all later ones.
 */
bool framekind_is_workspace(const struct symbols_line *line);

/* Whether a Python function is the program's own: of no installed package, nor of Python itself. */
bool framekind_is_program(const char *function, const char *file);

/* One frame in the form of a title: "Block.attend gpt.py:28". The caller frees it. */
char *framekind_text(const struct symbols_line *line, enum framekind kind);

/* "at::addmm" of "at::addmm(at::Tensor const&)+0x12". The caller frees it. */
char *framekind_short_name(const char *function);

/* Whether the line has a function's name, and not "module+0x1234" or the like (symbols.h). */
bool framekind_has_name(const struct symbols_line *line);

/*
 * Whose code it is, in a word: the installed package ("torch"), "python" for the interpreter and
 * its library, else the library's or program's name without its version ("libc"); "" = not known.
 * The caller frees it.
 */
char *framekind_origin(const struct symbols_line *line);

#endif
