/* SPDX-License-Identifier: MIT */
/* covers: evictlog.c */
/* What the capture is told of steps, of blocks that stay in and of calls that do not fit, and what is said once for each hint. */
#include "preload/base/msg.h"
#include "preload/driver/contexts.h"
#include "preload/hints/evict_in.h"
#include "preload/hints/evictlog.h"
#include "preload/hints/hints_run.h"
#include "tests/check.h"
#include "tracker/capture/capture.h"

#include <stdarg.h>

struct hints_run hints_run;
static struct pool_gate pool; /* as the first member of one */
static struct pool_evict_step ended[4];
static unsigned ended_count;
static struct capture_evict told[8];
static unsigned told_count;
static char text[512]; /* records and lines, with blanks */
static unsigned rules = 3;

static void tell(const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text + used, sizeof text - used, format, args);
    va_end(args);
}

struct pool *session_pool = (struct pool *)(void *)&pool;

void session_report(int r)
{
    CHECK_EQ(r, 7);
}

bool pool_evict_next_step(struct pool *self, struct pool_evict_step *ret)
{
    CHECK(self == session_pool);
    if (ended_count == 0)
        return false;
    *ret = ended[--ended_count];
    return true;
}

/* Of the hint that evicts there are two sets. */
bool pool_evict_now(struct pool *self, int rule, int device, struct pool_evict_step *ret)
{
    CHECK(self == session_pool);
    CHECK_EQ(rule, 1);
    CHECK(device >= 0 && device < DEVICES_MAX);
    *ret = (struct pool_evict_step){.rule = rule, .device = device, .step = 9};
    return device == 0 || device == DEVICES_MAX - 1;
}

bool hints_run_is_evict_rule(int rule)
{
    return rule == 1;
}

size_t hint_count(const struct hints *hints)
{
    (void)hints;
    return rules;
}

const struct rule *hint_rule(const struct hints *hints, int rule)
{
    static const struct rule all[] = {{.id = "first"}, {.id = "second"}, {.id = "third"}};

    (void)hints;
    return &all[rule % 3];
}

int capture_evict(const struct capture_evict *info)
{
    told[told_count++] = *info;
    return 7;
}

int capture_evict_kept(
        int rule, devptr_t ptr, uint64_t size, int device, enum format_kept_why why, uint64_t seq)
{
    tell("kept %d %lu %lu %d %d %lu ", rule, (unsigned long)ptr, (unsigned long)size, device,
            (int)why, (unsigned long)seq);
    return 7;
}

int capture_evict_short(int rule, int device, uint64_t needed, uint64_t room, uint64_t cap)
{
    tell("short %d %d %lu %lu %lu ", rule, device, (unsigned long)needed, (unsigned long)room,
            (unsigned long)cap);
    return 7;
}

