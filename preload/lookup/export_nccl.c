/* SPDX-License-Identifier: MIT */
/*
 * NCCL's registration of user buffers and windows: a registered buffer is mapped into other
 * processes and network cards until it is deregistered, so its block is pinned (R80, pinned
 * blocks). The functions are NCCL's, not CUDA's: a program that is linked with NCCL calls our
 * exports, one that loads it gets ours from dlsym for the function that its library has
 * (export_take.c).
 *
 * Its calls between ranks are ranges `NCCL:ncclSend` and so on, like NCCL's own NVTX ranges; if
 * NCCL makes those, ours are left out (source_nccl_states). Their buffers are checked as far as
 * this rank reads or writes them.
 *
 * Each call is an event that hints may wait for, and a use of its buffers
 * (tracker/hints/apicalls.def). It is reported before it is made, so in order with other calls,
 * wherever the group ends.
 *
 * Between ncclGroupStart and ncclGroupEnd calls are only collected, and made by the last
 * ncclGroupEnd; a non-blocking communicator (ncclInProgress) makes them later still, and reports
 * when it has. The storage of blocks that they name, or that they release as events, waits for that
 * (R66, underway.h). No other storage does, since a group may never end: a program that throws
 * between the two leaves its thread inside the group.
 *
 * An evicted block (evict_in.h) comes in with the call that names it, and stays until the calls
 * were submitted to the device; for a group all its blocks are in at once. In a group that never
 * ends they stay for good.
 *
 * Not covered: NCCL's profiling names (pncclSend ...), calls by window (ncclPutSignal ...),
 * functions of other vendors' NCCL.
 */
#include "preload/anchors/source.h"
#include "preload/base/exports.h"
#include "preload/base/guard.h"
#include "preload/base/threadmem.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/hints/argcheck.h"
#include "preload/hints/hints_run.h"
#include "preload/hints/pins.h"
#include "preload/request/dispatch.h"
#include "preload/request/submit.h"
#include "preload/request/underway.h"

#include "tracker/capture/capture.h"
#include "tracker/hints/apicalls.h"

#include <stdatomic.h>
#include <string.h>

/*
 * Values of nccl.h, in our own words: communicators and windows are pointers, results, types and
 * operations are enums.
 */
enum {
    NCCL_SUCCESS = 0,
    NCCL_CUDA_ERROR = 1,
    NCCL_SYSTEM_ERROR = 2, /* NCCL's result if the system lacks a feature */
    NCCL_INVALID_ARGUMENT = 4,
    NCCL_IN_PROGRESS = 7,
};

/* The ranks that use a buffer, and the size of it that they use. */
enum extent {
    UNUSED = 0,
    COUNT = 1,     /* `count` elements */
    ALL_RANKS = 2, /* times the number of ranks */
    AT_ROOT = 4,   /* by the root alone */
};

#define NCCL_COLLECTIVE \
    (const void *send, void *receive, size_t count, int type, int op, void *comm, void *stream)
#define NCCL_COLLECTIVE_ARGS (send, receive, count, type, op, comm, stream)
#define NCCL_ROOTED                                                                         \
    (const void *send, void *receive, size_t count, int type, int op, int root, void *comm, \
            void *stream)
#define NCCL_ROOTED_ARGS (send, receive, count, type, op, root, comm, stream)
#define NCCL_ROOT \
    (const void *send, void *receive, size_t count, int type, int root, void *comm, void *stream)
#define NCCL_ROOT_ARGS (send, receive, count, type, root, comm, stream)
#define NCCL_GATHER \
    (const void *send, void *receive, size_t count, int type, void *comm, void *stream)
#define NCCL_GATHER_ARGS (send, receive, count, type, comm, stream)
#define NCCL_PEER        (void *send, size_t count, int type, int peer, void *comm, void *stream)
#define NCCL_PEER_ARGS   (send, count, type, peer, comm, stream)

/*
 * X(name, parameters, arguments, root or peer, what it sends, receives). ncclSend and ncclRecv
 * differ only in const, which the ABI does not show, and have one buffer.
 */
