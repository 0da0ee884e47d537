/* SPDX-License-Identifier: MIT */
/* covers: period.c export_output.c */
/*
 * Steps of runs that never were (training.h). Each kind has a floor and a ceiling in its row: what the rules reach on these seeds.
 * The rules were made with other seeds in view. With SEEDS 60 and FIRST_SEED 170000 it prints the figures of tools/DESIGN.md.
 */
#include "tests/check.h"
#include "tests/unit/tools/training.h"

#include "tools/base/vec.h"

enum {
    SEEDS = 12,
    FIRST_SEED = 7000,
    NEAR_OF = 20, /* a step begins where it does, give or take one in so many of its allocations */
    NEAR_LEAST = 2,
};

struct count {
    uint32_t runs, wrong; /* wrong: steps that are none, of another length or at another place */
    uint32_t found, steps;
    uint32_t listed; /* runs that have any, and the sum of the shares of them that are steps */
    double right;
};

static bool is_near(uint32_t a, uint32_t b, uint32_t near)
{
    return (a > b ? a - b : b - a) <= near;
}

static uint32_t nearness(const struct training *training)
{
    uint32_t length =
            training->ends[training->step_count - 1] - training->begins[training->step_count - 1];

    return length / NEAR_OF > NEAR_LEAST ? length / NEAR_OF : NEAR_LEAST;
}

static uint32_t count_found(const struct training *training, const struct period *period)
{
    uint32_t near = nearness(training);
    uint32_t found = 0;

    for (size_t i = 0; i < training->step_count; i++) {
        bool is_there = false;
        for (uint32_t k = 0; k < period->span_count; k++)
            is_there = is_there || is_near(period->spans[k].first, training->begins[i], near);
        found += is_there;
    }
    return found;
}

/* Spans where no step begins. What is left of one at an end of the recording is one. */
static uint32_t count_wrong(const struct training *training, const struct period *period)
{
    uint32_t near = nearness(training);
    uint32_t wrong = 0;

    for (uint32_t k = 0; k < period->span_count; k++) {
        const struct period_span *span = &period->spans[k];
        bool is_right = span->first == 0
                || (span->behind == training->count
                        && span->first + near >= training->ends[training->step_count - 1]);
        for (size_t i = 0; i < training->step_count; i++)
            is_right = is_right || is_near(span->first, training->begins[i], near);
        wrong += !is_right;
    }
    return wrong;
}

static void look(enum training_kind kind, uint64_t seed, struct count *count)
{
    struct training training;
    struct period period;

    training_make(&training, kind, seed);
    period_find(training.allocs, (uint32_t)training.count, &period);
    count->runs++;
    count->steps += (uint32_t)training.step_count;
    if (period.kind == PERIOD_STEPS) {
        count->found += count_found(&training, &period);
        uint32_t wrong = count_wrong(&training, &period);
        count->wrong += wrong > 0;
        count->listed++;
        count->right += 1 - (double)wrong / period.span_count;
    }
    period_done(&period);
    training_done(&training);
}

/* At least `least` in a hundred steps are found, and at most `most` of the runs have one that is none. */
static void check_kind(enum training_kind kind, uint32_t least, uint32_t most)
{
    struct count count = {0};

    for (uint64_t seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++)
        look(kind, seed, &count);
    printf("%-12s %4u of %4u steps found, wrong ones in %u of %u runs, right %.1f %%\n",
            training_names[kind], count.found, count.steps, count.wrong, count.runs,
            100 * count.right / count.listed);
    CHECK(100 * count.found >= least * count.steps);
    CHECK(count.wrong <= most);
}

TEST(r90_steps_of_plain_runs_are_all_found)
{
    check_kind(TRAINING_PLAIN, 100, 0);
    check_kind(TRAINING_NO_SITES, 100, 0);
    check_kind(TRAINING_CHECKPOINT, 100, 0);
}

TEST(r90_steps_of_other_sizes_and_a_few_other_allocations_are_found)
{
    check_kind(TRAINING_JITTER, 100, 0);
    check_kind(TRAINING_DYNAMIC, 100, 0);
}

TEST(r90_a_first_step_that_does_more_is_found)
{
    check_kind(TRAINING_WARM_UP, 100, 0);
}

TEST(r90_micro_batches_and_evaluations_are_no_steps)
{
    check_kind(TRAINING_ACCUMULATE, 100, 0);
    check_kind(TRAINING_EVALUATE, 100, 0);
}

TEST(r90_what_lives_into_the_next_step_hides_few_steps)
{
    check_kind(TRAINING_KEEPS, 72, 0);
    check_kind(TRAINING_LATE_FREES, 95, 0);
}

TEST(r90_threads_that_allocate_side_by_side_hide_few_steps)
{
    check_kind(TRAINING_SIDE_STREAM, 93, 0);
    check_kind(TRAINING_REPLICAS, 97, 2);
}

TEST(r90_a_recording_of_a_part_of_the_run_has_its_steps)
{
    check_kind(TRAINING_CUT, 100, 0);
}

TEST(r90_several_of_these_at_once_hide_some_steps)
{
    check_kind(TRAINING_MIXED, 89, 1);
}

TEST(r90_two_steps_are_found_where_they_are_the_same)
{
    check_kind(TRAINING_TWO, 100, 0);
}

static bool has_steps(enum training_kind kind, uint64_t seed, bool shuffled)
{
    struct training training;
    struct period period;

    training_make(&training, kind, seed);
    if (shuffled)
        training_shuffle(&training, seed);
    period_find(training.allocs, (uint32_t)training.count, &period);
    bool has = period.kind == PERIOD_STEPS;
    if (has)
        printf("%s, seed %u: %s\n", training_names[kind], (unsigned)seed, period.reason);
    period_done(&period);
    training_done(&training);
    return has;
}

TEST(r90_one_step_and_one_pass_have_no_steps)
{
    for (uint64_t seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++) {
        CHECK(!has_steps(TRAINING_ONE, seed, false));
        CHECK(!has_steps(TRAINING_FORWARD, seed, false));
        CHECK(!has_steps(TRAINING_UNRELATED, seed, false));
    }
}

TEST(r90_no_shuffled_run_has_steps)
{
    for (int kind = 0; kind < TRAINING_KINDS; kind++) {
        for (uint64_t seed = FIRST_SEED; seed < FIRST_SEED + SEEDS; seed++)
            CHECK(!has_steps((enum training_kind)kind, seed, true));
    }
}
