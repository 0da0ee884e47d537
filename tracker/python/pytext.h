/* SPDX-License-Identifier: MIT */
/*
 * pytext.h - a Python string as UTF-8.
 *
 * All kinds: ASCII, one, two or four bytes a character, in one piece or two. A byte of a file name
 * that is not UTF-8 (Python stores it as U+DC80..U+DCFF) becomes that byte again; other lone
 * surrogates become U+FFFD.
 *
 * Threads: the object must not be freed meanwhile, nothing else. No malloc.
 */
#ifndef KEDGE_TRACKER_PYTEXT_H
#define KEDGE_TRACKER_PYTEXT_H

#include "tracker/python/pylayout.h"

#include <stddef.h>

/* Writes at most `size` bytes without a NUL, whole characters only; returns their number. A string
 * of unknown form (made by an interface that Python 3.12 removed, and never read) is "?". */
size_t pytext_utf8(const struct pylayout *at, const char *object, char *ret_text, size_t size);

#endif
