/* SPDX-License-Identifier: MIT */
/*
 * Stacks by each of the ways to take them: who called is found, bounds are kept and told, and stacks that are no ordinary
 * ones (tiny, a coroutine's, a signal's) do no harm. TEST_ENGINE says which way the capture must name.
 */
#include "tests/preload/client.h"

#include "tracker/reader/read.h"

#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static char file[128];
static CUcontext context; /* for threads */

static const char *engine(void)
{
    const char *name = getenv("TEST_ENGINE");

    return name ? name : "tables";
}

/* KEDGE_STACKS: the engine's word, with more behind it. */
static void begin(const char *more)
{
    char text[64];

    snprintf(text, sizeof text, "%s%s", strcmp(engine(), "fp") == 0 ? "fp" : "auto", more);
    REQUIRE(setenv("KEDGE_STACKS", text, 1) == 0);
    snprintf(file, sizeof file, "/tmp/kedge-stacks-%d.kcap", (int)getpid());
    (void)unlink(file);
    REQUIRE(setenv("KEDGE_CAPTURE", file, 1) == 0);
    REQUIRE(setenv("KEDGE_TRACE", "full", 1) == 0);
    client_init();
    REQUIRE_EQ(cu->cuCtxGetCurrent(&context), CUDA_SUCCESS);
}

static struct read_capture *read_now(void)
{
    struct read_capture *capture = NULL;
    struct read_error error;

    REQUIRE_EQ(read_open_parts(file, READ_ALL, &capture, &error), 0);
    return capture;
}

static void end(struct read_capture *capture)
{
    read_close(capture);
    (void)unlink(file);
}

static const char *setting(const struct read_capture *capture, const char *name)
{
    const char *value = "";

    for (size_t i = 0; i < capture->setting_count; i++)
        if (strcmp(capture->setting[i].name, name) == 0)
            value = capture->setting[i].value;
    return value;
}

/* The stack of the block at `ptr`. */
static unsigned stack_of(const struct read_capture *capture, CUdeviceptr ptr,
        struct read_frame frames[READ_FRAMES_MAX])
{
    for (size_t i = 0; i < capture->event_count; i++)
        if (capture->event[i].kind == FORMAT_EVENT_ALLOC && capture->event[i].addr == ptr)
            return read_stack(capture, capture->event[i].stack, frames, READ_FRAMES_MAX);
    printf("    no such allocation in the capture\n");
    REQUIRE(false);
    return 0;
}

static bool is_in(const struct read_frame *frame, const void *function, size_t bytes)
{
    uintptr_t ip = frame->module ? (uintptr_t)(frame->offset + frame->module->bias) : 0;

    return ip >= (uintptr_t)function && ip < (uintptr_t)function + bytes;
}

__attribute__((noinline)) static CUdeviceptr ask(size_t size)
{
    CUdeviceptr ptr = 0;

    REQUIRE_EQ(cu->cuMemAlloc_v2(&ptr, size), CUDA_SUCCESS);
    return ptr;
}

__attribute__((noinline)) static CUdeviceptr ask_deep(unsigned depth, size_t size)
{
    volatile CUdeviceptr ptr = depth == 0 ? ask(size) : ask_deep(depth - 1, size);

    return ptr;
}

TEST(stacks_have_the_callers_in_order)
{
    struct read_frame frames[READ_FRAMES_MAX];
    struct read_capture *capture;
    CUdeviceptr ptr;
    unsigned count;

    begin("");
    ptr = ask_deep(3, 4096);
    capture = read_now();
    CHECK_STR_EQ(setting(capture, "stacks"), engine());
    count = stack_of(capture, ptr, frames);
    REQUIRE(count >= 7); /* ask, four of ask_deep, this test, main */
    CHECK(is_in(&frames[0], (const void *)ask, 300));
    for (unsigned i = 1; i <= 4; i++)
        CHECK(is_in(&frames[i], (const void *)ask_deep, 200));
    CHECK_STR_EQ(setting(capture, "stacks_cut"), "");
    end(capture);
}

TEST(the_depth_is_kept_and_what_it_cuts_is_counted)
{
    struct read_frame frames[READ_FRAMES_MAX];
    struct read_capture *capture;
    CUdeviceptr shallow, deep, ptr = 0;

    begin(",depth=24");
    shallow = ask(4096);
    for (int i = 0; i < 8; i++)
        ptr = ask_deep(60, 4096);
    deep = ptr;
    capture = read_now();
    CHECK(stack_of(capture, deep, frames) <= 24);
    CHECK(stack_of(capture, deep, frames) >= 12);
    CHECK(stack_of(capture, shallow, frames) < stack_of(capture, deep, frames));
    CHECK_STR_EQ(setting(capture, "stacks_cut"), "8"); /* told at 1, 2, 4 and 8 */
    end(capture);
}

