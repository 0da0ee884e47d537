/* SPDX-License-Identifier: MIT */
/*
 * NCCL's registration of user buffers: a registered buffer is mapped into other processes and network cards until it is
 * deregistered, so its block is pinned (R80). The two functions are NCCL's, not CUDA's: a program that is linked with NCCL
 * comes through our exports, one that loads it gets ours from dlsym for the function that its library has.
 *
 * Its calls between ranks are ranges `NCCL:ncclSend` and so on, as its own NVTX ranges are; where it makes those, ours are left
 * out (speech_nccl_speaks).
 */
#include "preload/conduct.h"
#include "preload/doors.h"
#include "preload/guard.h"
#include "preload/life.h"
#include "preload/msg.h"
#include "preload/pins.h"
#include "preload/resolve.h"
#include "preload/speech.h"
#include "preload/submit.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

/* nccl.h's, in our own words: a communicator is a pointer, a result an enum. */
typedef int (*register_fn)(void *, void *, size_t, void **);
typedef int (*deregister_fn)(void *, void *);

enum {
    NCCL_SUCCESS = 0,
    NCCL_SYSTEM_ERROR = 2, /* what NCCL gives where the system has no such thing */
    NCCL_INVALID_ARGUMENT = 4,
};

/* Types of elements and operations are enums: int to the ABI. */
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
#define NCCL_PEER        (void *buffer, size_t count, int type, int peer, void *comm, void *stream)
#define NCCL_PEER_ARGS   (buffer, count, type, peer, comm, stream)

/* X(name, parameters, arguments, its buffers); ncclSend's and ncclRecv's differ in const alone, which no ABI knows. */
#define NCCL_CALLS(X)                                                          \
    X(ncclAllReduce, NCCL_COLLECTIVE, NCCL_COLLECTIVE_ARGS, send, receive)     \
    X(ncclReduceScatter, NCCL_COLLECTIVE, NCCL_COLLECTIVE_ARGS, send, receive) \
    X(ncclReduce, NCCL_ROOTED, NCCL_ROOTED_ARGS, send, receive)                \
    X(ncclBroadcast, NCCL_ROOT, NCCL_ROOT_ARGS, send, receive)                 \
    X(ncclBcast, NCCL_PEER, NCCL_PEER_ARGS, buffer, NULL)                      \
    X(ncclAllGather, NCCL_GATHER, NCCL_GATHER_ARGS, send, receive)             \
    X(ncclSend, NCCL_PEER, NCCL_PEER_ARGS, buffer, NULL)                       \
    X(ncclRecv, NCCL_PEER, NCCL_PEER_ARGS, buffer, NULL)

#pragma GCC visibility push(default)
#define DECLARE(name, params, args, a, b) int name params;
NCCL_CALLS(DECLARE)
#undef DECLARE
int ncclCommRegister(void *comm, void *buffer, size_t size, void **ret_handle);
int ncclCommDeregister(void *comm, void *handle);
#pragma GCC visibility pop

static _Atomic(void *) real_register;
static _Atomic(void *) real_deregister;
#define REAL_SLOT(name, params, args, a, b) static _Atomic(void *) real_##name;
NCCL_CALLS(REAL_SLOT)
#undef REAL_SLOT

static int find_nccl(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    const char *base = slash ? slash + 1 : info->dlpi_name;

    (void)size;
    if (!base || strncmp(base, "libnccl.so", 10) != 0)
        return 0;
    *(void **)data = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    return *(void **)data ? 1 : 0;
}

/* The next one in the global scope, else that of a libnccl that somebody loaded. */
static void *real_of(_Atomic(void *) *real, const char *symbol)
{
    void *found = atomic_load_explicit(real, memory_order_acquire);
    void *library = NULL;

    if (found)
        return found;
    guard_push();
    found = resolve_next(symbol);
    if (!found) {
        (void)dl_iterate_phdr(find_nccl, &library);
        found = library ? resolve_real_dlsym()(library, symbol) : NULL;
    }
    guard_pop();
    atomic_store_explicit(real, found, memory_order_release);
    return found;
}

