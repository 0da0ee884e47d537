/* SPDX-License-Identifier: MIT */
/* covers: anchor.c */
#include "tests/unit/tracker/track_help.h"

#include "alloc/base/lock.h"
#include "tracker/stacks/intern.h"
#include "tracker/stacks/thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct anchor_place here(void)
{
    struct anchor_place place;

    anchor_here(&place);
    return place;
}

TEST(a_path_grows_and_shrinks_with_its_ranges)
{
    struct edge outer, inner, leave;

    CHECK_EQ(here().anchor, 0);
    CHECK_STR_EQ(here().path, "");
    REQUIRE_EQ(anchor_push(NULL, "step", &outer), 0);
    CHECK_EQ(outer.kind, EDGE_ENTER);
    CHECK_STR_EQ(outer.path, "step");
    CHECK_EQ(outer.instance, 0);
    REQUIRE_EQ(anchor_push("", "SOT_CALL_0", &inner), 0);
    CHECK_STR_EQ(inner.path, "step/SOT_CALL_0");
    CHECK_NE(inner.anchor, outer.anchor);
    CHECK_EQ(here().anchor, inner.anchor);
    CHECK_EQ(here().inherited, false);
    REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
    CHECK_EQ(leave.kind, EDGE_EXIT);
    CHECK_EQ(leave.anchor, inner.anchor);
    CHECK_STR_EQ(leave.path, "step/SOT_CALL_0");
    CHECK_STR_EQ(here().path, "step");
    REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
    CHECK_EQ(here().anchor, 0);
    CHECK_EQ(anchor_pop(NULL, &leave), -ENOENT);
}

TEST(each_path_counts_its_own_instances)
{
    struct edge edge, leave;
    uint32_t before = 0;

    for (uint32_t i = 0; i < 17; i++) {
        REQUIRE_EQ(anchor_push(NULL, "SOT_CALL_0", &edge), 0);
        CHECK_EQ(edge.instance, i);
        CHECK_GT(edge.anchor, before);
        before = edge.anchor;
        REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
        CHECK_EQ(leave.instance, i);
    }
    REQUIRE_EQ(anchor_push(NULL, "outer", &edge), 0);
    REQUIRE_EQ(anchor_push(NULL, "SOT_CALL_0", &edge), 0);
    CHECK_EQ(edge.instance, 0); /* another path */
    CHECK_EQ(here().instance, 0);
}

TEST(domains_have_stacks_of_their_own)
{
    struct edge step, nccl, leave;

    REQUIRE_EQ(anchor_push(NULL, "step", &step), 0);
    REQUIRE_EQ(anchor_push("NCCL", "ncclSend", &nccl), 0);
    CHECK_STR_EQ(nccl.path, "step/NCCL:ncclSend");
    REQUIRE_EQ(anchor_pop(NULL, &leave), 0); /* closes step, though it lies below */
    CHECK_EQ(leave.anchor, step.anchor);
    CHECK_EQ(here().anchor, nccl.anchor);
    CHECK_EQ(anchor_pop(NULL, &leave), -ENOENT);
    REQUIRE_EQ(anchor_pop("NCCL", &leave), 0);
    CHECK_EQ(leave.anchor, nccl.anchor);
    CHECK_EQ(here().anchor, 0);
}

TEST(a_group_has_ranges_of_its_own_and_no_part_in_the_path)
{
    struct edge line, range, leave;

    CHECK_EQ(anchor_pop_group(3, NULL, &leave), -ENOENT);
    REQUIRE_EQ(anchor_push_group(3, "SOT_CALL_0", &line), 0);
    CHECK_STR_EQ(line.path, "SOT_CALL_0");
    REQUIRE_EQ(anchor_push(NULL, "layer", &range), 0);
    CHECK_STR_EQ(range.path, "SOT_CALL_0/layer");
    CHECK_EQ(anchor_pop_group(4, NULL, &leave), -ENOENT);
    CHECK_EQ(anchor_pop_group(3, "SOT_CALL_1", &leave), -ENOENT);
    REQUIRE_EQ(anchor_pop_group(3, "SOT_CALL_0", &leave), 0);
    CHECK_EQ(leave.anchor, line.anchor);
    REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
    CHECK_EQ(leave.anchor, range.anchor);
    REQUIRE_EQ(anchor_push_group(3, "SOT_CALL_0", &line), 0);
    CHECK_EQ(line.instance, 1);
    REQUIRE_EQ(anchor_pop_group(3, NULL, &leave), 0);
}

