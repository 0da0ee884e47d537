/* SPDX-License-Identifier: MIT */
/*
 * Records of area D from any bytes: nothing is read outside, each record is as long as it says, and what was read is written
 * and read again as the same.
 */
#include "tracker/format/eventcode.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length);

/* The record that was read, through our own writer and reader. */
static void again(struct eventcode *put, struct eventcode *get, const struct format_event *event)
{
    unsigned char bytes[EVENTCODE_ROOM];
    struct format_event back;
    size_t length = eventcode_put(put, event, bytes);

    if (length == 0 || length > sizeof bytes)
        __builtin_trap();
    if (eventcode_get(get, bytes, length, &back) != length)
        __builtin_trap();
    if (memcmp(event, &back, sizeof back) != 0)
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length)
{
    struct eventcode code = {{0}}, put = {{0}}, get = {{0}};
    size_t at = 0;

    while (at < length) {
        struct format_event event;
        size_t left = length - at;
        size_t used = eventcode_get(&code, input + at, left, &event);

        if (used == 0)
            break;
        if (used > left || used < 4 || used > 255)
            __builtin_trap();
        at += used;
        if (event.head != FORMAT_EVENT_NONE)
            again(&put, &get, &event);
    }
    return 0;
}
