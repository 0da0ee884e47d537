/* SPDX-License-Identifier: MIT */
/* covers: swapsim.c */
#include "tests/check.h"

#include "tests/unit/tools/swapstory.h"
#include "tools/evict/swapsim.h"

#include <errno.h>

#define MIB  (UINT64_C(1) << 20)
#define SITE UINT64_C(0x51)

static const unsigned seed_order[] = {0, 1, 2, 0, 1};

static struct rule evict_rule(uint64_t cap)
{
    return (struct rule){.id = "params",
            .action = ACTION_EVICT,
            .mode = HINT_LIVE,
            .pick = {.site = {SITE},
                    .site_count = 1,
                    .size_hi = UINT64_MAX,
                    .nth_hi = UINT32_MAX,
                    .device = -1},
            .when = {.kind = EDGE_ENTER, .anchor = "step"},
            .evict = {.cap = cap, .warmup_percent = 100},
            .min_size = 2 * MIB};
}

/* Units of 128 MiB, each written once, and steps that use them in this order, a call each. */
static struct swapstory tell(
        unsigned units, const unsigned *order, unsigned length, unsigned steps, uint32_t *blocks)
{
    struct swapstory s = swapstory_begin();

    for (unsigned i = 0; i < units; i++) {
        blocks[i] = swapstory_alloc(&s, SITE, 128 * MIB);
        swapstory_use(&s, blocks[i]);
    }
    for (unsigned step = 0; step < steps; step++) {
        swapstory_enter(&s, "step");
        for (unsigned at = 0; at < length; at++)
            swapstory_use(&s, blocks[order[at]]);
        swapstory_exit(&s);
    }
    return s;
}

static struct swapsim play(const struct swapstory *s, const struct rule *rules, size_t count)
{
    struct swapsim_job job = {.trace = s->story.trace, .rules = rules, .rule_count = count};
    struct swapsim sim;

    REQUIRE_EQ(swapsim_run(&job, &sim), 0);
    return sim;
}

/* What steps come to in the end, and the set. */
static uint64_t steady_of(bool is_cyclic, enum rule_victim victim)
{
    uint32_t blocks[3];
    struct swapstory s = tell(3, seed_order, 5, 6, blocks);
    struct rule rule = evict_rule(256 * MIB);

    rule.evict.cyclic = is_cyclic;
    rule.evict.victim = victim;
    struct swapsim sim = play(&s, &rule, 1);
    REQUIRE_EQ(sim.count, 1);
    REQUIRE_EQ(sim.sets[0].count, 7);
    const struct swapsim_step *step = &sim.sets[0].steps[5];
    uint64_t moved = (step->moved_in + step->moved_out) / MIB;
    CHECK_EQ(step->step, 5);
    CHECK_EQ(step->cap, 256 * MIB);
    CHECK_EQ(step->units, 3);
    CHECK_EQ(step->bytes, 384 * MIB);
    CHECK_EQ(step->in_bytes_high, 256 * MIB);
    CHECK_EQ(step->count_in * 128 * MIB, step->moved_in);
    CHECK_EQ(step->count_out * 128 * MIB, step->moved_out);
    CHECK_EQ(sim.sets[0].bound, 256 * MIB);
    CHECK_EQ(
            sim.sets[0].host_high, 256 * MIB); /* what goes out does so before the other comes in */
    CHECK_EQ(sim.sets[0].demand_high, 128 * MIB);
    CHECK_EQ(sim.sets[0].shorts.count, 0);
    CHECK(sim.sets[0].steps[6].is_running && !step->is_running);
    swapsim_done(&sim);
    swapstory_end(&s);
    return moved;
}

TEST(volumes_of_the_seed_are_predicted)
{
    CHECK_EQ(steady_of(false, RULE_VICTIM_LRU), 768);
    CHECK_EQ(steady_of(false, RULE_VICTIM_FARTHEST), 768);
    CHECK_EQ(steady_of(true, RULE_VICTIM_FARTHEST), 512);
}

