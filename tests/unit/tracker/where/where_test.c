/* SPDX-License-Identifier: MIT */
/* covers: where.c export_dlsym.c export_signal.c thread.c */
#include "tests/unit/tracker/track_help.h"

#include "alloc/base/lock.h"
#include "tracker/stacks/intern.h"
#include "tracker/stacks/modules.h"
#include "tracker/stacks/thread.h"
#include "tracker/where/nth.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* ---- programs of their own ---- */

struct answer {
    uint64_t site, elsewhere, base;
};

/* Runs where_helper on libraries, reads one answer for each. Returns how many came. */
static size_t run_helper(const char *libraries, struct answer *ret_answers, size_t max,
        uint64_t *ret_nameless, char *ret_program)
{
    char command[4096], line[512];
    size_t count = 0;
    FILE *pipe;

    (void)snprintf(command, sizeof command, "'%s/tests/unit/where_helper' %s", BINARY_DIRECTORY,
            libraries);
    pipe = popen(command, "r"); // NOLINT(cert-env33-c)
    REQUIRE(pipe != NULL);
    while (fgets(line, sizeof line, pipe)) {
        struct answer answer;

        if (sscanf(line, "site %" SCNx64 " elsewhere %" SCNx64 " base %" SCNx64,
                    &answer.site, // NOLINT
                    &answer.elsewhere, &answer.base)
                        == 3
                && count < max)
            ret_answers[count++] = answer;
        else
            (void)sscanf(line, "nameless %" SCNu64 " program %100s", ret_nameless,
                    ret_program); // NOLINT
    }
    CHECK_EQ(pclose(pipe), 0);
    return count;
}

#define LIBRARY(x_) "'" BINARY_DIRECTORY "/tests/unit/libwhere_" x_ ".so'"

TEST(twenty_runs_give_equal_sites)
{
    struct answer first = {0};
    char program[101] = "", again[101] = "";
    bool moved = false;

    for (int i = 0; i < 20; i++) {
        struct answer answer = {0};
        uint64_t nameless = 0;

        REQUIRE_EQ(run_helper(LIBRARY("a"), &answer, 1, &nameless, i ? again : program), 1);
        if (i == 0)
            first = answer;
        moved |= answer.base != first.base;
        CHECK_NE(answer.site, 0);
        CHECK_EQ(answer.site, first.site);
        CHECK_EQ(answer.elsewhere, first.elsewhere);
        if (i > 0)
            CHECK_STR_EQ(again, program);
    }
    CHECK_NE(first.site, first.elsewhere);
    CHECK(strncmp(program, "build-id:", 9) == 0);
    if (!moved)
        SKIP("addresses are not randomised here");
}

TEST(a_rebuilt_library_has_other_sites)
{
    struct answer a = {0}, b = {0};
    uint64_t nameless = 0;
    char program[101];

    REQUIRE_EQ(run_helper(LIBRARY("a"), &a, 1, &nameless, program), 1);
    REQUIRE_EQ(run_helper(LIBRARY("b"), &b, 1, &nameless, program), 1);
    CHECK_NE(a.site, b.site);
    CHECK_NE(a.elsewhere, b.elsewhere);
}

static void copy_file(const char *from, const char *to)
{
    char command[2 * TRACK_PATH_MAX + 16];

    (void)snprintf(command, sizeof command, "cp '%s' '%s'", from, to);
    REQUIRE_EQ(system(command), 0); // NOLINT(cert-env33-c)
}

/* It is the build that counts, not the file's name: rebuilt in place, and moved. */
TEST(a_site_follows_the_build_not_the_path)
{
    struct answer a = {0}, in_place = {0}, moved = {0};
    char path[TRACK_PATH_MAX], quoted[TRACK_PATH_MAX + 16];
    uint64_t nameless = 0;
    char program[101];

    track_path(path, track_scratch(), "libsame.so");
    (void)snprintf(quoted, sizeof quoted, "'./%s'", path);
    copy_file(BINARY_DIRECTORY "/tests/unit/libwhere_a.so", path);
    REQUIRE_EQ(run_helper(quoted, &moved, 1, &nameless, program), 1);
    copy_file(BINARY_DIRECTORY "/tests/unit/libwhere_b.so", path);
    REQUIRE_EQ(run_helper(quoted, &in_place, 1, &nameless, program), 1);
    REQUIRE_EQ(run_helper(LIBRARY("a"), &a, 1, &nameless, program), 1);
    CHECK_EQ(moved.site, a.site);
    CHECK_NE(in_place.site, moved.site);
}

