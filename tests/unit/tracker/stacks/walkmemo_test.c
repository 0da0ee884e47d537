/* SPDX-License-Identifier: MIT */
/* covers: walkmemo.c modules.c */
/* Walks that are not made again have the frames that a walk would have found: glibc's backtrace() is asked at each place. */
#include "tests/unit/tracker/track_help.h"

#include "tracker/stacks/cfirule.h"
#include "tracker/stacks/modules.h"
#include "tracker/stacks/thread.h"
#include "tracker/stacks/walkmemo.h"

#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    ASKED_MAX = 512,
    TIMES = 6, /* a first sight, a second one (of any thread) that is noted, and some more */
};

/* What came of a question. Kept and compared later: what is called in between would write over the stack that was left. */
struct asked {
    struct tag tag;
    uintptr_t sp;
    const void *caller;
    int count;
    void *ips[UNWIND_DEPTH_MAX];
};

static struct asked asked[ASKED_MAX];
static unsigned asked_count;

__attribute__((noinline)) static void ask(void)
{
    struct asked *here = &asked[asked_count++];

    here->sp = (uintptr_t)__builtin_frame_address(0);
    here->caller = __builtin_return_address(0);
    (void)where_am_i(NULL, 4096, 0, &here->tag);
    here->count = backtrace(here->ips, UNWIND_DEPTH_MAX);
    __asm__ volatile("" ::: "memory");
}

static void begin(void)
{
    void *ips[4];

    asked_count = 0;
    REQUIRE_EQ(track_where(UNWIND_AUTO), 0);
    (void)backtrace(ips, 4); /* opens libgcc_s */
}

/* Whether walks are ever remembered here. */
static bool remembers(void)
{
#if !defined(__x86_64__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false;
#else
    return unwind_engine() == UNWIND_ENGINE_TABLES;
#endif
}

static uint64_t known_walks(void)
{
    struct where_stats stats;

    where_stats(&stats);
    return stats.known_walks;
}

/* All frames but the innermost, which asks in two places: a sanitizer's backtrace() begins in one of its own. */
static void check_frames(const struct asked *one)
{
    struct intern_frame frames[UNWIND_DEPTH_MAX];
    unsigned count = intern_frames(one->tag.stack, frames, UNWIND_DEPTH_MAX);
    unsigned at = 1;
    int i = 0;

    while (i < one->count && one->ips[i] != one->caller)
        i++;
    for (; i < one->count && at < count; i++) {
        uintptr_t call = (uintptr_t)one->ips[i] - 1;
        const struct intern_module *module = intern_module_at(modules_at(call));

        if (module && module->kind != INTERN_MODULE_PROGRAM)
            continue;
        CHECK_EQ(frames[at].offset + (module ? module->bias : 0), call);
        at++;
    }
    CHECK_EQ(at, count);
    CHECK_GT(count, 1);
}

static void check_all(void)
{
    for (unsigned i = 0; i < asked_count; i++)
        check_frames(&asked[i]);
}

/* ---- the same stack, and others from the same stack pointer ---- */

__attribute__((noinline)) static void left(void (*then)(void))
{
    then();
    __asm__ volatile("");
}

__attribute__((noinline)) static void right(void (*then)(void))
{
    then();
    __asm__ volatile("" ::: "memory");
}

static void (*const sides[])(void (*then)(void)) = {left, right};

__attribute__((noinline)) static void between(void)
{
    ask();
    __asm__ volatile("" ::: "memory");
}

TEST(a_stack_that_was_seen_twice_is_not_walked_again)
{
    begin();
    for (int i = 0; i < TIMES; i++)
        left(between);
    check_all();
    if (remembers())
        CHECK_EQ(known_walks(), TIMES - 2);
    for (int i = 1; i < TIMES; i++) {
        CHECK_EQ(asked[i].tag.stack, asked[0].tag.stack);
        CHECK_EQ(asked[i].tag.site, asked[0].tag.site);
    }
}

TEST(callers_further_out_are_told_apart)
{
    begin();
    for (int i = 0; i < 8 * TIMES; i++)
        sides[i / 2 % 2](between);
    check_all();
    for (unsigned i = 0; i < asked_count; i++)
        CHECK_EQ(asked[i].sp, asked[0].sp);
    CHECK_NE(asked[0].tag.stack, asked[2].tag.stack);
    if (remembers())
        CHECK_GT(known_walks(), 7 * TIMES);
}

/* More stacks from one stack pointer than a set has places. */
__attribute__((noinline)) static void turn(unsigned way, unsigned levels)
{
    if (levels == 0)
        ask();
    else if (way & 1)
        turn(way >> 1, levels - 1);
    else
        turn(way >> 1, levels - 1);
    __asm__ volatile("" ::: "memory");
}

