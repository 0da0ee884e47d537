/* SPDX-License-Identifier: MIT */
/* The 1F1B schedule of `pipeline`: its order, how much of each kind lives, and that no form of it waits for ever. */
#include "tests/check.h"
#include "tests/trainers/schedule.h"

#include <errno.h>

enum {
    STAGES_MOST = 8,
};

static const struct schedule_form plain = {false, false};
static const struct schedule_form mended = {true, false};
static const struct schedule_form early = {false, true};

static const struct schedule_form forms[] = {
        {false, false}, {true, false}, {false, true}, {true, true}};

/* "F0 F1 b0 B..." of one stage, to be compared with what is written by hand. */
static void text_of(const struct schedule *s, char *text, size_t size)
{
    static const char *const letters[] = {[SCHEDULE_TAKE_INPUT] = "i",
            [SCHEDULE_RECEIVE_INPUT] = "<",
            [SCHEDULE_FORWARD] = "F",
            [SCHEDULE_SEND_OUTPUT] = ">",
            [SCHEDULE_DROP_OUTPUT] = "-o",
            [SCHEDULE_RECEIVE_CHANGE] = "<c",
            [SCHEDULE_BACKWARD] = "B",
            [SCHEDULE_SEND_GRADIENT] = ">g",
            [SCHEDULE_DROP_INPUT] = "-i",
            [SCHEDULE_DROP_GRADIENT] = "-g",
            [SCHEDULE_UPDATE] = "update"};
    size_t used = 0;

    for (int i = 0; i < s->count; i++) {
        const struct schedule_op *op = &s->ops[i];
        const char *letter = op->act == SCHEDULE_BEGIN ? "["
                : op->act == SCHEDULE_END              ? "]"
                                                       : letters[op->act];

        REQUIRE(used + 16 < size);
        if (op->act == SCHEDULE_BEGIN || op->act == SCHEDULE_END || op->act == SCHEDULE_UPDATE)
            used += (size_t)snprintf(text + used, size - used, "%s ", letter);
        else
            used += (size_t)snprintf(text + used, size - used, "%s%d ", letter, op->micro_batch);
    }
    text[used - 1] = '\0';
}

static void check_text(
        int stages, int stage, int micro_batches, struct schedule_form form, const char *wanted)
{
    struct schedule s;
    char text[4096];

    REQUIRE(schedule_make(stages, stage, micro_batches, form, &s) == 0);
    text_of(&s, text, sizeof(text));
    CHECK_STR_EQ(text, wanted);
    schedule_free(&s);
}

TEST(order_of_each_stage_is_startup_steady_drain_update)
{
    check_text(3, 0, 3, plain,
            "[ i0 F0 >0 ] [ i1 F1 >1 ] [ i2 F2 >2 ] [ <c0 B0 -o0 -i0 ] [ <c1 B1 -o1 -i1 ] "
            "[ <c2 B2 -o2 -i2 ] [ update ]");
    check_text(3, 1, 3, plain,
            "[ i0 <0 F0 >0 ] [ i1 <1 F1 >1 ] [ <c0 B0 -o0 >g0 -i0 ] [ i2 <2 F2 >2 ] "
            "[ <c1 B1 -o1 >g1 -i1 ] [ <c2 B2 -o2 >g2 -i2 ] [ update ] -g0 -g1 -g2");
    check_text(3, 2, 3, plain,
            "[ i0 <0 F0 ] [ B0 -o0 >g0 -i0 ] [ i1 <1 F1 ] [ B1 -o1 >g1 -i1 ] "
            "[ i2 <2 F2 ] [ B2 -o2 >g2 -i2 ] [ update ] -g0 -g1 -g2");
}

TEST(mended_gradients_go_at_the_second_forward_receive_after_their_send)
{
    check_text(2, 1, 4, mended,
            "[ i0 <0 F0 ] [ B0 -o0 >g0 -i0 ] [ i1 <1 F1 ] [ B1 -o1 >g1 -i1 ] [ i2 <2 -g0 F2 ] "
            "[ B2 -o2 >g2 -i2 ] [ i3 <3 -g1 F3 ] [ B3 -o3 >g3 -i3 ] [ update ] -g2 -g3");
    check_text(3, 1, 4, mended,
            "[ i0 <0 F0 >0 ] [ i1 <1 F1 >1 ] [ <c0 B0 -o0 >g0 -i0 ] [ i2 <2 F2 >2 ] "
            "[ <c1 B1 -o1 >g1 -i1 ] [ i3 <3 -g0 F3 >3 ] [ <c2 B2 -o2 >g2 -i2 ] "
            "[ <c3 B3 -o3 >g3 -i3 ] [ update ] -g1 -g2 -g3");
}

