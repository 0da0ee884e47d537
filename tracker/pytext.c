/* SPDX-License-Identifier: MIT */
#include "tracker/pytext.h"

#include <string.h>

/* The same in all versions that pylayout.h knows. */
#define LENGTH_AT 16
#define STATE_AT  32

/* One character; 0 = no room. */
static size_t put(uint32_t character, char *to, size_t room)
{
    unsigned char bytes[4];
    size_t count;

    if (character >= 0xDC80 && character <= 0xDCFF) {
        bytes[0] = (unsigned char)(character - 0xDC00);
        count = 1;
    } else if (character < 0x80) {
        bytes[0] = (unsigned char)character;
        count = 1;
    } else if (character < 0x800) {
        bytes[0] = (unsigned char)(0xC0 | character >> 6);
        bytes[1] = (unsigned char)(0x80 | (character & 0x3F));
        count = 2;
    } else if (character < 0x10000) {
        if (character >= 0xD800 && character <= 0xDFFF)
            character = 0xFFFD;
        bytes[0] = (unsigned char)(0xE0 | character >> 12);
        bytes[1] = (unsigned char)(0x80 | (character >> 6 & 0x3F));
        bytes[2] = (unsigned char)(0x80 | (character & 0x3F));
        count = 3;
    } else {
        bytes[0] = (unsigned char)(0xF0 | (character >> 18 & 7));
        bytes[1] = (unsigned char)(0x80 | (character >> 12 & 0x3F));
        bytes[2] = (unsigned char)(0x80 | (character >> 6 & 0x3F));
        bytes[3] = (unsigned char)(0x80 | (character & 0x3F));
        count = 4;
    }
    if (count > room)
        return 0;
    memcpy(to, bytes, count);
    return count;
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
        size_t count = put(character_at(data, kind, i), ret_text + used, size - used);

        if (count == 0)
            break;
        used += count;
    }
    return used;
}
