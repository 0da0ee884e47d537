/* SPDX-License-Identifier: MIT */
/* covers: pins.c reach.c */
/* Who pins what: blocks are pinned as often as owners have them, and not at all when all of those are gone. */
#include "preload/driver/reach.h"
#include "preload/hints/evict_in.h"
#include "preload/hints/evictlog.h"
#include "preload/hints/graphnodes.h"
#include "preload/hints/hints_run.h"
#include "preload/hints/pins.h"
#include "preload/request/dispatch.h"
#include "tests/check.h"

#include "alloc/base/meta.h"

#include <errno.h>
#include <stdarg.h>

#define AT(block) ((devptr_t)(block)*1000) /* of 100 bytes each */

enum {
    BLOCKS = 10,
    SIZE = 100,
    RELEASED = 7, /* by a hint, if it is */
};

static struct pool_gate pool; /* as the first member of one */
static int pinned[BLOCKS];    /* how often, by whichever kind */
static bool gone[BLOCKS], is_released;
static const int on_device[BLOCKS] = {[2] = 1, [3] = 2};
static char told[512];

static void tell(const char *format, ...)
{
    size_t used = strlen(told);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(told + used, sizeof told - used, format, args);
    va_end(args);
}

static void are_told(const char *expected)
{
    CHECK_STR_EQ(told, expected);
    told[0] = '\0';
}

/* ---- what pins.c calls ---------------------------------------------------------------------- */

struct pool *session_pool = (struct pool *)(void *)&pool;

static bool may_fence = true;

bool session_may_fence(void)
{
    return may_fence;
}

int pool_pin(struct pool *self, devptr_t lo, uint64_t len, enum pool_pin kind,
        struct pool_pinned *ret, struct pool_hit *ret_hit)
{
    (void)self;
    (void)kind;
    for (unsigned i = 1; i < BLOCKS; i++) {
        if (AT(i) + SIZE <= lo || AT(i) >= lo + len || gone[i])
            continue;
        if (i == RELEASED && is_released) {
            *ret_hit = (struct pool_hit){.base = AT(i)};
            return -EBUSY;
        }
        *ret = (struct pool_pinned){.base = AT(i),
                .alloc_seq = i,
                .end = AT(i) + SIZE,
                .size = SIZE,
                .rule = i == 4 ? 0 : -1,
                .device = on_device[i],
                .first = pinned[i]++ == 0};
        return 0;
    }
    return -ENOENT;
}

int pool_repin(struct pool *self, devptr_t base, uint64_t alloc_seq, enum pool_pin kind)
{
    (void)self;
    (void)kind;
    CHECK_EQ(AT(alloc_seq), base);
    if (gone[alloc_seq])
        return -ENOENT;
    pinned[alloc_seq]++;
    return 0;
}

void pool_unpin(struct pool *self, devptr_t base, uint64_t alloc_seq, enum pool_pin kind)
{
    (void)self;
    (void)kind;
    CHECK_EQ(AT(alloc_seq), base);
    CHECK_GT(pinned[alloc_seq]--, 0);
}

int pool_find(struct pool *self, devptr_t ptr, struct block_info *ret)
{
    (void)self;
    *ret = (struct block_info){.base = ptr, .rule = 1};
    return 0;
}

bool hit_must_stop(const struct pool_hit *hit, devptr_t ptr, enum touch how, const char *what)
{
    (void)ptr;
    (void)how;
    tell("hit %lu by %s ", (unsigned long)hit->base, what);
    return true;
}

void hit_shared(devptr_t base, uint64_t size, int device)
{
    tell("shared %lu+%lu/%d ", (unsigned long)base, (unsigned long)size, device);
}

void hints_run_rule_off(int rule, const char *call)
{
    tell("off %d by %s ", rule, call);
}

void hints_run_stop(const char *why)
{
    (void)why;
    tell("stop ");
}

static CUresult ready;

CUresult evict_in_pinned(struct evict_in *bring, devptr_t ptr, uint64_t size)
{
    (void)bring;
    tell("in %lu+%lu ", (unsigned long)ptr, (unsigned long)size);
    return ready;
}

CUresult evict_in_end(struct evict_in *bring, CUresult result)
{
    (void)bring;
    tell("end ");
    return result;
}

void evict_in_later(devptr_t ptr, uint64_t size)
{
    tell("later %lu+%lu ", (unsigned long)ptr, (unsigned long)size);
}

