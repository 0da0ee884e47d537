/* SPDX-License-Identifier: MIT */
/*
 * route.h - chooses the hook that a look-up of the program gets.
 *
 * Exported symbols alone do not reach most programs: these contain a static runtime that fetches
 * its entries with one dlsym and then cuGetProcAddress. So the look-ups themselves are intercepted,
 * and the pointer that the *driver* returned decides which hook is handed out, never a guess from a
 * name prefix:
 *
 *     dlsym(libcuda, "cuX_v2") ─┐                        ┌─ known pointer ─────────► its hook
 *     cuGetProcAddress(X, v, f) ┴► the driver answers p ─┼─ no export, row (X, v, f) ► row's hook
 *                                                        └─ else ──────────────────► p untouched
 *     a linked program ─────► our export ─► REAL(symbol): RTLD_NEXT, else a loaded libcuda.so.1
 *
 * One libcuda is served, the first (resolve.h); a pointer into another object is handed out
 * untouched, with one line.
 *
 * Does not decide whether hooks act (life.h) and never calls the driver.
 * Threads: any. Locks: none; a look-up takes the loader's, so none of ours may be held. Memory:
 * static.
 * Rules: R41 R42 R43 R59 R100 (which function a look-up gets).
 */
#ifndef KEDGE_PRELOAD_ROUTE_H
#define KEDGE_PRELOAD_ROUTE_H

#include "preload/base/cuda_abi.h"
#include "preload/driver/resolve.h"

#include <stdbool.h>

/* The hook of a row of hooks.def, in the form that is handed out. */
void *route_hook(enum resolve_slot slot);

/*
 * Answers a dlsym on a real handle for the name of a hook. NULL: make the real dlsym with a jump,
 * so that it sees its caller (export_dlsym.c). Never called for the pseudo handles. RESOLVE_HIDE:
 * only our own export exists and no driver, so the name must not be found.
 */
void *route_dlsym(void *handle, const char *name);

/*
 * The answer for a look-up of `name` from `caller` that would end at our own export; NULL: none,
 * make the look-up unchanged. If the look-up finds nothing without kedge (a driver that was opened
 * locally, a function that this driver lacks): RESOLVE_HIDE. Else its result without kedge
 * (`is_wanted` false, KEDGE_MODE=off), or our export if it stands for that. Any handle.
 */
void *route_instead(void *handle, const char *name, const void *caller, bool is_wanted);

/* Whether a name without a hook is a memory function of the driver or the runtime. */
bool route_notes(const char *name);

/* Such a name is looked up on a real handle: if it exists, it is noted as unwatched. */
void route_note_unwatched(void *handle, const char *name);

/*
 * Replaces *pfn, which the driver returned for (name, version, flags), by its hook if there is one:
 * the row with this function of the driver; else, if the driver does not export it under any name,
 * the row whose range contains the version, with that flag (R100). Leaves it unchanged otherwise,
 * as for the forms from before CUDA 3.2 (hooks.def).
 */
void route_answer(const char *name, int version, cuuint64_t flags, void **pfn);

#endif
