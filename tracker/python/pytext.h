/* SPDX-License-Identifier: MIT */
/*
 * pytext.h - a Python string as UTF-8.
 *
 * Of all kinds: ASCII, one, two or four bytes a character, in one piece or two. A byte of a file's name that was no
 * UTF-8 (Python keeps it as U+DC80..U+DCFF) comes out as that byte; other lone surrogates become U+FFFD.
 *
 * Threads: the object must not be freed meanwhile, nothing else. No malloc.
 */
#ifndef KEDGE_TRACKER_PYTEXT_H
#define KEDGE_TRACKER_PYTEXT_H

#include "tracker/python/pylayout.h"

#include <stddef.h>

/*
 * Writes at most `size` bytes without a NUL, whole characters only; how many. A string whose form is not known (made by
 * an interface that Python 3.12 took away, and never looked at) is "?".
 */
size_t pytext_utf8(const struct pylayout *at, const char *object, char *ret_text, size_t size);

#endif