static unsigned named;   /* as bits */
static devptr_t lacking; /* there is no memory to name it */

bool evict_in_name(devptr_t ptr, uint64_t size, bool is_written)
{
    CHECK_EQ(size, 1);
    CHECK(!is_written);
    CHECK(!(named >> ptr / 1000 & 1)); /* once */
    named |= 1u << ptr / 1000;
    return ptr == lacking;
}

bool evict_in_all(void)
{
    tell("all ");
    return false;
}

bool hints_run_is_evict_rule(int rule)
{
    return rule == 1;
}

void evictlog_pinned(const struct block_info *info, enum format_kept_why why)
{
    tell("kept %lu %s ", (unsigned long)info->base,
            why == FORMAT_KEPT_SHOWN ? "shown" : "registered");
}

static uint64_t captures[3]; /* that run, rising */

uint64_t gate_next(uint64_t after)
{
    for (unsigned i = 0; i < 3; i++)
        if (captures[i] > after)
            return captures[i];
    return 0;
}

uint64_t graphnodes_owner(uint64_t graph)
{
    return graph == 50 ? 51 : graph;
}

void graphnodes_gone(uint64_t graph)
{
    tell("nodes of %lu ", (unsigned long)graph);
}

static bool lacks_memory;

void *__real_meta_get(size_t size);
void *__wrap_meta_get(size_t size);

void *__wrap_meta_get(size_t size)
{
    return lacks_memory ? NULL : __real_meta_get(size);
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* The pins of each block from 1 on, as digits. */
static void are_pinned(const char *counts)
{
    char now[BLOCKS];

    for (unsigned i = 1; i < BLOCKS; i++)
        now[i - 1] = (char)('0' + pinned[i]);
    now[BLOCKS - 1] = '\0';
    CHECK_STR_EQ(now, counts);
}

/* Pins blocks `from` to `to` for an owner. */
static void pin(enum pins_owner owner, uint64_t id, unsigned from, unsigned to, uint64_t part)
{
    struct pins pins = PINS_NONE(POOL_PIN_GRAPH);

    CHECK(!pins_collect(&pins, AT(from), AT(to) - AT(from) + 1, TOUCH_POINTER, "call"));
    pins_give(&pins, owner, id, part);
    CHECK(!pins.first);
}

static void drop(enum pins_owner owner, uint64_t id)
{
    struct pins pins = PINS_NONE(POOL_PIN_GRAPH);

    pins_take(&pins, owner, id);
    pins_undo(&pins);
}

TEST(an_owner_has_each_block_of_a_range_until_its_end)
{
    pin(PINS_OF_GRAPH, 1, 2, 4, 0);
    are_pinned("011100000");
    pin(PINS_OF_GRAPH, 2, 4, 5, 0);
    pin(PINS_OF_EXEC, 1, 4, 4, 0); /* another owner of the same number */
    are_pinned("011310000");
    drop(PINS_OF_GRAPH, 1);
    drop(PINS_OF_GRAPH, 1);
    are_pinned("000210000");
    drop(PINS_OF_GRAPH, 2);
    drop(PINS_OF_EXEC, 1);
    drop(PINS_OF_TEXTURE, 1);
    are_pinned("000000000");
    pin(PINS_OF_GRAPH, 0, 2, 4, 0); /* no owner */
    are_pinned("000000000");
    are_told("");
}

TEST(owners_that_come_and_go_leave_nothing)
{
    struct pins pins = PINS_NONE(POOL_PIN_GRAPH);
    uint64_t before = 0;

    for (uint64_t round = 1; round <= 30000; round++) {
        gone[3] = false;
        pin(PINS_OF_GRAPH, round, 2, 4, 0);
        named = 0;
        CHECK(!pins_bring(PINS_OF_GRAPH, round));
        gone[3] = true;
        pins_copy(&pins, PINS_OF_GRAPH, round);
        pins_give(&pins, PINS_OF_EXEC, round, 0);
        pinned[3]--; /* it went with its pin */
        pins_take_one(&pins, PINS_OF_GRAPH, round);
        pins_undo(&pins);
        pins_take_parts(&pins, PINS_OF_GRAPH, round, 0, 1, 1);
        pins_undo(&pins);
        pins_take(&pins, PINS_OF_GRAPH, round);
        pins_keep(&pins);
        drop(PINS_OF_EXEC, round);
        are_pinned("000000000");
        before = round > 10 ? before : meta_bytes();
    }
    CHECK_EQ(meta_bytes(), before);
}

TEST(storage_that_was_released_stops_the_call_that_names_it)
{
    struct pins pins = PINS_NONE(POOL_PIN_GRAPH);

    is_released = true;
    CHECK(pins_collect(&pins, AT(6), 3 * 1000, TOUCH_POINTER, "call"));
    are_told("hit 7000 by call ");
    are_pinned("000001000"); /* what comes before it, until the call has failed */
    CHECK(!pins_collect(&pins, AT(7), 1, TOUCH_POINTER, NULL));
    are_told("");
    pins_undo(&pins);
    are_pinned("000000000");
}

TEST(parts_of_an_owner_end_by_themselves)
{
    struct pins pins = PINS_NONE(POOL_PIN_GRAPH);

    pin(PINS_OF_MULTICAST, 1, 1, 1, 10);
    pin(PINS_OF_MULTICAST, 1, 2, 2, 20);
    pin(PINS_OF_MULTICAST, 1, 3, 3, 20);
    pin(PINS_OF_MULTICAST, 1, 4, 4, 30);
    pins_take_parts(&pins, PINS_OF_MULTICAST, 1, 11, 20, -1);
    CHECK(!pins.first);
    pins_take_parts(&pins, PINS_OF_MULTICAST, 1, 20, 21, 1); /* block 2 is there */
    pins_undo(&pins);
    are_pinned("101100000");
    pins_take_parts(&pins, PINS_OF_MULTICAST, 1, 0, UINT64_MAX, 0);
    pins_undo(&pins);
    are_pinned("001000000");
    pins_take_parts(&pins, PINS_OF_MULTICAST, 1, 20, 30, -1);
    pins_undo(&pins);
    are_pinned("000000000");
}

TEST(references_are_given_back_one_by_one_and_the_newest_first)
{
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);

    for (unsigned i = 1; i <= 3; i++)
        pin(PINS_OF_HANDLE, 5, i, i, 0);
    pins_take_one(&pins, PINS_OF_HANDLE, 5);
    are_pinned("111000000");
    pins_give_back(&pins, PINS_OF_HANDLE, 5); /* the driver has refused */
    for (int i = 0; i < 3; i++) {
        are_pinned(i == 0 ? "111000000" : i == 1 ? "110000000" : "100000000");
        pins_take_one(&pins, PINS_OF_HANDLE, 5);
        pins_undo(&pins);
    }
    are_pinned("000000000");
    pins_take_one(&pins, PINS_OF_HANDLE, 5);
    CHECK(!pins.first);
}

