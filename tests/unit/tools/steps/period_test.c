/* SPDX-License-Identifier: MIT */
/* covers: period.c period_words.c */
#include "tests/check.h"

#include "tools/base/vec.h"
#include "tools/steps/period.h"
#include "tools/steps/period_words.h"

/* A program that is told allocation by allocation, and where its steps begin. */
struct program {
    struct period_alloc *allocs;
    uint32_t *begins;
    size_t count, room, steps, step_room;
};

#define MIB (UINT64_C(1) << 20)

static uint32_t take(struct program *p, uint64_t site, uint64_t size)
{
    VEC_PUSH(p->allocs, p->count, p->room) = (struct period_alloc){site, size, PERIOD_NEVER, 0};
    return (uint32_t)p->count - 1;
}

static void give(struct program *p, uint32_t number)
{
    p->allocs[number].dies = (uint32_t)p->count;
}

static void pair(struct program *p, uint64_t site, uint64_t size)
{
    give(p, take(p, site, size));
}

static void begin_step(struct program *p)
{
    VEC_PUSH(p->begins, p->steps, p->step_room) = (uint32_t)p->count;
}

static void done(struct program *p)
{
    free(p->allocs);
    free(p->begins);
}

static uint64_t state = 7;

static uint32_t random_below(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((state >> 33) % n);
}

enum {
    LAYERS = 24,
    OF_LAYER = 5,
};

struct kind {
    uint64_t batch; /* sizes of what follows it are multiples */
    bool has_no_sites;
    bool keeps_gradients; /* until the next step is under way */
    bool makes_state;     /* the optimizer's, which stays */
    bool leaks;
    bool is_evaluation;
    uint32_t extra; /* allocations of a moment, anywhere */
};

struct kept {
    uint32_t activations[LAYERS][2];
    uint32_t gradients[LAYERS];
    bool has_gradients;
};

static uint64_t site(const struct kind *kind, uint64_t number)
{
    return kind->has_no_sites ? 0 : number;
}

static void drop_gradients(struct program *p, struct kept *kept)
{
    for (int i = 0; i < LAYERS && kept->has_gradients; i++)
        give(p, kept->gradients[i]);
    kept->has_gradients = false;
}

static void run_forward(struct program *p, const struct kind *kind, struct kept *kept)
{
    for (int i = 0; i < LAYERS; i++) {
        if (kind->extra && random_below(LAYERS) < kind->extra)
            pair(p, site(kind, 90), 4096);
        kept->activations[i][0] = take(p, site(kind, 10), 2 * MIB * kind->batch);
        pair(p, site(kind, 11), 3 * MIB * kind->batch);
        kept->activations[i][1] = take(p, site(kind, 12), 5 * MIB * kind->batch);
        if (kind->is_evaluation && i > 0) {
            give(p, kept->activations[i - 1][0]);
            give(p, kept->activations[i - 1][1]);
        }
    }
}

static void run_backward(struct program *p, const struct kind *kind, struct kept *kept)
{
    for (int i = LAYERS - 1; i >= 0; i--) {
        kept->gradients[i] = take(p, site(kind, 20), 4 * MIB + (uint64_t)(i % 3) * 512);
        pair(p, site(kind, 21), 7 * MIB * kind->batch);
        give(p, kept->activations[i][0]);
        give(p, kept->activations[i][1]);
    }
    kept->has_gradients = true;
}

static void run_step(struct program *p, const struct kind *kind, struct kept *kept)
{
    if (!kind->is_evaluation)
        begin_step(p);
    uint32_t input = take(p, site(kind, 1), 9 * MIB * kind->batch);
    run_forward(p, kind, kept);
    if (kind->is_evaluation) {
        give(p, kept->activations[LAYERS - 1][0]);
        give(p, kept->activations[LAYERS - 1][1]);
        give(p, input);
        return;
    }
    uint32_t loss = take(p, site(kind, 2), 11 * MIB * kind->batch);
    drop_gradients(p, kept);
    run_backward(p, kind, kept);
    give(p, loss);
    for (int i = 0; i < LAYERS; i++) {
        if (kind->makes_state)
            (void)take(p, site(kind, 30), 8 * MIB);
        pair(p, site(kind, 31), 4 * MIB);
    }
    if (kind->leaks)
        (void)take(p, site(kind, 40), MIB);
    if (!kind->keeps_gradients)
        drop_gradients(p, kept);
    give(p, input);
}

