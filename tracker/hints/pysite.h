/* SPDX-License-Identifier: MIT */
/*
 * pysite.h - a Python call site as a key and as text.
 *
 *     p:FILE:QUALNAME[:LINE]     p:model.py:Block.forward.<locals>.<lambda>:88
 *
 * FILE is the base name of the file: the same program in another folder has the same call sites.
 * QUALNAME is CPython's qualified name of the function (before 3.11 its plain name). Without a line
 * it matches any line of the function, so edits elsewhere in the file do not matter. No part
 * contains a colon; no hint can name a frame whose names have one, or are not UTF-8.
 *
 * The key is a 64-bit hash of the parts, which is compared with an allocation's. The text is for
 * people and for files. Keys are in no file: they may change with the version of kedge.
 *
 * Pure, any thread. Shared by the run (preload/hints/pynamed.c), the hint file (hintfile.c) and the
 * tools (tools/symbols/sitekey.c).
 */
#ifndef KEDGE_TRACKER_PYSITE_H
#define KEDGE_TRACKER_PYSITE_H

#include <stdbool.h>
#include <stdint.h>

#define PYSITE_TEXT_MAX 1024u /* bytes with the NUL */

/* The key; `file` may be a path, of which only the last component counts; line 0: any line. Never
 * 0. */
uint64_t pysite_key(const char *file, const char *qualname, unsigned line);

/* The key of a text. NULL, or the error in words for its author; then *ret_key is not written. */
const char *pysite_read(const char *text, uint64_t *ret_key);

/* Writes the text that pysite_read accepts to *ret_text; false: a name that it would refuse, or too
 * long. */
bool pysite_write(const char *file, const char *qualname, unsigned line,
        char ret_text[static PYSITE_TEXT_MAX]);

#endif
