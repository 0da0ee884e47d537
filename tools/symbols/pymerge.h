/* SPDX-License-Identifier: MIT */
/*
 * pymerge.h - one stack of a native and a Python one.
 *
 * The interpreter runs Python functions in a loop, one C function that stands in the native stack once for each time that
 * C called Python. The functions that this call runs take its place; what else of the interpreter lies between is left
 * out, what other libraries have there stays:
 *
 *     alloc, _PyEval_EvalFrameDefault, call_function, ffi_call ...   with   forward, step* | main*     (* called from C)
 *     alloc, forward, step, ffi_call, main
 *
 * Functions of kedge's own module in the interpreter are no part of the program and are left out.
 *
 * Where the loop cannot be told (the interpreter's file is not there), the Python functions come before the first frame of
 * an interpreter, or last. Those of another thread (ambient) come last.
 *
 * Pure. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_PYMERGE_H
#define KEDGE_TOOLS_PYMERGE_H

#include "tools/symbols/symbols.h"

/* `lines` is given back or freed; the result is the caller's. `frames` are those of `stack`. */
struct symbols_line *pymerge(struct symbols_line *lines, size_t count,
        const struct trace_stack *stack, const struct trace_pyframe *frames, size_t *ret_count);

#endif