static void set_up(struct program *p)
{
    for (uint64_t i = 0; i < UINT64_C(2) * LAYERS; i++)
        (void)take(p, 100, 4 * MIB + i % 5 * 512);
}

static void run_steps(struct program *p, const struct kind *kind, int count)
{
    struct kept kept = {0};

    for (int i = 0; i < count; i++)
        run_step(p, kind, &kept);
}

/* Every step, and nothing else, each where it begins. */
static void check_steps(const struct program *p)
{
    struct period period;

    period_find(p->allocs, (uint32_t)p->count, &period);
    CHECK_EQ(period.kind, PERIOD_STEPS);
    CHECK_EQ(period.span_count, p->steps);
    for (uint32_t i = 0; i < period.span_count && i < p->steps; i++)
        CHECK_EQ(period.spans[i].first, p->begins[i]);
    if (period.kind != PERIOD_STEPS || period.span_count != p->steps)
        (void)fprintf(stderr, "  found: %s\n", period.reason);
    period_done(&period);
}

static void check_no_steps(const struct program *p, const char *word)
{
    struct period period;

    period_find(p->allocs, (uint32_t)p->count, &period);
    CHECK(period.kind != PERIOD_STEPS);
    if (!strstr(period.reason, word) || period.kind == PERIOD_STEPS)
        (void)fprintf(stderr, "  found: %s\n", period.reason);
    CHECK(strstr(period.reason, word) != NULL);
    period_done(&period);
}

static const struct kind plain = {.batch = 1};

/* So many steps of a kind, and then so many of another one; the gradients of the last step of a kind stay. */
struct turn {
    struct kind kind;
    int count;
    struct kind then;
    int then_count;
};

/* So many turns after a program was set up. */
static void check_turns(const struct turn *turn, int turns)
{
    struct program p = {0};

    state = 7;
    set_up(&p);
    for (int i = 0; i < turns; i++) {
        run_steps(&p, &turn->kind, turn->count);
        run_steps(&p, &turn->then, turn->then_count);
    }
    check_steps(&p);
    done(&p);
}

TEST(r90_ten_steps_of_twenty_four_layers_are_ten_steps)
{
    check_turns(&(struct turn){.kind = {.batch = 1}, .count = 10}, 1);
}

TEST(r90_without_sites_they_are_ten_steps_too)
{
    check_turns(&(struct turn){.kind = {.batch = 1, .has_no_sites = true}, .count = 10}, 1);
}

