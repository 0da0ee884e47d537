/* SPDX-License-Identifier: MIT */
/* covers: pyloop.c */
/*
 * Training loops as calls, and what they come to as steps and phases. A loop is written down as `NUMBER CALL ...`, the number of its
 * thread and
 *
 *     f b d   a forward, a backward, a call for data begins; F and D: of an evaluation
 *     o p     a step of one optimizer, and of another one, begins; s: a call of the first one's gradient scaler
 *     . !     the thread's innermost call ends; ends by an exception
 *     #       the process is a child of a fork, which has this thread alone
 *
 * What becomes of it: `NUMBER :step` begins a step, nested in nothing, `+phase` begins a phase, `-name` ends.
 */
#include "preload/anchors/pyloop.h"
#include "preload/anchors/source.h"
#include "preload/base/threadmem.h"
#include "tests/check.h"
#include "tests/preload/child.h"

#include <ctype.h>

enum {
    THREADS = 80,
    NESTED = 8,
};

/* ---- threads, which are all this one -------------------------------------------------------- */

static struct thread {
    char memory[512]; /* pyloop.c's */
    void *slot;       /* what stands in its thread-local word */
    struct pyloop_call call[NESTED];
    bool is_watched[NESTED];
    unsigned calls;
} threads[THREADS], *here = &threads[0];
static void **word; /* the thread-local word */
static bool lacks_memory;

void *threadmem_make(void *slot, size_t size)
{
    REQUIRE(size <= sizeof here->memory);
    if (lacks_memory)
        return NULL;
    word = slot;
    *word = here->memory;
    return *word;
}

static void be_thread(unsigned number)
{
    if (word)
        here->slot = *word;
    here = &threads[number];
    if (word)
        *word = here->slot;
}

/* ---- what is told --------------------------------------------------------------------------- */

static char told[2048];

static void tell(char what, const char *name)
{
    size_t used = strlen(told);

    (void)snprintf(told + used, sizeof told - used, "%s%d%c%s", used ? " " : "",
            (int)(here - threads), what, name);
}

void source_enter_step(const char *name)
{
    tell(':', name);
}

void source_enter_python(const char *name)
{
    tell('+', name);
}