#define NCCL_CALLS(X)                                                                          \
    X(ncclAllReduce, NCCL_COLLECTIVE, NCCL_COLLECTIVE_ARGS, -1, receive, COUNT, COUNT)         \
    X(ncclReduceScatter, NCCL_COLLECTIVE, NCCL_COLLECTIVE_ARGS, -1, receive, ALL_RANKS, COUNT) \
    X(ncclReduce, NCCL_ROOTED, NCCL_ROOTED_ARGS, root, receive, COUNT, COUNT | AT_ROOT)        \
    X(ncclBroadcast, NCCL_ROOT, NCCL_ROOT_ARGS, root, receive, COUNT | AT_ROOT, COUNT)         \
    X(ncclBcast, NCCL_PEER, NCCL_PEER_ARGS, -1, NULL, COUNT, UNUSED)                           \
    X(ncclAllGather, NCCL_GATHER, NCCL_GATHER_ARGS, -1, receive, COUNT, ALL_RANKS)             \
    X(ncclAlltoAll, NCCL_GATHER, NCCL_GATHER_ARGS, -1, receive, ALL_RANKS, ALL_RANKS)          \
    X(ncclGather, NCCL_ROOT, NCCL_ROOT_ARGS, root, receive, COUNT, ALL_RANKS | AT_ROOT)        \
    X(ncclScatter, NCCL_ROOT, NCCL_ROOT_ARGS, root, receive, ALL_RANKS | AT_ROOT, COUNT)       \
    X(ncclSend, NCCL_PEER, NCCL_PEER_ARGS, peer, NULL, COUNT, UNUSED)                          \
    X(ncclRecv, NCCL_PEER, NCCL_PEER_ARGS, peer, NULL, COUNT, UNUSED)

/* X(name, parameters) */
#define NCCL_OTHERS(X)                                                              \
    X(ncclCommRegister, (void *comm, void *buffer, size_t size, void **ret_handle)) \
    X(ncclCommDeregister, (void *comm, void *handle))                               \
    X(ncclCommWindowRegister,                                                       \
            (void *comm, void *buffer, size_t size, void **ret_window, int flags))  \
    X(ncclCommWindowDeregister, (void *comm, void *window))                         \
    X(ncclCommGetAsyncError, (void *comm, int *ret_state))                          \
    X(ncclCommFinalize, (void *comm))                                               \
    X(ncclCommDestroy, (void *comm))                                                \
    X(ncclCommAbort, (void *comm))                                                  \
    X(ncclGroupStart, (void))                                                       \
    X(ncclGroupEnd, (void))                                                         \
    X(ncclGroupSimulateEnd, (void *info))

#define NUMBER(name, ...) NUMBER_##name,
enum {
    NCCL_CALLS(NUMBER) NUMBERS
};
_Static_assert(NUMBERS == APICALL_COUNT - 1, "apicalls.def has each of them, and no other");
#undef NUMBER

#pragma GCC visibility push(default)
#define DECLARE(name, params, ...) int name params;
NCCL_CALLS(DECLARE)
NCCL_OTHERS(DECLARE)
#undef DECLARE
#pragma GCC visibility pop

#define REAL_SLOT(name, ...) static struct export export_of_##name;
NCCL_CALLS(REAL_SLOT)
NCCL_OTHERS(REAL_SLOT)
#undef REAL_SLOT

static struct export_library library = {.base = "libnccl.so"};

