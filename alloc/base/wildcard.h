/* SPDX-License-Identifier: MIT */
/*
 * wildcard.h - `*` and `?`, for paths of anchors, lines of output, names of kernels and files.
 *
 * `*` matches any bytes, also none, `?` exactly one; `\` makes the next byte literal, as in
 * fnmatch(3), and '/' is an ordinary byte. A glob that ends within an escape matches nothing. Time
 * at most glob x text, no recursion, no malloc, no locale (fnmatch has all of these). Pure, any
 * thread.
 */
#ifndef KEDGE_ALLOC_WILDCARD_H
#define KEDGE_ALLOC_WILDCARD_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum wildcard_answer {
    WILDCARD_MATCHES,
    WILDCARD_ELSEWHERE, /* not at this offset */
    WILDCARD_NOWHERE,   /* nor at a later offset, where the text is shorter still */
};

/* Is the byte special in a glob, so that a literal one needs `\`? */
static inline bool wildcard_is_special(char byte)
{
    return byte == '*' || byte == '?' || byte == '\\';
}

/* Moves over one `*`, `?` or byte and returns it, with *ret_is_plain for a byte; '\0' at the end,
 * and for an escape of nothing. */
static inline char wildcard_next(const char **io_glob, bool *ret_is_plain)
{
    bool is_escaped = **io_glob == '\\';
    char byte = (*io_glob)[is_escaped];

    *ret_is_plain = is_escaped || (byte != '*' && byte != '?');
    *io_glob += is_escaped + (byte != '\0');
    return byte;
}

/* Does the glob end within an escape? */
static inline bool wildcard_is_cut(const char *glob)
{
    size_t end = strlen(glob), slashes = 0;

    while (slashes < end && glob[end - slashes - 1] == '\\')
        slashes++;
    return slashes % 2 == 1;
}

/* Can it match only one text? */
static inline bool wildcard_is_literal(const char *glob)
{
    bool is_plain = true;

    while (is_plain && wildcard_next(&glob, &is_plain) != '\0')
        ;
    return is_plain;
}

/* Matches the bytes [text, end), which need not contain a NUL. */
static inline enum wildcard_answer wildcard_try(const char *glob, const char *text, const char *end)
{
    const char *star = NULL; /* the last `*`, and where its text ends so far */
    const char *resume = NULL;

    while (text < end) {
        const char *byte = glob + (*glob == '\\');

        if (*glob == '*') {
            star = glob++;
            resume = text;
        } else if (*glob == '?' || (*byte && *byte == *text)) {
            glob = byte + 1;
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