TEST(a_first_coming_moves_nothing_and_the_first_going_out_does)
{
    static const unsigned order[] = {0};
    uint32_t blocks[3];
    struct swapstory s = tell(3, order, 1, 1, blocks);
    struct rule rule = evict_rule(256 * MIB);
    struct swapsim sim = play(&s, &rule, 1);

    CHECK_EQ(sim.sets[0].steps[0].step, 0);
    CHECK_EQ(sim.sets[0].steps[0].moved_in, 0);
    CHECK_EQ(sim.sets[0].steps[0].moved_out, 128 * MIB);
    CHECK_EQ(sim.sets[0].steps[1].moved_in, 128 * MIB); /* the first has gone for the third */
    CHECK_EQ(sim.sets[0].steps[1].moved_out, 128 * MIB);
    swapsim_done(&sim);
    swapstory_end(&s);
}

TEST(what_kernels_only_read_goes_out_once)
{
    uint32_t blocks[3];
    struct swapstory s = tell(3, seed_order, 5, 4, blocks);
    struct rule rule = evict_rule(256 * MIB);

    rule.evict.clean = rule.evict.cyclic = true;
    struct swapsim sim = play(&s, &rule, 1);
    const struct swapsim_step *step = &sim.sets[0].steps[3];
    uint64_t out = 0;

    CHECK_EQ(step->moved_out, 0);
    CHECK_EQ(step->dropped, 256 * MIB);
    CHECK_EQ(step->moved_in, 256 * MIB);
    for (size_t i = 0; i < sim.sets[0].count; i++)
        out += sim.sets[0].steps[i].moved_out;
    CHECK_LE(out, 384 * MIB);
    swapsim_done(&sim);
    swapstory_end(&s);
}

TEST(blocks_take_whole_granules)
{
    struct swapstory s = swapstory_begin();
    uint32_t block = swapstory_alloc(&s, SITE, 3 * MIB);
    uint32_t small = swapstory_alloc(&s, SITE, MIB);
    struct rule rule = evict_rule(16 * MIB);

    swapstory_use(&s, block);
    struct swapsim sim = play(&s, &rule, 1);
    CHECK_EQ(sim.sets[0].steps[0].bytes, 4 * MIB);
    CHECK_EQ(sim.sets[0].steps[0].in_bytes_high, 4 * MIB);
    CHECK_EQ(sim.rule_of[block], 0);
    CHECK_EQ(sim.rule_of[small], TRACE_NONE);
    CHECK_EQ(sim.in_most[1], 0);
    CHECK_EQ(sim.in_most[2], 4 * MIB);
    swapsim_done(&sim);
    swapstory_end(&s);
}

TEST(a_call_that_needs_more_than_fits_is_told)
{
    uint32_t blocks[3];
    struct swapstory s = tell(3, seed_order, 5, 2, blocks);
    struct rule rule = evict_rule(256 * MIB);

    swapstory_use_all(&s, blocks, 3);
    swapstory_use_all(&s, blocks, 2);
    struct swapsim sim = play(&s, &rule, 1);
    CHECK_EQ(sim.sets[0].demand_high, 384 * MIB);
    CHECK_EQ(sim.sets[0].shorts.count, 1);
    CHECK_EQ(sim.sets[0].shorts.needed, 384 * MIB);
    CHECK_EQ(sim.sets[0].shorts.room, 256 * MIB);
    CHECK_EQ(sim.sets[0].shorts.at, s.story.trace->event_count);
    swapsim_done(&sim);
    swapstory_end(&s);
}

