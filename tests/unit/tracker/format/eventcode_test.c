/* SPDX-License-Identifier: MIT */
/* covers: eventcode.c */
#include "tests/check.h"
#include "tracker/format/eventcode.h"

#include <stdlib.h>
#include <string.h>

#define EVENTS 20000

static uint64_t random_state = 7;

static uint64_t random_word(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* Numbers of every length, with a liking for the edges. */
static uint64_t any_number(void)
{
    uint64_t word = random_word();

    switch (word % 8) {
    case 0:
        return 0;
    case 1:
        return UINT64_MAX - (word >> 32) % 3;
    case 2:
        return (word >> 8) / 512 * 512;
    case 3:
        return UINT64_C(1) << (word >> 8) % 64;
    case 4:
        return (UINT64_C(1) << (word >> 8) % 64) - 1;
    default:
        return random_word() >> (word >> 8) % 64;
    }
}

static void fill_block(struct format_event *event, bool is_free)
{
    if (is_free) {
        event->u.free.addr = any_number();
        event->u.free.size = any_number();
        event->u.free.stream = any_number();
        event->u.free.stack = (uint32_t)any_number();
        event->u.free.path = (uint32_t)any_number();
        event->u.free.instance = (uint32_t)any_number();
        event->u.free.pystack = (uint32_t)any_number();
        event->u.free.uses =
                (struct format_uses){any_number(), any_number(), any_number(), any_number()};
        return;
    }
    event->u.alloc.addr = any_number();
    event->u.alloc.size = any_number();
    event->u.alloc.stream = any_number();
    event->u.alloc.stack = (uint32_t)any_number();
    event->u.alloc.path = (uint32_t)any_number();
    event->u.alloc.instance = (uint32_t)any_number();
    event->u.alloc.nth = (uint32_t)any_number();
    event->u.alloc.pystack = (uint32_t)any_number();
}

static void fill_hint(struct format_event *event)
{
    event->u.hint.addr = any_number();
    event->u.hint.size = any_number();
    event->u.hint.rule = (int32_t)any_number();
    event->u.hint.what = (uint32_t)any_number();
    event->u.hint.stack = (uint32_t)any_number();
    event->u.hint.path = (uint32_t)any_number();
    event->u.hint.instance = (uint32_t)any_number();
    event->u.hint.mode = (uint32_t)any_number();
    event->u.hint.result = (uint32_t)any_number();
    event->u.hint.pystack = (uint32_t)any_number();
}

static void fill_oom(struct format_event *event)
{
    event->u.oom.size = any_number();
    event->u.oom.free_bytes = any_number();
    event->u.oom.largest_free = any_number();
    event->u.oom.stack = (uint32_t)any_number();
    event->u.oom.path = (uint32_t)any_number();
    event->u.oom.instance = (uint32_t)any_number();
    event->u.oom.result = (uint32_t)any_number();
    event->u.oom.pystack = (uint32_t)any_number();
}

static void fill(struct format_event *event, uint32_t kind)
{
    memset(event, 0, sizeof *event);
    event->head = kind | (uint32_t)any_number() << 8;
    event->thread = (uint32_t)any_number();
    event->seq = any_number();
    event->time_ns = any_number();
    switch (kind) {
    case FORMAT_EVENT_ALLOC:
    case FORMAT_EVENT_OTHER_ALLOC:
        fill_block(event, false);
        break;
    case FORMAT_EVENT_FREE:
    case FORMAT_EVENT_OTHER_FREE:
        fill_block(event, true);
        break;
    case FORMAT_EVENT_EDGE:
        event->u.edge.kind = (uint32_t)any_number();
        event->u.edge.anchor = (uint32_t)any_number();
        event->u.edge.path = (uint32_t)any_number();
        event->u.edge.instance = (uint32_t)any_number();
        event->u.edge.before_start = (uint32_t)any_number();
        break;
    case FORMAT_EVENT_HINT:
        fill_hint(event);
        break;
    case FORMAT_EVENT_RESERVED:
        event->u.reserved.heap = any_number();
        event->u.reserved.bytes = any_number();
        break;
    case FORMAT_EVENT_CALL:
    case FORMAT_EVENT_LAUNCH:
        event->u.call.name = (uint32_t)any_number();
        event->u.call.path = (uint32_t)any_number();
        event->u.call.instance = (uint32_t)any_number();
        event->u.call.comm = any_number();
        event->u.call.peer = (int32_t)any_number();
        for (unsigned i = 0; i < FORMAT_CALL_BUFFERS; i++) {
            event->u.call.arg[i] = (uint32_t)any_number();
            event->u.call.addr[i] = any_number();
        }
        break;
    case FORMAT_EVENT_USE:
        event->u.use.block = any_number();
        event->u.use.flags = (uint32_t)any_number();
        break;
    default:
        fill_oom(event);
        break;
    }
}

/* Any numbers in any field of any kind, one after the other in one chunk: what comes out is what went in. */
TEST(what_is_put_is_got)
{
    struct eventcode put = {{0}}, get = {{0}};
    unsigned char bytes[EVENTCODE_ROOM + 1];
    struct format_event in, out;
    size_t longest = 0;

    for (uint32_t i = 0; i < EVENTS; i++) {
        size_t length, got;

        fill(&in, FORMAT_EVENT_ALLOC + i % (FORMAT_EVENT_KIND_COUNT - 1));
        memset(bytes, 0xa5, sizeof bytes);
        length = eventcode_put(&put, &in, bytes);
        REQUIRE(length > 0);
        CHECK_EQ(bytes[EVENTCODE_ROOM], 0xa5); /* the promise about its last store */
        got = eventcode_get(&get, bytes, length, &out);
        if (got != length || memcmp(&in, &out, sizeof in) != 0) {
            CHECK_EQ(got, length);
            CHECK_EQ(out.head, in.head);
            CHECK(memcmp(&out, &in, sizeof in) == 0);
            return;
        }
        if (length > longest)
            longest = length;
    }
    CHECK_LE(longest + 8, EVENTCODE_ROOM);
    CHECK_GT(longest, 100); /* the test met long ones */
}

/* A record cut short is none, and nothing behind it is read. */
TEST(a_part_of_a_record_is_none)
{
    for (uint32_t i = 0; i < 2000; i++) {
        struct eventcode code = {{0}};
        unsigned char bytes[EVENTCODE_ROOM];
        struct format_event event;
        size_t length;

        fill(&event, FORMAT_EVENT_ALLOC + i % (FORMAT_EVENT_KIND_COUNT - 1));
        length = eventcode_put(&code, &event, bytes);
        for (size_t left = 0; left < length; left++) {
            /* in memory of its own, so that ASan sees a read behind its end */
            unsigned char *copy = malloc(left ? left : 1);

            REQUIRE(copy != NULL);
            memcpy(copy, bytes, left);
            code = (struct eventcode){{0}};
            CHECK_EQ(eventcode_get(&code, copy, left, &event), 0);
            /* and with a length that fits what is left, its fields do not */
            if (left >= 4 && length > 4) {
                copy[0] = (unsigned char)left;
                CHECK_EQ(eventcode_get(&code, copy, left, &event), 0);
            }
            free(copy);
        }
    }
}

TEST(a_kind_without_a_list_is_not_written)
{
    struct eventcode code = {{0}};
    struct format_event event = {.head = FORMAT_EVENT_KIND_COUNT};
    unsigned char bytes[EVENTCODE_ROOM];

    CHECK_EQ(eventcode_put(&code, &event, bytes), 0);
}

/* As the Python stack of a hint came: a field at the end of the list, which an earlier reader does not know. */
TEST(a_field_of_a_later_kedge_is_passed_over)
{
    for (uint32_t i = 0; i < 2000; i++) {
        struct eventcode put = {{0}}, get = {{0}};
        struct format_event in, out;
        unsigned char bytes[EVENTCODE_ROOM + 1];
        size_t length;

        fill(&in, FORMAT_EVENT_HINT);
        length = eventcode_put(&put, &in, bytes);
        bytes[3] |= 0x80; /* the last of the bits that say which fields are there */
        bytes[length++] = 5 << 1 | 1;
        bytes[0] = (unsigned char)length;
        CHECK_EQ(eventcode_get(&get, bytes, length, &out), length);
        CHECK_EQ(memcmp(&in, &out, sizeof in), 0);
        CHECK_EQ(memcmp(&put, &get, sizeof put), 0);
    }
}
