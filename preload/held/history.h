/* SPDX-License-Identifier: MIT */
/*
 * history.h - tensors inside the segments of PyTorch's own allocator (KEDGE_TENSORS).
 *
 *     torch.cuda is imported ─► a function of ours is queued for CUDA's initialisation
 *     CUDA is initialised ────► PyTorch records its memory history, with a bound
 *     OutOfMemoryError is made,
 *     `kedge held` asks, threading._shutdown ─► history.py takes a snapshot ─► capture_record
 *
 * PyTorch's own functions do the work (torch.cuda.memory); no code of the program is called. Where
 * PyTorch uses another allocator, or none of its names is there, nothing is recorded. Once the
 * program records a history itself, ours ends, as if it had not been: the program's is read instead.
 *
 * history.py is compiled each time, as held.py is (heldwalk.h). An error in it is dropped, and noted in
 * the capture, unless it is an interrupt, which the program gets.
 *
 * Threads: those that hold the GIL of the main interpreter. No lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_HISTORY_H
#define KEDGE_PRELOAD_HISTORY_H

#include "tracker/base/config.h"

/* From the constructor: keeps what KEDGE_TENSORS asks for. */
void history_start(const struct config *config);

/* At each audit event of the interpreter: until torch.cuda is there. */
void history_find(void);

/* On request, with the GIL: takes a snapshot, the first HISTORY_ASKED_MAX times. */
void history_asked(void);

/* The interpreter has ended. */
void history_forget(void);

#endif
