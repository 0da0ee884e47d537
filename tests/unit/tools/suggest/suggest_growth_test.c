/* SPDX-License-Identifier: MIT */
/* covers: suggest_growth.c */
#include "tests/check.h"

#include "tests/unit/tools/pipestory.h"
#include "tools/suggest/suggest_growth.h"

static struct growers found(struct story *s)
{
    struct growers growers;

    pipestory_times(s);
    suggest_growth_find(s->trace, model_whole(s->trace), 2 << 20, &growers);
    return growers;
}

/* Stage 1 of 4: what it sends back piles up until the update; the receives are those of the forward. */
static void check_two_steps(int behind)
{
    struct story s = story_begin();

    for (int step = 0; step < 2; step++) /* either is closed by the update */
        pipestory_step(&s, step, PIPESTORY(.micro_batches = 8, .is_behind = step == behind));
    struct growers growers = found(&s);
    REQUIRE_EQ(growers.count, 1);
    const struct suggest_growth *g = &growers.list[0];
    CHECK_EQ(g->count, 16);
    CHECK_EQ(g->most, 8);
    CHECK_EQ(g->receives, 2);
    CHECK_STR_EQ(g->inside, "step/*/backward");
    CHECK_STR_EQ(g->sent, "step/*/backward");
    CHECK_STR_EQ(g->received, "step/*/forward");
    CHECK_STR_EQ(g->closing, "step/*/update");
    for (size_t i = 0; i < g->count; i++)
        CHECK_EQ(s.trace->blocks[g->blocks[i]].site, PIPESTORY_GRADIENT);
    suggest_growth_done(&growers);
    story_end(&s);
}

TEST(send_buffers_that_pile_up_are_found_with_the_receive_that_ends_them)
{
    check_two_steps(0);
    check_two_steps(1);
}

/*
 * Where one communicator has all ranks, the receives are those of what the same rank sends, though a gradient goes out where an
 * input comes in; and the last ones go in anchors of another name.
 */
TEST(receives_from_the_rank_that_was_sent_to_are_known_by_its_number)
{
    struct story s = story_begin();

    pipestory_step(&s, 0, PIPESTORY(.micro_batches = 8, .is_shared = true, .is_fused = true));
    struct growers growers = found(&s);
    REQUIRE_EQ(growers.count, 1);
    CHECK_STR_EQ(growers.list[0].inside, "step/*/backward");
    CHECK_STR_EQ(growers.list[0].sent, "");
    CHECK_STR_EQ(growers.list[0].received, "step/*/forward");
    CHECK_EQ(growers.list[0].receives, 2);
    suggest_growth_done(&growers);
    story_end(&s);
}

/* A step that lies in a range of its own has other paths. One hint is for both, by what the names of the anchors end in. */
TEST(what_piles_up_at_one_site_in_anchors_of_one_ending_is_also_told_together)
{
    struct story s = story_begin();

    pipestory_step(&s, 0, PIPESTORY(.micro_batches = 8));
    (void)story_enter(&s, "train");
    pipestory_step(&s, 1, PIPESTORY(.micro_batches = 9, .read_after = 2));
    story_exit(&s);
    struct growers growers = found(&s);
    REQUIRE_EQ(growers.count, 3);
    const struct suggest_growth *all = &growers.list[0];
    CHECK_EQ(all->count, 17);
    CHECK_EQ(all->bytes, UINT64_C(17) * PIPESTORY_SIZE);
    CHECK_EQ(all->most, 9);
    CHECK_EQ(all->receives, 3);
    CHECK_STR_EQ(all->inside, "*/*/backward");
    CHECK_STR_EQ(all->sent, "*/*/backward");
    CHECK_STR_EQ(all->received, "*/*/forward");
    CHECK_STR_EQ(all->closing, "*/*/update");
    for (size_t i = 1; i < all->count; i++)
        CHECK(all->blocks[i - 1] < all->blocks[i]);
    CHECK_STR_EQ(growers.list[1].inside, "step/*/backward");
    CHECK_STR_EQ(growers.list[2].inside, "train/step/*/backward");
    suggest_growth_done(&growers);
    story_end(&s);
}

