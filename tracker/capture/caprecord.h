/* SPDX-License-Identifier: MIT */
/*
 * caprecord.h - area F of a capture: what a framework has recorded of its own memory.
 *
 * Each record is an extent of its own, of its size: a snapshot of PyTorch has some megabytes.
 *
 * Threads: any, no kedge lock held (makes system calls).
 */
#ifndef KEDGE_TRACKER_CAPRECORD_H
#define KEDGE_TRACKER_CAPRECORD_H

#include "tracker/capture/capfile.h"

/* Starts on a new file; no other thread may be inside. */
void caprecord_init(struct capfile *file);

#endif