static uint64_t mapped_parts;

static uint64_t map(uint64_t part, void *arg)
{
    CHECK(arg == &mapped_parts);
    mapped_parts++;
    return part == 10 ? 100 : 0;
}

TEST(a_copy_has_what_is_still_there_and_is_pinned_by_itself)
{
    struct pins pins = PINS_NONE(POOL_PIN_GRAPH);

    pin(PINS_OF_GRAPH, 1, 1, 3, 10);
    pin(PINS_OF_GRAPH, 1, 4, 4, 20);
    gone[2] = true;
    pins_copy(&pins, PINS_OF_GRAPH, 1);
    are_pinned("212200000");
    pins_map_parts(&pins, map, &mapped_parts);
    CHECK_EQ(mapped_parts, 2); /* once for each part */
    pins_give(&pins, PINS_OF_EXEC, 9, PINS_SAME_PARTS);
    drop(PINS_OF_GRAPH, 1);
    are_pinned("101100000");
    pins_take_parts(&pins, PINS_OF_EXEC, 9, 100, 101, -1);
    pins_undo(&pins);
    are_pinned("000100000");
    pins_take_parts(&pins, PINS_OF_EXEC, 9, 0, 1, -1);
    pins_keep(&pins); /* what cannot be told apart stays */
    are_pinned("000100000");
    pins_copy(&pins, PINS_OF_EXEC, 9);
    CHECK(!pins.first);
    pins_settle(&pins, true, PINS_OF_EXEC, 9, 0);
}