TEST(small_requests_are_spared)
{
    struct read_frame frames[READ_FRAMES_MAX];
    struct read_capture *capture;
    CUdeviceptr small, large;

    begin(",min=64K");
    small = ask(64 << 10 >> 1);
    large = ask(64 << 10);
    capture = read_now();
    CHECK_EQ(stack_of(capture, small, frames), 0);
    CHECK(stack_of(capture, large, frames) >= 3);
    end(capture);
}

/* ---- stacks of another kind ---- */

static void *ask_in_thread(void *ret_ptr)
{
    REQUIRE_EQ(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
    *(CUdeviceptr *)ret_ptr = ask_deep(2, 4096);
    return NULL;
}

/* As small as threads may be, with what the simulated driver needs of it. */
TEST(a_thread_with_a_tiny_stack_survives)
{
    struct read_frame frames[READ_FRAMES_MAX];
    struct read_capture *capture;
    CUdeviceptr ptr = 0;
    pthread_attr_t attr;
    pthread_t thread;

    begin("");
    REQUIRE_EQ(pthread_attr_init(&attr), 0);
    REQUIRE_EQ(pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN + (16u << 10)), 0);
    REQUIRE_EQ(pthread_create(&thread, &attr, ask_in_thread, &ptr), 0);
    REQUIRE_EQ(pthread_join(thread, NULL), 0);
    capture = read_now();
    REQUIRE(stack_of(capture, ptr, frames) >= 5);
    CHECK(is_in(&frames[0], (const void *)ask, 300));
    CHECK(is_in(&frames[4], (const void *)ask_in_thread, 600));
    end(capture);
}

static ucontext_t here, there;
static CUdeviceptr there_ptr;

static void ask_there(void)
{
    there_ptr = ask_deep(2, 4096);
    (void)swapcontext(&there, &here);
}

/* What was counted is told when there is something new to tell of, and at the end. */
static void look_something_up(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    REQUIRE(driver);
    REQUIRE(dlsym(driver, "cuMemAdvise"));
}

TEST(a_coroutine_may_ask)
{
    struct read_frame frames[READ_FRAMES_MAX];
    struct read_capture *capture;
    size_t bytes = 64u << 10;
    void *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned count;

    REQUIRE(stack != MAP_FAILED);
    begin("");
    REQUIRE_EQ(getcontext(&there), 0);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = bytes;
    makecontext(&there, ask_there, 0);
    REQUIRE_EQ(swapcontext(&here, &there), 0);
    capture = read_now();
    count = stack_of(capture, there_ptr, frames);
    if (strcmp(engine(), "fp") == 0) {
        CHECK_EQ(count, 0); /* not this thread's stack: not looked at */
    } else {
        REQUIRE(count >= 5);
        CHECK(is_in(&frames[4], (const void *)ask_there, 200));
    }
    /* and back on its own stack the thread walks as before */
    read_close(capture);
    look_something_up();
    there_ptr = ask_deep(0, 8192);
    capture = read_now();
    CHECK(stack_of(capture, there_ptr, frames) >= 3);
    CHECK_STR_EQ(setting(capture, "stacks_lost"), strcmp(engine(), "fp") == 0 ? "1" : "");
    end(capture);
}

static volatile sig_atomic_t asked;

static void ask_in_handler(int number)
{
    (void)number;
    there_ptr = ask(4096);
    asked = 1;
}

/* A program may ask where it raised a signal itself: on another stack, below a frame that no call made. */
TEST(a_handler_on_a_stack_of_its_own_may_ask)
{
    struct sigaction action = {.sa_handler = ask_in_handler, .sa_flags = SA_ONSTACK};
    struct read_frame frames[READ_FRAMES_MAX];
    struct read_capture *capture;
    size_t bytes = 256u << 10;
    stack_t stack = {.ss_size = bytes};

    begin("");
    stack.ss_sp = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(stack.ss_sp != MAP_FAILED);
    REQUIRE_EQ(sigaltstack(&stack, NULL), 0);
    REQUIRE_EQ(sigaction(SIGUSR1, &action, NULL), 0);
    REQUIRE_EQ(raise(SIGUSR1), 0);
    CHECK_EQ(asked, 1);
    capture = read_now();
    if (strcmp(engine(), "fp") != 0) {
        REQUIRE(stack_of(capture, there_ptr, frames) >= 2);
        CHECK(is_in(&frames[1], (const void *)ask_in_handler, 200));
    }
    end(capture);
}