TEST(early_form_drops_the_output_right_after_its_send)
{
    check_text(2, 0, 2, early,
            "[ i0 F0 >0 -o0 ] [ i1 F1 >1 -o1 ] [ <c0 B0 -i0 ] [ <c1 B1 -i1 ] [ update ]");
}

/* ---- how much lives ---- */

struct live {
    int inputs, outputs, changes, gradients; /* now */
    int most;                                /* of all kinds together */
    int most_gradients;
};

static void live_count(struct live *l, const struct schedule_op *op, bool is_first, bool is_last)
{
    int all;

    switch (op->act) {
    case SCHEDULE_TAKE_INPUT:
        l->inputs++;
        break;
    case SCHEDULE_FORWARD:
        l->outputs++;
        break;
    case SCHEDULE_RECEIVE_CHANGE:
        l->changes++;
        break;
    case SCHEDULE_BACKWARD:
        l->gradients += is_first ? 0 : 1;
        break;
    case SCHEDULE_DROP_OUTPUT:
        l->outputs--;
        break;
    case SCHEDULE_DROP_INPUT:
        l->inputs--;
        l->changes -= is_last ? 0 : 1;
        break;
    case SCHEDULE_DROP_GRADIENT:
        l->gradients--;
        break;
    default:
        break;
    }
    all = l->inputs + l->outputs + l->changes + l->gradients;
    l->most = all > l->most ? all : l->most;
    l->most_gradients = l->gradients > l->most_gradients ? l->gradients : l->most_gradients;
}

static struct live live_of(int stages, int stage, int micro_batches, struct schedule_form form)
{
    struct live l = {0};
    struct schedule s;

    REQUIRE(schedule_make(stages, stage, micro_batches, form, &s) == 0);
    for (int i = 0; i < s.count; i++)
        live_count(&l, &s.ops[i], stage == 0, stage == stages - 1);
    CHECK_EQ(l.inputs, 0);
    CHECK_EQ(l.outputs, 0);
    CHECK_EQ(l.changes, 0);
    CHECK_EQ(l.gradients, 0);
    schedule_free(&s);
    return l;
}

TEST(without_the_mend_each_micro_batch_adds_one_gradient_but_on_stage_0)
{
    for (int stage = 0; stage < 8; stage++)
        for (int m = 8; m <= 768; m += stage + 1) {
            struct live l = live_of(8, stage, m, plain);

            CHECK_EQ(l.most_gradients, stage ? m : 0);
            CHECK_EQ(l.most - live_of(8, stage, 8, plain).most, stage ? m - 8 : 0);
        }
}

TEST(mended_live_gradients_are_min_of_micro_batches_and_startup_and_2)
{
    for (int stage = 1; stage < 8; stage++) {
        int startup = 8 - stage - 1;

        for (int m = startup + 1; m < 64; m++) {
            struct live l = live_of(8, stage, m, mended);

            CHECK_EQ(l.most_gradients, m < startup + 2 ? m : startup + 2);
            if (m > startup + 2)
                CHECK_EQ(l.most, live_of(8, stage, startup + 2, mended).most);
        }
    }
    CHECK_EQ(live_of(8, 1, 512, mended).most_gradients, 8);
    CHECK_EQ(live_of(8, 7, 512, mended).most_gradients, 2);
}

/* ---- whether it ends ---- */

/*
 * Stages whose sends end only when the peer receives, each direction on a stream of its own, while the stage itself waits
 * for its receives. `waits`: it waits for all of its sends as well wherever it gives memory back, as cudaFree does.
 */
struct stage {
    struct schedule schedule;
    int at;
    int received[2], sent[2]; /* inputs and outputs; gradients: how many */
};

enum {
    DOWN, /* inputs and outputs */
    UP,   /* gradients */
};

