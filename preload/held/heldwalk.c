/* SPDX-License-Identifier: MIT */
#include "preload/held/heldwalk.h"

#include "preload/anchors/pyhost.h"
#include "preload/base/guard.h"
#include "preload/base/msg.h"
#include "preload/driver/life.h"
#include "preload/driver/session.h"
#include "preload/held/held_text.h"
#include "preload/kinds/storages.h"
#include "preload/python/pycall.h"
#include "preload/python/still.h"
#include "preload/request/oom.h"
#include "tracker/capture/capture.h"

#include <string.h>
#include <time.h>

typedef struct pyhost_object object;

#define HELD_BLOCKS_MAX (1u << 18) /* live blocks that a walk is given */

/* As in Python's documentation. */
#define HELDWALK_FUNCTIONS(F)                                        \
    F(object *, PyBytes_FromStringAndSize, (const char *, intptr_t)) \
    F(char *, PyBytes_AsString, (object *))                          \
    F(intptr_t, PyBytes_Size, (object *))                            \
    F(object *, Py_BuildValue, (const char *, ...))                  \
    F(object *, PyTuple_GetItem, (object *, intptr_t))               \
    F(long, PyLong_AsLong, (object *))                               \
    F(const char *, PyUnicode_AsUTF8, (object *))

static const char *const heldwalk_names[] = {HELDWALK_FUNCTIONS(PYCALL_NAME) "_Py_NoneStruct"};
static struct {
    HELDWALK_FUNCTIONS(PYCALL_MEMBER)
    object *none;
} py;

static double seconds; /* of a walk; both fixed by heldwalk_start */
static long most;      /* objects of a walk */

