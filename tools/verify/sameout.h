/* SPDX-License-Identifier: MIT */
/*
 * sameout.h - did a program print the same in two runs?
 *
 *     first run ──► sameout_new ─┐
 *     second one ─► sameout_mask ┴─► what differs between the two is not looked at ─► sameout_differs(a third run)
 *
 * Lines are compared, ended by a newline or a carriage return; empty ones, and those of libkedge.so itself, are left out. Without a
 * second run every line counts. Where the two differ, a line of the one is put beside the line of the other that is alike but for the
 * words with digits in them (times, addresses, process numbers); then those of its words that differ are masked, and what stands
 * there in another run must have digits as well, and be a number if both were: "nan" is no number here. Lines that only one of the two
 * has may be there or not. The order counts, unless it differed between the two, or `any_order`. If one address (0x7f3a5c000000) differs,
 * none is looked at, since some may be equal by chance.
 *
 * Pure. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SAMEOUT_H
#define KEDGE_TOOLS_SAMEOUT_H

#include <stdbool.h>
#include <stddef.h>

struct sameout;

/* Of what the first run printed. sameout_free(NULL) is fine. */
struct sameout *sameout_new(const char *text, size_t length);
void sameout_free(struct sameout *same);

/* Of what a second run like the first one printed. At most once. */
void sameout_mask(struct sameout *same, const char *text, size_t length);

/* NULL: it is the same; else the first difference in words, for the caller to free: "line 3 is "sum 0" instead of "sum 1c3a"". */
char *sameout_differs(const struct sameout *same, const char *text, size_t length, bool any_order);

#endif