/* Closed, and another build opened at the same address: neither the map nor a memo may answer for the old one. */
TEST(a_library_loaded_in_the_place_of_another_has_its_own_sites)
{
    struct answer alone = {0}, both[3];
    uint64_t nameless = 0;
    char program[101];

    REQUIRE_EQ(run_helper(LIBRARY("b"), &alone, 1, &nameless, program), 1);
    REQUIRE_EQ(
            run_helper(LIBRARY("a") " " LIBRARY("b") " " LIBRARY("a"), both, 3, &nameless, program),
            3);
    CHECK_EQ(both[1].site, alone.site);
    CHECK_NE(both[0].site, both[1].site);
    CHECK_EQ(both[2].site, both[0].site);
    if (both[0].base != both[1].base)
        SKIP("the second library landed elsewhere");
}

/* Nothing is written in it that says which build it is: its code does. The two files are equally long. */
TEST(a_library_without_build_id_counts_by_path_and_code)
{
    struct answer first = {0}, again = {0}, rebuilt = {0}, back = {0};
    struct stat one, other;
    char path[TRACK_PATH_MAX], quoted[TRACK_PATH_MAX + 16];
    uint64_t nameless = 0;
    char program[101];

    REQUIRE_EQ(stat(BINARY_DIRECTORY "/tests/unit/libwhere_nameless.so", &one), 0);
    REQUIRE_EQ(stat(BINARY_DIRECTORY "/tests/unit/libwhere_rebuilt.so", &other), 0);
    CHECK_EQ(one.st_size, other.st_size);
    track_path(path, track_scratch(), "libsame.so");
    (void)snprintf(quoted, sizeof quoted, "'./%s'", path);
    copy_file(BINARY_DIRECTORY "/tests/unit/libwhere_nameless.so", path);
    REQUIRE_EQ(run_helper(quoted, &first, 1, &nameless, program), 1);
    REQUIRE_EQ(run_helper(quoted, &again, 1, &nameless, program), 1);
    copy_file(BINARY_DIRECTORY "/tests/unit/libwhere_rebuilt.so", path);
    REQUIRE_EQ(run_helper(quoted, &rebuilt, 1, &nameless, program), 1);
    copy_file(BINARY_DIRECTORY "/tests/unit/libwhere_nameless.so", path);
    REQUIRE_EQ(run_helper(quoted, &back, 1, &nameless, program), 1);
    CHECK_NE(first.site, 0);
    CHECK_EQ(first.site, again.site);
    CHECK_NE(rebuilt.site, first.site);
    CHECK_EQ(back.site, first.site);
}

/* ---- in this process ---- */

static uintptr_t ask_returns_to;

__attribute__((noinline)) static int ask(uint64_t size, struct tag *ret_tag)
{
    int r = where_am_i(NULL, size, 0, ret_tag);

    __atomic_store_n(&ask_returns_to, (uintptr_t)__builtin_return_address(0), __ATOMIC_RELAXED);
    __asm__ volatile("" ::: "memory");
    return r;
}

__attribute__((noinline)) static int ask_elsewhere(uint64_t size, struct tag *ret_tag)
{
    int r = where_am_i(NULL, size, 0, ret_tag);

    __asm__ volatile("nop" ::: "memory");
    return r;
}

TEST(the_same_place_is_the_same_site)
{
    struct tag tags[3], other;
    struct where_stats stats;

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    for (int i = 0; i < 3; i++)
        REQUIRE_EQ(ask(100 + 50 * (unsigned)(i / 2), &tags[i]), 0);
    REQUIRE_EQ(ask_elsewhere(100, &other), 0);
    CHECK_NE(tags[0].site, 0);
    CHECK_NE(tags[0].stack, 0);
    CHECK_EQ(tags[1].site, tags[0].site);
    CHECK_EQ(tags[1].stack, tags[0].stack);
    CHECK_EQ(tags[2].site, tags[0].site); /* whatever the size */
    CHECK_NE(other.site, tags[0].site);
    CHECK_EQ(tags[0].nth, 0);
    CHECK_EQ(tags[1].nth, 1);
    CHECK_EQ(tags[2].nth, 0); /* another size counts for itself */
    CHECK_EQ(tags[0].size, 100);
    CHECK_STR_EQ(tags[0].path, "");
    where_stats(&stats);
    CHECK_EQ(stats.stacks_known, 2);
    CHECK_EQ(stats.stacks_lost, 0);
    CHECK_EQ(lock_violations(), 0);
}