/* Every thread's first walk is a cold one; many at once, and each finds its callers. */
TEST(threads_that_begin_at_once_all_have_stacks)
{
    enum {
        THREADS = 16
    };
    struct read_frame frames[READ_FRAMES_MAX];
    struct read_capture *capture;
    CUdeviceptr ptrs[THREADS];
    pthread_t threads[THREADS];

    begin("");
    for (int i = 0; i < THREADS; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, ask_in_thread, &ptrs[i]), 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE_EQ(pthread_join(threads[i], NULL), 0);
    capture = read_now();
    for (int i = 0; i < THREADS; i++) {
        REQUIRE(stack_of(capture, ptrs[i], frames) >= 5);
        CHECK(is_in(&frames[4], (const void *)ask_in_thread, 600));
    }
    end(capture);
}

/* ---- code that no file has ---- */

typedef void (*made_fn)(void (*call)(void));

/* Each calls its argument; the first three lie at one address in turn, and return to the same place in it. */
static const unsigned char with_frame[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
static const unsigned char large_frame[] = {
        0x48, 0x83, 0xec, 0x78, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x78, 0xc3};
static const unsigned char ends_chain[] = {0x55, 0x31, 0xed, 0x90, 0xff, 0xd7, 0x5d, 0xc3};
/* ... and leaves 4096 where frame pointers are: nothing is there. */
static const unsigned char breaks_chain[] = {
        0x55, 0xbd, 0x00, 0x10, 0x00, 0x00, 0xff, 0xd7, 0x5d, 0xc3};

static void ask_for_made_code(void)
{
    there_ptr = ask(4096);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void ask_through_made_code(
        unsigned char *page, const unsigned char *code, size_t bytes)
{
    made_fn made;

    REQUIRE_EQ(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
    memcpy(page, code, bytes);
    REQUIRE_EQ(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
    memcpy(&made, &page, sizeof made);
    made(ask_for_made_code);
    __asm__ volatile("" ::: "memory");
}

/* Where the made code stands in a stack, 0 if it does not. */
static unsigned made_frame(const struct read_frame *frames, unsigned count, const void *page)
{
    for (unsigned i = 0; i < count; i++)
        if (!frames[i].module && frames[i].offset >= (uintptr_t)page
                && frames[i].offset < (uintptr_t)page + 4096)
            return i;
    return 0;
}

TEST(code_that_was_made_at_run_time_may_ask_and_be_made_anew)
{
    const unsigned char *const codes[] = {
            with_frame, large_frame, ends_chain, with_frame, breaks_chain, with_frame};
    const size_t bytes[] = {sizeof with_frame, sizeof large_frame, sizeof ends_chain,
            sizeof with_frame, sizeof breaks_chain, sizeof with_frame};
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct read_frame frames[READ_FRAMES_MAX];

#if !defined(__x86_64__)
    SKIP("the code is another machine's");
#endif
    REQUIRE(page != MAP_FAILED);
    begin("");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        struct read_capture *capture;
        unsigned count;

        ask_through_made_code(page, codes[i], bytes[i]);
        capture = read_now();
        count = stack_of(capture, there_ptr, frames);
        CHECK_EQ(made_frame(frames, count, page), 2); /* ask, ask_for_made_code */
        CHECK(is_in(&frames[1], (const void *)ask_for_made_code, 200));
        if (codes[i] == with_frame) {
            REQUIRE(count >= 5);
            CHECK(is_in(&frames[3], (const void *)ask_through_made_code, 1000));
        }
        read_close(capture);
    }
    (void)unlink(file);
}

/* ---- at a thread's very end ---- */

static pthread_key_t last_key;
static CUdeviceptr last_ptr;
static int rounds_left;

static void ask_at_the_end(void *value)
{
    REQUIRE_EQ(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
    last_ptr = ask(4096);
    if (--rounds_left > 0)
        REQUIRE_EQ(pthread_setspecific(last_key, value), 0);
}

static void *end_late(void *value)
{
    CUdeviceptr ptr;

    REQUIRE_EQ(cu->cuCtxSetCurrent(context), CUDA_SUCCESS);
    ptr = ask(
            4096); /* what kedge and the unwinder keep for a thread is there, and goes before our key's */
    REQUIRE_EQ(cu->cuMemFree_v2(ptr), CUDA_SUCCESS);
    REQUIRE_EQ(pthread_setspecific(last_key, value), 0);
    return NULL;
}

TEST(a_threads_last_destructors_may_ask)
{
    struct read_frame frames[READ_FRAMES_MAX];
    struct read_capture *capture;

    begin("");
    REQUIRE_EQ(pthread_key_create(&last_key, ask_at_the_end), 0);
    for (int rounds = 1; rounds <= 4; rounds++) {
        pthread_t thread;

        rounds_left = rounds;
        REQUIRE_EQ(pthread_create(&thread, NULL, end_late, frames), 0);
        REQUIRE_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(rounds_left, 0);
        capture = read_now();
        REQUIRE(stack_of(capture, last_ptr, frames) >= 2);
        CHECK(is_in(&frames[1], (const void *)ask_at_the_end, 400));
        read_close(capture);
    }
    (void)unlink(file);
}
