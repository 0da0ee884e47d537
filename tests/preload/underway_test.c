/* SPDX-License-Identifier: MIT */
/* covers: export_nccl.c */
/*
 * R66: calls of NCCL on communicators that do not block. They come back in progress, and the work is given to the device later, by
 * another thread: what they are about keeps its storage until the communicator has said that this is done.
 */
#include "tests/preload/evict_kit.h"

enum {
    NCCL_IN_PROGRESS = 7,
    NCCL_FLOAT = 7,
    NCCL_SUM = 0,
    WORDS = 1024, /* of which the simulated NCCL moves each */
};

typedef int (*reduce_fn)(const void *, void *, size_t, int, int, void *, void *);
typedef int (*peer_fn)(const void *, size_t, int, int, void *, void *);

static const char *const acting[] = {"poison", "trap"};
static const char *mode;
static int *answer, *state, host;
static int (*ask)(void *, int *);
static peer_fn send_to;

static void *at(CUdeviceptr ptr)
{
    return (void *)(uintptr_t)ptr;
}

static void settle(void)
{
    CU_OK(cu->cuCtxSynchronize());
    for (int i = 0; i < 4; i++)
        KEDGE_MARK("poll");
}

static void for_each_mode(void (*body)(void))
{
    for (size_t i = 0; i < sizeof acting / sizeof *acting; i++) {
        mode = acting[i];
        CHECK_EQ(run_child(body), 0);
    }
}

/* ---- on the simulated NCCL, which reads what it sends when the work was given to the device ---- */

static struct {
    size_t size;
    unsigned magic, version;
    int blocking;
    char rest[64];
} late = {sizeof late, 0xcafebeef, 21700, 0, ""};

static void *sim_nccl(const char *name)
{
    static void *library;
    void *found;

    if (!library)
        library = dlopen(SIM_NCCL_PATH, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != NULL);
    found = dlsym(library, name);
    REQUIRE(found != NULL);
    return found;
}

static void *late_comm(void)
{
    struct id {
        char text[128];
    } id;
    void *comm = NULL;

    REQUIRE_EQ(((int (*)(struct id *))sim_nccl("ncclGetUniqueId"))(&id), 0);
    REQUIRE_EQ(((int (*)(void **, int, struct id, int, void *))sim_nccl("ncclCommInitRankConfig"))(
                       &comm, 1, id, 0, &late),
            0);
    return comm;
}

static void check_words(CUdeviceptr ptr, unsigned wanted)
{
    unsigned got[WORDS];

    CU_OK(cu->cuCtxSynchronize());
    CU_OK(cu->cuMemcpyDtoH_v2(got, ptr, sizeof got));
    for (size_t i = 0; i < WORDS; i++)
        REQUIRE_EQ(got[i], wanted);
}

/* The anchor ends while the call is in progress. In a group, and alone. */
static void release_in_progress(void)
{
    int (*sim_ask)(void *, int *), (*group)(void);
    CUdeviceptr sent[2], got;
    reduce_fn reduce;
    void *comm;
    int is;

    kit_hint("late", mode);
    client_init();
    sim_ask = (__typeof__(sim_ask))sim_nccl("ncclCommGetAsyncError");
    group = (__typeof__(group))sim_nccl("ncclGroupStart");
    reduce = (reduce_fn)sim_nccl("ncclAllReduce");
    comm = late_comm();
    got = kit_alloc(1 * MB);
    for (unsigned i = 0; i < 2; i++) {
        KEDGE_PUSH("PHASE_0");
        sent[i] = kit_alloc(KIT_BYTES);
        CU_OK(cu->cuMemsetD32_v2(sent[i], 0x40000000 + i, KIT_BYTES / 4));
        if (i == 0) {
            CHECK_EQ(reduce(at(sent[i]), at(got), WORDS, NCCL_FLOAT, NCCL_SUM, comm, NULL),
                    NCCL_IN_PROGRESS);
        } else {
            CHECK_EQ(group(), 0);
            CHECK_EQ(reduce(at(sent[i]), at(got), WORDS, NCCL_FLOAT, NCCL_SUM, comm, NULL), 0);
            CHECK_EQ(((int (*)(void))sim_nccl("ncclGroupEnd"))(), NCCL_IN_PROGRESS);
        }
        KEDGE_POP();
        CHECK_EQ(kit_told(FORMAT_HINT_DEAD, sent[i]), 1);
        settle();
        CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, sent[i]), 0);
        CHECK_EQ(sim_ask(comm, &is), 0);
        CHECK_EQ(is, NCCL_IN_PROGRESS);
        settle();
        CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, sent[i]), 0);
        CHECK_EQ(sim_ask(comm, &is), 0);
        CHECK_EQ(is, 0);
        settle();
        CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, sent[i]), 1);
        check_words(got, 0x40000000 + i);
    }
    CHECK_EQ(kit_told(FORMAT_HINT_VIOLATION, 0) + kit_told(FORMAT_HINT_LATE_TOUCH, 0), 0);
    CHECK_EQ(((int (*)(void *))sim_nccl("ncclCommDestroy"))(comm), 0);
    kit_clean_up();
}