TEST(policies_hold_what_the_call_names_or_everything)
{
    uint32_t blocks[3];
    struct swapstory s = tell(3, seed_order, 5, 4, blocks);
    struct rule rule = evict_rule(384 * MIB);

    rule.evict.policy = RULE_POLICY_CPU;
    struct swapsim sim = play(&s, &rule, 1);
    CHECK_EQ(sim.sets[0].steps[3].moved_in, 640 * MIB); /* each use brings its unit in */
    CHECK_EQ(sim.sets[0].steps[3].moved_out, 640 * MIB);
    CHECK_EQ(sim.sets[0].steps[3].in_bytes_high, 128 * MIB);
    swapsim_done(&sim);

    rule.evict.policy = RULE_POLICY_CUDA;
    rule.evict.cap = 0;
    sim = play(&s, &rule, 1);
    CHECK_EQ(sim.sets[0].steps[3].moved_in + sim.sets[0].steps[3].moved_out, 0);
    CHECK_EQ(sim.sets[0].steps[3].in_bytes_high, 384 * MIB);
    swapsim_done(&sim);
    swapstory_end(&s);
}

TEST(what_no_call_names_in_a_step_stays_in)
{
    static const unsigned order[] = {0, 1, 2, 0, 1};
    uint32_t blocks[4];
    struct swapstory s = tell(4, order, 5, 5, blocks);
    struct rule rule = evict_rule(384 * MIB);
    struct swapsim sim = play(&s, &rule, 1);

    CHECK_EQ(sim.sets[0].kept.count, 1);
    CHECK_EQ(sim.sets[0].kept.bytes, 128 * MIB);
    CHECK_EQ(sim.sets[0].steps[4].in_bytes_high, 384 * MIB);
    rule.evict.cyclic = true;
    swapsim_done(&sim);
    sim = play(&s, &rule, 1); /* three of them have the room of two: the seed */
    CHECK_EQ(sim.sets[0].steps[4].moved_in + sim.sets[0].steps[4].moved_out, 512 * MIB);
    swapsim_done(&sim);
    swapstory_end(&s);
}

static uint64_t cap_of_step(const void *self, uint32_t rule, int device, uint64_t step)
{
    CHECK_EQ(rule, 0);
    CHECK_EQ(device, 0);
    return step < 2 ? *(const uint64_t *)self : 384 * MIB;
}

TEST(caps_may_be_of_each_step)
{
    uint32_t blocks[3];
    struct swapstory s = tell(3, seed_order, 5, 4, blocks);
    struct rule rule = evict_rule(0);
    uint64_t first = 256 * MIB;
    struct swapsim_job job = {.trace = s.story.trace, .rules = &rule, .rule_count = 1};
    struct swapsim sim;

    rule.evict.cap_percent = 50;
    CHECK_EQ(swapsim_run(&job, &sim), -ENODATA);
    swapsim_done(&sim);
    job.cap = cap_of_step;
    job.self = &first;
    REQUIRE_EQ(swapsim_run(&job, &sim), 0);
    CHECK_EQ(sim.sets[0].steps[1].in_bytes_high, 256 * MIB);
    CHECK_EQ(sim.sets[0].steps[3].in_bytes_high, 384 * MIB);
    CHECK_EQ(sim.sets[0].steps[3].moved_in, 0);
    swapsim_done(&sim);
    swapstory_end(&s);
}

/* What a step has taken out comes in behind it, as far as there is room. */
TEST(a_restore_hint_brings_in_while_there_is_room)
{
    struct swapstory s = swapstory_begin();
    struct rule rules[2] = {evict_rule(256 * MIB),
            {.id = "early",
                    .action = ACTION_RESTORE,
                    .mode = HINT_LIVE,
                    .when = {.kind = EDGE_EXIT, .anchor = "step"}}};
    uint32_t first = swapstory_alloc(&s, SITE, 128 * MIB);
    uint32_t other = swapstory_alloc(&s, SITE, 128 * MIB);

    swapstory_use(&s, first);
    swapstory_use(&s, other);
    for (unsigned i = 0; i < 4; i++) {
        swapstory_enter(&s, "step");
        swapstory_use(&s, first);
        uint32_t passing = swapstory_alloc(&s, SITE, 128 * MIB);
        swapstory_use(&s, passing); /* takes the room of one, and leaves it free */
        swapstory_free(&s, passing);
        swapstory_exit(&s);
        swapstory_use(&s, other);
    }
    struct swapsim sim = play(&s, rules, 1);
    uint64_t moved = sim.sets[0].steps[3].moved_in;
    swapsim_done(&sim);
    struct swapsim_job job = {
            .trace = s.story.trace, .rules = rules, .rule_count = 1, .bandwidth = 128 * MIB * 1000};
    REQUIRE_EQ(swapsim_run(&job, &sim), 0);
    uint64_t late = sim.sets[0].steps[3].waited_ns;
    swapsim_done(&sim);
    job.rule_count = 2;
    REQUIRE_EQ(swapsim_run(&job, &sim), 0);
    CHECK_EQ(sim.count, 1);
    CHECK_EQ(sim.sets[0].steps[3].moved_in, moved);
    CHECK_GT(moved, 0);
    CHECK_LT(sim.sets[0].steps[3].waited_ns, late);
    swapsim_done(&sim);
    swapstory_end(&s);
}

