/* SPDX-License-Identifier: MIT */
/*
 * walkmemo.h - cached walks of a thread's own stack.
 *
 * A training loop asks from the same stacks again and again, with frames at the same addresses. A
 * walk reads little: the return address of each frame, and rbp where an outer frame depends on it.
 * By cfirule.h each caller's frame follows from (return address, rsp, rbp) of its callee and from
 * words at fixed distances. So if rsp, the place in the code and (if a frame depends on it) rbp
 * equal those of an earlier walk, and each word read then is unchanged, then the walk has the same
 * frames: the first one is the same, and each same frame leads to the same next one.
 *
 *     walk (unwind.h) ─► follow the frames again by cfirule.h: the same addresses?
 *         ─► walkmemo_note: the place and value of each word
 *     next time ─► walkmemo_find: compare rsp, caller, rbp, each word ─► the earlier leaf and site
 *
 * Not recorded, so walked each time: stacks with a frame whose rule is unsupported or leads
 * elsewhere than the walk, frames outside loaded objects, stacks outside the thread's own
 * (coroutines), signal frames, stacks with more words than an entry holds, stacks that end before
 * the depth without reaching the outermost frame.
 *
 * Everything is dropped when the list of loaded objects changes: the code may differ.
 * Threads: a memo belongs to one thread. walkmemo_find: no lock, no system call, no malloc.
 * walkmemo_note calls the loader for new return addresses: no kedge lock may be held. Memory:
 * meta.h, never freed, reused by a later thread.
 */
#ifndef KEDGE_TRACKER_WALKMEMO_H
#define KEDGE_TRACKER_WALKMEMO_H

#include <stdbool.h>
#include <stdint.h>

struct thread;

/* The start of a walk: registers of the asking frame, as after its callee's return. */
struct walkmemo_from {
    uintptr_t sp, bp;
    uintptr_t ip;        /* any fixed address in that frame's function */
    uintptr_t caller;    /* beginning of the program's part of the stack */
    uint32_t generation; /* of the loaded objects */
    /* below Python frames of this thread: such a walk may end at the interpreter's loop */
    bool is_own;
};

/* The results of a walk. */
struct walkmemo_known {
    uint64_t site;
    uint32_t leaf;
    bool is_cut; /* it was cut at the depth */
};

/* The results of an equal earlier walk; NULL: none, or not certain. */
const struct walkmemo_known *walkmemo_find(
        const struct thread *thread, const struct walkmemo_from *from);

/* Records a walk: `count` return addresses, innermost first; `is_whole`: the last one is of the
 * outermost frame. */
void walkmemo_note(struct thread *thread, const struct walkmemo_from *from, void *const *ips,
        unsigned count, bool is_whole, const struct walkmemo_known *known);

/* Drops all entries: the record belongs to another thread now. */
struct walkmemo;
void walkmemo_forget(struct walkmemo *memo);

#endif
