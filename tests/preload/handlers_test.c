/* SPDX-License-Identifier: MIT */
/*
 * A signal handler that prints a line that matches, at every single instruction of what a thread does: the processor's trap
 * flag is on, and each SIGTRAP prints. A lock that the interrupted code holds would never be dropped again.
 */
#include "tests/preload/hints_kit.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <ucontext.h>

#if defined(__x86_64__)
#    define TRAP_FLAG(change)                                                                 \
        __asm__ volatile("lea -256(%%rsp), %%rsp\n\tpushfq\n\t" change "\n\tpopfq\n\t"        \
                         "lea 256(%%rsp), %%rsp" /* the compiler may keep things below rsp */ \
                         :                                                                    \
                         :                                                                    \
                         : "memory", "cc")
#    define TRAPS_ON()  TRAP_FLAG("orq $0x100, (%%rsp)")
#    define TRAPS_OFF() TRAP_FLAG("andq $~0x100, (%%rsp)")
#else
#    define TRAPS_ON()  (void)0
#    define TRAPS_OFF() (void)0
#endif

enum {
    HANG_S = 120,
};

static int paper = -1; /* standard output while it is being printed */
static int screen = -1;
static atomic_uint traps;
static const char *const *says; /* what the handler prints, one after the other */

static const char *const in_handler[] = {"START in_handler\n", NULL};

static void trapped(int signal)
{
    static unsigned next;
    int saved = errno;

    (void)signal;
    if (!says[next])
        next = 0;
    (void)!write(1, says[next], strlen(says[next]));
    next++;
    atomic_fetch_add_explicit(&traps, 1, memory_order_relaxed);
    errno = saved;
}

static void begin(const char *const *lines)
{
    struct sigaction action = {.sa_handler = trapped};

#if !defined(__x86_64__)
    SKIP("no trap flag here");
#endif
    says = lines;
    (void)fflush(stdout);
    paper = open("/dev/null", O_WRONLY | O_CLOEXEC);
    screen = fcntl(1, F_DUPFD_CLOEXEC, 10);
    REQUIRE(paper >= 0 && screen >= 0 && dup2(paper, 1) == 1);
    REQUIRE(sigaction(SIGTRAP, &action, NULL) == 0);
    (void)alarm(HANG_S); /* a thread that waits for itself */
}

static void end(void)
{
    (void)alarm(0);
    REQUIRE(dup2(screen, 1) == 1);
    CHECK_GT(atomic_load(&traps), 100); /* the flag was on */
}

static void out(const char *text)
{
    CHECK_EQ(write(1, text, strlen(text)), (ssize_t)strlen(text));
}

/* ---- what is said and recorded -------------------------------------------------------------- */

static CUstream stream;

/* A capture of one copy, an instance, and two launches of it. */
static void graph_of(CUdeviceptr ptr)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;

    CU_OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CU_OK(cu->cuMemcpyDtoDAsync_v2(ptr, ptr + 2048, 2048, stream));
    CU_OK(cu->cuStreamEndCapture(stream, &graph));
    CU_OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 2; i++)
        CU_OK(cu->cuGraphLaunch(exec, stream));
    CU_OK(cu->cuGraphExecDestroy(exec));
}

static void everything(CUfunction sum)
{
    CUdeviceptr ptr = 0, other = 0;

    KEDGE_PUSH("pushed");
    out("START printed\n");
    CU_OK(cu->cuMemAlloc_v2(&ptr, 4096));
    CU_OK(cu->cuMemAlloc_v2(&other, 4096));
    CU_OK(cu->cuMemFree_v2(other)); /* at once, as no graph names it */
    CU_OK(client_sum(sum, ptr, ptr + 64, 64, stream));
    graph_of(ptr);
    CU_OK(cu->cuMemFree_v2(ptr));
    out("END printed\n");
    KEDGE_POP();
}

