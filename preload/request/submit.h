/* SPDX-License-Identifier: MIT */
/*
 * submit.h - the steps of every hooked submission around the real call (R66, reader sections; R80,
 * pinned blocks; R86, guard of hints).
 *
 *     idle? ─ yes ─► REAL            one load, one branch
 *       └ no ─► submit_begin ─► the arguments are checked ─► evict_in_ready ─► REAL ─► submit_end
 *                                  └ a block released, or not to be brought in: not made ─┘
 *
 * Arguments are checked while hints act or watch, while uses are recorded, and on a stream that is
 * being captured: blocks that a captured call names are pinned for the graph, because the graph
 * will name them again. argcheck_range does all three. If uses are the only reason, no call is
 * stopped and there is no reader section.
 *
 * submit_begin may find that no argument has to be checked (our own call, pass-through, the driver
 * just became known, another stream); it then returns false, and there is nothing to end. Between
 * begin and end the thread is inside kedge.
 *
 * SUBMIT_PTDS and SUBMIT_PTSZ write two hooks: the second is that of the per-thread form. `check`
 * returns true if the call must not be made. _PTSZ takes the stream from a parameter of that name.
 * SUBMIT_FIRST adds a step for a submission that is not idle, still outside of kedge: `first`
 * returns true if it has begun what submit_event_end ends.
 */
#ifndef KEDGE_PRELOAD_SUBMIT_H
#define KEDGE_PRELOAD_SUBMIT_H

#include "preload/base/cuda_abi.h"
#include "preload/base/guard.h"
#include "preload/driver/contexts.h"
#include "preload/driver/resolve.h"
#include "preload/hints/argcheck.h"
#include "preload/hints/evict_in.h"
#include "preload/hints/pins.h"

#include <stdbool.h>

struct submit {
    struct pins pins;
    struct evict_in bring;     /* guard_thread.bring, if that is there */
    struct argcheck_from from; /* guard_thread.from, if that is there */
    CUstream stream;
    uint64_t graph; /* that the stream is captured into, 0 = none */
    bool is_reader; /* a hint may release what the call names, or the call pins it */
};

/* The stream of a call that no capture can hold. */
#define SUBMIT_NO_STREAM STREAM_NONE

bool submit_begin(struct submit *submit, CUstream stream, bool per_thread);
/* Ends the call; returns its result. */
CUresult submit_end(struct submit *submit, CUresult result);
/* For a call that is not the driver's own: its pins belong to the graph, and to no node. */
void submit_end_whole(struct submit *submit, bool is_made);

/*
 * Brackets the report of an event and the call that is the event: storage that hints release or no
 * longer hold at the event stays until the driver has the call (R66), and is then released. False:
 * there are no hints, and nothing has begun. Outside of kedge.
 */
bool submit_event_begin(void);
void submit_event_end(void);
/*
 * The driver had no memory for a call, and there is more now (R81, shared OOM retry): make the call
 * once more, and pass the new result to submit_refused. `is_begun`: between submit_begin and
 * submit_end, else outside of kedge. A second OOM is recorded.
 */
bool submit_out_of_memory(int slot, bool is_begun);
void submit_refused(int slot, bool is_begun, CUresult result);
static inline __attribute__((always_inline)) bool submit_again(
        int slot, bool is_begun, CUresult result)
{
    return __builtin_expect(result == CUDA_ERROR_OUT_OF_MEMORY, 0)
            && submit_out_of_memory(slot, is_begun);
}

/* Continues releases that waited for a call. */
void submit_go_on(void);

/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists take no further parentheses */
/* clang-format off */
#define SUBMIT_CALL(symbol, call, is_begun)                                        \
    do {                                                                           \
        result = call;                                                             \
        if (submit_again(SLOT_##symbol, is_begun, result)) {                       \
            result = call;                                                         \
            submit_refused(SLOT_##symbol, is_begun, result);                       \
        }                                                                          \
    } while (0)
#define SUBMIT_FIRST(symbol, params, args, first, check, on_stream, per_thread)    \
    ON_STREAM(symbol, params, on_stream, per_thread,                               \
            SUBMIT_BODY(symbol, args, first, check, on_stream, per_thread))
#define SUBMIT_BODY(symbol, args, first, check, on_stream, per_thread)             \
    {                                                                              \
        CUresult result = CUDA_ERROR_INVALID_VALUE;                                \
        struct submit submit;                                                      \
        bool is_event;                                                             \
        if (guard_is_idle()) {                                                     \
            SUBMIT_CALL(symbol, REAL(symbol) args, false);                               \
            return result;                                                         \
        }                                                                          \
        is_event = first;                                                          \
        if (!submit_begin(&submit, on_stream, per_thread)) {                       \
            SUBMIT_CALL(symbol, REAL(symbol) args, false);                               \
        } else {                                                                   \
            if (!(check) && evict_in_ready() == CUDA_SUCCESS) {                       \
                SUBMIT_CALL(symbol, REAL(symbol) args, true);                           \
            }                                                                      \
            result = submit_end(&submit, result);                                  \
        }                                                                          \
        if (is_event)                                                              \
            submit_event_end();                                                    \
        return result;                                                             \
    }
#define SUBMIT_ON(symbol, params, args, check, on_stream, per_thread)              \
    SUBMIT_FIRST(symbol, params, args, false, check, on_stream, per_thread)
/* On the default stream. */
#define SUBMIT_NOW(symbol, params, args, check, per_thread)                        \
    ON_STREAM(symbol, params, NULL, per_thread,                                    \
            SUBMIT_BODY(symbol, args, false, check, SUBMIT_NO_STREAM, per_thread))
#define SUBMIT_PTDS(symbol, params, args, check)                                   \
    SUBMIT_NOW(symbol, params, args, check, false)                                 \
    SUBMIT_NOW(symbol##_ptds, params, args, check, true)
#define SUBMIT_PTSZ(symbol, params, args, check)                                   \
    SUBMIT_ON(symbol, params, args, check, stream, false)                          \
    SUBMIT_ON(symbol##_ptsz, params, args, check, stream, true)
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