TEST(what_is_shared_is_told_when_it_is_the_first_time)
{
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);

    pin(PINS_OF_NCCL, 1, 3, 3, 0);
    CHECK(!pins_collect(&pins, AT(2), 3 * 1000, TOUCH_POINTER, "call"));
    for (int i = 1; i < 4; i++) /* it may be shown to other devices */
        CHECK_EQ(reach_has(5, i), i < 3);
    pins_shared(&pins, "call", false);
    are_told("shared 4000+100/0 shared 2000+100/1 ");
    pins_shared(&pins, "call", true);
    are_told("shared 4000+100/0 off 0 by call shared 2000+100/1 ");
    pins_undo(&pins);
    are_pinned("001000000");
}

TEST(without_memory_a_pin_stays_for_good_and_hints_stop)
{
    struct pins pins = PINS_NONE(POOL_PIN_GRAPH);

    lacks_memory = true;
    CHECK(!pins_collect(&pins, AT(1), 3 * 1000, TOUCH_POINTER, "call"));
    are_told("stop ");
    CHECK(!pins.first);
    are_pinned("100000000");
}

/* ---- blocks that may be out ----------------------------------------------------------------- */

TEST(what_may_be_out_comes_in_before_it_is_pinned_for_good)
{
    struct pins shown = PINS_NONE(POOL_PIN_SHOWN), graph = PINS_NONE(POOL_PIN_GRAPH);

    atomic_store(&pool.evicts, 1);
    CHECK(!pins_collect(&shown, AT(1), 10, TOUCH_POINTER, "call"));
    are_told("in 1000+10 kept 1000 shown end ");
    CHECK(!pins_collect(&shown, AT(1), 10, TOUCH_POINTER, "call"));
    are_told("in 1000+10 end "); /* not the first time */
    shown.registers = true;
    CHECK(!pins_collect(&shown, AT(2), 10, TOUCH_POINTER, "call"));
    are_told("in 2000+10 kept 2000 registered end ");
    CHECK_EQ(pins_result(&shown, CUDA_SUCCESS), CUDA_SUCCESS);
    ready = CUDA_ERROR_OUT_OF_MEMORY;
    CHECK(pins_collect(&shown, AT(3), 10, TOUCH_POINTER, "call"));
    are_told("in 3000+10 end ");
    CHECK_EQ(pins_result(&shown, CUDA_SUCCESS), CUDA_ERROR_OUT_OF_MEMORY);
    may_fence = false; /* a capture runs */
    CHECK(!pins_collect(&shown, AT(4), 10, TOUCH_POINTER, "call"));
    are_told("later 4000+10 kept 4000 registered ");
    CHECK(!pins_collect(&graph, AT(5), 10, TOUCH_POINTER, "call")); /* its launches bring it in */
    are_told("");
    pins_undo(&shown);
    pins_undo(&graph);
    are_pinned("000000000");
}

TEST(a_launch_brings_in_each_block_once_or_all)
{
    struct pins pins = PINS_NONE(POOL_PIN_GRAPH);

    CHECK(!pins_bring(PINS_OF_EXEC, 1)); /* which nobody knows */
    pin(PINS_OF_EXEC, 1, 1, 3, 0);
    pin(PINS_OF_EXEC, 1, 2, 4, 1);
    CHECK(!pins_bring(PINS_OF_EXEC, 1));
    CHECK_EQ(named, 0x1e);
    are_told("");
    named = 0;
    pins_unseen(&pins); /* memory that nobody can name is not out */
    pins_give(&pins, PINS_OF_EXEC, 1, 2);
    CHECK(!pins_bring(PINS_OF_EXEC, 1));
    CHECK_EQ(named, 0x1e);
    are_told("");
    named = 0;
    pins_untold(&pins);
    pins_give(&pins, PINS_OF_EXEC, 1, 3);
    CHECK(!pins_bring(PINS_OF_EXEC, 1));
    CHECK_EQ(named, 0x1e);
    are_told("all ");
    named = 0;
    pins_take_parts(&pins, PINS_OF_EXEC, 1, 3, 4, -1); /* that node is gone */
    pins_undo(&pins);
    lacking = AT(2);
    CHECK(pins_bring(PINS_OF_EXEC, 1));
    are_told("");
    lacking = 0;
    named = 0;
    pin(PINS_OF_EXEC, 2, 5, 5, 0);
    lacks_memory = true; /* for a list of them */
    CHECK(!pins_bring(PINS_OF_EXEC, 2));
    are_told("all ");
    lacks_memory = false;
    pins_unknown_graph();
    CHECK(!pins_bring(PINS_OF_EXEC, 3));
    are_told("all ");
}

