/* SPDX-License-Identifier: MIT */
/*
 * ours.h - did kedge write this file? Told by its first bytes (R102).
 *
 * Each format has a mark of its own, which its writer puts there: pages and junit files their head, perfetto files
 * the name of the program, a profile the comment of its gzip head (OURS_COMMENT), a snapshot its first key, a database its
 * application id (OURS_DATABASE). Folded stacks and a csv of allocations have no place for a name that every reader passes over:
 * their first count has leading zeros, up to 20 digits (OURS_NUMBER). Hint files have none, since users edit them.
 *
 * Threads: any. Memory: vec.h and libarchive.
 */
#ifndef KEDGE_TOOLS_OURS_H
#define KEDGE_TOOLS_OURS_H

#include <inttypes.h>

#define OURS_NUMBER   "%020" PRIu64
#define OURS_COMMENT  "kedge "     /* and the version */
#define OURS_DATABASE "0x6b656467" /* "kedg" */

enum ours {
    OURS_NOT,     /* anything else */
    OURS_WRITTEN, /* kedge wrote it */
    OURS_BUNDLE,  /* the same, and there is a capture in it */
    OURS_CAPTURE, /* begins as captures of any version do, whole or damaged */
};

/* 0, or -errno: what it is cannot be seen. Of what is no regular file nothing is read: OURS_NOT. */
int ours_look(const char *path, enum ours *ret_what);

#endif
