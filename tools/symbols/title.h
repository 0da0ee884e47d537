/* SPDX-License-Identifier: MIT */
/*
 * title.h - titles for rows about stacks: "Block.attend gpt.py:28".
 *
 * A title is the innermost frame of the program's own code, Python first; never the allocator, the
 * dispatcher, the interpreter, libffi, CUDA or kedge. In this order, the first kind that a stack
 * has:
 *
 *     1  Python of the program          not of a package that was installed, nor of Python itself
 *     2  native code of the program     no framework, interpreter, libffi, CUDA, kedge or libc
 *     3  Python of installed packages   transformers, timm, ...
 *     4  Python of the framework        torch, paddle, jax, ...
 *     5  native code of the framework   its name without arguments; without a name only its library
 *
 * Frames of the program that are innermost in all rows of a table are skipped, if each row has
 * another one after them: a shared wrapper distinguishes no row. Rows that would have the same
 * title get more frames, outward and then by the next kinds, until they differ:
 *
 *     empty m.py:3 < norm m.py:9           step train.py:60, at::native::layer_norm_backward_cuda
 *     empty m.py:3 < linear m.py:12        step train.py:60, at::native::embedding_dense_backward
 *
 * Does not read files. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_TITLE_H
#define KEDGE_TOOLS_TITLE_H

#include "tools/symbols/symbols.h"

/*
 * Titles of the rows of one table, made distinct. The stack of each row is a uint32_t at `offset`,
 * rows are `stride` bytes apart; `count` may be 0. Entry [i] is for row i; title_done frees them.
 */
char **title_rows(
        struct symbols *symbols, const void *rows, size_t stride, size_t offset, size_t count);
void title_done(char **titles, size_t count);

/*
 * The same with three frames of the kind each, distinct or not: "Block.attend gpt.py:28 <
 * Block.forward gpt.py:32 < GPT.forward gpt.py:45".
 */
char **title_ways(
        struct symbols *symbols, const void *rows, size_t stride, size_t offset, size_t count);

/* The arguments of both for an array whose elements have a member `stack`. */
#define TITLE_STACKS(rows_) (rows_), sizeof(*(rows_)), offsetof(__typeof__(*(rows_)), stack)

/*
 * The same for the program's functions that a title names, as words for an identifier: "attend" of
 * "Block.attend gpt.py:28". C++ names lose arguments, templates and result types: "ns::fill". Code
 * of the program without a name: "libown+0x12". Libraries, interpreters and frameworks give no
 * word; "" if no word is left.
 */
char **title_words(
        struct symbols *symbols, const void *rows, size_t stride, size_t offset, size_t count);

/* Whether a Python function is the program's own: of no installed package, nor of Python itself. */
bool title_is_program(const char *function, const char *file);

#endif
