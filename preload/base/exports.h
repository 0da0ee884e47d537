/* SPDX-License-Identifier: MIT */
/*
 * exports.h - exported functions that are not the driver's: dlsym (export_dlsym.c), dlopen (export_dlopen.c), some of the CUDA
 * runtime, NCCL's and NVTX 2's.
 *
 * A program that links the runtime passes through cudaMalloc and similar functions on its way to the driver. kedge works in
 * the driver, so these exports only count the call, note who asks for memory (bypass_asker) and call the real function.
 *
 * Which function is the real one? Several libraries of a process may each have their own runtime, or NCCL. The first of these that
 * exists: the function of another preload behind kedge; the function that the caller's object has itself or is linked with
 * (linked.h); the next one in the global scope; that of the libraries that need the caller's object; the first one that was
 * called; that of any library. If dlsym has handed out the export, it is the function that dlsym found then, for a caller that
 * names no such function, and for the program itself. A known call site costs one look into a table of the thread. No
 * lock of ours, no malloc.
 * Any thread.
 * Prefixes: export_.
 */
#ifndef KEDGE_PRELOAD_EXPORTS_H
#define KEDGE_PRELOAD_EXPORTS_H

#include <stdatomic.h>
#include <stdint.h>

/* NCCL's functions (export_nccl.c), and those of NVTX 2 (export_nvtx.c): export_take for a name that they have, else NULL. */
void *export_nccl(void *handle, const char *name);
void *export_nvtx(void *handle, const char *name);

/* A library whose functions we stand in for, in programs that are linked with it and in those that look them up. */
struct export_library {
    const char *base; /* how its file's name begins: "libnccl.so" */
    atomic_bool is_second_told;
};

/* What is known of one of its functions. All NULL at first. */
struct export
{
    _Atomic(void *) real;    /* the first one that was handed out or called, which stays loaded */
    _Atomic(void *) preload; /* another preload's behind us, once it has been looked for */
    atomic_bool is_given;    /* a dlsym got this export */
};

/*
 * What a dlsym of `name` gets, whose export is `ours`: `ours` for a handle that has the function, which is remembered; NULL: go
 * on; RESOLVE_HIDE: only we have such a name, so there is none. Of two libraries that have it the first is watched, one line.
 */
void *export_take(struct export_library *library, struct export *export, void *handle,
        const char *name, void *ours);

/* The function behind an export, for a call from `caller`, an address in an object. NULL: none. */
static inline void *export_real(const struct export_library *library, struct export *export,
        const char *name, const void *ours, const void *caller);

/* Another function of the object that `real` is in, or of what that is linked with; NULL: it has none. */
void *export_beside(const void *real, const char *name);

/* Around each dlclose: which library a place belongs to is not remembered over one. In the child of a fork: none is under way. */
void export_close_begins(void);
void export_close_ends(void);
void export_fork_child(void);

/* ---- inside: what a thread remembers of its calls ---- */

/*
 * What was found for a call from one place, while nothing is closed: what lies there could be another library afterwards. The low
 * half of `export_closes` counts the calls of dlclose that are under way, the high half those that have been.
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
/* EXPORT_MEMOS of them; until the first one is remembered, those of all threads together, which are empty. */
extern __thread struct export_memo *export_memos __attribute__((tls_model("initial-exec")));

static inline struct export_memo *export_memo(const void *caller, const void *ours)
{
    return &export_memos[((uintptr_t)caller / 2 + (uintptr_t)ours / 16) % EXPORT_MEMOS];
}

/* export_real for a place that is not remembered; then it is. */
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

/* A library was to be opened with RTLD_DEEPBIND, and is opened without: one line per process. */
void export_deepbind(void);

/* Somebody opens a library in a namespace of its own, which is not watched: one line, once the process uses CUDA. */
void export_namespace(const void *caller);

/* The process begins to use CUDA: that line, if it is due. */
void export_cuda_begins(void);

#endif