TEST(what_a_line_and_a_range_say_together_is_said_once)
{
    struct edge line, range, leave;

    REQUIRE_EQ(anchor_push_group(0, "x", &line), 0); /* the line first */
    CHECK_EQ(anchor_push(NULL, "x", &range), -EALREADY);
    CHECK_EQ(here().anchor, line.anchor);
    CHECK_EQ(anchor_pop_group(0, "x", &leave),
            -ENOENT); /* an END that comes before the pop is late */
    REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
    CHECK_EQ(leave.anchor, line.anchor);
    CHECK_EQ(here().anchor, 0);
    REQUIRE_EQ(anchor_push(NULL, "x", &range), 0); /* the range first */
    CHECK_EQ(range.instance, 1);
    CHECK_EQ(anchor_push_group(0, "x", &line), -EALREADY);
    REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
    CHECK_EQ(anchor_pop_group(0, "x", &leave), -ENOENT);
    REQUIRE_EQ(anchor_push(NULL, "x", &range), 0); /* two ranges are two */
    REQUIRE_EQ(anchor_push(NULL, "x", &range), 0);
    CHECK_STR_EQ(range.path, "x/x");
    REQUIRE_EQ(anchor_push_group(0, "y", &line), 0); /* neither is what only follows */
    REQUIRE_EQ(anchor_push("domain", "y", &range), 0);
    CHECK_STR_EQ(range.path, "x/x/y/domain:y");
}

/* As PyTorch's emit_nvtx writes names: torch/csrc/profiler/util.cpp, getNvtxStr. */
TEST(running_numbers_that_a_framework_appends_are_no_part_of_a_name)
{
    static const struct {
        const char *said, *path;
    } cases[] = {
            {"aten::to, seq = 0, op_id = 9", "aten::to"}, {"aten::to, op_id = 12", "aten::to"},
            {"aten::mm, seq = 7, op_id = 31, sizes = [[2, 3], [], [3, 4]], input_op_ids = [(30,0), "
             "(-1,-1)]",
                    "aten::mm"},
            {"aten::cat, sizes = [[[2, 3], [2, 3]], []]", "aten::cat"},
            {"evaluate_function: MmBackward0, seq = 7", "evaluate_function: MmBackward0"},
            {"layer, seq = 3, part", "layer, seq = 3, part"}, /* not all of what follows */
            {"layer, seq = x", "layer, seq = x"}, {"layer, seq = ", "layer, seq = "},
            {"layer, sizes = 4", "layer, sizes = 4"}, {"layer, part 3", "layer, part 3"},
            {"a, b, op_id = 3", "a, b"}, {", seq = 1", ", seq = 1"}, /* a name is left */
    };
    struct edge edge, leave;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        REQUIRE_EQ(anchor_push(NULL, cases[i].said, &edge), 0);
        CHECK_STR_EQ(edge.path, cases[i].path);
        REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
    }
    REQUIRE_EQ(anchor_push(NULL, "aten::relu, seq = 1, op_id = 40", &edge), 0);
    REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
    REQUIRE_EQ(anchor_push(NULL, "aten::relu, seq = 2, op_id = 41", &edge), 0);
    CHECK_EQ(edge.instance, 1); /* instances count per plain name */
    REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
    REQUIRE_EQ(anchor_push_group(1, "line, seq = 5", &edge), 0);
    CHECK_STR_EQ(edge.path, "line");
    REQUIRE_EQ(anchor_pop_group(1, "line, seq = 5", &leave), 0);
}

