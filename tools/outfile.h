/* SPDX-License-Identifier: MIT */
/*
 * outfile.h - files that commands write and a run reads.
 *
 * Written beside their place and moved there, so that a reader never sees half of one; mode 0644 whatever the umask, since the
 * library refuses what others than the owner can write (R54). Threads: none.
 */
#ifndef KEDGE_TOOLS_OUTFILE_H
#define KEDGE_TOOLS_OUTFILE_H

#include <stddef.h>

/* 0, or -errno after one line on stderr that begins with `who`. */
int outfile_write(const char *who, const char *path, const char *text, size_t length);

#endif