TEST(many_stacks_from_one_stack_pointer)
{
    begin();
    for (unsigned i = 0; i < 256; i++)
        turn(i * 37 % 32, 5);
    check_all();
}

__attribute__((noinline)) static void down(unsigned levels)
{
    if (levels == 0)
        ask();
    else
        down(levels - 1);
    __asm__ volatile("" ::: "memory");
}

TEST(deep_recursion)
{
    struct where_stats stats;

    begin();
    for (unsigned levels = 0; levels < 80; levels += 3)
        for (int i = 0; i < TIMES; i++)
            down(levels);
    for (unsigned i = 0; i < asked_count; i++) /* as far as a walk goes */
        check_frames(&asked[i]);
    where_stats(&stats);
    CHECK_GT(stats.stacks_cut, 8 * TIMES); /* also where it was not walked again */
}

static jmp_buf out;

__attribute__((noinline)) static void leave(void)
{
    ask();
    longjmp(out, 1);
}

TEST(frames_that_were_jumped_out_of)
{
    begin();
    for (volatile int i = 0; i < 4 * TIMES; i++)
        if (setjmp(out) == 0)
            sides[i % 2](i % 3 ? leave : between);
    check_all();
}

#if defined(__x86_64__)
/* clang-format off */

/*
 * walk_large and walk_small call walk_gap, which calls `then`, all with frame pointers: the larger frame of the one makes up for the
 * smaller gap of the other, and what lies in the gap is what was left there. With equal stack pointers and equal words everywhere
 * but for a saved rbp, the callers differ.
 *
 * walk_realigned is what gcc makes where a stack must be realigned: its CFA is in memory, *(rbp - 8), and a copy of its return
 * address beside the saved rbp.
 */
void walk_large(void (*then)(void));
void walk_small(void (*then)(void));
void walk_realigned(void (*then)(void));
void walk_expression(void (*then)(void)); /* its CFA is rsp + 16, but said by an expression, as those of PLTs are */

__asm__(".text\n"
        ".macro walk_caller name frame gap\n"
        ".globl \\name\n"
        ".hidden \\name\n"
        ".type \\name, @function\n"
        "\\name:\n"
        "    .cfi_startproc\n"
        "    pushq %rbp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset 6, -16\n"
        "    movq %rsp, %rbp\n"
        "    .cfi_def_cfa_register 6\n"
        "    subq $\\frame, %rsp\n"
        "    movq $\\gap, %rsi\n"
        "    call walk_gap\n"
        "    leave\n"
        "    .cfi_def_cfa 7, 8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size \\name, .-\\name\n"
        ".endm\n"
        "walk_caller walk_large 0x1000 0x800\n"
        "walk_caller walk_small 0x800 0x1000\n"
        ".type walk_gap, @function\n"
        "walk_gap:\n"
        "    .cfi_startproc\n"
        "    pushq %rbp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset 6, -16\n"
        "    movq %rsp, %rbp\n"
        "    .cfi_def_cfa_register 6\n"
        "    subq %rsi, %rsp\n"
        "    call *%rdi\n"
        "    leave\n"
        "    .cfi_def_cfa 7, 8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size walk_gap, .-walk_gap\n"
        ".globl walk_realigned\n"
        ".hidden walk_realigned\n"
        ".type walk_realigned, @function\n"
        "walk_realigned:\n"
        "    .cfi_startproc\n"
        "    leaq 8(%rsp), %r10\n"
        "    .cfi_def_cfa 10, 0\n"
        "    andq $-4096, %rsp\n"
        "    pushq -8(%r10)\n"
        "    pushq %rbp\n"
        "    movq %rsp, %rbp\n"
        "    .cfi_escape 0x10, 0x06, 0x02, 0x76, 0x00\n" /* rbp at rbp + 0 */
        "    pushq %r10\n"
        "    .cfi_escape 0x0f, 0x03, 0x76, 0x78, 0x06\n" /* CFA = *(rbp - 8) */
        "    subq $8, %rsp\n"
        "    call *%rdi\n"
        "    movq -8(%rbp), %r10\n"
        "    .cfi_def_cfa 10, 0\n"
        "    leave\n"
        "    leaq -8(%r10), %rsp\n"
        "    .cfi_def_cfa 7, 8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size walk_realigned, .-walk_realigned\n"
        ".globl walk_expression\n"
        ".hidden walk_expression\n"
        ".type walk_expression, @function\n"
        "walk_expression:\n"
        "    .cfi_startproc\n"
        "    subq $8, %rsp\n"
        "    .cfi_escape 0x0f, 0x02, 0x77, 0x10\n"
        "    call *%rdi\n"
        "    addq $8, %rsp\n"
        "    .cfi_def_cfa 7, 8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size walk_expression, .-walk_expression\n");