/* One is closed by its update, one, which the run did not finish, by the step around it: no name is for both. */
TEST(what_piles_up_and_is_closed_by_anchors_of_other_names_is_told_apart)
{
    struct story s = story_begin();

    pipestory_step(&s, 0, PIPESTORY(.micro_batches = 8));
    (void)story_enter(&s, "train");
    pipestory_step(&s, 1, PIPESTORY(.micro_batches = 8, .is_cut = true));
    struct growers growers = found(&s);
    CHECK_EQ(growers.count, 2);
    suggest_growth_done(&growers);
    story_end(&s);
}

/* Read once more behind so many receives after its send: it lives until the next one. */
TEST(a_later_use_asks_for_more_receives)
{
    for (int late = 0; late < 4; late++) {
        struct story s = story_begin();

        pipestory_step(&s, 0, PIPESTORY(.micro_batches = 12, .read_after = late));
        struct growers growers = found(&s);
        REQUIRE_EQ(growers.count, 1);
        CHECK_EQ(growers.list[0].receives, late < 2 ? 2 : (uint32_t)late + 1);
        suggest_growth_done(&growers);
        story_end(&s);
    }
}

/* Threads that are told one after the other: the count is by the order of the calls all the same. */
TEST(receives_whose_times_do_not_rise_are_counted_one_by_one)
{
    struct story s = story_begin();

    pipestory_step(&s, 0, PIPESTORY(.micro_batches = 12));
    pipestory_times(&s);
    for (size_t i = 0; i < s.trace->call_count; i++) {
        const struct trace_call *call = &s.trace->calls[i];
        struct growers growers;
        if (call->comm != PIPESTORY_DOWN_IN)
            continue;
        uint64_t time_ns = s.trace->events[call->at].time_ns;
        s.trace->events[call->at].time_ns = 1;
        suggest_growth_find(s.trace, model_whole(s.trace), 2 << 20, &growers);
        REQUIRE_EQ(growers.count, 1);
        CHECK_EQ(growers.list[0].receives, 2);
        suggest_growth_done(&growers);
        s.trace->events[call->at].time_ns = time_ns;
    }
    story_end(&s);
}

/* A run that ends in the middle: nobody is seen to free them, and the anchor around theirs is what remains to name. */
TEST(a_run_that_is_out_of_memory_in_its_first_step_says_as_much)
{
    struct story s = story_begin();

    pipestory_step(&s, 0, PIPESTORY(.micro_batches = 8, .is_cut = true));
    struct growers growers = found(&s);
    REQUIRE_EQ(growers.count, 1);
    CHECK_EQ(growers.list[0].receives, 2);
    CHECK_STR_EQ(growers.list[0].closing, "step/?");
    suggest_growth_done(&growers);
    story_end(&s);
}

TEST(what_does_not_pile_up_or_is_not_sent_to_one_rank_is_none)
{
    static const struct {
        const char *name;
        struct pipestory form;
    } rows[] = {
            {"mended", {.micro_batches = 8, .is_mended = true}},
            {"not sent", {.micro_batches = 8, .is_unsent = true}},
            {"doubtful", {.micro_batches = 8, .is_doubtful = true}},
            {"no receive comes anywhere", {.micro_batches = 8, .is_silent = true}},
            /* what comes from one says nothing of the other's */
            {"two peers", {.micro_batches = 8, .is_split = true}},
            {"two of one communicator", {.micro_batches = 8, .is_split = true, .is_shared = true}},
            {"too few to call it growth", {.micro_batches = 3}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct story s = story_begin();
        CHECK_ROW(rows[i].name);
        pipestory_step(&s, 0, &rows[i].form);
        pipestory_step(&s, 1, &rows[i].form);
        struct growers growers = found(&s);
        CHECK_EQ(growers.count, 0);
        suggest_growth_done(&growers);
        story_end(&s);
    }
}

/* What each step keeps has no anchor that ends it. */
TEST(what_grows_from_step_to_step_gets_no_receive)
{
    const struct pipestory_link up = {1, 0}, down = {2, 0};
    struct story s = story_begin();

    for (int step = 0; step < 8; step++) {
        story_enter(&s, "step");
        uint32_t block = story_alloc(&s, 1, 4 << 20);
        pipestory_call(&s, "ncclSend", "sendbuff", block, up);
        pipestory_call(&s, "ncclRecv", "recvbuff", TRACE_NONE, down);
        story_exit(&s);
    }
    struct growers growers = found(&s);
    CHECK_EQ(growers.count, 0);
    suggest_growth_done(&growers);
    story_end(&s);
}
