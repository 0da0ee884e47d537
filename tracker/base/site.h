/* SPDX-License-Identifier: MIT */
/*
 * site.h - a key for an allocation's place that is stable from run to run.
 *
 * One hash per frame, of the module's identity (its build-id) and the offset in it; the hashes of
 * the innermost SITE_FRAMES frames are combined. It contains no address of the run, so ASLR does
 * not change it; a rebuilt module does. The values are in hint files (`c:9b1f44d0e2a7c315`):
 * changing them voids every hint ever written.
 *
 * Pure. Shared by the run (where.c) and the reader (read.c).
 */
#ifndef KEDGE_TRACKER_SITE_H
#define KEDGE_TRACKER_SITE_H

#include <stddef.h>
#include <stdint.h>

#define SITE_FRAMES 8u

/* The hash of a frame in a module; (0, 0) for code outside modules. */
uint64_t site_frame(uint64_t module_hash, uint64_t offset);

/* The key of a stack, innermost frame first; frames beyond SITE_FRAMES do not count. 0 only for no
 * frames. */
uint64_t site_combine(const uint64_t *frame_hashes, unsigned count);

/* 64-bit hash of bytes, the one hash function of tracker/. */
uint64_t site_hash(const void *bytes, size_t length, uint64_t seed);

#endif