static int state_in_walk;

static int cancel_state(void)
{
    int state, unused;

    REQUIRE_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state), 0);
    REQUIRE_EQ(pthread_setcancelstate(state, &unused), 0);
    return state;
}

static int walk_and_look(void **ret_ips, int max)
{
    state_in_walk = cancel_state();
    ret_ips[0] = __builtin_return_address(0);
    return max > 0;
}

static void *own_walker(void *handle, const char *symbol)
{
    return strcmp(symbol, "backtrace") == 0 ? (void *)walk_and_look : dlsym(handle, symbol);
}

static void ask_on_signal(int number)
{
    struct tag tag;

    (void)number;
    REQUIRE_EQ(ask(100, &tag), 0);
}

TEST(a_thread_cannot_be_cancelled_in_a_walk)
{
    struct where_opts opts = {.unwind = {.mode = UNWIND_AUTO, .ops = {dlopen, own_walker}}};

#if defined(__SANITIZE_THREAD__)
    SKIP("the sanitizer refuses the loader in a signal handler");
#endif
    REQUIRE_EQ(where_init(&opts), 0);
    state_in_walk = PTHREAD_CANCEL_ENABLE;
    REQUIRE(signal(SIGUSR1, ask_on_signal) != SIG_ERR);
    REQUIRE_EQ(raise(SIGUSR1), 0); /* a signal's frame is of another kind: backtrace() is asked */
    CHECK_EQ(state_in_walk, PTHREAD_CANCEL_DISABLE);
    CHECK_EQ(cancel_state(), PTHREAD_CANCEL_ENABLE); /* afterwards as before */
}

TEST(the_innermost_frame_is_the_caller)
{
    struct intern_frame frames[64];
    const struct intern_module *module;
    struct tag tag;
    unsigned depth;

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    REQUIRE_EQ(ask(1, &tag), 0);
    depth = intern_frames(tag.stack, frames, 64);
    REQUIRE(depth >= 3); /* ask, this test, main */
    module = intern_module_at(frames[0].module);
    REQUIRE(module != NULL);
    CHECK(module->is_main);
    CHECK_LT(frames[0].offset + module->bias - (uintptr_t)ask, 200);
    /* inside the call: what follows a call that never returns may be another function */
    CHECK_EQ(frames[1].offset + module->bias, ask_returns_to - 1);
    for (unsigned i = 0; i < depth; i++)
        CHECK_EQ(intern_module_at(frames[i].module)->kind, INTERN_MODULE_PROGRAM);
}

TEST(frames_of_kedge_do_not_count)
{
    struct where_opts opts = {
            .unwind = {.ops = {dlopen, dlsym}}, .self = (const void *)&run_helper};
    struct tag tag;

    /* Here kedge is linked into the program: all frames are ours or libc's. */
    REQUIRE_EQ(where_init(&opts), 0);
    REQUIRE_EQ(ask(1, &tag), 0);
    CHECK_EQ(tag.stack, 0);
    CHECK_EQ(tag.site, 0);
}

TEST(small_requests_get_no_stack)
{
    struct where_opts opts = {.unwind = {.ops = {dlopen, dlsym}}, .min_size = 1024};
    struct tag tag;

    REQUIRE_EQ(where_init(&opts), 0);
    REQUIRE_EQ(ask(1023, &tag), 0);
    CHECK_EQ(tag.stack, 0);
    CHECK_EQ(tag.site, 0);
    REQUIRE_EQ(ask(1024, &tag), 0);
    CHECK_NE(tag.stack, 0);
}

TEST(off_still_knows_the_anchor)
{
    struct edge edge;
    struct tag tag;

    REQUIRE_EQ(track_where(UNWIND_OFF), 0);
    REQUIRE_EQ(anchor_push(NULL, "SOT_CALL_0", &edge), 0);
    REQUIRE_EQ(ask(7, &tag), 0);
    REQUIRE_EQ(ask(7, &tag), 0);
    CHECK_EQ(tag.stack, 0);
    CHECK_STR_EQ(tag.path, "SOT_CALL_0");
    CHECK_EQ(tag.anchor, edge.anchor);
    CHECK_EQ(tag.nth, 1);
    CHECK_EQ(where_stack(), 0);
}

