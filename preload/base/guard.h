/* SPDX-License-Identifier: MIT */
/*
 * guard.h - per-thread state: depth inside kedge, and whether a submission is between its check and
 * the driver.
 *
 * Every hook needs both at once, so both are in one small struct of thread-local memory
 * (initial-exec: a TLS access may not call malloc).
 *
 * Depth. kedge calls the driver and the loader, which may come back through our own exports. A hook
 * that is entered with depth > 0 goes straight to the real function (R37, re-entrant hooks).
 *
 * Reader sections (R66). A range may be unmapped only when no submission that
 * looked at it before it was marked dead is still on its way into the driver. A submission is a
 * reader; it publishes the epoch in which it began:
 *
 *     reader:  slot = epoch ── fence ── looks at the ranges ── real call ── slot = 0
 *     writer:  marks dead ── fence ── snapshot: ++epoch ─ ─ ─ passed when no slot is older
 *
 * Either the reader sees the mark or the writer sees the reader. While no hint acts (guard_word is
 * 0) a submission is one load, one branch and the real call; hints begin to act before the first
 * block that they match is handed out, and a submission that began before that cannot carry the
 * block's address.
 *
 * Takes no lock and never waits. Slots are mapped in chunks and never unmapped; when a new slot is
 * needed, one whose owner has ended is found by its thread id. If there is no memory for a slot,
 * the thread is counted in a shared one, which delays limbo and never breaks it.
 */
#ifndef KEDGE_PRELOAD_GUARD_H
#define KEDGE_PRELOAD_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct evict_in;
struct guard_slot;
struct pins;
struct argcheck_from;

struct guard_thread {
    unsigned depth;   /* > 0: inside kedge */
    unsigned reading; /* nested reader sections */
    /*
     * > 0: inside a host function of a stream, where no driver call may be made (R38, frees in
     * callbacks)
     */
    unsigned callback;
    int cancel;              /* life.c: the program's cancel state while kedge acts */
    int entry;               /* life.c: slot of the hook that the program called last */
    uint32_t word;           /* argcheck.c: the parameter of the launch that was checked last */
    struct guard_slot *slot; /* NULL until the first reader section */
    struct pins *pins;       /* what the arguments are pinned for (submit.h), NULL = no pinning */
    /* the call that evicted arguments are brought in for (evict_in.h), NULL = nothing is evicted */
    struct evict_in *bring;
    /* source of the call where devices are told apart (reach.h); NULL = they are not */
    struct argcheck_from *from;
    uint64_t moment; /* moment of the submission's uses (tracker/capture/uses.h), 0 = none yet */
};

extern __thread struct guard_thread guard_thread __attribute__((tls_model("initial-exec")));

/* Reasons why a submission hook may not simply jump to the driver. */
enum guard_bit {
    GUARD_UNBOUND = 1,   /* the driver's entries are not known yet */
    GUARD_ACTING = 2,    /* hints act or watch: arguments are checked */
    GUARD_LAUNCHES = 16, /* launches are anchors, events or memory (launches.h, graphmem.h) */
    GUARD_CAPTURING = 4, /* a stream is capturing: arguments are checked if it is this one */
    GUARD_USES = 8,      /* uses are recorded: arguments are checked, but no call is stopped */
    /* contexts of several devices exist: the device of each named block is looked up (reach.h) */
    GUARD_DEVICES = 64,
    /* copies between devices may have to become peer copies (argcheck_peers) */
    GUARD_PEERS = 32,
};

extern atomic_uint guard_word __attribute__((visibility("hidden")));

/* The one load of an idle submission hook. */
static inline bool guard_is_idle(void)
{
    return __builtin_expect(atomic_load_explicit(&guard_word, memory_order_relaxed) == 0, 1);
}

/* Whether any of these bits is set. */
static inline bool guard_has(unsigned bits)
{
    return atomic_load_explicit(&guard_word, memory_order_relaxed) & bits;
}

void guard_set(enum guard_bit bit);
void guard_clear(enum guard_bit bit);

static inline unsigned guard_depth(void)
{
    return guard_thread.depth;
}

static inline void guard_push(void)
{
    guard_thread.depth++;
}

static inline void guard_pop(void)
{
    guard_thread.depth--;
}

/* True inside a host function that the driver runs for the program (R38; R61, free as barrier). */
static inline bool guard_in_callback(void)
{
    return guard_thread.callback > 0;
}

/* Around the guard's check and the real call. May nest. */
void guard_read_begin(void);
void guard_read_end(void);

/*
 * Leaves all open sections for a while, however many are nested. Ranges that were checked in them
 * must be checked again.
 */
unsigned guard_read_suspend(void);
void guard_read_resume(unsigned suspended);

/*
 * Names all sections that are open now; a section that begins later sees marks made before this
 * call.
 */
uint64_t guard_readers_snapshot(void);

/* 0 when all sections of the snapshot have ended, else -EAGAIN. */
int guard_readers_passed(uint64_t snapshot);

/* In the child of a fork: drops the sections of the other threads. */
void guard_fork_child(void);

#endif
