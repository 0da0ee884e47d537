/* SPDX-License-Identifier: MIT */
/*
 * wildcard.h - `*` and `?`, for paths of anchors, lines of output, names of kernels and files.
 *
 * `*` stands for any bytes, none included, `?` for exactly one; '/' is a byte like any other and there is no escape.
 * Time at most glob x text, no recursion, no malloc, no locale (fnmatch has all of these). Pure, any thread.
 */
#ifndef KEDGE_ALLOC_WILDCARD_H
#define KEDGE_ALLOC_WILDCARD_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum wildcard_answer {
    WILDCARD_MATCHES,
    WILDCARD_ELSEWHERE, /* not here */
    WILDCARD_NOWHERE,   /* nor in an end of this text, which is shorter still */
};

/* The bytes [text, end), of which none need be NUL. */
static inline enum wildcard_answer wildcard_try(const char *glob, const char *text, const char *end)
{
    const char *star = NULL; /* where the last * stood, and where its text ends so far */
    const char *resume = NULL;

    while (text < end) {
        if (*glob == '*') {
            star = glob++;
            resume = text;
        } else if (*glob == '?' || (*glob && *glob == *text)) {
            glob++;
            text++;
        } else if (star) {
            glob = star + 1;
            text = ++resume;
        } else {
            return WILDCARD_ELSEWHERE;
        }
    }
    while (*glob == '*')
        glob++;
    return *glob == '\0' ? WILDCARD_MATCHES : WILDCARD_NOWHERE; /* the text is too short */
}

static inline bool wildcard_match(const char *glob, const char *text)
{
    return wildcard_try(glob, text, text + strlen(text)) == WILDCARD_MATCHES;
}

#endif
