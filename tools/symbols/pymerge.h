/* SPDX-License-Identifier: MIT */
/*
 * pymerge.h - merges a native and a Python stack.
 *
 * The interpreter runs Python functions in a loop, one C function that is in the native stack once
 * for each time that C called Python. The Python functions that the call runs replace it; other
 * frames of the interpreter are left out, frames of other libraries stay:
 *
 *     alloc, _PyEval_EvalFrameDefault, call_function, ffi_call ...   with   forward, step* | main*
 *                                                                     (* called from C)
 *     alloc, forward, step, ffi_call, main
 *
 * Functions of kedge's own module in the interpreter are left out.
 *
 * If the loop cannot be found (the interpreter's file is missing), the Python functions come before
 * the first frame of an interpreter, or last. Those of another thread (ambient) come last.
 *
 * Pure. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_PYMERGE_H
#define KEDGE_TOOLS_PYMERGE_H

#include "tools/symbols/symbols.h"

/* `lines` is returned or freed; the caller frees the result. `frames` are those of `stack`. */
struct symbols_line *pymerge(struct symbols_line *lines, size_t count,
        const struct trace_stack *stack, const struct trace_pyframe *frames, size_t *ret_count);

#endif
