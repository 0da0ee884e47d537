/* SPDX-License-Identifier: MIT */
/*
 * cfirule.h - how one frame leads to its caller's, as the call frame information (.eh_frame) of its object says.
 *
 * Only rules by which the caller's frame follows from the return address, rsp and rbp, and from what lies at fixed distances of
 * them, are told apart; they are what compilers write for all but a few functions:
 *
 *     CFA = rsp + number, or rbp + number;  return address at CFA - 8;  rbp at CFA + number, or unchanged
 *     CFA = *(rbp + number);  rbp at rbp + number: a function that aligns its stack
 *
 * Other rules (other expressions, other base registers, signal frames, an encoding that is not the usual one) are CFIRULE_OTHER.
 * Code that no table of the loader's describes is CFIRULE_NONE: generated code, and functions in assembly without directives.
 *
 * Knows x86-64 alone; elsewhere everything is CFIRULE_OTHER.
 * Threads: any, not in a signal handler. cfirule_of asks the loader (its lock) with no lock of ours held. No malloc. Source: the DWARF
 * standard, version 5, section 6.4; the Linux Standard Base, Core, section 10.6 (.eh_frame and .eh_frame_hdr).
 */
#ifndef KEDGE_TRACKER_CFIRULE_H
#define KEDGE_TRACKER_CFIRULE_H

#include <stdbool.h>
#include <stdint.h>

enum cfirule_kind {
    CFIRULE_OTHER, /* not to be followed by this rule */
    CFIRULE_PLAIN,
    CFIRULE_ALIGNED, /* the CFA is the word at rbp + cfa, the caller's rbp is at rbp + bp */
    CFIRULE_END,     /* the outermost frame: it says that its return address is undefined */
    CFIRULE_NONE,    /* no table has this address */
};

/* Eight bytes. */
struct cfirule {
    uint8_t kind;      /* enum cfirule_kind; the rest is of CFIRULE_PLAIN and CFIRULE_ALIGNED */
    bool is_by_bp : 1; /* the CFA counts from rbp, else from rsp */
    bool has_bp : 1;   /* the caller's rbp is at CFA + bp, else it is what it is here */
    int16_t bp;        /* bytes */
    int32_t cfa;       /* bytes */
};

/* The rule of the frame whose callee returns to `ip`, read from the tables. */
struct cfirule cfirule_of(uintptr_t ip);

/* The same, remembered for all threads by address: no lock and no loader where it was asked for before. */
struct cfirule cfirule_known(uintptr_t ip);

/* Code was unloaded or replaced: nothing is remembered. Any thread. */
void cfirule_forget(void);

#endif