/* However long the sizes are: what is cut off is not what the name is told by. */
TEST(running_numbers_go_before_a_long_name_is_cut)
{
    char said[2000] = "aten::cat, seq = 12, sizes = [";
    struct edge edge;

    while (strlen(said) < sizeof said - 16)
        strcat(said, "[64, 1024], ");
    strcat(said, "[]]");
    REQUIRE_EQ(anchor_push(NULL, said, &edge), 0);
    CHECK_STR_EQ(edge.path, "aten::cat");
}

/*
 * A step of a training loop ends in the middle of what the program has open: each would lie one deeper than the last, if it
 * were nested in it.
 */
TEST(an_outermost_range_is_nested_in_nothing_and_others_in_it)
{
    struct edge step, iter, forward, leave;

    REQUIRE_EQ(anchor_push(NULL, "epoch", &iter), 0);
    REQUIRE_EQ(anchor_push_outermost(ANCHOR_GROUP_PYTHON, "step", &step), 0);
    CHECK_STR_EQ(step.path, "step");
    for (uint32_t i = 0; i < 100; i++) {
        REQUIRE_EQ(anchor_push(NULL, "iter", &iter), 0);
        CHECK_STR_EQ(iter.path, "step/iter");
        REQUIRE_EQ(anchor_push_group(ANCHOR_GROUP_PYTHON, "forward", &forward), 0);
        CHECK_STR_EQ(forward.path, "step/iter/forward");
        CHECK_EQ(forward.instance, i);
        REQUIRE_EQ(anchor_pop_group(ANCHOR_GROUP_PYTHON, "forward", &leave), 0);
        REQUIRE_EQ(anchor_pop_group(ANCHOR_GROUP_PYTHON, "step", &leave), 0);
        CHECK_EQ(leave.anchor, step.anchor);
        REQUIRE_EQ(anchor_push_outermost(ANCHOR_GROUP_PYTHON, "step", &step), 0);
        CHECK_STR_EQ(step.path, "step");
        CHECK_EQ(step.instance, i + 1);
        REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
        CHECK_EQ(leave.anchor, iter.anchor);
    }
    CHECK_STR_EQ(here().path, "step");
}

/* A range "forward" of the program's own is another one: only lines repeat what ranges say. */
TEST(what_python_says_is_never_said_already)
{
    struct edge own, ours, leave;

    REQUIRE_EQ(anchor_push(NULL, "forward", &own), 0);
    REQUIRE_EQ(anchor_push_group(ANCHOR_GROUP_PYTHON, "forward", &ours), 0);
    CHECK_STR_EQ(ours.path, "forward/forward");
    REQUIRE_EQ(anchor_push(NULL, "forward", &own), 0);
    CHECK_STR_EQ(own.path, "forward/forward/forward");
    REQUIRE_EQ(anchor_pop_group(ANCHOR_GROUP_PYTHON, "forward", &leave), 0);
    CHECK_EQ(leave.anchor, ours.anchor);
}

static void *look(void *argument)
{
    *(struct anchor_place *)argument = here();
    return NULL;
}

static struct anchor_place here_elsewhere(void)
{
    struct anchor_place place;
    pthread_t thread;

    REQUIRE_EQ(pthread_create(&thread, NULL, look, &place), 0);
    (void)pthread_join(thread, NULL);
    return place;
}

TEST(a_thread_without_ranges_inherits_the_phase)
{
    struct edge outer, inner, leave;

    CHECK_EQ(here_elsewhere().anchor, 0);
    REQUIRE_EQ(anchor_push(NULL, "backward", &outer), 0);
    REQUIRE_EQ(anchor_push(NULL, "layer", &inner), 0);
    CHECK_EQ(here_elsewhere().anchor, inner.anchor);
    CHECK_EQ(here_elsewhere().inherited, true);
    CHECK_STR_EQ(here_elsewhere().path, "backward/layer");
    REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
    CHECK_EQ(here_elsewhere().anchor, outer.anchor); /* the newest among those still open */
    REQUIRE_EQ(anchor_pop(NULL, &leave), 0);
    CHECK_EQ(here_elsewhere().anchor, 0);
}