/* clang-format on */

TEST(a_saved_frame_pointer_that_differs_is_another_stack)
{
    void (*const callers[])(void (*then)(void)) = {walk_large, walk_small};

    begin();
    for (int i = 0; i < 2 * TIMES; i++) /* one call: they return to one place */
        callers[i / TIMES](ask);
    for (unsigned i = 0; i < asked_count; i++)
        CHECK_EQ(asked[i].sp, asked[0].sp);
    check_all();
    CHECK_NE(asked[0].tag.stack, asked[TIMES].tag.stack);
    if (remembers())
        CHECK_EQ(known_walks(), 2 * TIMES - 4);
}

__attribute__((noinline)) static void realigned(void)
{
    walk_realigned(ask);
    __asm__ volatile("" ::: "memory");
}

TEST(a_stack_that_is_realigned_is_known_by_where_it_goes_on)
{
    begin();
    for (int i = 0; i < 4 * TIMES; i++) {
        char *room = __builtin_alloca(16 + 64 * (unsigned)(i % 2));

        __asm__ volatile("" ::"r"(room) : "memory");
        sides[i / 2 % 2](realigned);
    }
    check_all();
    CHECK_EQ(known_walks(), 0); /* each from another place, or below a frame of another size */
    for (int i = 0; i < 2 * TIMES; i++)
        sides[i % 2](realigned);
    check_all();
    if (remembers())
        CHECK_GT(known_walks(), 0);
}

/* Below walk_realigned, which has where its caller goes on three words further out. */
__attribute__((noinline)) static void alter_where_it_goes_on(void)
{
    struct walkmemo_known known = {.site = 7};
    struct walkmemo_from from = {.ip = 1, .caller = 2, .generation = modules_generation()};
    volatile uintptr_t *goes_on = (volatile uintptr_t *)__builtin_frame_address(0) + 3;
    struct thread *thread = thread_self();
    void *ips[UNWIND_DEPTH_MAX];
    int count;

    __asm__ volatile("mov %%rsp, %0\n\tmov %%rbp, %1" : "=r"(from.sp), "=r"(from.bp));
    count = unwind_walker()(ips, UNWIND_DEPTH_MAX);
    REQUIRE(count > 2);
    walkmemo_note(thread, &from, ips, (unsigned)count, true, &known);
    REQUIRE(walkmemo_find(thread, &from) != NULL);
    *goes_on += 64;
    CHECK(walkmemo_find(thread, &from) == NULL);
    *goes_on -= 64;
    CHECK(walkmemo_find(thread, &from) != NULL);
}

TEST(a_walk_hangs_on_where_a_realigned_stack_goes_on)
{
    begin();
    left(between); /* a thread has its memory from the first walk on */
    if (!remembers())
        SKIP("walks are not remembered here");
    walk_realigned(alter_where_it_goes_on);
}

/* ---- what a frame's rule is ---- */

static uintptr_t return_address;

__attribute__((noinline)) static void note_return(void)
{
    return_address = (uintptr_t)__builtin_return_address(0);
}

TEST(rules_are_those_of_the_tables)
{
    struct cfirule rule;

    walk_large(note_return); /* from walk_gap */
    rule = cfirule_of(return_address);
    CHECK_EQ(rule.kind, CFIRULE_PLAIN);
    CHECK(rule.is_by_bp && rule.has_bp);
    CHECK_EQ(rule.cfa, 16);
    CHECK_EQ(rule.bp, -16);
    walk_realigned(note_return);
    rule = cfirule_of(return_address);
    CHECK_EQ(rule.kind, CFIRULE_ALIGNED);
    CHECK_EQ(rule.cfa, -8);
    CHECK_EQ(rule.bp, 0);
    walk_expression(note_return);
    CHECK_EQ(cfirule_of(return_address).kind, CFIRULE_OTHER);
    CHECK_EQ(cfirule_of(1).kind, CFIRULE_NONE);
    CHECK_EQ(cfirule_of((uintptr_t)&return_address).kind, CFIRULE_NONE);
}