TEST(where_does_not_enter_itself)
{
    struct tag tag;

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    thread_self()->in_where = true;
    CHECK_EQ(ask(7, &tag), -EAGAIN);
    CHECK_EQ(tag.stack, 0);
    CHECK_STR_EQ(tag.path, "");
    CHECK_EQ(where_stack(), 0);
    thread_self()->in_where = false;
    CHECK_EQ(ask(7, &tag), 0);
}

TEST(modules_are_known_by_name)
{
    static const struct {
        const char *path;
        enum intern_module_kind kind;
    } names[] = {
            {"/usr/lib/x86_64-linux-gnu/libcuda.so.1", INTERN_MODULE_CUDA},
            {"libcuda.so.580.65.06", INTERN_MODULE_CUDA},
            {"/x/libcudart.so.13", INTERN_MODULE_CUDA},
            {"/x/libcudart-a7b20f20.so.11.0", INTERN_MODULE_CUDA},
            {"/lib/x86_64-linux-gnu/libc.so.6", INTERN_MODULE_LIBC},
            {"/lib64/ld-linux-x86-64.so.2", INTERN_MODULE_LIBC},
            {"linux-vdso.so.1", INTERN_MODULE_LIBC},
            {"/opt/libkedge.so", INTERN_MODULE_KEDGE},
            {"/x/libcublas.so.12",
                    INTERN_MODULE_PROGRAM}, /* asks for memory itself: that is its site */
            {"/x/libc10_cuda.so", INTERN_MODULE_PROGRAM},
            {"/x/libcudnn.so.9", INTERN_MODULE_PROGRAM},
            {"", INTERN_MODULE_PROGRAM},
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK_EQ(modules_kind_of(names[i].path), names[i].kind);
}

/* ---- threads: the label race ---- */

#define WORKERS 6
#define ROUNDS  2000

struct worker {
    struct tag first;
    size_t wrong;
};

static pthread_barrier_t barrier;

static void *ask_often(void *argument)
{
    struct worker *worker = argument;

    (void)pthread_barrier_wait(&barrier);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct tag tag;

        if (i % 3 == 0)
            (void)ask_elsewhere(1 + i % 5, &tag);
        if (ask(1 + i % 5, &tag) != 0)
            worker->wrong++;
        if (i == 0)
            worker->first = tag;
        worker->wrong += tag.site != worker->first.site || tag.stack != worker->first.stack;
        if (i % 500 == 0)
            where_modules_changed();
    }
    return NULL;
}

TEST(threads_agree_on_a_site)
{
    struct worker workers[WORKERS] = {0};
    pthread_t threads[WORKERS];
    uint32_t most = 0;

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    (void)pthread_barrier_init(&barrier, NULL, WORKERS);
    for (size_t i = 0; i < WORKERS; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, ask_often, &workers[i]), 0);
    for (size_t i = 0; i < WORKERS; i++) {
        (void)pthread_join(threads[i], NULL);
        CHECK_EQ(workers[i].wrong, 0);
        CHECK_NE(workers[i].first.stack, 0);
        CHECK_EQ(workers[i].first.site, workers[0].first.site);
        CHECK_EQ(workers[i].first.stack, workers[0].first.stack);
    }
    for (uint64_t size = 1; size <= 5; size++) {
        uint32_t nth = nth_count(0, workers[0].first.site, size);

        most = nth > most ? nth : most;
        CHECK_EQ(nth, WORKERS * ROUNDS / 5); /* none counted twice, none lost */
    }
    CHECK_EQ(lock_violations(), 0);
}

/* A thread's hundredth stack costs no more table than its first: nothing grows without need. */
TEST(known_stacks_are_not_interned_again)
{
    struct intern_counts before, after;
    struct tag tag;

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    REQUIRE_EQ(ask(1, &tag), 0);
    REQUIRE_EQ(ask(1, &tag), 0);
    intern_counts(&before);
    for (int i = 0; i < 1000; i++)
        REQUIRE_EQ(ask(1, &tag), 0);
    intern_counts(&after);
    CHECK_LE(after.nodes - before.nodes, 2); /* the loop's own call of ask, and ask in it */
    CHECK_EQ(after.modules, before.modules);
}