static void *end_it(void *argument)
{
    struct edge leave;

    return anchor_end(((struct edge *)argument)->anchor, &leave) == 0 && leave.kind == EDGE_EXIT
            ? argument
            : NULL;
}

TEST(a_started_range_may_end_on_another_thread)
{
    struct edge start, leave;
    pthread_t thread;
    void *result = NULL;

    REQUIRE_EQ(anchor_start("D", "request", &start), 0);
    CHECK_STR_EQ(start.path, "D:request");
    CHECK_EQ(here().anchor, start.anchor); /* as the phase: it lies on no thread's stack */
    CHECK_EQ(here().inherited, true);
    CHECK_EQ(anchor_pop("D", &leave), -ENOENT);
    REQUIRE_EQ(pthread_create(&thread, NULL, end_it, &start), 0);
    (void)pthread_join(thread, &result);
    CHECK(result == &start);
    CHECK_EQ(here().anchor, 0);
    CHECK_EQ(anchor_end(start.anchor, &leave), -ENOENT);
}

/* Otherwise anchor_end would close what another thread still has on its stack. */
TEST(a_started_range_without_a_name_is_unnamed)
{
    struct edge edge;

    REQUIRE_EQ(anchor_start(NULL, "", &edge), 0);
    CHECK_STR_EQ(edge.path, "(unnamed)");
    CHECK_EQ(anchor_end(edge.anchor, &edge), 0);
    REQUIRE_EQ(anchor_start(NULL, NULL, &edge), 0);
    CHECK_STR_EQ(edge.path, "(unnamed)");
    CHECK_EQ(anchor_end(edge.anchor, &edge), 0);
}

TEST(an_end_does_not_close_a_pushed_range)
{
    struct edge push, leave;

    REQUIRE_EQ(anchor_push(NULL, "a", &push), 0);
    CHECK_EQ(anchor_end(push.anchor, &leave), -ENOENT);
    CHECK_EQ(anchor_pop(NULL, &leave), 0);
}

TEST(a_mark_is_a_moment)
{
    struct edge mark, edge;

    REQUIRE_EQ(anchor_push(NULL, "step", &edge), 0);
    REQUIRE_EQ(anchor_mark(NULL, "half", &mark), 0);
    CHECK_EQ(mark.kind, EDGE_MARK);
    CHECK_STR_EQ(mark.path, "step/half");
    CHECK_EQ(here().anchor, edge.anchor);
    REQUIRE_EQ(anchor_mark(NULL, "half", &mark), 0);
    CHECK_EQ(mark.instance, 1);
    CHECK_EQ(anchor_mark(NULL, "", &mark), -EINVAL);
}

/* What is refused must be swallowed again by its pop, or all later pops close the wrong range. */
TEST(too_deep_ranges_keep_the_stack_balanced)
{
    struct edge edge, leave;
    const unsigned depth = THREAD_RANGES + 40;

    for (unsigned i = 0; i < depth; i++)
        CHECK_EQ(anchor_push(NULL, "d", &edge), i < ANCHOR_DEPTH_MAX ? 0 : -ENOBUFS);
    for (unsigned i = depth; i-- > 0;)
        CHECK_EQ(anchor_pop(NULL, &leave), i < ANCHOR_DEPTH_MAX ? 0 : -ENOBUFS);
    CHECK_EQ(here().anchor, 0);
    CHECK_EQ(anchor_pop(NULL, &leave), -ENOENT);
    CHECK_EQ(anchor_lost(), depth - ANCHOR_DEPTH_MAX);
}