/* Each thing that a walk is known by, altered alone. */
__attribute__((noinline)) static void alter(void)
{
    struct walkmemo_known known = {.site = 7, .leaf = 8};
    struct walkmemo_from from = {.ip = 1, .caller = 2, .generation = modules_generation()};
    struct walkmemo_from other;
    struct thread *thread = thread_self();
    void *ips[UNWIND_DEPTH_MAX];
    const struct walkmemo_known *found;
    int count;

    __asm__ volatile("mov %%rsp, %0\n\tmov %%rbp, %1" : "=r"(from.sp), "=r"(from.bp));
    count = unwind_walker()(ips, UNWIND_DEPTH_MAX);
    REQUIRE(count > 2);
    walkmemo_note(thread, &from, ips, (unsigned)count, true, &known);
    found = walkmemo_find(thread, &from);
    REQUIRE(found != NULL);
    CHECK_EQ(found->site, 7);
    CHECK_EQ(found->leaf, 8);
    other = from;
    other.bp += 16;
    CHECK(!walkmemo_find(thread, &other));
    other = from;
    other.ip++;
    CHECK(!walkmemo_find(thread, &other));
    other = from;
    other.caller++;
    CHECK(!walkmemo_find(thread, &other));
    other = from;
    other.generation++;
    CHECK(!walkmemo_find(thread, &other));
    other = from;
    other.is_own = true;
    CHECK(!walkmemo_find(thread, &other));
    CHECK(walkmemo_find(thread, &from) == found);
    walkmemo_forget(thread->walkmemo);
    CHECK(!walkmemo_find(thread, &from));
    /* a walk that ends before the outermost frame, and one that leads elsewhere than the tables say */
    walkmemo_note(thread, &from, ips, (unsigned)count - 1, true, &known);
    CHECK(!walkmemo_find(thread, &from));
    walkmemo_forget(thread->walkmemo);
    ips[2] = ips[1];
    walkmemo_note(thread, &from, ips, (unsigned)count, true, &known);
    CHECK(!walkmemo_find(thread, &from));
}

TEST(a_walk_is_known_by_all_that_it_hangs_on)
{
    begin();
    if (!remembers())
        SKIP("walks are not remembered here");
    alter();
}
#endif

/* ---- stacks that are not the thread's own, and threads ---- */

static ucontext_t home, away;

static void in_coroutine(void)
{
    for (int i = 0; i < 2 * TIMES; i++) {
        down(i / 2 % 2 ? 60 : 61); /* deeper than a walk goes */
        (void)swapcontext(&away, &home);
    }
}

TEST(coroutines_are_walked_each_time)
{
    enum {
        BYTES = 1 << 18
    };
    char *stack = malloc(BYTES);

    begin();
    REQUIRE(stack && getcontext(&away) == 0);
    away.uc_stack.ss_sp = stack;
    away.uc_stack.ss_size = BYTES;
    away.uc_link = &home;
    makecontext(&away, in_coroutine, 0);
    for (int i = 0; i < 2 * TIMES; i++)
        REQUIRE_EQ(swapcontext(&home, &away), 0);
    CHECK_EQ(asked_count, 2 * TIMES);
    check_all();
    CHECK_EQ(known_walks(), 0);
    free(stack);
}

static void *in_thread(void *argument)
{
    for (int i = 0; i < TIMES; i++)
        sides[*(int *)argument](between);
    return NULL;
}

/* The record of an ended thread, and its stack, are another one's. */
TEST(threads_that_take_the_place_of_others)
{
    begin();
    for (int i = 0; i < 8; i++) {
        pthread_t thread;
        int side = i / 2 % 2;

        REQUIRE_EQ(pthread_create(&thread, NULL, in_thread, &side), 0);
        REQUIRE_EQ(pthread_join(thread, NULL), 0);
    }
    check_all();
    /* each walks once, a memo that outlived its thread would know more; and the first thread of each side once more */
    if (remembers())
        CHECK_EQ(known_walks(), 8 * (TIMES - 1) - 2);
}

TEST(a_forked_child_goes_on_from_the_same_stack)
{
    int status = 1;
    pid_t child;

    begin();
    for (int i = 0; i < TIMES; i++)
        left(between);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        where_fork_child();
        for (int i = 0; i < 2 * TIMES; i++)
            sides[i / 2 % 2](between);
        check_all();
        _exit(atomic_load(&check_state.failures) != 0);
    }
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

/* ---- whose stack it is ---- */

static void *ask_whether_main(void *unused)
{
    const struct thread *thread = thread_make();

    (void)unused;
    REQUIRE(thread != NULL);
    CHECK(!thread->is_main);
    CHECK_NE(thread->tid, getpid());
    return NULL;
}

TEST(the_first_thread_of_a_process_is_the_main_one)
{
    const struct thread *thread = thread_make();
    pthread_t other;

    REQUIRE(thread != NULL);
    CHECK(thread->is_main);
    CHECK_EQ(thread->tid, getpid());
    REQUIRE_EQ(pthread_create(&other, NULL, ask_whether_main, NULL), 0);
    REQUIRE_EQ(pthread_join(other, NULL), 0);
}
