/* SPDX-License-Identifier: MIT */
/*
 * ownfile.h - a small file that only its owner can have written (R54).
 *
 * Checked on the open descriptor: regular, owned by the effective user or root, not writable by group or others, not
 * larger than asked for. A FIFO or device does not make us wait. Uses malloc. No state.
 */
#ifndef KEDGE_TRACKER_OWNFILE_H
#define KEDGE_TRACKER_OWNFILE_H

#include <stddef.h>

/*
 * The whole file in *ret_bytes (malloc'd, NUL-terminated). 0, or -errno with words in *ret_what (valid for good):
 * -EPERM for R54, -EFBIG, -EINVAL (not a regular file), -ENOMEM, or what the kernel says.
 */
int ownfile_read(
        const char *path, size_t max, char **ret_bytes, size_t *ret_length, const char **ret_what);

#endif