TEST(steps_are_found_among_what_differs_from_them)
{
    static const struct {
        const char *name;
        struct turn turn;
        int turns;
    } rows[] = {
            {"a first step that makes the optimizer's state",
                    {{.batch = 1, .makes_state = true, .extra = 6}, 1, {.batch = 1}, 6}, 1},
            {"evaluations between steps are not steps and hide none",
                    {{.batch = 1}, 4, {.batch = 1, .is_evaluation = true}, 1}, 5},
            {"slightly different content", {.kind = {.batch = 1, .extra = 1}, .count = 15}, 1},
            {"gradients that live into the next step",
                    {.kind = {.batch = 1, .keeps_gradients = true}, .count = 6}, 1},
            {"steps that leak", {.kind = {.batch = 1, .leaks = true}, .count = 8}, 1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        CHECK_ROW(rows[i].name);
        check_turns(&rows[i].turn, rows[i].turns);
    }
}

/* Each layer frees what it was given. Returns what the last one hands on. */
static uint32_t run_layers(struct program *p)
{
    uint32_t x = take(p, 1, 8 * MIB);

    for (int i = 0; i < LAYERS; i++) {
        uint32_t wide = take(p, 2, 32 * MIB);
        uint32_t y = take(p, 3, 8 * MIB);
        pair(p, 4, MIB);
        give(p, wide);
        give(p, x);
        x = y;
    }
    pair(p, 5, 40 * MIB);
    return x;
}

TEST(r90_layers_that_hand_on_their_result_are_no_steps)
{
    struct program p = {0};

    (void)run_layers(&p);
    check_no_steps(&p, "times about 3 allocations");
    done(&p);
}

TEST(r90_passes_of_layers_that_hand_on_their_result_are_steps)
{
    struct program p = {0};

    for (int pass = 0; pass < 6; pass++) {
        begin_step(&p);
        give(&p, run_layers(&p));
    }
    check_steps(&p);
    done(&p);
}

TEST(r90_layers_that_hand_on_nothing_are_parts_of_the_step_around_them)
{
    struct program p = {0};
    for (int step = 0; step < 10; step++) {
        begin_step(&p);
        pair(&p, 1, 3 * MIB);
        pair(&p, 2, 3 * MIB);
        for (int i = 0; i < LAYERS; i++) {
            pair(&p, 10, 2 * MIB);
            pair(&p, 11, 5 * MIB);
            pair(&p, 12, 2 * MIB);
        }
        pair(&p, 3, 7 * MIB);
        pair(&p, 4, 9 * MIB);
    }
    check_steps(&p);
    done(&p);
}

TEST(r90_one_step_of_many_layers_is_not_many_steps)
{
    struct program p = {0};
    set_up(&p);
    run_steps(&p, &plain, 1);
    check_no_steps(&p, "");
    done(&p);
}

TEST(r90_microbatches_are_parts_of_their_step)
{
    struct kept kept = {0};
    struct program p = {0};
    set_up(&p);
    for (int step = 0; step < 8; step++) {
        begin_step(&p);
        uint32_t sums[LAYERS];
        for (int i = 0; i < LAYERS; i++)
            sums[i] = take(&p, 50, 4 * MIB);
        for (int i = 0; i < 4; i++) {
            run_forward(&p, &plain, &kept);
            run_backward(&p, &plain, &kept);
            drop_gradients(&p, &kept);
        }
        for (int i = 0; i < LAYERS; i++)
            pair(&p, 51, 4 * MIB);
        for (int i = 0; i < LAYERS; i++)
            give(&p, sums[i]);
    }
    check_steps(&p);
    done(&p);
}

TEST(steps_whose_sizes_follow_the_batch_are_found_by_their_sites)
{
    struct program p = {0};
    set_up(&p);
    for (uint64_t i = 0; i < 12; i++) {
        struct kind kind = {.batch = 3 + i * 7 % 5};
        run_steps(&p, &kind, 1);
    }
    check_steps(&p);
    done(&p);
}

TEST(steps_are_found_where_the_beginning_was_lost_and_the_end_cut_off)
{
    struct program p = {0};
    set_up(&p);
    run_steps(&p, &plain, 9);
    uint32_t from = p.begins[1] + 40;
    uint32_t count = p.begins[8] + 30 - from;
    struct period_alloc *window = vec_new(count, sizeof(*window));
    for (uint32_t i = 0; i < count; i++) {
        window[i] = p.allocs[from + i];
        if (window[i].dies != PERIOD_NEVER)
            window[i].dies = window[i].dies > from + count ? PERIOD_NEVER : window[i].dies - from;
    }
    struct period period;
    period_find(window, count, &period);
    CHECK_EQ(period.kind, PERIOD_STEPS);
    REQUIRE(period.span_count >= 7);
    CHECK_EQ(period.spans[0].first, 0); /* what is left of the second */
    for (uint32_t i = 1; i < 7; i++)
        CHECK_EQ(period.spans[i].first, p.begins[1 + i] - from);
    period_done(&period);
    free(window);
    done(&p);
}

/*
 * What comes before the first step is strange to the steps if it is not made of what they are made of, or lies further from them than
 * a step is long. 65 of 100 have to be steps, or like them: 13 steps, and before them as much as 7 of what they know nothing of.
 */
TEST(as_much_as_a_step_before_the_first_one_is_not_strange_to_them)
{
    for (uint32_t more = 0; more < 2; more++) {
        CHECK_ROW(more ? "one more" : "as much");
        struct program p = {0};
        struct program one = {0};
        struct period period;

        run_steps(&one, &plain, 2);
        uint32_t length = one.begins[1] - one.begins[0];
        for (uint32_t i = 0; i < 7 * length; i++)
            pair(&p, 200, 64 * MIB + UINT64_C(512) * i);
        for (uint32_t i = 0; i < length + more; i++)
            pair(&p, 11, 3 * MIB);
        run_steps(&p, &plain, 13);
        period_find(p.allocs, (uint32_t)p.count, &period);
        CHECK_EQ(period.kind == PERIOD_STEPS, more == 0);
        if (more == 0)
            CHECK_EQ(period.span_count, 13);
        period_done(&period);
        done(&one);
        done(&p);
    }
}

/* Frees are as far from their allocations as they were. */
static void shuffle(struct program *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->allocs[i].dies != PERIOD_NEVER)
            p->allocs[i].dies -= i;
    }
    for (uint32_t i = (uint32_t)p->count; i > 1; i--) {
        uint32_t other = random_below(i);
        struct period_alloc kept = p->allocs[i - 1];
        p->allocs[i - 1] = p->allocs[other];
        p->allocs[other] = kept;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->allocs[i].dies == PERIOD_NEVER)
            continue;
        p->allocs[i].dies += i;
        if (p->allocs[i].dies > p->count)
            p->allocs[i].dies = (uint32_t)p->count;
    }
}

