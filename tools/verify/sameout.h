/* SPDX-License-Identifier: MIT */
/*
 * sameout.h - compares the output of two runs of a program.
 *
 *     first run ──► sameout_new ─┐
 *     second one ─► sameout_mask ┴─► differences are masked ─► sameout_differs(a third run)
 *
 * Lines are compared, ended by a newline or a carriage return; empty ones, and those of libkedge.so
 * itself, are left out. Without a second run every line counts. If the two differ, a line of one is
 * paired with the line of the other that is equal except for words with digits (times, addresses,
 * process numbers); the words that differ are then masked, and another run must have words with
 * digits there as well, and numbers if both were numbers: "nan" is no number here. Lines that only
 * one of the two has are optional. The order counts, unless it differed between the two, or
 * `any_order`. If one address (0x7f3a5c000000) differs, no address is compared, since some may be
 * equal by chance.
 *
 * Pure. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SAMEOUT_H
#define KEDGE_TOOLS_SAMEOUT_H

#include <stdbool.h>
#include <stddef.h>

struct sameout;

/* From the first run's output. sameout_free(NULL) is allowed. */
struct sameout *sameout_new(const char *text, size_t length);
void sameout_free(struct sameout *same);

/* From the output of a second run like the first one. At most once. */
void sameout_mask(struct sameout *same, const char *text, size_t length);

/* NULL: equal; else the first difference, which the caller frees: "line 3 is "0" instead ...". */
char *sameout_differs(const struct sameout *same, const char *text, size_t length, bool any_order);

#endif
