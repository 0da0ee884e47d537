/* SPDX-License-Identifier: MIT */
/*
 * resolve.h - the driver's own entries, and counts of how the program reached the hooks in front of
 * them.
 *
 *     first hook or look-up ──► find the driver ──► fill a slot per entry that kedge hooks or
 *     calls ──► REAL(symbol)
 *
 * One libcuda is served, the first: the next one after kedge in the global scope, else a
 * libcuda.so.1 that was loaded. The slots are filled once (resolve_ready) and never change
 * afterwards, apart from a slot that was empty. An entry that the driver does not have answers
 * CUDA_ERROR_NOT_FOUND.
 *
 * route.h decides which look-up gets which hook. Nothing here calls the driver.
 * Threads: any. Locks: none; binding takes the loader's, so none of ours may be held. Memory:
 * static.
 * Rules: R36 (no lock in the loader) R41 R42 R59 (the real dlsym).
 */
#ifndef KEDGE_PRELOAD_RESOLVE_H
#define KEDGE_PRELOAD_RESOLVE_H

#include "preload/base/cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Slots: hooks first, so that a slot below SLOT_HOOKS is also a coverage id; then entries that
 * kedge only calls.
 */
enum resolve_slot {
#define HOOK(symbol, ...) SLOT_##symbol,
#include "preload/base/hooks.def"
    SLOT_HOOKS,
    SLOT_BEFORE_CALLS = SLOT_HOOKS - 1,
#define CALL(symbol, params) SLOT_##symbol,
#include "preload/base/hooks.def"
    SLOT_COUNT,
};

/* How the program reached a hook. */
enum resolve_route {
    ROUTE_DLSYM,  /* handed out by dlsym */
    ROUTE_GPA,    /* handed out by cuGetProcAddress */
    ROUTE_CALLED, /* entered and acted (hooks that only check arguments are not counted) */
    ROUTE_LINKED, /* entered without having been handed out: through our exported symbol */
    ROUTE_COUNT,
};

/* Exports of the runtime, counted like hooks. */
enum resolve_export {
#define EXPORT(symbol) EXPORT_##symbol,
#include "preload/base/hooks.def"
    EXPORT_COUNT,
};

extern void *resolve_real[SLOT_COUNT] __attribute__((visibility("hidden")));

/*
 * The driver's own function behind a symbol of hooks.def. Only after resolve_ready() returned true.
 */
#define REAL(symbol) \
    ((__typeof__(&(symbol)))__atomic_load_n(&resolve_real[SLOT_##symbol], __ATOMIC_RELAXED))

/* Whether the driver has that entry. */
#define REAL_HAS(symbol) resolve_has(SLOT_##symbol)

/*
 * True once the driver's entries are known; looks for them if not: after kedge in the global scope,
 * else in a libcuda that was loaded. Cheap once bound. No driver call. False: this process has no
 * driver (yet).
 */
bool resolve_ready(void);

/* The same; `hint` is a function of an object that may be the driver under another name, or NULL.
 * */
bool resolve_bind(const void *hint);

/* Fills an empty slot. Several threads may do so at once; a filled slot is kept. */
void resolve_adopt(enum resolve_slot slot, void *fn);

/* Whether `fn` is the driver's function of that slot, by its symbol or as kedge calls it. */
bool resolve_is_own(enum resolve_slot slot, const void *fn);

/* Whether the driver that is served has the symbol of a hook. */
bool resolve_driver_exports(enum resolve_slot slot);

/*
 * Whether an address lies in the served driver. Below: whether it lies in libkedge.so (NULL: no).
 */
bool resolve_in_driver(const void *address);
bool resolve_is_ours(const void *address);

/* Whether a path is a libcuda.so's. */
bool resolve_is_driver_name(const char *path);

bool resolve_has(enum resolve_slot slot);

/* Called for an entry that the driver does not have. */
CUresult resolve_missing(void);

/* The slot of the hook of that name; -1: none. Below: the name of a slot. */
int resolve_slot(const char *symbol);
const char *resolve_symbol(enum resolve_slot slot);

/* Whether a hook has that name; a name that cannot be one costs no search. */
bool resolve_knows(const char *name);

/* Whether it is the name of a hook or of another export of ours. */
bool resolve_exports(const char *name);

/*
 * Answers of a look-up: NULL = nothing is found, with the loader's message; RESOLVE_HIDE = an
 * existing function is hidden.
 */
#define RESOLVE_HIDE ((void *)-1)

/*
 * The real dlsym, called from libkedge.so: right for real handles, and where "next after kedge" is
 * meant.
 */
void *resolve_look_up(void *handle, const char *name);

/*
 * The next definition after kedge in the global scope; NULL with the loader's error if there is
 * none.
 */
void *resolve_next(const char *name);

/*
 * The real dlsym, found without GLIBC_PRIVATE; NULL when the C library has none (then no look-up
 * works).
 */
void *(*resolve_real_dlsym(void))(void *, const char *);

/* The dlsym after ours: another preload's, else the real one. */
void *(*resolve_next_dlsym(void))(void *, const char *);

/* Counts, relaxed. Calls are counted in stripes, so that threads do not share a cache line. */
void resolve_note(enum resolve_slot slot, enum resolve_route route);
void resolve_note_export(enum resolve_export export);
bool resolve_counts(
        enum resolve_slot slot, uint64_t ret_counts[ROUTE_COUNT]); /* false: all are 0 */
uint64_t resolve_export_count(enum resolve_export export);
const char *resolve_export_name(enum resolve_export export);

/*
 * True once after a hook or export was reached by a new route, and each time a count has grown
 * sixteenfold.
 */
bool resolve_coverage_news(void);
/* Set by other modules that have news; stays set. */
extern atomic_bool resolve_news __attribute__((visibility("hidden")));
static inline void resolve_tell_news(void)
{
    atomic_store(&resolve_news, true);
}
static inline bool resolve_has_news(void)
{
    return atomic_load_explicit(&resolve_news, memory_order_relaxed);
}

/* The file of the served driver; "" before it is bound. */
const char *resolve_driver_path(void);

#endif