/* The pop of one domain must not be taken for that of another whose push found no room. */
TEST(too_deep_ranges_of_several_domains_keep_theirs)
{
    static const char *const domains[] = {"a", "b", "c", "d", "e"};
    struct edge edge, leave;

    REQUIRE_EQ(anchor_push("other", "kept", &edge), 0);
    for (unsigned i = 1; i < THREAD_RANGES; i++)
        (void)anchor_push(NULL, "d", &leave);
    for (unsigned i = 0; i < 5; i++)
        CHECK_EQ(anchor_push(domains[i], "x", &leave), -ENOBUFS);
    CHECK_EQ(anchor_push(NULL, "x", &leave), -ENOBUFS);
    for (unsigned i = 0; i < 5; i++)
        CHECK_EQ(anchor_pop(domains[i], &leave), -ENOBUFS);
    CHECK_EQ(anchor_pop(NULL, &leave), -ENOBUFS);
    CHECK_EQ(anchor_push("a", "x", &leave), -ENOBUFS);
    REQUIRE_EQ(anchor_pop("other", &leave), 0); /* while one of `a` waits */
    CHECK_EQ(leave.anchor, edge.anchor);
    CHECK_EQ(anchor_pop("a", &leave), -ENOBUFS);
    for (unsigned i = 1; i < THREAD_RANGES; i++)
        CHECK_EQ(anchor_pop(NULL, &leave), i < THREAD_RANGES - ANCHOR_DEPTH_MAX + 1 ? -ENOBUFS : 0);
    CHECK_EQ(here().anchor, 0);
    CHECK_EQ(anchor_pop(NULL, &leave), -ENOENT);
}

TEST(long_names_are_cut_and_long_paths_refused)
{
    char name[1000];
    struct edge edge;
    int refused = 0;

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    REQUIRE_EQ(anchor_push("domain", name, &edge), 0);
    CHECK_EQ(strlen(edge.path), ANCHOR_NAME_MAX);
    for (int i = 0; i < 5; i++)
        refused += anchor_push("domain", name, &edge) == -ENOBUFS;
    CHECK_EQ(refused, 2); /* four of 255 bytes, with slashes, are 1023 */
    for (int i = 0; i < 6; i++)
        (void)anchor_pop("domain", &edge);
    CHECK_EQ(here().anchor, 0);
    CHECK_EQ(anchor_lost(), 2);
}

static void *leave_open(void *argument)
{
    struct edge edge;

    (void)argument;
    (void)anchor_push(NULL, "forgotten", &edge);
    return NULL;
}

TEST(a_thread_that_ends_takes_its_ranges_along)
{
    struct edge edge;
    pthread_t thread;

    REQUIRE_EQ(pthread_create(&thread, NULL, leave_open, NULL), 0);
    (void)pthread_join(thread, NULL);
    CHECK_EQ(here().anchor, 0);
    CHECK_EQ(anchor_open_ranges(&edge, 1), 0);
}

TEST(open_ranges_are_listed_in_the_order_of_entering)
{
    struct edge a, b, c, open[2];

    REQUIRE_EQ(anchor_push(NULL, "a", &a), 0);
    REQUIRE_EQ(anchor_start(NULL, "b", &b), 0);
    REQUIRE_EQ(anchor_push(NULL, "c", &c), 0);
    CHECK_EQ(anchor_open_ranges(open, 2), 3);
    CHECK_EQ(open[0].anchor, a.anchor);
    CHECK_EQ(open[1].anchor, b.anchor);
    CHECK_EQ(open[1].kind, EDGE_ENTER);
}

static pthread_barrier_t barrier;

static void *hold_range(void *argument)
{
    struct edge edge;

    (void)argument;
    (void)anchor_push(NULL, "theirs", &edge);
    (void)pthread_barrier_wait(&barrier);
    (void)pthread_barrier_wait(&barrier);
    (void)anchor_pop(NULL, &edge);
    return NULL;
}

