/* SPDX-License-Identifier: MIT */
/*
 * import_frames.h - converts the frames of PyTorch's stacks for a capture.
 *
 * PyTorch has Python and native frames in one list, without marking them. Frames that kedge leaves
 * out of its own stacks are left out: those of the recorder, of the interpreter and of the C
 * library. Pure.
 */
#ifndef KEDGE_TOOLS_IMPORT_FRAMES_H
#define KEDGE_TOOLS_IMPORT_FRAMES_H

#include "tools/import/import.h"

/* A file of "??" is none. Lines that do not fit into 31 bits are unknown. */
struct import_frame import_frames_make(
        struct import_text function, struct import_text file, uint64_t line);

bool import_frames_leave_out(const struct import_frame *frame);

#endif
