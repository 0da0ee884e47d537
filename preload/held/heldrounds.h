/* SPDX-License-Identifier: MIT */
/*
 * heldrounds.h - where in a program's rounds live memory is compared, and whether it has grown.
 *
 * A round of training is compared at the end of an optimizer's step, where there is none at the end
 * of a backward pass, else before a forward pass. Evaluations and services call modules that do not
 * train: before such a call there is what earlier ones have left. Nothing is compared while a
 * backward pass runs.
 *
 * Threads: those that hold the GIL of the main interpreter. No lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_HELDROUNDS_H
#define KEDGE_PRELOAD_HELDROUNDS_H

#include "preload/anchors/pyhost.h"

struct grown;

/* The rounds that this moment is the place of, valid until the next call; NULL: of none. */
struct grown *heldrounds_of(const struct pyhost_moment *moment);

/*
 * A round is at its place. True: live memory has grown, by enough to walk for it, and has not been
 * walked for before.
 */
bool heldrounds_have_grown(struct grown *of);

/* Live memory in bytes below which no walk at the end is made. */
#define HELDROUNDS_LEAST (UINT64_C(1) << 20)

/*
 * Whether what is left at the end, `count` blocks of `bytes`, has grown and was not walked for it. Of a
 * program without rounds: many blocks, and all that it ever had.
 */
bool heldrounds_are_left(uint64_t count, uint64_t bytes);

#endif