static bool may_go_on(const struct stage *all, int stage, int stages, bool waits)
{
    const struct stage *s = &all[stage];
    enum schedule_act act = s->schedule.ops[s->at].act;

    switch (act) {
    case SCHEDULE_RECEIVE_INPUT:
        return all[stage - 1].sent[DOWN] > s->received[DOWN];
    case SCHEDULE_RECEIVE_CHANGE:
        return all[stage + 1].sent[UP] > s->received[UP];
    case SCHEDULE_DROP_OUTPUT:
    case SCHEDULE_DROP_INPUT:
    case SCHEDULE_DROP_GRADIENT:
        return !waits
                || ((stage == stages - 1 || all[stage + 1].received[DOWN] == s->sent[DOWN])
                        && (stage == 0 || all[stage - 1].received[UP] == s->sent[UP]));
    default:
        return true;
    }
}

static void go_on(struct stage *s)
{
    enum schedule_act act = s->schedule.ops[s->at++].act;

    s->received[DOWN] += act == SCHEDULE_RECEIVE_INPUT;
    s->received[UP] += act == SCHEDULE_RECEIVE_CHANGE;
    s->sent[DOWN] += act == SCHEDULE_SEND_OUTPUT;
    s->sent[UP] += act == SCHEDULE_SEND_GRADIENT;
}

static bool all_end(int stages, int micro_batches, struct schedule_form form, bool waits)
{
    struct stage all[STAGES_MOST] = {0};
    bool moved = true, ended = true;

    for (int i = 0; i < stages; i++)
        REQUIRE(schedule_make(stages, i, micro_batches, form, &all[i].schedule) == 0);
    while (moved) {
        moved = false;
        for (int i = 0; i < stages; i++)
            while (all[i].at < all[i].schedule.count && may_go_on(all, i, stages, waits)) {
                go_on(&all[i]);
                moved = true;
            }
    }
    for (int i = 0; i < stages; i++) {
        ended = ended && all[i].at == all[i].schedule.count;
        schedule_free(&all[i].schedule);
    }
    return ended;
}

TEST(no_stage_waits_for_ever_whether_frees_wait_or_not)
{
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++)
        for (int stages = 2; stages <= STAGES_MOST; stages++)
            for (int m = stages; m < 3 * stages; m++) {
                CHECK(all_end(stages, m, forms[f], false));
                if (!forms[f].early_output)
                    CHECK(all_end(stages, m, forms[f], true));
            }
}

/* The stage waits for its send, its peer for the gradient that the stage would receive next. */
TEST(free_that_waits_right_after_a_send_waits_for_ever)
{
    CHECK(!all_end(8, 16, early, true));
}

/* ---- the proof of the mend ---- */

/*
 * Runs the pipeline with one stage going on only when no other can, so that it is as late as it may be, and asks at each
 * drop whether the peer has received what is dropped.
 */
static int drops_before_they_arrived(int stages, int micro_batches, int slow, int sooner)
{
    struct stage all[STAGES_MOST] = {0};
    int early_drops = 0;

    for (int i = 0; i < stages; i++)
        REQUIRE(schedule_make(stages, i, micro_batches, mended, &all[i].schedule) == 0);
    for (int i = 0; i < stages;) {
        int next = (slow + 1 + i) % stages; /* the slow one comes last */
        struct stage *s = &all[next];
        const struct schedule_op *op = &s->schedule.ops[s->at];

        if (s->at == s->schedule.count || !may_go_on(all, next, stages, false)) {
            i++;
            continue;
        }
        if (op->act == SCHEDULE_DROP_GRADIENT && op->range == SCHEDULE_IN_FORWARD)
            early_drops += all[next - 1].received[UP] <= op->micro_batch + sooner;
        go_on(s);
        i = 0;
    }
    for (int i = 0; i < stages; i++)
        schedule_free(&all[i].schedule);
    return early_drops;
}

TEST(second_receive_proves_that_the_gradient_has_arrived_and_the_first_does_not)
{
    int too_soon = 0;

    for (int stages = 2; stages <= STAGES_MOST; stages++)
        for (int slow = 0; slow < stages; slow++) {
            CHECK_EQ(drops_before_they_arrived(stages, 2 * stages, slow, 0), 0);
            too_soon += drops_before_they_arrived(stages, 2 * stages, slow, 1);
        }
    CHECK(too_soon > 0);
}

TEST(numbers_that_make_no_pipeline_are_refused)
{
    struct schedule s;

    CHECK_EQ(schedule_make(1, 0, 4, plain, &s), -EINVAL);
    CHECK_EQ(schedule_make(4, 4, 8, plain, &s), -EINVAL);
    CHECK_EQ(schedule_make(4, -1, 8, plain, &s), -EINVAL);
    CHECK_EQ(schedule_make(8, 0, 7, plain, &s), -EINVAL);
}
