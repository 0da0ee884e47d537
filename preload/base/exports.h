/* SPDX-License-Identifier: MIT */
/*
 * exports.h - exported functions that are not the driver's: dlsym (export_dlsym.c), dlopen
 * (export_dlopen.c), some of the CUDA runtime, NCCL's and NVTX 2's.
 *
 * A program that links the runtime passes through cudaMalloc and similar functions on its way to
 * the driver. kedge works in the driver, so these exports only count the call, note who asks for
 * memory (bypass_asker) and call the real function.
 *
 * Several libraries of a process may each have their own runtime or NCCL, so the real function is
 * the first of these that exists: the function of another preload behind kedge; the function that
 * the caller's object has itself or is linked with (linked.h); the next one in the global scope;
 * the function of the libraries that need the caller's object; the first one that was called; the
 * function of any library. If dlsym has handed out the export, it is the function that dlsym found
 * then, for a caller that names no such function, and for the program itself. A known call site
 * costs one look into a table of the thread. No lock of ours, no malloc. Any thread.
 * Prefixes: export_.
 */
#ifndef KEDGE_PRELOAD_EXPORTS_H
#define KEDGE_PRELOAD_EXPORTS_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * export_take for one of NCCL's functions (export_nccl.c) or of NVTX 2's (export_nvtx.c); NULL for
 * any other name.
 */
void *export_nccl(void *handle, const char *name);
void *export_nvtx(void *handle, const char *name);

/*
 * A library whose functions kedge exports too, for programs that link it and for those that look
 * its functions up.
 */
struct export_library {
    const char *base; /* prefix of its file name: "libnccl.so" */
    atomic_bool is_second_told;
};

/* State of one exported function. All NULL at first. */
struct export
{
    /* the first real function that was handed out or called; its library stays loaded */
    _Atomic(void *) real;
    /* the function of a preload behind kedge, once it has been looked for */
    _Atomic(void *) preload;
    atomic_bool is_given; /* dlsym handed out this export */
};

/*
 * The answer of dlsym for `name`, whose export is `ours`. `ours`: the handle has the function,
 * which is remembered. NULL: continue the look-up. RESOLVE_HIDE: only kedge has such a name, so
 * dlsym finds nothing. If two libraries have the function, the first is watched and one line says
 * so.
 */
void *export_take(struct export_library *library, struct export *export, void *handle,
        const char *name, void *ours);

/* The real function behind an export, for a call from the address `caller`. NULL: none. */
static inline void *export_real(const struct export_library *library, struct export *export,
        const char *name, const void *ours, const void *caller);

/*
 * Another function of the object that contains `real`, or of the libraries it is linked with; NULL:
 * none.
 */
void *export_beside(const void *real, const char *name);

/*
 * Around each dlclose: which library an address belongs to is not remembered across one. After
 * fork, in the child: no dlclose is under way.
 */
void export_close_begins(void);
void export_close_ends(void);
void export_fork_child(void);

/* ---- inside: the calls that a thread remembers ---- */

/*
 * The real function for calls from one address. Valid only while no library is closed, since
 * another library may be loaded there afterwards. The low half of `export_closes` counts the calls
 * of dlclose under way, the high half those that have returned.
 */
struct export_memo {
    const void *caller;
    const void *ours;
    void *real;
    uint64_t closes;
};

enum {
    EXPORT_MEMOS = 32, /* a power of two */
};

extern _Atomic(uint64_t) export_closes;
/*
 * EXPORT_MEMOS entries; until the thread remembers its first call, one empty array shared by all
 * threads.
 */
extern __thread struct export_memo *export_memos __attribute__((tls_model("initial-exec")));

static inline struct export_memo *export_memo(const void *caller, const void *ours)
{
    return &export_memos[((uintptr_t)caller / 2 + (uintptr_t)ours / 16) % EXPORT_MEMOS];
}

/* Finds the real function for an address that is not remembered, and remembers it. */
void *export_search(const struct export_library *library, struct export *export, const char *name,
        const void *ours, const void *caller);

static inline void *export_real(const struct export_library *library, struct export *export,
        const char *name, const void *ours, const void *caller)
{
    const struct export_memo *memo = export_memo(caller, ours);

    if (memo->caller == caller && memo->ours == ours
            && memo->closes == atomic_load_explicit(&export_closes, memory_order_acquire))
        return memo->real;
    return export_search(library, export, name, ours, caller);
}

/*
 * One line per process: dlopen was called with RTLD_DEEPBIND, and kedge opens the library without
 * it.
 */
void export_deepbind(void);

/*
 * Notes that a library is opened in a namespace of its own, which kedge does not watch. One line,
 * printed once the process uses CUDA.
 */
void export_namespace(const void *caller);

/* Prints that line if it is due: the process begins to use CUDA. */
void export_cuda_begins(void);

#endif
