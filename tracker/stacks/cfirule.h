/* SPDX-License-Identifier: MIT */
/*
 * cfirule.h - how one frame leads to its caller's frame, by the call frame information (.eh_frame)
 * of its object.
 *
 * Supports only rules by which the caller's frame follows from the return address, rsp and rbp, and
 * from words at fixed distances of them; compilers write these for all but a few functions:
 *
 *     CFA = rsp + number, or rbp + number;
 *     return address at CFA - 8;  rbp at CFA + number, or unchanged
 *     CFA = *(rbp + number);  rbp at rbp + number: a function that aligns its stack
 *
 * Other rules (other expressions, other base registers, signal frames, an unusual encoding) are
 * CFIRULE_OTHER. Code that no table of the loader describes is CFIRULE_NONE: generated code, and
 * functions in assembly without directives.
 *
 * Threads: any, not in a signal handler. cfirule_of calls the loader (its lock) with no kedge lock
 * held. No malloc. Source: the DWARF standard, version 5, section 6.4; the Linux Standard Base,
 * Core, section 10.6 (.eh_frame and .eh_frame_hdr).
 */
#ifndef KEDGE_TRACKER_CFIRULE_H
#define KEDGE_TRACKER_CFIRULE_H

#include <stdbool.h>
#include <stdint.h>

enum cfirule_kind {
    CFIRULE_OTHER, /* cannot be followed by these rules */
    CFIRULE_PLAIN,
    CFIRULE_ALIGNED, /* the CFA is the word at rbp + cfa, the caller's rbp is at rbp + bp */
    CFIRULE_END,     /* the outermost frame: its return address is undefined */
    CFIRULE_NONE,    /* no table contains this address */
};

/* Eight bytes. */
struct cfirule {
    /* enum cfirule_kind; the other fields are for CFIRULE_PLAIN and CFIRULE_ALIGNED */
    uint8_t kind;
    bool is_by_bp : 1; /* the CFA counts from rbp, else from rsp */
    bool has_bp : 1;   /* the caller's rbp is at CFA + bp, else it is unchanged */
    int16_t bp;        /* bytes */
    int32_t cfa;       /* bytes */
};

/* Reads the rule of the frame to which a callee returns at `ip` from the tables. */
struct cfirule cfirule_of(uintptr_t ip);

/* The same, cached for all threads by address: no lock and no loader for an address seen before. */
struct cfirule cfirule_known(uintptr_t ip);

/* Code was unloaded or replaced: drops the cache. Any thread. */
void cfirule_forget(void);

#endif