void msg_warn(const char *format, ...)
{
    char line[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    tell("[%s] ", line);
}

static void is_told(const char *expected)
{
    CHECK_STR_EQ(text, expected);
    text[0] = '\0';
}

/* ---- steps ---------------------------------------------------------------------------------- */

TEST(a_step_is_told_as_it_was)
{
    static const struct {
        bool is_planned, is_replayed, is_paper;
        uint32_t flags;
    } cases[] = {{false, false, false, 0}, {true, false, false, FORMAT_EVICT_PLANNED},
            {false, true, false, FORMAT_EVICT_REPLAYED}, {false, false, true, FORMAT_EVICT_PAPER}};
    struct pool_evict_step step = {.rule = 2, .device = 3};
    uint64_t *figures = &step.step;
    const uint64_t *are = &told[0].what.step;

    /* step to stall_ns, then the bytes of each state, in the order of both structs */
    for (unsigned i = 0; i < 17 + EVICT_STATE_COUNT; i++)
        figures[i] = 100 + i;
    for (unsigned i = 0; i < 4; i++) {
        step.is_planned = cases[i].is_planned;
        step.is_replayed = cases[i].is_replayed;
        step.is_paper = cases[i].is_paper;
        ended[ended_count++] = step;
        told_count = 0;
        evictlog_steps();
        CHECK_EQ(told_count, 1);
        CHECK_EQ(told[0].rule, 2);
        CHECK_EQ(told[0].what.device, 3);
        CHECK_EQ(told[0].what.flags, cases[i].flags);
        for (unsigned k = 0; k < 17 + EVICT_STATE_COUNT; k++)
            CHECK_EQ(are[k], 100 + k);
    }
    ended_count = 3;
    told_count = 0;
    evictlog_steps();
    CHECK_EQ(told_count, 3);
}

TEST(steps_that_run_at_the_end_are_told_as_such)
{
    static const char hints;

    evictlog_end(); /* nothing evicts */
    atomic_store(&pool.evicts, 1);
    evictlog_end(); /* there are no hints any more */
    CHECK_EQ(told_count, 0);
    hints_run.hints = (struct hints *)(uintptr_t)&hints;
    ended[ended_count++] = (struct pool_evict_step){.step = 8};
    evictlog_end();
    REQUIRE_EQ(told_count, 3);
    CHECK_EQ(told[0].what.step, 8);
    CHECK_EQ(told[0].what.flags, 0);
    for (unsigned i = 1; i < 3; i++) {
        CHECK_EQ(told[i].rule, 1);
        CHECK_EQ(told[i].what.step, 9);
        CHECK_EQ(told[i].what.device, i == 1 ? 0 : DEVICES_MAX - 1);
        CHECK_EQ(told[i].what.flags, FORMAT_EVICT_RUNNING);
    }
    rules = 1;
    told_count = 0;
    evictlog_end();
    CHECK_EQ(told_count, 0);
}

/* ---- blocks and calls ----------------------------------------------------------------------- */

TEST(a_block_that_stays_is_told_and_said_once_for_each_hint)
{
    struct outcome kept = {.rule = 1,
            .ptr = 4096,
            .size = 50,
            .device = 2,
            .alloc_seq = 6,
            .rounded = POOL_KEPT_HOST};

    evictlog_kept(&kept);
    is_told("kept 1 4096 50 2 7 6 [hint second: a block of 50 bytes at 0x1000 stays on the device: "
            "the host has no memory for its content] ");
    kept.rounded = POOL_KEPT_POINTER;
    evictlog_kept(&kept);
    is_told("kept 1 4096 50 2 4 6 ");
    kept.rule = 2;
    evictlog_kept(&kept);
    is_told("kept 2 4096 50 2 4 6 [hint third: a block of 50 bytes at 0x1000 stays on the device: "
            "its address was copied to the device among data] ");
    kept.rounded = POOL_KEPT_COUNT; /* of a later pool */
    evictlog_kept(&kept);
    kept.rule = -1;
    kept.rounded = POOL_KEPT_HOST;
    evictlog_kept(&kept);
    is_told("");
    kept.rule = 0;
    evictlog_kept(&kept);
    CHECK(strncmp(text, "kept 0 4096 50 2 7 6 [hint first: ", 34) == 0);
}

TEST(a_block_that_is_pinned_is_told_as_one_that_stays)
{
    const struct block_info block = {
            .rule = 0, .base = 8192, .size = 60, .device = 1, .alloc_seq = 3};

    evictlog_pinned(&block, FORMAT_KEPT_SHOWN);
    is_told("kept 0 8192 60 1 2 3 [hint first: a block of 60 bytes at 0x2000 stays on the device: "
            "it was registered or shown to somebody who uses it unseen] ");
    evictlog_pinned(&block, FORMAT_KEPT_REGISTERED);
    is_told("kept 0 8192 60 1 3 3 ");
}

TEST(a_call_that_does_not_fit_is_told_and_said_once_for_each_hint)
{
    struct pool_short lacks = {.rule = 1, .device = 1, .needed = 30, .room = 20, .cap = 25};

    evictlog_short(&lacks);
    is_told("short 1 1 30 20 25 [hint second: a call needs 30 bytes on the device at once, and the "
            "cap of 25 leaves room for 20; it is not made] ");
    evictlog_short(&lacks);
    is_told("short 1 1 30 20 25 ");
    lacks.rule = 0;
    evictlog_short(&lacks);
    CHECK(strncmp(text, "short 0 1 30 20 25 [hint first: ", 32) == 0);
    text[0] = 0;
    lacks.rule = -1; /* no hint's */
    evictlog_short(&lacks);
    is_told("");
    for (lacks.rule = 4094; lacks.rule < 4097; lacks.rule++) { /* one line for all from 4095 on */
        evictlog_short(&lacks);
        CHECK_EQ(strchr(text, '[') != NULL, lacks.rule < 4096);
        text[0] = '\0';
    }
}
