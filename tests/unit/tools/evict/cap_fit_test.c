/* SPDX-License-Identifier: MIT */
/* covers: cap_fit.c */
#include "tests/check.h"

#include "tests/unit/tools/swapstory.h"
#include "tools/evict/cap_fit.h"

#define MIB    (UINT64_C(1) << 20)
#define SITE_A UINT64_C(0xa)
#define SITE_B UINT64_C(0xb)
#define SITE_C UINT64_C(0xc)
#define STEPS  5
#define GIB_S  (UINT64_C(1) << 30)

static struct cap_fit fit_into(const struct swapstory *s, uint64_t size)
{
    struct stated_steps steps;
    struct cap_fit fit;

    stated_steps_find_by_uses(s->story.trace, &steps);
    struct cap_fit_job job = {.trace = s->story.trace,
            .steps = &steps,
            .size = size,
            .min_size = 2 * MIB,
            .bandwidth = GIB_S};
    REQUIRE_EQ(cap_fit_find(&job, &fit), 0);
    stated_steps_done(&steps);
    return fit;
}

static void use_in_order(struct swapstory *s, const uint32_t *blocks, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        swapstory_use(s, blocks[i]);
}

/* Six units of 16 MiB of one site, used forward and backward in each step; 8 MiB of another one, and 4 of a third that a step makes. */
struct model {
    struct swapstory s;
    uint32_t units[6], other;
};

static struct model model_begin(void)
{
    struct model m = {.s = swapstory_begin()};

    for (unsigned i = 0; i < 6; i++)
        m.units[i] = swapstory_alloc(&m.s, SITE_A, 16 * MIB);
    m.other = swapstory_alloc(&m.s, SITE_B, 8 * MIB);
    use_in_order(&m.s, m.units, 6);
    return m;
}

static void model_steps(struct model *m, unsigned steps)
{
    for (unsigned step = 0; step < steps; step++) {
        swapstory_enter(&m->s, "step");
        uint32_t passing = swapstory_alloc(&m->s, SITE_C, 4 * MIB);
        use_in_order(&m->s, m->units, 6);
        swapstory_use(&m->s, passing);
        for (unsigned i = 6; i-- > 0;)
            swapstory_use(&m->s, m->units[i]);
        swapstory_free(&m->s, passing);
        swapstory_exit(&m->s);
    }
}

TEST(the_site_that_fits_with_least_moves_is_picked)
{
    struct model m = model_begin();

    for (unsigned step = 0; step < STEPS; step++) {
        model_steps(&m, 1);
        swapstory_use(&m.s, m.other);
    }
    struct cap_fit fit = fit_into(&m.s, 80 * MIB);
    REQUIRE_EQ(fit.answer, CAP_FIT_FOUND);
    CHECK_EQ(fit.rule.action, ACTION_EVICT);
    CHECK_EQ(fit.rule.mode, HINT_SHADOW);
    CHECK_STR_EQ(fit.rule.when.anchor, "step");
    CHECK_EQ(fit.rule.when.kind, EDGE_ENTER);
    CHECK_EQ(fit.rule.pick.site[0], SITE_A);
    CHECK_GT(fit.before, 80 * MIB);
    CHECK_LE(fit.rule.evict.cap + fit.other, 80 * MIB);
    CHECK_GT(fit.rule.evict.cap + fit.other + 2 * MIB, 80 * MIB);
    CHECK_LE(fit.reserved, 80 * MIB);
    CHECK_GT(fit.step.moved_in, 0);
    CHECK_EQ(fit.step.moved_in, fit.step.moved_out);
    CHECK_LE(fit.step.bound, fit.step.moved_in);
    CHECK_GT(fit.step.bound, 0);
    CHECK_GT(cap_fit_slowdown(&fit.step), 1);
    CHECK_GE(fit.managed.bytes, 96 * MIB);
    CHECK_EQ(fit.mixed.bytes + fit.managed.bytes, 104 * MIB);
    cap_fit_done(&fit);
    swapstory_end(&m.s);
}

TEST(what_fits_needs_no_hint)
{
    struct model m = model_begin();

    model_steps(&m, STEPS);
    struct cap_fit fit = fit_into(&m.s, 1024 * MIB);
    CHECK_EQ(fit.answer, CAP_FIT_FITS);
    CHECK_LE(fit.before, 1024 * MIB);
    cap_fit_done(&fit);
    swapstory_end(&m.s);
}

TEST(a_call_that_needs_all_at_once_is_told)
{
    struct model m = model_begin();

    model_steps(&m, STEPS);
    swapstory_use_all(&m.s, m.units, 6);
    struct cap_fit fit = fit_into(&m.s, 80 * MIB);
    CHECK_EQ(fit.answer, CAP_FIT_CALL);
    CHECK_EQ(fit.needed, 96 * MIB);
    CHECK_LE(fit.room, 80 * MIB);
    cap_fit_done(&fit);
    swapstory_end(&m.s);
}

TEST(what_must_stay_may_be_too_much)
{
    struct model m = model_begin();
    uint32_t untold = swapstory_alloc(&m.s, SITE_C, 256 * MIB);

    m.s.story.trace->blocks[untold].use_flags |= FORMAT_USE_UNSEEN;
    model_steps(&m, STEPS);
    struct cap_fit fit = fit_into(&m.s, 128 * MIB);
    CHECK_EQ(fit.answer, CAP_FIT_OTHER);
    CHECK_GE(fit.other, 256 * MIB);
    CHECK_EQ(fit.left[CAP_SITES_UNSEEN].bytes, 256 * MIB);
    CHECK_EQ(fit.left[CAP_SITES_UNUSED].bytes, 8 * MIB);
    cap_fit_done(&fit);
    swapstory_end(&m.s);
}