/* ---- captures ------------------------------------------------------------------------------- */

TEST(what_is_freed_beside_captures_is_theirs_and_then_their_graphs)
{
    struct gate_capture capture = {.number = 4};

    captures[0] = 4;
    captures[1] = 6;
    pins_for_captures(AT(1));
    are_pinned("200000000");
    captures[0] = 6;
    captures[1] = 0;
    CHECK(!pins_capture_ended(&capture, 30));
    are_pinned("200000000");
    drop(PINS_OF_GRAPH, 30);
    are_pinned("100000000");
    capture.number = 6;
    CHECK(!pins_capture_ended(&capture, 0)); /* others of that number run still: it has no graph */
    are_pinned("100000000");
    CHECK(!pins_capture_ended(&capture, 31));
    are_pinned("200000000");
    captures[0] = 0;
    CHECK(!pins_capture_ended(&capture, 0)); /* with none */
    are_pinned("100000000");
    drop(PINS_OF_GRAPH, 31);
    are_pinned("000000000");
    are_told("");
}

TEST(what_a_capture_recorded_is_of_the_graph_that_it_ends_with)
{
    struct gate_capture capture = {.number = 4, .graph = 40};

    pin(PINS_OF_GRAPH, 40, 1, 1, 0);
    CHECK(pins_capture_ended(&capture, 41));
    are_told("nodes of 40 ");
    drop(PINS_OF_GRAPH, 40);
    are_pinned("100000000");
    drop(PINS_OF_GRAPH, 41);
    are_pinned("000000000");
    pin(PINS_OF_GRAPH, 40, 2, 2, 0);
    CHECK(!pins_capture_ended(&capture, 40)); /* the same */
    are_told("");
    are_pinned("010000000");
    CHECK(pins_capture_ended(&capture, 0));
    are_told("nodes of 40 ");
    are_pinned("000000000");
    pin(PINS_OF_GRAPH, 50, 3, 3, 0); /* one that was there before, a part of another */
    capture.graph = 50;
    capture.stays = true;
    captures[0] = 4;
    pins_for_captures(AT(4));
    captures[0] = 0;
    CHECK(!pins_capture_ended(&capture, 0));
    are_told("");
    are_pinned("001100000");
    drop(PINS_OF_GRAPH, 51);
    are_pinned("001000000");
}

/* ---- devices -------------------------------------------------------------------------------- */

TEST(an_owner_runs_on_the_devices_of_its_nodes_and_of_their_blocks)
{
    struct pins pins = PINS_NONE(POOL_PIN_GRAPH);

    CHECK_EQ(pins_devices(PINS_OF_EXEC, 1), REACH_ALL);
    pin(PINS_OF_EXEC, 1, 2, 2, 1);
    CHECK_EQ(pins_devices(PINS_OF_EXEC, 1), REACH_ALL); /* of no node it is known */
    pins_runs_on(&pins, 1 | 8);
    pins_give(&pins, PINS_OF_EXEC, 1, 1);
    CHECK_EQ(pins_devices(PINS_OF_EXEC, 1), 1 | 2 | 8);
    pin(PINS_OF_EXEC, 1, 3, 3, 2);
    CHECK_EQ(pins_devices(PINS_OF_EXEC, 1), 1 | 2 | 4 | 8);
    pins_take_parts(&pins, PINS_OF_EXEC, 1, 1, 3, -1); /* where nodes run stays */
    pins_undo(&pins);
    CHECK_EQ(pins_devices(PINS_OF_EXEC, 1), 1 | 8);
    pins_runs_on(&pins, UINT64_C(1) << 63);
    pins_give(&pins, PINS_OF_EXEC, 2, 1);
    CHECK_EQ(pins_devices(PINS_OF_EXEC, 2), UINT64_C(1) << 63);
    pins_runs_on(&pins, REACH_ALL);
    pins_give(&pins, PINS_OF_EXEC, 2, 1);
    CHECK_EQ(pins_devices(PINS_OF_EXEC, 2), REACH_ALL);
    pins_unknown_graph();
    CHECK_EQ(pins_devices(PINS_OF_EXEC, 1), REACH_ALL);
}