TEST(r66_what_a_call_in_progress_names_stays_until_the_device_has_its_work)
{
    for_each_mode(release_in_progress);
}

/* ---- on a libnccl that moves nothing, and answers as it is told ---- */

static void begin_told(void)
{
    client_init();
    answer = kit_nccl("nccl_answer");
    state = kit_nccl("nccl_state");
    ask = (__typeof__(ask))kit_nccl("ncclCommGetAsyncError");
    send_to = (peer_fn)kit_nccl("ncclSend");
    *answer = *state = NCCL_IN_PROGRESS;
}

static int send_in_progress(CUdeviceptr ptr, void *comm)
{
    return send_to(at(ptr), 8, NCCL_FLOAT, 0, comm, NULL);
}

/* A block of PHASE_0 that is due, and that a call in progress names. */
static CUdeviceptr due_in_progress(void *comm)
{
    CUdeviceptr ptr;

    KEDGE_PUSH("PHASE_0");
    ptr = kit_alloc(KIT_BYTES);
    CHECK_EQ(send_in_progress(ptr, comm), NCCL_IN_PROGRESS);
    KEDGE_POP();
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), 0);
    return ptr;
}

static void check_goes(CUdeviceptr ptr, unsigned wanted)
{
    settle();
    CHECK_EQ(kit_told(FORMAT_HINT_UNMAPPED, ptr), wanted);
}

TEST(r66_only_its_own_communicator_says_that_a_call_was_given_to_the_device)
{
    CUdeviceptr ptr;
    int other, is;

    kit_hint("own", "trap");
    begin_told();
    ptr = due_in_progress(&host);
    CHECK_EQ(ask(&host, &is), 0); /* in progress */
    *state = 0;
    CHECK_EQ(ask(NULL, &is), 4);
    CHECK_EQ(ask(&other, &is), 0);
    check_goes(ptr, 0);
    CHECK_EQ(ask(&host, &is), 0);
    check_goes(ptr, 1);
    kit_clean_up();
}

TEST(r66_a_communicator_that_was_flushed_or_has_gone_has_no_call_in_progress)
{
    static const char *const ends[] = {"ncclCommFinalize", "ncclCommDestroy"};
    CUdeviceptr ptr;

    kit_hint("ends", "trap");
    begin_told();
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        *state = NCCL_IN_PROGRESS;
        ptr = due_in_progress(&host);
        if (i == 0) {
            CHECK_EQ(((int (*)(void *))kit_nccl(ends[i]))(&host), NCCL_IN_PROGRESS);
            check_goes(ptr, 0);
        }
        *state = 0;
        CHECK_EQ(((int (*)(void *))kit_nccl(ends[i]))(&host), 0);
        check_goes(ptr, 1);
    }
    kit_clean_up();
}

/* What an event releases waits for the call that is the event. */
TEST(r57_r66_an_event_in_progress_releases_when_the_device_has_its_work)
{
    CUdeviceptr ptr, other;
    int is;

    kit_files("event");
    kit_write(
            "kedge-hints: 1\nhints:\n"
            "  - {id: first, do: release, pick: {size: 8MiB}, when: {event: {call: ncclSend}}}\n");
    REQUIRE(setenv("KEDGE_HINTS_MODE", "trap", 1) == 0);
    begin_told();
    other = kit_alloc(1 * MB);
    ptr = kit_alloc(KIT_BYTES);
    CHECK_EQ(send_in_progress(other, &host), NCCL_IN_PROGRESS);
    CHECK_EQ(kit_told(FORMAT_HINT_DEAD, ptr), 1);
    check_goes(ptr, 0);
    /* a call of the program's own that names it is too late all the same */
    CHECK_EQ(cu->cuMemsetD8_v2(ptr, 0, 8), CUDA_ERROR_INVALID_VALUE);
    *state = 0;
    CHECK_EQ(ask(&host, &is), 0);
    check_goes(ptr, 1);
    kit_clean_up();
}

static void never_ask(void)
{
    begin_told();
    for (int i = 0; i < 2; i++)
        CHECK_EQ(send_in_progress(due_in_progress(&host), &host), NCCL_IN_PROGRESS);
}

TEST(r66_a_release_that_waits_to_the_end_is_told)
{
    kit_hint("end", "trap");
    CHECK_EQ(run_child(never_ask), 0);
    CHECK_EQ(kit_told(FORMAT_HINT_REFUSED, 0), 2);
    kit_clean_up();
}

/* What was brought in for the call stays in. */
TEST(r66_what_may_go_out_stays_in_while_a_call_is_in_progress)
{
    int is;

    evict_start("in");
    begin_told();
    evict_use_others();
    REQUIRE(!evict_is_in(evict_block[0]));
    CHECK_EQ(send_to(at(evict_block[0]), EVICT_BYTES, 0, 1, &host, evict_stream), NCCL_IN_PROGRESS);
    evict_use_others();
    CHECK(evict_is_in(evict_block[0]));
    *state = 0;
    CHECK_EQ(ask(&host, &is), 0);
    evict_use_others();
    CHECK(!evict_is_in(evict_block[0]));
    evict_check_all();
    kit_clean_up();
}