TEST(r90_a_shuffled_sequence_has_no_steps)
{
    for (int round = 0; round < 10; round++) {
        struct kind kind = {.batch = 1, .has_no_sites = round % 2 != 0};
        struct period period;
        struct program p = {0};
        run_steps(&p, &kind, 3 + 3 * round);
        shuffle(&p);
        period_find(p.allocs, (uint32_t)p.count, &period);
        CHECK_EQ(period.kind, PERIOD_NONE);
        CHECK(strstr(period.reason, "nothing repeats") != NULL);
        period_done(&period);
        done(&p);
    }
}

/* Lane 1 is the number of a stream in logs of other programs: no lane, site and size may look like "none". */
TEST(every_allocation_is_of_a_kind_that_is_counted)
{
    for (uint32_t lane = 0; lane < 4; lane++) {
        struct period_alloc allocs[6] = {{0}};
        struct period_words words;

        for (uint32_t i = 0; i < 6; i++)
            allocs[i] = (struct period_alloc){.size = i % 3, .dies = i + 1, .lane = lane};
        for (int same = 0; same < PERIOD_WORDS_SAMENESSES; same++) {
            period_words_make(allocs, 0, 6, (enum period_words_sameness)same, &words);
            for (uint32_t i = 0; i < 12; i++)
                CHECK(words.ids[0][i] < words.kinds);
            CHECK_EQ(words.ids[0][12], words.kinds);
            period_words_done(&words);
        }
    }
}

TEST(what_says_nothing_has_no_steps)
{
    struct program p = {0};
    check_no_steps(&p, "only 0 allocations");
    for (int i = 0; i < 5; i++)
        pair(&p, 1, MIB);
    check_no_steps(&p, "only 5 allocations");
    for (int i = 0; i < 200; i++)
        pair(&p, 1, MIB);
    check_no_steps(&p, "look the same");
    done(&p);
}
