/* SPDX-License-Identifier: MIT */
/* covers: unwind.c fingerprint.c */
#include "tests/unit/tracker/track_help.h"

#include "tracker/stacks/thread.h"
#include "tracker/stacks/unwind.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

static void *frames[UNWIND_DEPTH_MAX];
static unsigned frame_count;

/* Four functions of our own, known by their order. */
__attribute__((noinline)) static void level_1(void)
{
    unwind_fn walk = unwind_walker();
    int found = walk ? walk(frames, (int)unwind_depth()) : 0;

    frame_count = found > 0 ? (unsigned)found : 0;
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void level_2(void)
{
    level_1();
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void level_3(void)
{
    level_2();
    __asm__ volatile("" ::: "memory");
}

static bool is_in(const void *at, void (*function)(void))
{
    uintptr_t ip = (uintptr_t)at;

    return ip > (uintptr_t)function && ip < (uintptr_t)function + 150;
}

/* Where in the walk our functions stand; they must follow each other. */
static unsigned find_levels(void)
{
    for (unsigned i = 0; i + 2 < frame_count; i++)
        if (is_in(frames[i], level_1) && is_in(frames[i + 1], level_2)
                && is_in(frames[i + 2], level_3))
            return i + 1;
    return 0;
}

static int start(enum unwind_mode mode, void *(*open)(const char *, int))
{
    struct unwind_opts opts = {.mode = mode, .ops = {open, dlsym}};

    return unwind_init(&opts);
}

static void start_tables(void)
{
    REQUIRE_EQ(start(UNWIND_AUTO, dlopen), 0);
    REQUIRE_EQ(unwind_engine(), UNWIND_ENGINE_TABLES);
}

TEST(tables_find_the_callers)
{
    start_tables();
    CHECK_STR_EQ(unwind_engine_name(unwind_engine()), "tables");
    level_3();
    CHECK_EQ(find_levels(), 1); /* the first address is in our caller */
}

static void *walk_level_3(void *unused)
{
    level_3();
    return unused;
}

static unsigned open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    REQUIRE(folder);
    while (readdir(folder))
        count++;
    (void)closedir(folder);
    return count;
}

/* The numbers of descriptors are the program's (R99, no descriptor of ours). Nothing is loaded for a walk that could open one. */
TEST(walks_open_nothing_and_load_nothing)
{
    unsigned before = open_descriptors();
    pthread_t thread;

    start_tables();
    level_3();
    REQUIRE_EQ(pthread_create(&thread, NULL, walk_level_3, NULL), 0);
    (void)pthread_join(thread, NULL);
    CHECK_NE(find_levels(), 0);
    CHECK_EQ(open_descriptors(), before);
    CHECK(dlopen("libunwind.so.8", RTLD_LAZY | RTLD_NOLOAD) == NULL);
}

static void *there_ips[UNWIND_DEPTH_MAX];
static int there_count;

__attribute__((noinline)) static void walk_both_ways(void)
{
    level_1();
    there_count = backtrace(there_ips, UNWIND_DEPTH_MAX);
    __asm__ volatile("" ::: "memory");
}

/* From the caller of walk_both_ways outwards both ways have the same frames, to the last one. */
static void check_both_ways(void)
{
    int own = 1, other = 0; /* frames[0] is in level_1, frames[1] in walk_both_ways */

    while (other < there_count && !is_in(there_ips[other], walk_both_ways))
        other++;
    REQUIRE(other < there_count && is_in(frames[own], walk_both_ways));
    CHECK_EQ(frame_count - (unsigned)own, (unsigned)(there_count - other));
    for (own++, other++; own < (int)frame_count && other < there_count; own++, other++)
        CHECK_EQ((uintptr_t)frames[own], (uintptr_t)there_ips[other]);
}

static int compare_through_qsort(const void *one, const void *other)
{
    (void)one;
    (void)other;
    walk_both_ways();
    return 0;
}

__attribute__((noinline)) static void on_an_aligned_frame(void)
{
    __attribute__((aligned(128))) volatile char room[256];

    room[0] = 1;
    walk_both_ways();
    room[1] = room[0];
}

__attribute__((noinline)) static void on_a_frame_of_any_size(size_t bytes)
{
    volatile char *room = __builtin_alloca(bytes);

    room[0] = 1;
    walk_both_ways();
    room[bytes - 1] = room[0];
}

static void *compare_in_a_thread(void *unused)
{
    walk_both_ways();
    return unused;
}

static void compare_on_signal(int number)
{
    (void)number;
    walk_both_ways();
}

TEST(a_walk_has_the_frames_of_backtrace)
{
    int pair[2] = {0, 0};
    pthread_t thread;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("the sanitizer's backtrace() has frames of its own");
#endif
    start_tables();
    walk_both_ways();
    check_both_ways();
    qsort(pair, 2, sizeof pair[0], compare_through_qsort);
    check_both_ways();
    on_an_aligned_frame();
    check_both_ways();
    on_a_frame_of_any_size(1000);
    check_both_ways();
    REQUIRE_EQ(pthread_create(&thread, NULL, compare_in_a_thread, NULL), 0);
    (void)pthread_join(thread, NULL);
    check_both_ways();
}

/* A signal's frame has a rule of its own: such a stack is backtrace()'s. */
TEST(a_frame_of_another_kind_is_walked_all_the_same)
{
#if defined(__SANITIZE_THREAD__)
    SKIP("the sanitizer refuses the loader in a signal handler");
#endif
    start_tables();
    REQUIRE(signal(SIGUSR1, compare_on_signal) != SIG_ERR);
    REQUIRE_EQ(raise(SIGUSR1), 0);
    CHECK_GT(frame_count,
            5); /* level_1, walk_both_ways, the handler, the frame of the signal, raise, main's */
}

TEST(frame_pointers_find_the_callers)
{
    REQUIRE_EQ(start(UNWIND_FP, NULL), 0);
    level_3();
    CHECK_EQ(find_levels(), 1);
    CHECK_LT(frame_count, 64); /* the walk came to the end of the stack */
}

TEST(off_walks_nothing)
{
    REQUIRE_EQ(start(UNWIND_OFF, NULL), 0);
    CHECK_EQ(unwind_engine(), UNWIND_ENGINE_NONE);
    level_3();
    CHECK_EQ(frame_count, 0);
}

TEST(depth_is_a_bound)
{
    struct unwind_opts opts = {.mode = UNWIND_AUTO, .depth = 2, .ops = {dlopen, dlsym}};

    REQUIRE_EQ(unwind_init(&opts), 0);
    CHECK_EQ(unwind_depth(), 2);
    level_3();
    CHECK_EQ(frame_count, 2);
    opts.depth = UNWIND_DEPTH_MAX + 1;
    CHECK_EQ(unwind_init(&opts), -EINVAL);
    opts.depth = 0;
    REQUIRE_EQ(unwind_init(&opts), 0);
    CHECK_EQ(unwind_depth(), 48);
    opts.ops.open = NULL;
    CHECK_EQ(unwind_init(&opts), -EINVAL);
}

/* A coroutine's stack is not the thread's: a walk there ends at once and reads nothing outside. */
static ucontext_t here, there;

static void on_other_stack(void)
{
    level_3();
    (void)swapcontext(&there, &here);
}

TEST(a_walk_on_a_foreign_stack_ends)
{
    size_t bytes = 256u << 10;
    void *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(stack != MAP_FAILED);
    REQUIRE_EQ(start(UNWIND_FP, NULL), 0);
    level_3();
    REQUIRE_EQ(getcontext(&there), 0);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = bytes;
    makecontext(&there, on_other_stack, 0);
    REQUIRE_EQ(swapcontext(&here, &there), 0);
    CHECK_EQ(frame_count, 0);
    level_3();
    CHECK_EQ(find_levels(), 1); /* back home */
}

/* Tables lead through a coroutine's stack, to its first frame and no further. */
TEST(a_walk_by_tables_on_a_foreign_stack_has_its_frames)
{
    size_t bytes = 256u << 10;
    void *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(stack != MAP_FAILED);
    start_tables();
    REQUIRE_EQ(getcontext(&there), 0);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = bytes;
    makecontext(&there, on_other_stack, 0);
    REQUIRE_EQ(swapcontext(&here, &there), 0);
    CHECK_EQ(find_levels(), 1);
    CHECK_LT(frame_count, 8);
    level_3();
    CHECK_EQ(find_levels(), 1); /* back home */
}

static unsigned char *borrowed; /* part of the main thread's stack */

static void *walk_on_borrowed_stack(void *argument)
{
    (void)argument;
    level_3();
    if (find_levels() != 1 || getcontext(&there) != 0)
        return NULL;
    there.uc_stack.ss_sp = borrowed;
    there.uc_stack.ss_size = 256u << 10;
    makecontext(&there, on_other_stack, 0);
    (void)swapcontext(&here, &there);
    return NULL;
}

/* The same with a stack that lies above the thread's own. */
TEST(a_walk_on_a_foreign_stack_above_ends)
{
    unsigned char stack[256u << 10];
    pthread_t thread;

    borrowed = stack;
    REQUIRE_EQ(start(UNWIND_FP, NULL), 0);
    REQUIRE_EQ(pthread_create(&thread, NULL, walk_on_borrowed_stack, NULL), 0);
    (void)pthread_join(thread, NULL);
    CHECK_EQ(frame_count, 0);
}

static void *walk_often(void *argument)
{
    size_t *wrong = argument;

    for (int i = 0; i < 2000; i++) {
        void *own[UNWIND_DEPTH_MAX];
        unwind_fn walk = unwind_walker();
        int count = walk ? walk(own, UNWIND_DEPTH_MAX) : 0;
        uintptr_t first = count > 0 ? (uintptr_t)own[0] : 0;

        if (first < (uintptr_t)walk_often || first > (uintptr_t)walk_often + 600)
            (*wrong)++;
    }
    return NULL;
}

TEST(threads_walk_at_the_same_time)
{
    static const enum unwind_mode modes[] = {UNWIND_AUTO, UNWIND_FP};

    for (size_t i = 0; i < 2; i++) {
        pthread_t threads[4];
        size_t wrong[4] = {0};

        REQUIRE_EQ(start(modes[i], dlopen), 0);
        for (size_t j = 0; j < 4; j++)
            REQUIRE_EQ(pthread_create(&threads[j], NULL, walk_often, &wrong[j]), 0);
        for (size_t j = 0; j < 4; j++) {
            (void)pthread_join(threads[j], NULL);
            CHECK_EQ(wrong[j], 0);
        }
    }
}