bool heldwalk_find(void)
{
    return still_find() && pycall_can()
            && pycall_find(&py, heldwalk_names, sizeof heldwalk_names / sizeof *heldwalk_names);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint64_t heldwalk_word(const char **io_at)
{
    uint64_t word;

    memcpy(&word, *io_at, sizeof word);
    *io_at += sizeof word;
    return word;
}

/* Names what holds most, once. */
static void heldwalk_tell(object *answer)
{
    long bytes = py.PyLong_AsLong(py.PyTuple_GetItem(answer, 3));
    const char *holders = py.PyUnicode_AsUTF8(py.PyTuple_GetItem(answer, 4));
    char text[OOM_BYTES_MAX];

    if (holders)
        msg_warn("%s are held by %s; see kedge report %s --view oom",
                oom_bytes_text(text, (uint64_t)bytes), holders, capture_path());
}

/* The addresses of storages, of the row before. */
static void heldwalk_record_inside(uint32_t walk, const char *at, size_t count)
{
    enum {
        AT_ONCE = 512
    };
    uint64_t addresses[AT_ONCE];

    while (count > 0) {
        size_t part = count < AT_ONCE ? count : AT_ONCE;

        memcpy(addresses, at, part * sizeof *addresses);
        session_report(capture_held_at(walk, addresses, part));
        at += part * sizeof *addresses;
        count -= part;
    }
}

/* Rows as held.py packs them. */
static void heldwalk_record_rows(uint32_t walk, const char *at, size_t length)
{
    enum {
        WORDS = 6
    };
    const char *end = at + length;

    while ((size_t)(end - at) >= WORDS * sizeof(uint64_t)) {
        struct capture_block sum = {.addr = 0, .size = heldwalk_word(&at)};
        uint64_t count = heldwalk_word(&at);
        size_t text, inside;

        sum.stack = heldwalk_word(&at);
        sum.pystack = heldwalk_word(&at);
        inside = heldwalk_word(&at) * sizeof(uint64_t);
        text = heldwalk_word(&at);
        if (text > (size_t)(end - at) || inside > (size_t)(end - at) - text)
            return;
        session_report(capture_held(walk, &sum, count, at, text));
        heldwalk_record_inside(walk, at + text, inside / sizeof(uint64_t));
        at += text + inside;
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* The live blocks as bytes; NULL: no memory. */
static object *heldwalk_blocks(int device, struct format_def_walk *walk)
{
    uint32_t count, room;
    object *blocks;
    char *bytes;

    guard_push();
    count = capture_live(device, NULL, 0, &walk->bytes);
    guard_pop();
    room = count < HELD_BLOCKS_MAX ? count : HELD_BLOCKS_MAX;
    blocks = py.PyBytes_FromStringAndSize(NULL, (intptr_t)(room * sizeof(struct capture_block)));
    bytes = blocks ? py.PyBytes_AsString(blocks) : NULL;
    if (!bytes)
        return NULL;
    memset(bytes, 0, room * sizeof(struct capture_block));
    guard_push();
    walk->count = capture_live(device, (struct capture_block *)(void *)bytes, room, &walk->bytes);
    guard_pop();
    walk->flags = walk->count > room ? FORMAT_WALK_BLOCKS : 0;
    return blocks;
}

/* Returns the number of the walk, 0: it is not on record. */
static uint32_t heldwalk_record(object *answer, struct format_def_walk *walk, bool tells)
{
    object *rows = py.PyTuple_GetItem(answer, 2); /* borrowed, as the others */
    const char *bytes = rows ? py.PyBytes_AsString(rows) : NULL;
    uint32_t number;

    if (!bytes)
        return 0;
    walk->flags |= (uint32_t)py.PyLong_AsLong(py.PyTuple_GetItem(answer, 0));
    walk->objects = (uint64_t)py.PyLong_AsLong(py.PyTuple_GetItem(answer, 1));
    guard_push();
    number = capture_walk_begin();
    heldwalk_record_rows(number, bytes, (size_t)py.PyBytes_Size(rows));
    session_report(capture_walk(number, walk));
    guard_pop();
    if (tells)
        heldwalk_tell(answer);
    return number;
}

static uint64_t heldwalk_clock(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Seconds of the bound that are left. */
static double heldwalk_left(uint64_t begin)
{
    return seconds - (double)(heldwalk_clock(CLOCK_MONOTONIC) - begin) / 1e9;
}

/* What held.py's look takes. */
static object *heldwalk_arguments(object *blocks, object *error, uint64_t begin)
{
    return py.Py_BuildValue("(OOdl(dd))", blocks, error ? error : py.none, heldwalk_left(begin),
            most, (double)heldwalk_clock(CLOCK_MONOTONIC) / 1e9,
            (double)heldwalk_clock(CLOCK_THREAD_CPUTIME_ID) / 1e9);
}

uint32_t heldwalk_run(enum format_walk_why why, object *error, int device, bool tells)
{
    struct format_def_walk walk = {.why = (uint32_t)why, .device = device};
    struct pycall call;
    struct still was;
    object *blocks, *answer = NULL;
    uint32_t number = 0;
    uint64_t begin = heldwalk_clock(CLOCK_MONOTONIC);

    pycall_begin(&call);
    still_begin(&was, seconds);
    blocks = heldwalk_blocks(device, &walk);
    if (blocks && call.space && still_add(call.space) && storages_add(call.space))
        answer = pycall_text(&call, held_text, "look", heldwalk_arguments(blocks, error, begin));
    walk.spent_ns = heldwalk_clock(CLOCK_MONOTONIC) - begin;
    if (answer)
        number = heldwalk_record(answer, &walk, tells);
    pyhost_drop(answer);
    pyhost_drop(blocks);
    pycall_end(&call, "what holds the memory is not known: %s in the walk");
    still_end(&was);
    return number;
}

bool heldwalk_may(void)
{
    return life_is_on() && *capture_path() != '\0';
}

void heldwalk_start(double walk_seconds, long walk_objects)
{
    seconds = walk_seconds;
    most = walk_objects;
}

object *heldwalk_holders(object *reference)
{
    struct pycall call;
    struct still was;
    object *answer = NULL;

    pycall_begin(&call);
    still_begin(&was, seconds);
    if (call.space && still_add(call.space) && storages_add(call.space))
        answer = pycall_text(
                &call, held_text, "holders", py.Py_BuildValue("(Odl)", reference, seconds, most));
    pycall_end(&call, "what holds a tensor is not known: %s in the walk");
    still_end(&was);
    return answer;
}