TEST(calls_wait_for_copies)
{
    uint32_t blocks[3];
    struct swapstory s = tell(3, seed_order, 5, 6, blocks);
    struct rule rule = evict_rule(256 * MIB);
    struct swapsim_job job = {.trace = s.story.trace,
            .rules = &rule,
            .rule_count = 1,
            .bandwidth = 128 * MIB * 1000}; /* a unit in each line of the story */
    struct swapsim sim;

    rule.evict.cyclic = true;
    REQUIRE_EQ(swapsim_run(&job, &sim), 0);
    const struct swapsim_step *step = &sim.sets[0].steps[4];
    CHECK_EQ(step->recorded_ns, 7 * SWAPSTORY_NS); /* enter, five uses, exit */
    /* two come in, each when the one whose room it takes is out */
    CHECK_EQ(step->waited_ns, 4 * SWAPSTORY_NS);
    swapsim_done(&sim);
    job.bandwidth = 0;
    REQUIRE_EQ(swapsim_run(&job, &sim), 0);
    CHECK_EQ(sim.sets[0].steps[4].waited_ns, 0);
    swapsim_done(&sim);
    swapstory_end(&s);
}

TEST(the_median_step_is_one_of_habit)
{
    uint32_t blocks[3];
    struct swapstory s = tell(3, seed_order, 5, 6, blocks);
    struct rule rule = evict_rule(256 * MIB);
    struct swapsim sim = play(&s, &rule, 1);
    const struct swapsim_step *median = swapsim_median(&sim.sets[0]);

    REQUIRE(median != NULL);
    CHECK_GT(median->step, 2);
    CHECK(median->is_planned && !median->is_running);
    CHECK_EQ(median->moved_in + median->moved_out, 768 * MIB);
    sim.sets[0].count = 2;
    CHECK(swapsim_median(&sim.sets[0]) == NULL);
    swapsim_done(&sim);
    swapstory_end(&s);
}

/* A unit that is made in each step, and freed there. */
TEST(blocks_of_a_step_come_and_go)
{
    struct swapstory s = swapstory_begin();
    struct rule rule = evict_rule(256 * MIB);
    uint32_t first = swapstory_alloc(&s, SITE, 128 * MIB);
    uint32_t other = swapstory_alloc(&s, SITE, 128 * MIB);

    rule.evict.cyclic = true;
    for (unsigned i = 0; i < 5; i++) {
        swapstory_enter(&s, "step");
        uint32_t passing = swapstory_alloc(&s, SITE, 128 * MIB);
        swapstory_use(&s, first);
        swapstory_use(&s, other);
        swapstory_use(&s, passing);
        swapstory_use(&s, first);
        swapstory_free(&s, passing);
        swapstory_exit(&s);
    }
    struct swapsim sim = play(&s, &rule, 1);
    const struct swapsim_step *step = &sim.sets[0].steps[4];
    CHECK_EQ(step->moved_in, 128 * MIB); /* `other` makes room for what passes */
    CHECK_EQ(step->moved_out, 128 * MIB);
    CHECK_EQ(step->units, 2);
    CHECK(step->is_replayed);
    swapsim_done(&sim);
    swapstory_end(&s);
}