void source_leave_python(const char *name)
{
    tell('-', name);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static enum pyloop_kind kind_of(char call)
{
    static const char calls[] = "?fbdos";
    const char *at = strchr(calls, call == 'p' ? 'o' : tolower(call));

    REQUIRE(at && *at);
    return (enum pyloop_kind)(at - calls);
}

/* As pyhost.c has it around a call. */
static void begin(char call, uintptr_t who)
{
    enum pyloop_kind kind = kind_of(call);
    unsigned at = here->calls++;

    REQUIRE(at < NESTED);
    here->is_watched[at] = pyloop_may_open(kind);
    if (here->is_watched[at])
        pyloop_enter(&here->call[at], kind, !isupper((unsigned char)call), who);
}

static void end(bool is_failed)
{
    unsigned at = --here->calls;

    if (here->is_watched[at])
        pyloop_leave(&here->call[at], is_failed);
}

static void run(const char *loop)
{
    for (const char *at = loop; *at; at++) {
        if (*at == ' ')
            continue;
        be_thread((unsigned)(*at++ - '0'));
        if (*at == '.' || *at == '!')
            end(*at == '!');
        else if (*at == '#')
            pyloop_fork_child();
        else
            begin(*at, *at == 's' ? 'o' * 64 : (uintptr_t)*at * 64);
    }
}

/* ---- loops ---------------------------------------------------------------------------------- */

static const struct loop {
    const char *calls, *told;
} loops[] = {
        /* a step is from the end of one to the end of the next, the first one from the first forward of training */
        {"1f 1. 1b 1. 1o 1. 1f 1. 1o 1.",
                "1:step 1+forward 1-forward 1+backward 1-backward 1+optimizer 1-optimizer 1-step "
                "1:step 1+forward 1-forward 1+optimizer 1-optimizer 1-step 1:step"},
        {"1d 1. 1b 1. 1o 1.",
                "1+data 1-data 1+backward 1-backward 1:step 1+optimizer 1-optimizer 1-step 1:step"},
        {"1F 1. 1D 1. 1f 1.",
                "1:eval 1+forward 1-forward 1-eval 1:eval 1+data 1-data 1-eval 1:step 1+forward "
                "1-forward"},
        {"1f 1! 1o 1! 1o 1.",
                "1:step 1+forward 1-forward 1+optimizer 1-optimizer 1+optimizer "
                "1-optimizer 1-step 1:step"},
        /* a phase inside another one is part of that, but for an optimizer's, and those in it */
        {"1f 1f 1. 1b 1. 1d 1. 1.", "1:step 1+forward 1-forward"},
        {"1o 1o 1. 1f 1o 1. 1f 1. 1. 1b 1. 1.",
                "1:step 1+optimizer 1+forward 1-forward 1+backward 1-backward 1-optimizer 1-step "
                "1:step"},
        {"1f 1. 1b 1o 1f 1f 1. 1o 1. 1. 1. 1.",
                "1:step 1+forward 1-forward 1+backward 1+optimizer 1+forward 1-forward "
                "1-optimizer 1-backward 1-step 1:step"},
        {"1f 1. 1b 1o 1! 1.",
                "1:step 1+forward 1-forward 1+backward 1+optimizer 1-optimizer "
                "1-backward"},
        {"1f 1. 1b 1o 1. 1!",
                "1:step 1+forward 1-forward 1+backward 1+optimizer 1-optimizer "
                "1-backward"},
        /* a step that a gradient scaler skips is one, too */
        {"1f 1. 1s 1.", "1:step 1+forward 1-forward 1-step 1:step"},
        {"1f 1. 1s 1o 1. 1.", "1:step 1+forward 1-forward 1+optimizer 1-optimizer 1-step 1:step"},
        {"1f 1. 1s 1!", "1:step 1+forward 1-forward"},
        {"1f 1s 1. 1.", "1:step 1+forward 1-forward 1-step 1:step"},
        {"1f 1. 1o 1. 1s 1. 1s 1.",
                "1:step 1+forward 1-forward 1+optimizer 1-optimizer 1-step 1:step 1-step 1:step "
                "1-step 1:step"},
        {"1s 1.", ""},
        {"1b 1. 1s 1.", "1+backward 1-backward"}, /* there is no step that could end */
        /* of two optimizers the one that has ended a step ends the next, until the other one steps twice */
        {"1o 1. 1p 1. 1o 1.",
                "1:step 1+optimizer 1-optimizer 1-step 1:step 1+optimizer 1-optimizer "
                "1+optimizer 1-optimizer 1-step 1:step"},
        {"1o 1. 1p 1. 1p 1. 1p 1.",
                "1:step 1+optimizer 1-optimizer 1-step 1:step 1+optimizer 1-optimizer "
                "1+optimizer 1-optimizer 1-step 1:step 1+optimizer 1-optimizer 1-step 1:step"},
        {"1o 1. 1p 1. 1o 1. 1p 1.",
                "1:step 1+optimizer 1-optimizer 1-step 1:step 1+optimizer 1-optimizer "
                "1+optimizer 1-optimizer 1-step 1:step 1+optimizer 1-optimizer"},
        /* who calls something while another thread is in a phase helps that one */
        {"1b 2f 2. 1.", "1+backward 1-backward"},
        {"1b 2f 2. 2b 2. 1. 2b 2.", "1+backward 1-backward 2+backward 2-backward"},
        {"1f 1. 1b 2o 2. 1.", "1:step 1+forward 1-forward 1+backward 1-backward 1-step 1:step"},
        {"1f 1. 1b 2o 2. 1!", "1:step 1+forward 1-forward 1+backward 1-backward"},
        /* but not for longer than that one's phase, and not with an optimizer where none goes backward */
        {"1f 2f 1. 2. 1f 2f 2. 1.",
                "1:step 1+forward 1-forward 1+forward 2+forward 2-forward 1-forward"},
        {"1f 2f 1. 1b 2. 2f 2. 1.",
                "1:step 1+forward 1-forward 1+backward 2+forward 2-forward 1-backward"},
        {"1f 2f 3f 1. 2. 3. 2f 3b 3. 2.",
                "1:step 1+forward 1-forward 2+forward 3+backward "
                "3-backward 2-forward"},
        {"1f 2o 2. 1.", "1:step 1+forward 2:step 2+optimizer 2-optimizer 2-step 2:step 1-forward"},
        {"1f 1. 2f 2. 2o 2.",
                "1:step 1+forward 1-forward 2+forward 2-forward 2:step 2+optimizer "
                "2-optimizer 2-step 2:step"},
        {"1b 1. 2f 2.", "1+backward 1-backward 2:step 2+forward 2-forward"},
        /* each phase with what has stepped in it */
        {"1f 1. 2f 2. 1b 2b 1o 1. 2. 1.",
                "1:step 1+forward 1-forward 2+forward 2-forward 1+backward 2+backward 1+optimizer "
                "1-optimizer 2-backward 1-backward 1-step 1:step"},
        {"2f 2. 1f 2b 1. 3o 3. 2.",
                "2:step 2+forward 2-forward 1+forward 2+backward 1-forward "
                "2-backward 2-step 2:step"},
        /* who only loads data while others train has no phase */
        {"1f 1. 2d 2. 2f 2.", "1:step 1+forward 1-forward 2+forward 2-forward"},
        {"1f 2d 1. 2. 2d 2.", "1:step 1+forward 1-forward"},
        /* phases of the others end with a fork */
        {"2f 2. 1f 2o 2# 3f 2. 3. 3b 3.",
                "2:step 2+forward 2-forward 1+forward 2+optimizer 2-optimizer 2-step 2:step "
                "3+backward 3-backward"},
        {"2f 2. 1f 2o 2# 2. 3f 3.",
                "2:step 2+forward 2-forward 1+forward 2+optimizer 2-optimizer 2-step 2:step "
                "3+forward 3-forward"},
        {"1f 1. 2f 2. 1f 2f 1# 3f 3. 1.",
                "1:step 1+forward 1-forward 2+forward 2-forward "
                "1+forward 2+forward 1-forward"},
        {"1f 1. 1# 2f 2.", "1:step 1+forward 1-forward 2+forward 2-forward"},
};

static const struct loop *current;

static void run_current(void)
{
    run(current->calls);
    if (strcmp(told, current->told) != 0)
        printf("of %s\n", current->calls);
    CHECK_STR_EQ(told, current->told);
}

TEST(calls_of_a_training_loop_come_to_steps_and_phases)
{
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        current = &loops[i];
        CHECK_EQ(run_child(run_current), 0);
    }
}