static void be_trapped(void)
{
    struct read_capture *capture;
    bool is_heard = false;
    CUfunction sum;

    kit_files("handlers");
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    sum = client_sum_kernel();
    everything(sum); /* what is only done once */
    begin(in_handler);
    TRAPS_ON();
    everything(sum);
    TRAPS_OFF();
    end();
    capture = kit_read();
    CHECK(!read_is_damaged(capture));
    for (size_t i = 0; i < capture->event_count && !is_heard; i++)
        is_heard = capture->event[i].kind == FORMAT_EVENT_EDGE
                && strstr(capture->event[i].path, "in_handler") != NULL;
    CHECK(is_heard); /* else nothing was tried */
    read_close(capture);
    kit_clean_up();
}

TEST(a_handler_may_print_at_every_instruction)
{
    be_trapped();
}

/* Without the host barrier a free goes the short way (preload/request/quick.h). */
TEST(a_handler_may_print_at_every_instruction_of_a_short_free)
{
    REQUIRE(setenv("KEDGE_SYNC_FREE", "0", 1) == 0);
    be_trapped();
}

/* ---- the end of a thread -------------------------------------------------------------------- */

static void last_of_all(void *unused)
{
    (void)unused;
    TRAPS_OFF(); /* behind us the C library blocks signals */
}

static void *speak_and_end(void *key)
{
    REQUIRE(pthread_setspecific(*(pthread_key_t *)key, key) == 0);
    out("START thread\n");
    KEDGE_PUSH("left open");
    TRAPS_ON();
    return NULL;
}

TEST(a_handler_may_print_while_its_thread_ends)
{
    pthread_key_t key;
    pthread_t thread;

    kit_files("ends");
    client_init();
    CU_OK(cu->cuMemFree_v2(kit_alloc(4096)));
    REQUIRE(pthread_key_create(&key, last_of_all) == 0);
    begin(in_handler);
    for (int i = 0; i < 4; i++) {
        REQUIRE(pthread_create(&thread, NULL, speak_and_end, &key) == 0);
        REQUIRE(pthread_join(thread, NULL) == 0);
    }
    end();
    kit_clean_up();
}

/* ---- inside the driver ---------------------------------------------------------------------- */

enum {
    PLACES = 24, /* in the driver's call, evenly */
};

static unsigned leave_at; /* the trap that prints, and is the last */

static void leave_once(int signal, siginfo_t *info, void *context)
{
    unsigned before = atomic_fetch_add_explicit(&traps, 1, memory_order_relaxed);

    (void)signal;
    (void)info;
    if (before != leave_at)
        return;
    (void)!write(1, "END PHASE_0\n", 12);
#if defined(__x86_64__)
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)0x100;
#else
    (void)context;
#endif
}

/* The call is one that kedge does not look at. Returns the number of traps. */
static unsigned call_trapped(CUevent event, unsigned at)
{
    leave_at = at;
    atomic_store(&traps, 0);
    TRAPS_ON();
    CU_OK(KIT_CU(cuEventRecord)(event, stream));
    TRAPS_OFF();
    return atomic_load(&traps);
}

/*
 * The handler's line ends the phase that a hint waits for, while its thread is inside of the driver: a fence, a query or an
 * unmapping from there would wait for the driver's own locks. The release is told all the same, and goes on with the next
 * request.
 */
TEST(a_handlers_line_makes_no_call_to_the_driver)
{
    struct sigaction action = {.sa_sigaction = leave_once, .sa_flags = SA_SIGINFO};
    CUevent event = NULL;
    unsigned all;

    kit_hint("driver", "trap");
    client_init();
    CU_OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU_OK(KIT_CU(cuEventCreate)(&event, 0));
    CU_OK(KIT_CU(cuEventRecord)(event, stream));
    begin(in_handler);
    REQUIRE(sigaction(SIGTRAP, &action, NULL) == 0);
    all = call_trapped(event, UINT_MAX);
    for (unsigned i = 0; i < PLACES; i++) {
        CUdeviceptr released;

        out("START PHASE_0\n");
        released = kit_alloc(KIT_BYTES);
        (void)call_trapped(event, (unsigned)((uint64_t)all * i / PLACES));
        CU_OK(cu->cuCtxSynchronize());
        for (int more = 0; more < 3; more++)
            CU_OK(cu->cuMemFree_v2(kit_alloc(4096)));
        CU_OK(cu->cuMemFree_v2(released));
    }
    atomic_store(&traps, all);
    end();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, 0), PLACES);
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, 0), PLACES);
    kit_clean_up();
}