/* Nor is what is known forgotten when a library that nobody went through is closed. */
TEST(stacks_stay_known_when_the_same_code_is_there)
{
    struct where_stats before, after;
    struct tag tags[2];
    volatile int rounds = 2; /* a loop that is not unrolled: both rounds ask from one place */

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    for (int i = 0; i < rounds; i++) {
        where_stats(&before);
        REQUIRE_EQ(ask(1, &tags[i]), 0);
        where_stats(&after);
        where_modules_changed();
    }
    CHECK_EQ(after.stacks_known - before.stacks_known, 1);
    CHECK_EQ(tags[1].stack, tags[0].stack);
}

static void *ask_and_end(void *argument)
{
    struct tag tag;

    if (ask(1, &tag) == 0 && tag.stack != 0)
        ++*(int *)argument;
    return NULL;
}

static size_t resident_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    REQUIRE(file && fscanf(file, "%*u %lu", &pages) == 1); // NOLINT(cert-err34-c)
    (void)fclose(file);
    return pages;
}

/* What is kept for a thread is another one's when it has ended. */
TEST(threads_that_come_and_go_take_no_memory)
{
    enum {
        FIRST = 100,
        MORE = 3000
    };
    int asked_for = 0;
    size_t before = 0;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    SKIP("the sanitizer keeps memory of its own for each thread");
#endif
    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    for (int i = 0; i < FIRST + MORE; i++) {
        pthread_t thread;

        REQUIRE_EQ(pthread_create(&thread, NULL, ask_and_end, &asked_for), 0);
        REQUIRE_EQ(pthread_join(thread, NULL), 0);
        if (i == FIRST)
            before = resident_pages();
    }
    CHECK_EQ(asked_for, FIRST + MORE);
    CHECK_LT(resident_pages() - before, 100);
}

/* ---- neighbours ---- */

#define WAYS 16

typedef void (*inner)(struct tag *ret_tag);
typedef void (*outer)(inner next, struct tag *ret_tag);

/* One frame, or two, so that the two that differ come at even and at odd places of the walk. */
__attribute__((noinline)) static void one_frame(struct tag *ret_tag)
{
    (void)where_am_i(NULL, 64, 0, ret_tag);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void two_frames(struct tag *ret_tag)
{
    one_frame(ret_tag);
    __asm__ volatile("" ::: "memory");
}

static void (*innermost)(struct tag *ret_tag);

/* Bodies of different lengths, so that return addresses differ by all kinds of small numbers. */
#define WAY(n)                                                                       \
    __attribute__((noinline)) static void inner_##n(struct tag *ret_tag)             \
    {                                                                                \
        __asm__ volatile(".skip " #n ", 0x90");                                      \
        innermost(ret_tag);                                                          \
        __asm__ volatile("" ::: "memory");                                           \
    }                                                                                \
    __attribute__((noinline)) static void outer_##n(inner next, struct tag *ret_tag) \
    {                                                                                \
        __asm__ volatile(".skip " #n " * 3, 0x90");                                  \
        next(ret_tag);                                                               \
        __asm__ volatile("" ::: "memory");                                           \
    }

WAY(0)
WAY(1)
WAY(2)
WAY(3)
WAY(4)
WAY(5)
WAY(6)
WAY(7)
WAY(8)
WAY(9)
WAY(10)
WAY(11)
WAY(12)
WAY(13)
WAY(14)
WAY(15)

static const inner inners[WAYS] = {inner_0, inner_1, inner_2, inner_3, inner_4, inner_5, inner_6,
        inner_7, inner_8, inner_9, inner_10, inner_11, inner_12, inner_13, inner_14, inner_15};
static const outer outers[WAYS] = {outer_0, outer_1, outer_2, outer_3, outer_4, outer_5, outer_6,
        outer_7, outer_8, outer_9, outer_10, outer_11, outer_12, outer_13, outer_14, outer_15};

/* Walks that differ in two neighbouring frames only, and there by little: none is taken for another. */
TEST(stacks_that_differ_by_little_are_told_apart)
{
    static uint32_t stacks[2 * WAYS * WAYS];
    size_t count = 0;

    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    for (int i = 0; i < 2 * WAYS * WAYS; i++) {
        struct tag tag;

        innermost = i % 2 ? two_frames : one_frame;
        outers[i / 2 % WAYS](inners[i / 2 / WAYS], &tag);
        CHECK_NE(tag.stack, 0);
        for (size_t j = 0; j < count; j++)
            if (stacks[j] == tag.stack)
                CHECK_NE(stacks[j], tag.stack);
        stacks[count++] = tag.stack;
    }
}
