/* SPDX-License-Identifier: MIT */
/*
 * errtext.h - what an errno says, in English, without a lock, malloc or the locale. NULL: unknown.
 *
 * strerrordesc_np came with glibc 2.32. The wheel is for older ones (tools/package/README.md), whose
 * table of texts every later C library still has for programs linked then.
 */
#ifndef KEDGE_TRACKER_ERRTEXT_H
#define KEDGE_TRACKER_ERRTEXT_H

#include <features.h>
#include <string.h>

#if __GLIBC_PREREQ(2, 32)
static inline const char *errtext(int error)
{
    return strerrordesc_np(error);
}
#else
extern const char *const _sys_errlist[];
extern int _sys_nerr;

static inline const char *errtext(int error)
{
    return error >= 0 && error < _sys_nerr ? _sys_errlist[error] : NULL;
}
#endif

#endif
