/* SPDX-License-Identifier: MIT */
/* covers: evict_check.c */
#include "tests/check.h"

#include "tests/unit/tools/swapstory.h"
#include "tools/evict/evict_check.h"

#define MIB  (UINT64_C(1) << 20)
#define SITE UINT64_C(0x51)

enum {
    STEPS = 6,
};

/* The seed's run, and what it has told: the sums of a step in MiB. */
struct told {
    struct swapstory s;
    struct read_capture capture;
    struct read_evict steps[STEPS + 1];
    struct read_kept kept;
    struct load_hint hint;
    struct load load;
    struct rule rule;
};

static void run_seed(struct told *t)
{
    static const unsigned order[] = {0, 1, 2, 0, 1};
    uint32_t blocks[3];

    t->s = swapstory_begin();
    for (unsigned i = 0; i < 3; i++) {
        blocks[i] = swapstory_alloc(&t->s, SITE, 128 * MIB);
        t->s.story.trace->events[i].seq = i + 1;
    }
    for (unsigned step = 0; step < STEPS; step++) {
        swapstory_enter(&t->s, "step");
        for (unsigned at = 0; at < 5; at++)
            swapstory_use(&t->s, blocks[order[at]]);
        swapstory_exit(&t->s);
    }
}

static void tell(struct told *t, unsigned step, uint64_t in, uint64_t out)
{
    t->steps[step].what = (struct format_evict){
            .step = step, .cap = 256 * MIB, .moved_in = in * MIB, .moved_out = out * MIB};
}

static struct told *told_begin(void)
{
    struct told *t = calloc(1, sizeof(*t));

    REQUIRE(t != NULL);
    run_seed(t);
    tell(t, 0, 0, 0);
    tell(t, 1, 256, 384); /* three first comings move nothing */
    tell(t, 2, 384, 384); /* begins with what the order of making has left */
    for (unsigned step = 3; step <= STEPS; step++)
        tell(t, step, 256, 256);
    t->hint = (struct load_hint){.id = "params", .mode = HINT_LIVE, .action = ACTION_EVICT};
    t->capture = (struct read_capture){.evict = t->steps, .evict_count = STEPS + 1};
    t->load = (struct load){
            .capture = &t->capture, .trace = t->s.story.trace, .hints = &t->hint, .hint_count = 1};
    t->rule = (struct rule){.id = "params",
            .action = ACTION_EVICT,
            .mode = HINT_SHADOW,
            .pick = {.site = {SITE},
                    .site_count = 1,
                    .size_hi = UINT64_MAX,
                    .nth_hi = UINT32_MAX,
                    .device = -1},
            .when = {.kind = EDGE_ENTER, .anchor = "step"},
            .evict = {.cap = 256 * MIB, .warmup_percent = 100, .cyclic = true}};
    return t;
}

static void told_end(struct told *t)
{
    swapstory_end(&t->s);
    free(t);
}

TEST(a_run_that_moved_as_predicted_has_no_wrong_step)
{
    struct told *t = told_begin();
    struct evict_check moved;

    REQUIRE_EQ(evict_check_compare(&t->load, &t->rule, 1, &moved), 0);
    CHECK(moved.trouble == NULL);
    CHECK_EQ(moved.wrong_count, 0);
    CHECK_EQ(moved.untold, 0);
    CHECK_EQ(moved.in, (256 + 384 + 4 * 256) * MIB);
    CHECK_EQ(moved.out, (384 + 384 + 4 * 256) * MIB);
    evict_check_done(&moved);
    told_end(t);
}

TEST(a_step_that_moved_a_byte_more_is_told)
{
    struct told *t = told_begin();
    struct evict_check moved;

    t->steps[3].what.moved_out++;
    REQUIRE_EQ(evict_check_compare(&t->load, &t->rule, 1, &moved), 0);
    REQUIRE_EQ(moved.wrong_count, 1);
    CHECK_EQ(moved.wrong[0].told->what.step, 3);
    CHECK_EQ(moved.wrong[0].in, 256 * MIB);
    CHECK_EQ(moved.wrong[0].out, 256 * MIB);
    evict_check_done(&moved);
    told_end(t);
}

TEST(in_trap_everything_goes_out_that_the_call_does_not_name)
{
    struct told *t = told_begin();
    struct evict_check moved;

    t->hint.mode = HINT_TRAP;
    for (unsigned step = 2; step <= STEPS; step++)
        tell(t, step, 640, 640);
    REQUIRE_EQ(evict_check_compare(&t->load, &t->rule, 1, &moved), 0);
    CHECK_EQ(moved.wrong_count, 1); /* the first, which was left as it was */
    evict_check_done(&moved);
    told_end(t);
}

TEST(a_cap_of_the_device_is_the_one_that_was_told)
{
    struct told *t = told_begin();
    struct evict_check moved;

    t->rule.evict.cap = 0;
    t->rule.evict.cap_percent = 90;
    REQUIRE_EQ(evict_check_compare(&t->load, &t->rule, 1, &moved), 0);
    CHECK_EQ(moved.wrong_count, 0);
    evict_check_done(&moved);
    told_end(t);
}

/* A device that had more room later: a step is judged by the cap that was told for it. */
TEST(a_cap_of_a_later_step_is_not_that_of_one_before)
{
    struct told *t = told_begin();
    struct evict_check moved;

    t->rule.evict.cap = 0;
    t->rule.evict.cap_percent = 90;
    for (unsigned step = 4; step <= STEPS; step++)
        t->steps[step].what.cap = 512 * MIB;
    REQUIRE_EQ(evict_check_compare(&t->load, &t->rule, 1, &moved), 0);
    REQUIRE_EQ(moved.wrong_count, 3); /* which moved as if they had no more */
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(moved.wrong[i].told->what.step, 4 + i);
    evict_check_done(&moved);
    told_end(t);
}

TEST(blocks_that_the_run_kept_stay_in)
{
    struct told *t = told_begin();
    struct evict_check moved;

    t->kept = (struct read_kept){.seq = 3, .why = FORMAT_KEPT_POINTER};
    t->capture.kept = &t->kept;
    t->capture.kept_count = 1;
    for (unsigned step = 2; step <= STEPS; step++)
        tell(t, step, 512, 512); /* two units and the room of one */
    REQUIRE_EQ(evict_check_compare(&t->load, &t->rule, 1, &moved), 0);
    CHECK_EQ(moved.wrong_count, 0);
    evict_check_done(&moved);
    told_end(t);
}

TEST(nothing_is_predicted_without_the_order_of_uses_or_of_what_was_not_told)
{
    struct told *t = told_begin();
    struct evict_check moved;

    t->capture.evict_count = 0;
    REQUIRE_EQ(evict_check_compare(&t->load, &t->rule, 1, &moved), 0);
    CHECK_EQ(moved.untold, 1);
    CHECK_EQ(moved.in, 0);
    evict_check_done(&moved);
    t->s.story.trace->use_count = 0;
    REQUIRE_EQ(evict_check_compare(&t->load, &t->rule, 1, &moved), 0);
    CHECK(moved.trouble && strstr(moved.trouble, "uses=order"));
    evict_check_done(&moved);
    told_end(t);
}
