/* SPDX-License-Identifier: MIT */
#include "tracker/hints/pylines.h"

#define NO_LINE (-128) /* in a linetable */

/* Forms of an entry of locations: bits 3 to 6 of its head. Below ONE_LINE: the same line, one byte
 * of columns. */
enum form {
    FORM_ONE_LINE = 10, /* 10 to 12: advances the line by the form minus ten */
    FORM_NO_COLUMN = 13,
    FORM_LONG = 14,
    FORM_NONE = 15,
};

static unsigned as_line(int64_t line)
{
    return line > 0 && line <= INT32_MAX ? (unsigned)line : 0;
}

/* A byte as a signed number. */
static int as_signed(unsigned char byte)
{
    return byte < 128 ? byte : byte - 256;
}

static unsigned in_linetable(const struct pylines *lines, int32_t lasti)
{
    int64_t line = lines->first_line;
    int64_t end = 0;

    for (size_t i = 0; i + 1 < lines->length; i += 2) {
        int delta = as_signed(lines->bytes[i + 1]);

        end += lines->bytes[i];
        if (delta != NO_LINE)
            line += delta;
        if (end > lasti)
            return delta == NO_LINE ? 0 : as_line(line);
    }
    return 0;
}

/* A number in groups of six bits, lowest first; its lowest bit is the sign. */
static int64_t signed_number(const struct pylines *lines, size_t at)
{
    uint64_t number = 0;
    unsigned shift = 0;

    for (; at < lines->length && shift < 36; at++, shift += 6) {
        number |= (uint64_t)(lines->bytes[at] & 63) << shift;
        if ((lines->bytes[at] & 64) == 0)
            break;
    }
    return number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
}

static unsigned in_locations(const struct pylines *lines, int32_t lasti)
{
    int64_t line = lines->first_line;
    int64_t end = 0;
    size_t i = 0;

    while (i < lines->length) {
        unsigned form = lines->bytes[i] >> 3 & 15;

        end += 2 * ((int64_t)(lines->bytes[i] & 7) + 1);
        if (form == FORM_NO_COLUMN || form == FORM_LONG)
            line += signed_number(lines, i + 1);
        else if (form >= FORM_ONE_LINE && form < FORM_NO_COLUMN)
            line += form - FORM_ONE_LINE;
        if (end > lasti)
            return form == FORM_NONE ? 0 : as_line(line);
        /* only the head of an entry has the top bit set */
        for (i++; i < lines->length && (lines->bytes[i] & 0x80) == 0; i++)
            ;
    }
    return 0;
}

unsigned pylines_find(const struct pylines *lines, int32_t lasti)
{
    if (lasti < 0)
        return as_line(lines->first_line);
    switch (lines->table) {
    case FORMAT_PYTABLE_LINETABLE:
        return in_linetable(lines, lasti);
    case FORMAT_PYTABLE_LOCATIONS:
        return in_locations(lines, lasti);
    default:
        return 0;
    }
}
