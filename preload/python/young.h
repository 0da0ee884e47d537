/* SPDX-License-Identifier: MIT */
/*
 * young.h - how many objects the interpreter has made and not freed since the collector last ran,
 * which says when it runs next (the first of gc.get_count()).
 *
 * A walk raises this count. Tuples, lists and dicts that are freed wait in lists of the interpreter
 * for the next of their kind, and count as long as they wait; so do the classes of held.py, which
 * the collector frees. What brings it down again, without a collection, is that tuples that wait are
 * taken and really freed: one that has been made longer than those that wait is.
 *
 * Threads: the one that holds the GIL, with the collector off. No lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_YOUNG_H
#define KEDGE_PRELOAD_YOUNG_H

/* -1: it is not known. */
long young_count(void);

/* Brings the count down to what it was, as far as tuples wait. No error of Python's may be set. */
void young_restore(long was);

#endif
