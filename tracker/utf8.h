/* SPDX-License-Identifier: MIT */
/* utf8.h - one character as UTF-8, to be written or judged. Pure, any thread. Source: RFC 3629, section 3. */
#ifndef KEDGE_TRACKER_UTF8_H
#define KEDGE_TRACKER_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_BYTES_MAX 4u /* of a character */

/* Writes a character (its lower 21 bits) to a place for UTF8_BYTES_MAX bytes; how many it took. */
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

/*
 * How many bytes the character at `at` has, 0 if it is none: overlong forms, surrogates and codes above U+10FFFF are not. The text
 * ends with a NUL, which ends every sequence, too. *ret_code: its code.
 */
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

/* How many bytes that YAML may print begin here; 0 = none: controls, line separators, byte order marks and non-characters. */
static inline size_t utf8_printable(const unsigned char *at)
{
    uint32_t code;
    size_t length = utf8_length(at, &code);

    if (length == 1)
        return code >= 0x20 && code < 0x7f;
    return code >= 0xa0 && code != 0x2028 && code != 0x2029 && code != 0xfeff
                    && (code < 0xfff0 || code >= 0x10000)
            ? length
            : 0;
}

#endif