TEST(steps_have_to_be_stated_and_more_than_two)
{
    struct model m = model_begin();

    model_steps(&m, 2);
    struct cap_fit fit = fit_into(&m.s, 80 * MIB);
    CHECK_EQ(fit.answer, CAP_FIT_FEW_STEPS);
    cap_fit_done(&fit);
    swapstory_end(&m.s);
}

/* The same anchor within others: a hint would take both for steps, were it to say it by name alone. */
TEST(steps_are_told_apart_from_other_anchors)
{
    struct model m = model_begin();

    for (unsigned step = 0; step < STEPS; step++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "step_%u", step + 8); /* from one digit to two */
        swapstory_enter(&m.s, name);
        swapstory_enter(&m.s, "inner");
        use_in_order(&m.s, m.units, 6);
        swapstory_exit(&m.s);
        swapstory_exit(&m.s);
    }
    struct cap_fit fit = fit_into(&m.s, 80 * MIB);
    CHECK_EQ(fit.answer, CAP_FIT_MIXED_STEPS);
    cap_fit_done(&fit);
    swapstory_end(&m.s);
}

TEST(a_number_in_the_name_of_steps_is_a_glob)
{
    struct model m = model_begin();

    for (unsigned step = 0; step < STEPS; step++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "step_%u", step + 8);
        swapstory_enter(&m.s, name);
        use_in_order(&m.s, m.units, 6);
        swapstory_exit(&m.s);
    }
    struct cap_fit fit = fit_into(&m.s, 80 * MIB);
    REQUIRE_EQ(fit.answer, CAP_FIT_FOUND);
    CHECK_STR_EQ(fit.rule.when.anchor, "step_*");
    cap_fit_done(&fit);
    swapstory_end(&m.s);
}

/* A site that makes what must stay, too: its sizes tell it apart. */
TEST(sizes_tell_apart_what_one_site_makes)
{
    struct model m = model_begin();
    uint32_t unused = swapstory_alloc(&m.s, SITE_A, 24 * MIB);

    model_steps(&m, STEPS);
    struct cap_fit fit = fit_into(&m.s, 104 * MIB);
    REQUIRE_EQ(fit.answer, CAP_FIT_FOUND);
    CHECK_EQ(fit.rule.pick.size_lo, 16 * MIB);
    CHECK_EQ(fit.rule.pick.size_hi, 16 * MIB);
    CHECK_EQ(fit.managed.count, 6);
    CHECK_EQ(fit.left[CAP_SITES_UNUSED].count, 2);
    (void)unused;
    cap_fit_done(&fit);
    swapstory_end(&m.s);
}

/* Two blocks of 32 MiB that take turns, one of them the very first of the run. */
TEST(the_first_block_of_a_run_may_go_out)
{
    struct swapstory s = swapstory_begin();
    uint32_t blocks[] = {
            swapstory_alloc(&s, SITE_A, 32 * MIB), swapstory_alloc(&s, SITE_B, 32 * MIB)};

    CHECK_EQ(blocks[0], 0);
    use_in_order(&s, blocks, 2);
    for (unsigned step = 0; step < STEPS; step++) {
        swapstory_enter(&s, "step");
        use_in_order(&s, blocks, 2);
        swapstory_exit(&s);
    }
    struct cap_fit fit = fit_into(&s, 40 * MIB);
    REQUIRE_EQ(fit.answer, CAP_FIT_FOUND);
    CHECK_EQ(fit.pick_count, 2);
    CHECK_EQ(fit.managed.count, 2);
    cap_fit_done(&fit);
    swapstory_end(&s);
}

/* Where what lives across steps does not suffice: what a step makes, uses, leaves and uses again. */
TEST(large_blocks_of_a_step_go_out_if_nothing_else_helps)
{
    struct swapstory s = swapstory_begin();
    uint32_t lasting = swapstory_alloc(&s, SITE_A, 16 * MIB);

    for (unsigned step = 0; step < STEPS; step++) {
        uint32_t passing[4];

        swapstory_enter(&s, "step");
        swapstory_use(&s, lasting);
        for (unsigned i = 0; i < 4; i++) {
            passing[i] = swapstory_alloc(&s, SITE_C, 32 * MIB);
            swapstory_use(&s, passing[i]);
        }
        for (unsigned i = 4; i-- > 0;) {
            swapstory_use(&s, passing[i]);
            swapstory_free(&s, passing[i]);
        }
        swapstory_exit(&s);
    }
    struct cap_fit fit = fit_into(&s, 96 * MIB);
    REQUIRE_EQ(fit.answer, CAP_FIT_FOUND);
    CHECK_EQ(fit.rule.pick.site[0], SITE_C);
    CHECK_GT(fit.step.moved_out, 0);
    cap_fit_done(&fit);
    swapstory_end(&s);
}

TEST(a_site_that_shares_a_block_is_left_alone)
{
    struct model m = model_begin();

    m.s.story.trace->blocks[m.units[0]].shared = true;
    model_steps(&m, STEPS);
    struct cap_fit fit = fit_into(&m.s, 80 * MIB);
    CHECK_EQ(fit.left[CAP_SITES_SHARED].count, 6);
    CHECK(fit.answer != CAP_FIT_FOUND);
    cap_fit_done(&fit);
    swapstory_end(&m.s);
}
