/* SPDX-License-Identifier: MIT */
/*
 * mutant.h - libkedge_mutant.so: the library that ships, with single safety devices switched off.
 *
 * Every fence, dependency and gate must be seen to matter: without it, the oracle of the simulated device has to fire. The
 * mutant is linked from the very objects of libkedge.so; the linker (--wrap) puts the functions of mutant.c between two of
 * them, so nothing of this is in the library that ships, not even a branch.
 *
 *     conduct.o ─ pool_new ──► mutant.c: the driver's table with holes, options with mutations ──► pool.o
 *     conduct.o ─ pool_free ─► mutant.c: a request that says less than is true ─────────────────► pool.o
 *
 * TEST_KEDGE_MUTATE is a list of the words below, by comma; an unknown one ends the program, since a test of a mutation that
 * does not exist must not pass. Without words the library is what libkedge.so is. TEST_KEDGE_FIGURES: a file that gets, when
 * the program ends, what the run has exercised, a line "name number" each (R92).
 *
 * Threads: the words are fixed before the program's first call.
 */
#ifndef KEDGE_TESTS_MUTATION_MUTANT_H
#define KEDGE_TESTS_MUTATION_MUTANT_H

/* MUTATION(name, word): what is switched off. */
#define MUTATIONS(MUTATION_)                                                                       \
    MUTATION_(FENCE, "fence")   /* no fence is asked: what was freed is free at once (R1, R4) */   \
    MUTATION_(GRACE, "grace")   /* a dead range does not wait for readers (R66) */                 \
    MUTATION_(DROP, "drop")     /* the last entry of a point set is forgotten (R70) */             \
    MUTATION_(EPOCH, "epoch")   /* every epoch has passed when it is recorded (R1) */              \
    MUTATION_(POINT, "point")   /* every point of a stream likewise (R70) */                       \
    MUTATION_(NUMBER, "number") /* a block freed on a stream needs no point of it (R70) */         \
    MUTATION_(WAIT, "wait")     /* the inserted wait is not inserted (R72) */                      \
    MUTATION_(CONTEXTS, "contexts") /* a fence covers one context only (R1) */                     \
    MUTATION_(BARRIER, "barrier")   /* a sync free does not wait for the device (R75) */           \
    MUTATION_(STREAM, "stream")     /* all streams are taken for one (R69) */                      \
    MUTATION_(                                                                                     \
            THREAD_STREAM, "thread-stream") /* all threads' own streams are taken for one (R69) */ \
    MUTATION_(OWNER, "owner") /* a thread records on another's own stream, and late (R69) */       \
    MUTATION_(STREAM_GONE, "stream-gone") /* the end of a stream goes unnoticed (R5) */            \
    MUTATION_(READER, "reader")           /* submissions are not readers (R66) */                  \
    MUTATION_(TOUCH, "touch")             /* the guard sees nothing (R86) */                       \
    MUTATION_(GATE_FENCE, "gate-fence")   /* fences know nothing of captures (R10, R67) */         \
    MUTATION_(GATE_FLIGHT,                                                                         \
            "gate-flight") /* a capture does not wait for fence calls in flight (R67) */           \
    MUTATION_(QUARANTINE,                                                                          \
            "quarantine") /* what was freed during a capture is handed out again (R12) */

#endif
