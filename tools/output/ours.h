/* SPDX-License-Identifier: MIT */
/*
 * ours.h - recognises files that kedge wrote, by their first bytes (R102, live captures kept).
 *
 * Each format has a mark of its own, which its writer adds: pages and junit files their head,
 * perfetto files the name of the program, a profile the comment of its gzip head
 * (OURS_COMMENT), a snapshot its first key, a database its application id (OURS_DATABASE). Folded
 * stacks and a csv of allocations have no place for a name that every reader ignores: their first
 * count has leading zeros, up to 20 digits (OURS_NUMBER). Hint files have no mark, since users edit
 * them.
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
    OURS_NOT,     /* any other file */
    OURS_WRITTEN, /* kedge wrote it */
    OURS_BUNDLE,  /* the same, with a capture in it */
    OURS_CAPTURE, /* begins like a capture of any version, intact or damaged */
};

/* 0, or -errno: the file cannot be read. A file that is not regular is not read: OURS_NOT. */
int ours_look(const char *path, enum ours *ret_what);

#endif