TEST(a_forked_child_has_one_threads_ranges)
{
    struct edge edge;
    pthread_t thread;
    int status = 0;
    pid_t child;

    (void)pthread_barrier_init(&barrier, NULL, 2);
    REQUIRE_EQ(anchor_push(NULL, "mine", &edge), 0);
    REQUIRE_EQ(pthread_create(&thread, NULL, hold_range, NULL), 0);
    (void)pthread_barrier_wait(&barrier);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        struct edge open[4];

        where_fork_child();
        _exit(anchor_open_ranges(open, 4) == 1 && open[0].anchor == edge.anchor
                                && anchor_pop(NULL, &open[0]) == 0
                        ? 0
                        : 1);
    }
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    (void)pthread_barrier_wait(&barrier);
    (void)pthread_join(thread, NULL);
}

/* ---- many threads ---- */

#define WORKERS 6
#define ROUNDS  3000

/* Own ranges, shared names; the place must always be this thread's own innermost range. */
static void *churn(void *argument)
{
    size_t wrong = 0;

    for (unsigned i = 0; i < ROUNDS; i++) {
        char name[32];
        struct edge outer, inner, started, leave;
        struct anchor_place place;

        (void)snprintf(name, sizeof name, "r%u", i % 37);
        wrong += anchor_push(NULL, "shared", &outer) != 0;
        wrong += anchor_start("D", name, &started) != 0;
        wrong += anchor_push("D", name, &inner) != 0;
        anchor_here(&place);
        wrong += place.anchor != inner.anchor || place.inherited
                || strncmp(place.path, "shared/D:r", 10) != 0;
        wrong += anchor_pop("D", &leave) != 0 || leave.anchor != inner.anchor;
        wrong += anchor_end(started.anchor, &leave) != 0;
        wrong += anchor_pop(NULL, &leave) != 0 || leave.anchor != outer.anchor;
        anchor_here(&place);
        wrong += place.anchor != 0 && !place.inherited;
    }
    *(size_t *)argument = wrong;
    return NULL;
}

TEST(threads_do_not_disturb_each_other)
{
    pthread_t threads[WORKERS];
    size_t wrong[WORKERS];
    struct edge edge;

    for (size_t i = 0; i < WORKERS; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, churn, &wrong[i]), 0);
    for (size_t i = 0; i < WORKERS; i++) {
        (void)pthread_join(threads[i], NULL);
        CHECK_EQ(wrong[i], 0);
    }
    CHECK_EQ(anchor_lost(), 0);
    CHECK_EQ(anchor_open_ranges(&edge, 1), 0);
    REQUIRE_EQ(anchor_push(NULL, "shared", &edge), 0);
    CHECK_EQ(edge.instance, WORKERS * ROUNDS); /* no instance was counted twice or lost */
    CHECK_EQ(lock_violations(), 0);
}

static _Atomic bool is_over;

static void *open_and_close(void *argument)
{
    struct edge edge;

    (void)argument;
    while (!atomic_load(&is_over)) {
        (void)anchor_push(NULL, "outer", &edge);
        (void)anchor_push(NULL, "inner", &edge);
        (void)anchor_pop(NULL, &edge);
        (void)anchor_pop(NULL, &edge);
    }
    return NULL;
}

/* What another thread was doing to the list is half done in the child, and only the child's own ranges are left. */
static void be_a_child(void)
{
    struct edge open[8];
    struct edge edge;

    lock_forget_thread();
    where_fork_child();
    if (anchor_open_ranges(open, 8) != 1 || strcmp(open[0].path, "mine") != 0)
        _exit(1);
    for (int i = 0; i < 20; i++)
        if (anchor_push(NULL, "more", &edge) < 0)
            _exit(2);
    _exit(anchor_open_ranges(open, 8) == 21 ? 0 : 3);
}

TEST(r39_a_child_comes_while_threads_open_and_close)
{
    enum {
        FORKS = 400,
        THREADS = 3,
    };
    pthread_t threads[THREADS];
    struct edge mine;

    REQUIRE_EQ(anchor_push(NULL, "mine", &mine), 0);
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, open_and_close, NULL), 0);
    CHECK_EQ(track_forks(FORKS, be_a_child), 0); /* a signal: it went round and round */
    atomic_store(&is_over, true);
    for (size_t i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
}
