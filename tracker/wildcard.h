/* SPDX-License-Identifier: MIT */
/*
 * wildcard.h - `*` and `?`, for paths of anchors, command lines and file names.
 *
 * `*` stands for any bytes, none included, `?` for exactly one; '/' is a byte like any other and there is no escape.
 * Time at most glob x text, no recursion, no malloc, no locale (fnmatch has all of these). Pure, any thread.
 */
#ifndef KEDGE_TRACKER_WILDCARD_H
#define KEDGE_TRACKER_WILDCARD_H

#include <stdbool.h>
#include <stddef.h>

static inline bool wildcard_match(const char *glob, const char *text)
{
    const char *star = NULL; /* where the last * stood, and where its text ends so far */
    const char *resume = NULL;

    while (*text) {
        if (*glob == '*') {
            star = glob++;
            resume = text;
        } else if (*glob == '?' || *glob == *text) {
            glob++;
            text++;
        } else if (star) {
            glob = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0';
}

#endif
