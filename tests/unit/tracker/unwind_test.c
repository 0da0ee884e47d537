/* SPDX-License-Identifier: MIT */
#include "tests/unit/tracker/track_help.h"

#include "tracker/thread.h"
#include "tracker/unwind.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

static void *frames[UNWIND_DEPTH_MAX];
static unsigned frame_count;

/* Four functions of our own, known by their order. */
__attribute__((noinline)) static void level_1(void)
{
    unwind_fn walk = unwind_walker(thread_self());
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

static void *open_without_libunwind(const char *file, int flags)
{
    return strstr(file, "unwind") ? NULL : dlopen(file, flags);
}

static void *open_nothing(const char *file, int flags)
{
    (void)file;
    (void)flags;
    return NULL;
}

TEST(libunwind_finds_the_callers)
{
    REQUIRE_EQ(start(UNWIND_AUTO, track_dlopen), 0);
    if (unwind_engine() != UNWIND_ENGINE_LIBUNWIND)
        SKIP("no libunwind.so.8 here");
    REQUIRE_EQ(unwind_warm(), 0);
    level_3();
    CHECK_EQ(find_levels(), 1); /* the first address is in our caller */
}

/* The trap that 0.1 of the design warns of: nothing of libunwind may be visible to the program. */
TEST(libunwind_stays_out_of_the_global_scope)
{
    REQUIRE_EQ(start(UNWIND_AUTO, track_dlopen), 0);
    if (unwind_engine() != UNWIND_ENGINE_LIBUNWIND)
        SKIP("no libunwind.so.8 here");
    CHECK(dlsym(RTLD_DEFAULT, "unw_backtrace") == NULL);
}

TEST(backtrace_takes_over_without_libunwind)
{
    REQUIRE_EQ(start(UNWIND_AUTO, open_without_libunwind), 0);
    CHECK_EQ(unwind_engine(), UNWIND_ENGINE_BACKTRACE);
    CHECK_STR_EQ(unwind_engine_name(unwind_engine()), "backtrace");
    REQUIRE_EQ(unwind_warm(), 0);
    level_3();
    CHECK_NE(find_levels(), 0);
}

TEST(frame_pointers_are_the_last_resort)
{
    REQUIRE_EQ(start(UNWIND_AUTO, open_nothing), 0);
    CHECK_EQ(unwind_engine(), UNWIND_ENGINE_FP);
    level_3();
    CHECK_EQ(find_levels(), 1);
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
    CHECK_EQ(unwind_warm(), 0);
}

TEST(depth_is_a_bound)
{
    struct unwind_opts opts = {.mode = UNWIND_AUTO, .depth = 2, .ops = {track_dlopen, dlsym}};

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
        unwind_fn walk = unwind_walker(thread_self());
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

        REQUIRE_EQ(start(modes[i], track_dlopen), 0);
        REQUIRE_EQ(unwind_warm(), 0);
        for (size_t j = 0; j < 4; j++)
            REQUIRE_EQ(pthread_create(&threads[j], NULL, walk_often, &wrong[j]), 0);
        for (size_t j = 0; j < 4; j++) {
            (void)pthread_join(threads[j], NULL);
            CHECK_EQ(wrong[j], 0);
        }
    }
}
