/* SPDX-License-Identifier: MIT */
/* utf8.h - writes or checks one character of UTF-8. Pure, any thread. Source: RFC 3629, section
 * 3. */
#ifndef KEDGE_TRACKER_UTF8_H
#define KEDGE_TRACKER_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_BYTES_MAX 4u /* of a character */

/* Writes a character (its lower 21 bits) to a buffer of UTF8_BYTES_MAX bytes; returns its
 * length. */
static inline size_t utf8_put(uint32_t character, char *to)
{
    size_t bytes = 1u + (character >= 0x80) + (character >= 0x800) + (character >= 0x10000);

    if (bytes == 1) {
        to[0] = (char)character;
        return 1;
    }
    for (size_t i = bytes - 1; i > 0; i--, character >>= 6)
        to[i] = (char)(0x80 | (character & 0x3f));
    to[0] = (char)((0xf00u >> bytes & 0xffu) | (character & 0x3fu >> (bytes - 1)));
    return bytes;
}

/* The length of the character at `at`, 0 if invalid, like overlong forms, surrogates and codes
 * above U+10FFFF. The text ends with a NUL, which also ends every sequence. *ret_code: its code. */
static inline size_t utf8_length(const unsigned char *at, uint32_t *ret_code)
{
    size_t length = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;

    *ret_code = length == 1 ? at[0] : at[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        *ret_code = *ret_code << 6 | (at[i] & 63u);
    }
    if ((length == 3 && (*ret_code < 0x800 || (*ret_code >= 0xd800 && *ret_code < 0xe000)))
            || (length == 4 && (at[0] > 0xf4 || *ret_code < 0x10000 || *ret_code > 0x10ffff)))
        return 0;
    return length;
}

/* Does a terminal or a viewer execute this character instead of showing it? Controls, also of 8-bit
 * sets (U+009B begins a sequence like ESC [), and characters that change the direction of the
 * following text, so that a name would look like another one. Source: Unicode UAX #9. */
static inline int utf8_is_obeyed(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e
            || code == 0x200f || (code >= 0x202a && code <= 0x202e)
            || (code >= 0x2066 && code <= 0x2069);
}

static inline int utf8_has(const char *kept, uint32_t code)
{
    while (*kept && (unsigned char)*kept != code)
        kept++;
    return *kept != '\0';
}

/* Replaces each byte of an executed character and each byte that is not UTF-8 by '?', except
 * characters in `kept`. If the text is cut within a character, its last bytes are not UTF-8. */
static inline void utf8_clean(char *text, size_t length, const char *kept)
{
    for (size_t i = 0; i < length;) {
        unsigned char at[UTF8_BYTES_MAX + 1] = {0};
        uint32_t code;
        size_t bytes;

        for (size_t k = 0; k < UTF8_BYTES_MAX && i + k < length; k++)
            at[k] = (unsigned char)text[i + k];
        bytes = utf8_length(at, &code);
        if (bytes == 0 || (utf8_is_obeyed(code) && (code == 0 || !utf8_has(kept, code)))) {
            bytes += bytes == 0;
            for (size_t k = 0; k < bytes; k++)
                text[i + k] = '?';
        }
        i += bytes;
    }
}

/* Length of the character here if YAML may print it; 0 = not: controls, line separators, byte order
 * marks and non-characters. */
static inline size_t utf8_printable(const unsigned char *at)
{
    uint32_t code;
    size_t length = utf8_length(at, &code);

    if (length == 1)
        return code >= 0x20 && code < 0x7f;
    return code >= 0xa0 && !utf8_is_obeyed(code) && code != 0x2028 && code != 0x2029
                    && code != 0xfeff && (code < 0xfff0 || code >= 0x10000)
            ? length
            : 0;
}

#endif
