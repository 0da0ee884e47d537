/* SPDX-License-Identifier: MIT */
#include "tracker/python/pytext.h"

#include "tracker/base/utf8.h"

#include <string.h>

/* The same in all versions that pylayout.h knows. */
#define LENGTH_AT 16
#define STATE_AT  32

/* Writes one character, or an undecodable byte (pytext.h); returns the number of bytes. */
static size_t put_character(uint32_t character, char ret_bytes[UTF8_BYTES_MAX])
{
    if (character >= 0xDC80 && character <= 0xDCFF) {
        ret_bytes[0] = (char)(character - 0xDC00);
        return 1;
    }
    return utf8_put(character >= 0xD800 && character <= 0xDFFF ? 0xFFFD : character, ret_bytes);
}

static uint32_t character_at(const char *data, unsigned kind, uint64_t index)
{
    const unsigned char *at = (const unsigned char *)data + index * kind;

    if (kind == 1)
        return at[0];
    if (kind == 2)
        return (uint32_t)(at[0] | at[1] << 8);
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

size_t pytext_utf8(const struct pylayout *at, const char *object, char *ret_text, size_t size)
{
    const char *data = NULL;
    uint64_t length;
    uint32_t state;
    unsigned kind;
    size_t used = 0;

    memcpy(&length, object + LENGTH_AT, sizeof length);
    memcpy(&state, object + STATE_AT, sizeof state);
    kind = state >> 2 & 7;
    if ((state >> 5 & 1) == 0)
        memcpy(&data, object + at->text_data, sizeof data);
    else
        data = object + (state >> 6 & 1 ? at->ascii_bytes : at->compact_bytes);
    if (!data || (kind != 1 && kind != 2 && kind != 4)) {
        length = size > 0;
        data = "?";
        kind = 1;
    }
    for (uint64_t i = 0; i < length; i++) {
        char bytes[UTF8_BYTES_MAX];
        size_t count = put_character(character_at(data, kind, i), bytes);

        if (count > size - used)
            break;
        memcpy(ret_text + used, bytes, count);
        used += count;
    }
    return used;
}
