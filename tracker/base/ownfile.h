/* SPDX-License-Identifier: MIT */
/*
 * ownfile.h - reads a small file that only its owner can have written (R54, trusted owner).
 *
 * Checks the open descriptor: regular, owned by the effective user or root, not writable by group
 * or others, at most the requested size. Does not wait for a FIFO or device. Uses malloc. No state.
 */
#ifndef KEDGE_TRACKER_OWNFILE_H
#define KEDGE_TRACKER_OWNFILE_H

#include <stddef.h>

/* The whole file in *ret_bytes (malloc'd, NUL-terminated). 0, or -errno with a text in *ret_what
 * (valid for good): -EPERM for R54, -EFBIG, -EINVAL (not a regular file), -ENOMEM, or an error of
 * the kernel. */
int ownfile_read(
        const char *path, size_t max, char **ret_bytes, size_t *ret_length, const char **ret_what);

/* The same whoever owns it; NULL: any of the errors, and *ret_length is unchanged. */
char *ownfile_any(const char *path, size_t max, size_t *ret_length);

/* Reads up to `size` bytes of a file of /proc, without malloc. Returns their number, 0 for an
 * error. */
size_t ownfile_fill(const char *path, char *to, size_t size);

#endif
