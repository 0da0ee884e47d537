/* SPDX-License-Identifier: MIT */
/*
 * resolve.h - which of our functions stands in for which of the driver's.
 *
 * Symbol preloading alone is not seen by most programs: they carry a static runtime that fetches its entries with one
 * dlsym and then cuGetProcAddress. So the look-ups themselves are intercepted, and the pointer that the *driver*
 * returned decides which hook is handed out, never a name prefix and a guess:
 *
 *     dlsym(libcuda, "cuX_v2") ─┐                        ┌─ known pointer ──────────────► its hook
 *     cuGetProcAddress(X, v, f) ┴► the driver answers p ─┼─ no export, row (X, v, f)    ► adopted as that row's hook
 *                                                        └─ else ───────────────────────► p untouched
 *     a linked program ──────────► our export ──────────► REAL(symbol): RTLD_NEXT, else a loaded libcuda.so.1
 *
 * One libcuda is served, the first; a pointer into another object is handed out untouched, with one line.
 * The slots are filled once (resolve_ready) and never change afterwards, apart from a slot that was empty. An entry
 * that the driver does not have answers CUDA_ERROR_NOT_FOUND.
 *
 * Does not decide whether hooks act (life.h) and never calls the driver, except for the look-up that it answers.
 * Any thread, no lock. Binding calls dlsym, so no kedge lock may be held. Memory: static. Rules: R36 R41 R42 R43 R59 R100.
 */
#ifndef KEDGE_PRELOAD_RESOLVE_H
#define KEDGE_PRELOAD_RESOLVE_H

#include "preload/cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Slots: hooks first, so that a slot below SLOT_HOOKS is also a coverage id; then what we only call. */
enum resolve_slot {
#define HOOK(symbol, ...) SLOT_##symbol,
#include "preload/hooks.def"
    SLOT_HOOKS,
    SLOT_BEFORE_CALLS = SLOT_HOOKS - 1,
#define CALL(symbol, params) SLOT_##symbol,
#include "preload/hooks.def"
    SLOT_COUNT,
};

/* How the program reached a hook. */
enum resolve_route {
    ROUTE_DLSYM,  /* given out by dlsym */
    ROUTE_GPA,    /* given out by cuGetProcAddress */
    ROUTE_CALLED, /* entered and acted (hooks that only look at arguments do not say so) */
    ROUTE_LINKED, /* entered, and never given out: through our exported symbol */
    ROUTE_COUNT,
};

/* Exports of the runtime, counted like hooks. */
enum resolve_export {
#define EXPORT(symbol) EXPORT_##symbol,
#include "preload/hooks.def"
    EXPORT_COUNT,
};

/* One row of hooks.def. */
struct hook_row {
    const char *symbol;
    const char *name;
    int from, to; /* from <= version < to; to 0 = no end */
    unsigned per_thread;
    void *ours;
};

extern void *resolve_real[SLOT_COUNT];

/* The driver's own function behind a symbol of hooks.def. Only after resolve_ready() said true. */
#define REAL(symbol) \
    ((__typeof__(&(symbol)))__atomic_load_n(&resolve_real[SLOT_##symbol], __ATOMIC_RELAXED))

/* Whether the driver has that entry. */
#define REAL_HAS(symbol) resolve_has(SLOT_##symbol)

/*
 * True once the driver's entries are known; looks for them if not: behind us in the global scope, else in a libcuda
 * that somebody loaded. Cheap once bound. No driver call. False: there is no driver in this process (yet).
 */
bool resolve_ready(void);
bool resolve_has(enum resolve_slot slot);

/* What a linked program gets from an entry that is not there. */
CUresult resolve_missing(void);

/*
 * Answers a dlsym on a real handle for a name of ours, or NULL: then the real dlsym is to be asked by a jump, so that
 * it sees its caller (export_dlsym.c). Never called for the pseudo handles. RESOLVE_HIDE: only our own export is there and no
 * driver, so the name is to be not found.
 */
void *resolve_dlsym(void *handle, const char *name);
#define RESOLVE_HIDE ((void *)-1)

/* Whether it is the name of a hook; no table is asked for a name that cannot be one. */
bool resolve_knows(const char *name);

/* Whether it is the name of a hook or of another export of ours. */
bool resolve_exports(const char *name);

/* Whether a name that is no hook is that of a function for memory, of the driver or the runtime. */
bool resolve_notes(const char *name);

/* Such a name is asked for on a real handle: noted if the function is there. */
void resolve_passed_by(void *handle, const char *name);

/*
 * What a look-up of `name` from `caller` gets in the place of our own export, which it would end at; NULL: nothing, it is to be
 * made as it is. If the look-up finds nothing without kedge (a driver that was opened locally, a function that this driver lacks):
 * RESOLVE_HIDE. Else what it finds then (`is_wanted` false, KEDGE_MODE=off), or our export, if it stands for that. Any handle.
 */
void *resolve_instead(void *handle, const char *name, const void *caller, bool is_wanted);

/* Whether the global scope has a variable of that name behind our export, and nothing before it (variables.h). */
bool resolve_is_variable(const char *name);

/* What comes after kedge in the global scope; NULL with the loader's error if nothing does. */
void *resolve_next(const char *name);

/* The real dlsym, found without GLIBC_PRIVATE; NULL when the C library has none (then nothing works). */
void *(*resolve_real_dlsym(void))(void *, const char *);

/* The dlsym behind ours: another preload's, else the real one. */
void *(*resolve_next_dlsym(void))(void *, const char *);

/*
 * Replaces *pfn, which the driver returned for (name, version, flags), by the hook that stands in for it, if there is
 * one: the row whose function of the driver it is; else, if the driver does not export it under any name, the row whose range
 * holds the version, with that flag (R100). Leaves it alone otherwise, as the forms of before CUDA 3.2 are (hooks.def).
 */
void resolve_route(const char *name, int version, cuuint64_t flags, void **pfn);

/* Row of a hook; slot < SLOT_HOOKS. */
const struct hook_row *resolve_row(enum resolve_slot slot);

/* Counts, relaxed. Calls are counted in stripes, so that threads do not disturb each other. */
void resolve_note(enum resolve_slot slot, enum resolve_route route);
void resolve_note_export(enum resolve_export export);
bool resolve_counts(
        enum resolve_slot slot, uint64_t ret_counts[ROUTE_COUNT]); /* false: all are 0 */
uint64_t resolve_export_count(enum resolve_export export);
const char *resolve_export_name(enum resolve_export export);

/* True once after a hook or export was reached by a new route, and when a count has grown sixteenfold. */
bool resolve_coverage_news(void);
/* For others who have some; and whether there is any, which it stays. */
extern atomic_bool resolve_news;
static inline void resolve_tell_news(void)
{
    atomic_store(&resolve_news, true);
}
static inline bool resolve_has_news(void)
{
    return atomic_load_explicit(&resolve_news, memory_order_relaxed);
}

/* The file of the driver that is served; "" before it is bound. */
const char *resolve_driver_path(void);

#endif
