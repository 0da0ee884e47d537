/* SPDX-License-Identifier: MIT */
/*
 * title.h - what a row about a stack is called: "Block.attend gpt.py:28".
 *
 * A title is the innermost frame of the program's own code, Python first; never the allocator, the dispatcher, the interpreter,
 * libffi, CUDA or kedge. In this order, the first kind that a stack has:
 *
 *     1  Python of the program          not of a package that was installed, nor of Python itself
 *     2  native code of the program     not of a framework, an interpreter, libffi, CUDA, kedge or the C library
 *     3  Python of installed packages   transformers, timm, ...
 *     4  Python of the framework        torch, paddle, jax, ...
 *     5  native code of the framework   by its name, without arguments; code without a name is only its library
 *
 * Frames of the program that are innermost in all rows of a table are skipped, if each row has another one behind them: what all
 * ask through says nothing of any. Rows that would have the same title get more frames, outward and then by the next kinds, until they differ:
 *
 *     empty m.py:3 < norm m.py:9           step train.py:60, at::native::layer_norm_backward_cuda
 *     empty m.py:3 < linear m.py:12        step train.py:60, at::native::embedding_dense_backward_cuda
 *
 * Does not read files. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_TITLE_H
#define KEDGE_TOOLS_TITLE_H

#include "tools/symbols/symbols.h"

/*
 * Titles of the rows of one table, told apart. The stack of each row is a uint32_t at `offset` of it, the rows lie `stride` bytes
 * apart; `count` may be 0. [i] is that of row i; title_done gives them back.
 */
char **title_rows(
        struct symbols *symbols, const void *rows, size_t stride, size_t offset, size_t count);
void title_done(char **titles, size_t count);

/* Likewise: three frames of the kind each, told apart or not: "Block.attend gpt.py:28 < Block.forward gpt.py:32 < GPT.forward gpt.py:45". */
char **title_ways(
        struct symbols *symbols, const void *rows, size_t stride, size_t offset, size_t count);

/* What both want to know of an array whose elements have a member `stack`. */
#define TITLE_STACKS(rows_) (rows_), sizeof(*(rows_)), offsetof(__typeof__(*(rows_)), stack)

/*
 * Likewise: the program's functions that a title names, as words for an identifier: "attend" of "Block.attend gpt.py:28". C++ is
 * without arguments, templates and what a function returns: "ns::fill". The program's code without a name: "libown+0x12". Nothing is
 * named after a library, an interpreter or a framework; "" where no word is left.
 */
char **title_words(
        struct symbols *symbols, const void *rows, size_t stride, size_t offset, size_t count);

/* Whether a Python function is the program's own, not of an installed package and not of Python itself. */
bool title_is_program(const char *function, const char *file);

#endif
