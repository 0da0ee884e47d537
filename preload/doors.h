/* SPDX-License-Identifier: MIT */
/*
 * doors.h - exported functions that are not the driver's: dlsym (door_dlsym.c), dlopen (door_dlopen.c), some of the CUDA
 * runtime, NCCL's and NVTX 2's.
 *
 * A program that links the runtime comes through cudaMalloc and its like on the way to the driver. kedge works below, so
 * these doors only count that they were used, note who asks for memory (door_asker) and go on to the real function.
 *
 * Which one is that? Several libraries of a process may each have a runtime, or a NCCL, of their own. In this order: what another
 * preload behind us has to say; the function that the caller's object has itself or is linked with (linked.h); the next one in the
 * global scope; that of the libraries that brought the caller's object along; the first one that was called; that of any library.
 * Once dlsym has handed out the door: what it stood for there, for a caller that names no such function, and for the program itself.
 * A call whose place was seen before costs a look into a table of the thread's own. No lock of ours, no malloc.
 * Any thread.
 */
#ifndef KEDGE_PRELOAD_DOORS_H
#define KEDGE_PRELOAD_DOORS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* NCCL's functions (door_nccl.c), and those of NVTX 2 (door_nvtx.c): door_take for a name that they have, else NULL. */
void *door_nccl(void *handle, const char *name);
void *door_nvtx(void *handle, const char *name);

/* A library whose functions we stand in for, in programs that are linked with it and in those that look them up. */
struct door_library {
    const char *base; /* how its file's name begins: "libnccl.so" */
    atomic_bool is_second_told;
};

/* What is known of one of its functions. All NULL at first. */
struct door {
    _Atomic(void *) real;    /* the first one that was handed out or called, which stays loaded */
    _Atomic(void *) preload; /* another preload's behind us, once it has been looked for */
    atomic_bool is_given;    /* a dlsym got this door */
};

/*
 * What a dlsym of `name` gets, whose door is `ours`: `ours` for a handle that has the function, which is remembered; NULL: go
 * on; RESOLVE_HIDE: only we have such a name, so there is none. Of two libraries that have it the first is watched, one line.
 */
void *door_take(struct door_library *library, struct door *door, void *handle, const char *name,
        void *ours);

/* The function behind a door, for a call from `caller`, an address in an object. NULL: none. */
static inline void *door_real(const struct door_library *library, struct door *door,
        const char *name, const void *ours, const void *caller);

/*
 * In the program's call of the runtime that this thread is in: an address in whoever made it. Below, in the driver, the caller is
 * the runtime; this says who asked that, without a walk of the stack. NULL: nobody did, through a door.
 */
extern __thread const void *door_asker __attribute__((tls_model("initial-exec")));

/* Another function of the object that `real` is in, or of what that is linked with; NULL: it has none. */
void *door_beside(const void *real, const char *name);

/* The function for an object that has none itself; NULL if there is none in this process. */
void *door_find(const struct door_library *library, const char *name);
void *door_find_runtime(const char *symbol);

/* Around each dlclose: which library a place belongs to is not remembered over one. In the child of a fork: none is under way. */
void door_close_begins(void);
void door_close_ends(void);
void door_fork_child(void);

/* ---- inside: what a thread remembers of its calls ---- */

/*
 * What was found for a call from one place, while nothing is closed: what lies there could be another library afterwards. The low
 * half of `door_closes` counts the calls of dlclose that are under way, the high half those that have been.
 */
struct door_memo {
    const void *caller;
    const void *ours;
    void *real;
    uint64_t closes;
};

enum {
    DOOR_MEMOS = 32, /* a power of two */
};

extern _Atomic(uint64_t) door_closes;
extern __thread struct door_memo door_memos[DOOR_MEMOS] __attribute__((tls_model("initial-exec")));

static inline struct door_memo *door_memo(const void *caller, const void *ours)
{
    return &door_memos[((uintptr_t)caller / 2 + (uintptr_t)ours / 16) % DOOR_MEMOS];
}

/* door_real for a place that is not remembered; then it is. */
void *door_search(const struct door_library *library, struct door *door, const char *name,
        const void *ours, const void *caller);

static inline void *door_real(const struct door_library *library, struct door *door,
        const char *name, const void *ours, const void *caller)
{
    const struct door_memo *memo = door_memo(caller, ours);

    if (memo->caller == caller && memo->ours == ours
            && memo->closes == atomic_load_explicit(&door_closes, memory_order_acquire))
        return memo->real;
    return door_search(library, door, name, ours, caller);
}

/* A library was to be opened with RTLD_DEEPBIND, and is opened without: one line per process. */
void door_deepbind(void);

/* Somebody opens a library in a namespace of its own, which is not watched: one line, once the process uses CUDA. */
void door_namespace(const void *caller);

/* The process begins to use CUDA: that line, if it is due. */
void door_cuda_begins(void);

#endif
