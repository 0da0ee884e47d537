/* SPDX-License-Identifier: MIT */
/*
 * walkmemo.h - walks of a thread's own stack that need not be made again.
 *
 * A training loop asks from the same stacks again and again, and where its frames begin is the same too. What a walk reads is
 * little: the return address of each frame, and rbp where a frame further out counts from it. By cfirule.h each caller's frame
 * follows from (return address, rsp, rbp) of its callee and from words at fixed distances. So if rsp, the place in the code and (if
 * a frame counts from it) rbp are what they were at an earlier walk, and each word that was read then has its value still, then the
 * walk has the same frames: the first one is the same, and each one, being the same, leads to the same next one.
 *
 *     walk (unwind.h) ─► the frames followed again by cfirule.h: the same addresses? ─► walkmemo_note: where each word was, its value
 *     next time ─► walkmemo_find: rsp, caller, rbp, each word ─► leaf and site of then
 *
 * Not noted, so that they are walked each time: stacks with a frame that has another kind of rule or whose rule leads elsewhere than
 * the walk, frames outside of the loaded objects, stacks that lie outside of the thread's own (coroutines), signal frames, those of
 * more words than there is room for, those that end before the depth for another reason than that the outermost frame says so.
 *
 * All is forgotten when the list of loaded objects changes: there may be other code then.
 * Threads: a memo belongs to one thread. walkmemo_find: no lock, no system call, no malloc. walkmemo_note asks the loader about
 * return addresses that are new: no lock of ours may be held. Memory: meta.h, given back never, used again by a later thread.
 */
#ifndef KEDGE_TRACKER_WALKMEMO_H
#define KEDGE_TRACKER_WALKMEMO_H

#include <stdbool.h>
#include <stdint.h>

struct thread;

/* From where a walk goes: registers of the frame that asks, as they are when its callee has returned. */
struct walkmemo_from {
    uintptr_t sp, bp;
    uintptr_t ip;        /* any address in that frame's function, the same each time */
    uintptr_t caller;    /* where the program's part of the stack begins */
    uint32_t generation; /* of the loaded objects */
    bool is_own; /* below Python frames of this thread: such a walk may end at the interpreter's loop */
};

/* What is known of a walk. */
struct walkmemo_known {
    uint64_t site;
    uint32_t leaf;
    bool is_cut; /* it ended at the depth */
};

/* Of the same walk before; NULL: there is none, or it may be another one. */
const struct walkmemo_known *walkmemo_find(
        const struct thread *thread, const struct walkmemo_from *from);

/* A walk was made: `count` return addresses, innermost first; `is_whole`: the last one is of the outermost frame. */
void walkmemo_note(struct thread *thread, const struct walkmemo_from *from, void *const *ips,
        unsigned count, bool is_whole, const struct walkmemo_known *known);

/* Nothing is known any more: the record belongs to another thread now. */
struct walkmemo;
void walkmemo_forget(struct walkmemo *memo);

#endif