static void step_with(uintptr_t who)
{
    begin('o', who);
    end(false);
}

static unsigned steps(void)
{
    unsigned count = 0;

    for (const char *at = told; (at = strstr(at, ":step")); at++)
        count++;
    return count;
}

/* Beside the one that ends steps, eight are told apart. */
TEST(of_many_optimizers_the_ninth_is_not_counted)
{
    step_with(64);
    for (uintptr_t i = 1; i <= 9; i++)
        step_with(64 + i * 64);
    CHECK_EQ(steps(), 2);
    step_with(64 + 9 * 64);
    CHECK_EQ(steps(), 2);
    step_with(64 + 8 * 64);
    CHECK_EQ(steps(), 3);
    step_with(64); /* which is another one now, like all of them */
    CHECK_EQ(steps(), 3);
    step_with(64);
    CHECK_EQ(steps(), 4);
}

/* More threads in a phase than there is room for: those beyond have theirs all the same, and all of them end. */
TEST(each_of_eighty_threads_has_its_phase)
{
    char expected[64];

    for (unsigned i = 1; i < THREADS; i++) {
        be_thread(i);
        begin('o', 64);
    }
    begin('s', 64); /* of the last one, whose phase is none of those that are known */
    end(false);
    for (unsigned i = THREADS - 1; i > 0; i--) {
        be_thread(i);
        told[0] = '\0';
        end(false);
        (void)snprintf(expected, sizeof expected, "%u-optimizer %u-step %u:step", i, i, i);
        CHECK_STR_EQ(told, expected);
        told[0] = '\0';
        run(i > 1 ? "0b 0." : "1f 1. 2f 2."); /* somebody's helper, up to the end of the last one */
        CHECK_STR_EQ(told, i > 1 ? "" : "1+forward 1-forward 2+forward 2-forward");
    }
}

TEST(a_thread_without_memory_has_no_phases)
{
    int inner;

    lacks_memory = true;
    run("1f 1f 1. 1. 1o 1. 1s 1.");
    CHECK_STR_EQ(told, "");
    pyloop_set_inner(&inner);
    CHECK(!pyloop_inner());
    CHECK(!pyloop_in_forward());
    lacks_memory = false;
    run("1f");
    CHECK_STR_EQ(told, "1:step 1+forward");
}

TEST(the_innermost_phase_is_a_forward_or_none)
{
    static const struct {
        const char *calls;
        bool in_forward;
    } cases[] = {{"1f", true}, {"1f 1o", false}, {"1f 1o 1f", true}, {"1f 1o 1f 1. 1.", true},
            {"1f 1.", false}, {"1b", false}};
    int inner;

    CHECK(!pyloop_in_forward());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run(cases[i].calls);
        CHECK_EQ(pyloop_in_forward(), cases[i].in_forward);
        while (here->calls > 0)
            end(false);
    }
    CHECK(!pyloop_inner());
    pyloop_set_inner(&inner);
    CHECK(pyloop_inner() == &inner);
    be_thread(2); /* of which nothing is known */
    CHECK(!pyloop_inner());
}
