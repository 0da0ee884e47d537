/* SPDX-License-Identifier: MIT */
/*
 * title.h - titles for rows about stacks: "Block.attend gpt.py:28".
 *
 * A title is the innermost frame of the program's own code, Python first; never the allocator, the
 * dispatcher, the interpreter, libffi, CUDA or kedge. A stack without own code has the first of the
 * kinds in framekind.h that it has.
 *
 * A workspace of cuBLAS has a title of its own, as the first line with a matrix product only happens
 * to be where it is made.
 *
 * A stack has the same title in each table and command, since it is told apart from all stacks of
 * the trace, whether the table has them or not. Own frames are added outward, those alone in which
 * such stacks differ, so that a title has the line that only one of two places has:
 *
 *     encode m.py:3 < evaluate run.py:41           encode m.py:3 < train run.py:30
 *
 * Own frames that are innermost in three of four stacks of the trace are skipped there, if each of
 * these has another one: a shared wrapper distinguishes nothing. Rows of one table that share their
 * own frames get frames of the next kinds, until they differ:
 *
 *     step train.py:60, at::native::layer_norm_backward_cuda
 *     step train.py:60, at::native::embedding_dense_backward
 *
 * Does not read files. Threads: none. Memory: vec.h. What is known of the trace's stacks is kept
 * with the symbols, and found anew when the trace has more of them.
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
 * The same without what tells rows of one table apart: stacks with equal titles come the same way
 * through the program's own code, and by the same line of others' code if it has none of its own.
 */
char **title_ways(
        struct symbols *symbols, const void *rows, size_t stride, size_t offset, size_t count);

/* Whether such a title is that of workspaces, which no line of the program asked for. */
bool title_is_workspace(const char *title);

/* The innermost of these frames alone: stacks with different titles may share it. Caller frees. */
char *title_line(struct symbols *symbols, uint32_t stack);

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

#endif
