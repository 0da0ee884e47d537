/* SPDX-License-Identifier: MIT */
/*
 * resolve.h - the driver's own entries, and how often the program reached the hooks that stand
 * before them.
 *
 *     first hook, first look-up ──► which loaded object is the driver? ──► a slot for each entry that we hook or call: REAL(symbol)
 *
 * One libcuda is served, the first: what is next behind us in the global scope, else a libcuda.so.1
 * that somebody loaded. The slots are filled once (resolve_ready) and never change afterwards,
 * apart from a slot that was empty. An entry that the driver does not have answers
 * CUDA_ERROR_NOT_FOUND.
 *
 * Which look-up gets which hook is decided in route.h. Nothing here calls the driver.
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

/* Slots: hooks first, so that a slot below SLOT_HOOKS is also a coverage id; then what we only
 * call. */
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
    ROUTE_DLSYM,  /* given out by dlsym */
    ROUTE_GPA,    /* given out by cuGetProcAddress */
    ROUTE_CALLED, /* entered and acted (hooks that only look at arguments do not say so) */
    ROUTE_LINKED, /* entered, and never given out: through our exported symbol */
    ROUTE_COUNT,
};

/* Exports of the runtime, counted like hooks. */
enum resolve_export {
#define EXPORT(symbol) EXPORT_##symbol,
#include "preload/base/hooks.def"
    EXPORT_COUNT,
};

extern void *resolve_real[SLOT_COUNT] __attribute__((visibility("hidden")));

/* The driver's own function behind a symbol of hooks.def. Only after resolve_ready() said true. */
#define REAL(symbol) \
    ((__typeof__(&(symbol)))__atomic_load_n(&resolve_real[SLOT_##symbol], __ATOMIC_RELAXED))

/* Whether the driver has that entry. */
#define REAL_HAS(symbol) resolve_has(SLOT_##symbol)

/*
 * True once the driver's entries are known; looks for them if not: behind us in the global scope,
 * else in a libcuda that somebody loaded. Cheap once bound. No driver call. False: there is no
 * driver in this process (yet).
 */
bool resolve_ready(void);

/* The same; `hint` is a function of an object that may be the driver under another name, or NULL.
 * */
bool resolve_bind(const void *hint);

/* Fills a slot that is empty. Several threads may do so at once; what is there stays. */
void resolve_adopt(enum resolve_slot slot, void *fn);

/* Whether it is the driver's function of that slot, by its symbol or by what we call. */
bool resolve_is_own(enum resolve_slot slot, const void *fn);

/* Whether the driver that is served has the symbol of a hook. */
bool resolve_driver_exports(enum resolve_slot slot);

/* Whether an address lies in the driver that is served; in libkedge.so (NULL: no). */
bool resolve_in_driver(const void *address);
bool resolve_is_ours(const void *address);

/* Whether a path is that of a libcuda.so. */
bool resolve_is_driver_name(const char *path);

bool resolve_has(enum resolve_slot slot);

/* What a linked program gets from an entry that is not there. */
CUresult resolve_missing(void);

/* The slot of the hook of that name; -1: there is none. And the name of a slot. */
int resolve_slot(const char *symbol);
const char *resolve_symbol(enum resolve_slot slot);

/* Whether it is the name of a hook; no table is asked for a name that cannot be one. */
bool resolve_knows(const char *name);

/* Whether it is the name of a hook or of another export of ours. */
bool resolve_exports(const char *name);

/* What a look-up finds: NULL means that nothing is found, with the message that belongs to it;
 * RESOLVE_HIDE that it is to be so. */
#define RESOLVE_HIDE ((void *)-1)

/* The real dlsym, called from our place: right for real handles, and where "next after kedge" is
 * meant. */
void *resolve_look_up(void *handle, const char *name);

/* What comes after kedge in the global scope; NULL with the loader's error if nothing does. */
void *resolve_next(const char *name);

/* The real dlsym, found without GLIBC_PRIVATE; NULL when the C library has none (then nothing
 * works). */
void *(*resolve_real_dlsym(void))(void *, const char *);

/* The dlsym behind ours: another preload's, else the real one. */
void *(*resolve_next_dlsym(void))(void *, const char *);

/* Counts, relaxed. Calls are counted in stripes, so that threads do not disturb each other. */
void resolve_note(enum resolve_slot slot, enum resolve_route route);
void resolve_note_export(enum resolve_export export);
bool resolve_counts(
        enum resolve_slot slot, uint64_t ret_counts[ROUTE_COUNT]); /* false: all are 0 */
uint64_t resolve_export_count(enum resolve_export export);
const char *resolve_export_name(enum resolve_export export);

/* True once after a hook or export was reached by a new route, and when a count has grown
 * sixteenfold. */
bool resolve_coverage_news(void);
/* For others who have some; and whether there is any, which it stays. */
extern atomic_bool resolve_news __attribute__((visibility("hidden")));
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