/* Must be in the export's function itself. */
#define FIND(name)                                                                               \
    (resolve_note_export(EXPORT_##name),                                                         \
            (__typeof__(&(name)))export_real(&library, &export_of_##name, #name, (void *)(name), \
                    __builtin_return_address(0)))

void *export_nccl(void *handle, const char *name)
{
#define ROW(call, ...)            \
    if (strcmp(name, #call) == 0) \
        return export_take(&library, &export_of_##call, handle, name, (void *)(call));
    NCCL_CALLS(ROW)
    NCCL_OTHERS(ROW)
#undef ROW
    return NULL;
}

/* ---- groups --------------------------------------------------------------------------------- */

static __thread struct underway group __attribute__((tls_model("initial-exec")));

/*
 * Collects a block that the call, as an event, releases or stops holding. Inside the call's
 * section, and inside kedge.
 */
static void export_nccl_collect(devptr_t ptr)
{
    underway_collect(&group, ptr, false);
}

static void collect_buffers(const void *first, const void *second)
{
    if (!life_begin_edge())
        return;
    underway_collect(&group, (devptr_t)(uintptr_t)first, true);
    underway_collect(&group, (devptr_t)(uintptr_t)second, true);
    life_leave();
}

/* The call, or the group, has returned with this result. */
static void end_calls(int result)
{
    if (__builtin_expect(result == NCCL_IN_PROGRESS, 0))
        underway_park(&group);
    else
        underway_over(&group);
}

int ncclGroupStart(void)
{
    __typeof__(&ncclGroupStart) real = FIND(ncclGroupStart);
    int result = real ? real() : NCCL_SYSTEM_ERROR;

    if (result == NCCL_SUCCESS)
        group.groups++;
    return result;
}

static void end_group(int result)
{
    if (group.groups == 0 || --group.groups > 0)
        return;
    end_calls(result);
    submit_go_on();
}

int ncclGroupEnd(void)
{
    __typeof__(&ncclGroupEnd) real = FIND(ncclGroupEnd);
    int result = real ? real() : NCCL_SYSTEM_ERROR;

    end_group(result);
    return result;
}

/* Ends the group too, and makes none of its calls. */
int ncclGroupSimulateEnd(void *info)
{
    __typeof__(&ncclGroupSimulateEnd) real = FIND(ncclGroupSimulateEnd);
    int result = real ? real(info) : NCCL_SYSTEM_ERROR;

    end_group(NCCL_SUCCESS);
    return result;
}

/* ---- communicators -------------------------------------------------------------------------- */

/*
 * The communicator has submitted all its calls to the device: its state says so, or it was flushed
 * or destroyed.
 */
int ncclCommGetAsyncError(void *comm, int *ret_state)
{
    __typeof__(&ncclCommGetAsyncError) real = FIND(ncclCommGetAsyncError);
    uint64_t parked = underway_parked();
    int result = real ? real(comm, ret_state) : NCCL_SYSTEM_ERROR;

    if (result == NCCL_SUCCESS && *ret_state == NCCL_SUCCESS)
        underway_given(comm, parked);
    return result;
}

#define END_OF_COMM(name)                                   \
    int name(void *comm)                                    \
    {                                                       \
        __typeof__(&(name)) real = FIND(name);              \
        uint64_t parked = underway_parked();                \
        int result = real ? real(comm) : NCCL_SYSTEM_ERROR; \
        if (result == NCCL_SUCCESS)                         \
            underway_given(comm, parked);                   \
        return result;                                      \
    }
END_OF_COMM(ncclCommFinalize)
END_OF_COMM(ncclCommDestroy)
END_OF_COMM(ncclCommAbort)

/* ---- registration --------------------------------------------------------------------------- */

/* `flags` -1: not a window. */
static int register_buffer(void *real, const char *call, void *comm, void *buffer, size_t size,
        void **ret_handle, int flags)
{
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    bool entered = life_begin_edge();
    bool is_named;
    int result;

    pins.registers = true;
    if (entered) {
        guard_read_begin();
        (void)pins_collect(&pins, (devptr_t)(uintptr_t)buffer, size, TOUCH_POINTER, NULL);
        pins_shared(&pins, call, true);
        life_leave(); /* NCCL calls the driver, and so our hooks, for memory of its own */
    }
    if (pins.refused != CUDA_SUCCESS)
        result = NCCL_CUDA_ERROR;
    else if (flags < 0)
        result = ((int (*)(void *, void *, size_t, void **))real)(comm, buffer, size, ret_handle);
    else
        result = ((int (*)(void *, void *, size_t, void **, int))real)(
                comm, buffer, size, ret_handle, flags);
    if (!entered)
        return result;
    guard_read_end();
    is_named = result == NCCL_SUCCESS && ret_handle && *ret_handle;
    if (is_named)
        pins_give(&pins, PINS_OF_NCCL, (uint64_t)(uintptr_t)*ret_handle, 0);
    else if (result == NCCL_IN_PROGRESS || (result == NCCL_SUCCESS && group.groups > 0))
        pins_keep(&pins); /* it will be registered under a handle that is not known yet */
    else
        pins_undo(&pins);
    return result;
}

static int deregister_buffer(void *real, void *comm, void *handle)
{
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    int result;

    if (life_begin_edge()) {
        pins_take(&pins, PINS_OF_NCCL, (uint64_t)(uintptr_t)handle);
        life_leave();
    }
    result = ((int (*)(void *, void *))real)(comm, handle);
    pins_end(&pins, result == NCCL_SUCCESS, PINS_OF_NCCL, (uint64_t)(uintptr_t)handle);
    return result;
}

int ncclCommRegister(void *comm, void *buffer, size_t size, void **ret_handle)
{
    void *real = (void *)FIND(ncclCommRegister);

    return real ? register_buffer(real, __func__, comm, buffer, size, ret_handle, -1)
                : NCCL_SYSTEM_ERROR;
}

int ncclCommDeregister(void *comm, void *handle)
{
    void *real = (void *)FIND(ncclCommDeregister);

    return real ? deregister_buffer(real, comm, handle) : NCCL_SYSTEM_ERROR;
}

int ncclCommWindowRegister(void *comm, void *buffer, size_t size, void **ret_window, int flags)
{
    void *real = (void *)FIND(ncclCommWindowRegister);

    return real ? register_buffer(real, __func__, comm, buffer, size, ret_window, flags)
                : NCCL_SYSTEM_ERROR;
}

int ncclCommWindowDeregister(void *comm, void *window)
{
    void *real = (void *)FIND(ncclCommWindowDeregister);

    return real ? deregister_buffer(real, comm, window) : NCCL_SYSTEM_ERROR;
}

/* ---- calls between ranks -------------------------------------------------------------------- */

static bool says(void)
{
    return !atomic_load_explicit(&source_nccl_states, memory_order_relaxed)
            && source_wants(SOURCE_NCCL);
}

struct buffers {
    const void *send, *receive;
    enum extent sent, received;
    size_t count;
    int type, root; /* or the peer */
    void *comm;
    const void *real; /* the function, by which its library is found */
};

/* Bytes of an element, by nccl.h's numbers; 0 = unknown type. */
static size_t export_nccl_size_of(int type)
{
    static const uint8_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

    return type >= 0 && (size_t)type < sizeof sizes ? sizes[type] : 0;
}

typedef int (*question_fn)(const void *comm, int *ret_answer);

enum {
    KNOWN = 8, /* a power of two */
};

/* The query functions of a function's library. */
struct questions {
    const void *real;
    question_fn count, rank;
};

static struct questions questions_of(const void *real)
{
    static __thread struct questions *known __attribute__((tls_model("initial-exec")));
    size_t at = (uintptr_t)real / 16 % KNOWN;
    struct questions found;

    if (known && known[at].real == real)
        return known[at];
    found = (struct questions){real, (question_fn)export_beside(real, "ncclCommCount"),
            (question_fn)export_beside(real, "ncclCommUserRank")};
    if (known || threadmem_make(&known, KNOWN * sizeof *known))
        known[at] = found;
    return found;
}

/* -1 = no answer. A query is no event of the program. */
static int export_nccl_ask(question_fn question, const void *comm)
{
    int answer = -1;

    guard_push();
    if (!question || question(comm, &answer) != NCCL_SUCCESS)
        answer = -1;
    guard_pop();
    return answer;
}

/*
 * Bytes of a buffer that this rank uses, 0 = none. If NCCL does not report the rank, the buffer
 * counts for all ranks, with its first byte at least.
 */
static uint64_t export_nccl_bytes_of(const struct buffers *all, enum extent extent)
{
    int rank = extent & AT_ROOT ? export_nccl_ask(questions_of(all->real).rank, all->comm) : -1;
    uint64_t bytes;
    int ranks;

    if (extent == UNUSED || all->count == 0 || (rank >= 0 && rank != all->root))
        return 0;
    if (export_nccl_size_of(all->type) == 0
            || __builtin_mul_overflow(all->count, export_nccl_size_of(all->type), &bytes))
        return 1;
    if (!(extent & ALL_RANKS))
        return bytes;
    ranks = export_nccl_ask(questions_of(all->real).count, all->comm);
    return ranks < 1 || __builtin_mul_overflow(bytes, (unsigned)ranks, &bytes) ? 1 : bytes;
}

static bool export_nccl_touch(const struct buffers *all, const void *buffer, enum extent extent,
        enum touch how, const char *what)
{
    uint64_t bytes = export_nccl_bytes_of(all, extent);

    return bytes != 0 && argcheck_range((devptr_t)(uintptr_t)buffer, bytes, how, what);
}

/*
 * Checks the buffers of a call like the arguments of a copy. The section of submit.h ends before
 * the call: NCCL calls the driver, and so our hooks, for work and memory of its own. On a captured
 * stream the buffers are in none of the driver's calls, so they belong to the whole graph.
 * NCCL_SUCCESS, or the result for the program in place of the call.
 */
static int look_at_buffers(const struct buffers *all, void *stream, const char *what)
{
    /* one buffer is both the sender's and the receiver's */
    enum touch sends = all->received == UNUSED ? TOUCH_POINTER : TOUCH_READ;
    struct submit submit;
    int result = NCCL_SUCCESS;

    if (guard_is_idle() || !submit_begin(&submit, (CUstream)stream, false))
        return NCCL_SUCCESS;
    if (export_nccl_touch(all, all->send, all->sent, sends, what)
            || export_nccl_touch(all, all->receive, all->received, TOUCH_POINTER, what))
        result = NCCL_INVALID_ARGUMENT;
    else if (guard_thread.bring && !underway_bring(&group, guard_thread.bring))
        result = NCCL_CUDA_ERROR;
    submit_end_whole(&submit, result == NCCL_SUCCESS);
    return result;
}

/* nccl.h's name for the buffer of a call that has only one. */
static const char *name_of_one(const char *call)
{
    if (strcmp(call, "ncclRecv") == 0)
        return "recvbuff";
    return strcmp(call, "ncclSend") == 0 ? "sendbuff" : "buff";
}

static bool is_between_two(const char *call)
{
    return strcmp(call, "ncclSend") == 0 || strcmp(call, "ncclRecv") == 0;
}

/*
 * Records the call, in the anchor that the program makes it in: before the range of the call
 * itself.
 */
static void note_call(const struct buffers *all, const char *call)
{
    struct capture_call_info info = {.name = call};

    if (!life_begin_edge())
        return;
    info.buffer[0].arg = all->received == UNUSED ? name_of_one(call) : "sendbuff";
    info.buffer[0].ptr = (devptr_t)(uintptr_t)all->send;
    info.buffer[1].arg = all->received == UNUSED ? NULL : "recvbuff";
    info.buffer[1].ptr = (devptr_t)(uintptr_t)all->receive;
    info.comm = (uint64_t)(uintptr_t)all->comm;
    info.peer = is_between_two(call) ? all->root : -1;
    info.seq = session_seq();
    session_report(capture_call(&info));
    life_leave();
}

static void tell_event(
        struct edge *event, uint32_t call, const void *first, const void *second, void *handle)
{
    const devptr_t used[] = {(uintptr_t)first, (uintptr_t)second};
    struct stream stream;

    if (!life_begin_edge())
        return;
    event->call = call;
    if (hints_run_waits(HINTS_RUN_WAITS_STREAM)
            && stream_here((CUstream)handle, false, &stream) == 0)
        event->stream = stream.identity;
    dispatch_event(event, used, APICALL_BUFFERS, export_nccl_collect);
    life_leave();
}

/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
#define CALL(name, params, args, root, receive, sent, received)                              \
    int name params                                                                          \
    {                                                                                        \
        __typeof__(&(name)) real = FIND(name);                                               \
        struct buffers all = {send, receive, sent, received, count, type, root, comm, NULL}; \
        struct edge event;                                                                   \
        int result;                                                                          \
        bool said, reads, waits;                                                             \
        if (!real)                                                                           \
            return NCCL_SYSTEM_ERROR;                                                        \
        all.real = (const void *)real;                                                       \
        note_call(&all, #name);                                                              \
        waits = hints_run_waits(EDGE_CALL) && source_event(EDGE_CALL, &event);               \
        said = says();                                                                       \
        if (said)                                                                            \
            source_push("NCCL", #name);                                                      \
        reads = submit_event_begin();                                                        \
        group.comm = comm;                                                                   \
        if (waits)                                                                           \
            tell_event(&event, APICALL_##name, send, receive, stream);                       \
        result = look_at_buffers(&all, stream, #name);                                       \
        if (result == NCCL_SUCCESS && reads)                                                 \
            collect_buffers(send, receive);                                                  \
        if (result == NCCL_SUCCESS)                                                          \
            result = real args;                                                              \
        if (group.groups == 0)                                                               \
            end_calls(result);                                                               \
        if (reads)                                                                           \
            submit_event_end();                                                              \
        if (said)                                                                            \
            source_pop("NCCL");                                                              \
        return result;                                                                       \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
NCCL_CALLS(CALL)