static _Atomic(void *) *slot_of(const char *name, void **ret_ours)
{
    if (strcmp(name, "ncclCommRegister") == 0) {
        *ret_ours = (void *)ncclCommRegister;
        return &real_register;
    }
    if (strcmp(name, "ncclCommDeregister") == 0) {
        *ret_ours = (void *)ncclCommDeregister;
        return &real_deregister;
    }
#define ROW(call, params, args, a, b) \
    if (strcmp(name, #call) == 0) {   \
        *ret_ours = (void *)(call);   \
        return &real_##call;          \
    }
    NCCL_CALLS(ROW)
#undef ROW
    return NULL;
}

void *door_nccl(void *handle, const char *name)
{
    void *ours = NULL;
    _Atomic(void *) *real = slot_of(name, &ours);
    void *none = NULL;
    void *found;

    if (!real)
        return NULL;
    if (handle == RTLD_DEFAULT) /* a name that only we have is not to be found */
        return resolve_next(name) ? NULL : RESOLVE_HIDE;
    found = resolve_real_dlsym()(handle, name);
    if (!found || found == ours)
        return NULL;
    if (!atomic_compare_exchange_strong(real, &none, found) && none != found) {
        msg_warn("a second libnccl is loaded: what it registers is not watched, passing through");
        return NULL;
    }
    return ours;
}

int ncclCommRegister(void *comm, void *buffer, size_t size, void **ret_handle)
{
    void *found = real_of(&real_register, "ncclCommRegister");
    register_fn real = (register_fn)found;
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    int result;

    if (!real)
        return NCCL_SYSTEM_ERROR;
    resolve_note_door(DOOR_ncclCommRegister);
    if (!life_begin_edge())
        return real(comm, buffer, size, ret_handle);
    guard_read_begin();
    (void)pins_collect(&pins, (devptr_t)(uintptr_t)buffer, size, TOUCH_POINTER, NULL);
    pins_shared(&pins, __func__, true);
    life_leave(); /* NCCL calls the driver, and our hooks, for memory of its own */
    result = real(comm, buffer, size, ret_handle);
    guard_read_end();
    if (result == NCCL_SUCCESS && ret_handle)
        pins_give(&pins, PINS_OF_NCCL, (uint64_t)(uintptr_t)*ret_handle, 0);
    else
        pins_undo(&pins);
    return result;
}

int ncclCommDeregister(void *comm, void *handle)
{
    void *found = real_of(&real_deregister, "ncclCommDeregister");
    deregister_fn real = (deregister_fn)found;
    struct pins pins = PINS_NONE(POOL_PIN_SHOWN);
    int result;

    if (!real)
        return NCCL_SYSTEM_ERROR;
    resolve_note_door(DOOR_ncclCommDeregister);
    if (life_begin_edge()) {
        pins_take(&pins, PINS_OF_NCCL, (uint64_t)(uintptr_t)handle);
        life_leave();
    }
    result = real(comm, handle);
    pins_end(&pins, result == NCCL_SUCCESS, PINS_OF_NCCL, (uint64_t)(uintptr_t)handle);
    return result;
}

/* ---- calls between ranks -------------------------------------------------------------------- */

static bool says(enum resolve_door door)
{
    resolve_note_door(door);
    return !atomic_load_explicit(&speech_nccl_speaks, memory_order_relaxed)
            && speech_wants(SPEECH_NCCL);
}

/* From here to the end of the call no hint's storage goes (R66), if there are hints. */
static bool begin_reading(void)
{
    bool reads = (atomic_load_explicit(&guard_word, memory_order_relaxed) & GUARD_ACTING) != 0
            && guard_depth() == 0;

    if (reads)
        guard_read_begin();
    return reads;
}

/*
 * The buffers of a call, looked at like the arguments of a copy: one block each, since NCCL takes no others. The section
 * of submit.h ends before the call: NCCL calls the driver, and our hooks, for work and memory of its own. On a captured
 * stream the buffers are in none of the driver's calls, so they are the graph's as a whole.
 */
static bool touches(const void *a, const void *b, void *stream, const char *what)
{
    struct submit submit;
    bool stops;

    if (guard_is_idle() || !submit_begin(&submit, (CUstream)stream, false))
        return false;
    stops = conduct_touch((devptr_t)(uintptr_t)a, 1, TOUCH_POINTER, what)
            || (b && conduct_touch((devptr_t)(uintptr_t)b, 1, TOUCH_POINTER, what));
    submit_end_whole(&submit, !stops);
    return stops;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot stand in parentheses of their own */
#define CALL(name, params, args, a, b)                  \
    int name params                                     \
    {                                                   \
        void *found = real_of(&real_##name, #name);     \
        int(*real) params = (__typeof__(&(name)))found; \
        int result = NCCL_INVALID_ARGUMENT;             \
        bool said, reads;                               \
        if (!real)                                      \
            return NCCL_SYSTEM_ERROR;                   \
        said = says(DOOR_##name);                       \
        if (said)                                       \
            speech_push("NCCL", #name);                 \
        reads = begin_reading();                        \
        if (!touches(a, b, stream, #name))              \
            result = real args;                         \
        if (reads)                                      \
            guard_read_end();                           \
        if (said)                                       \
            speech_pop("NCCL");                         \
        return result;                                  \
    }
/* NOLINTEND(bugprone-macro-parentheses) */
NCCL_CALLS(CALL)
