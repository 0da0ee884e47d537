/* SPDX-License-Identifier: MIT */
/*
 * evict_in.h - brings evicted blocks back to the device before the driver gets a call that names
 * them (hints that evict; alloc/pool.h, "blocks that go out and come in").
 *
 *     submit_begin ─► evict_in_begin ─┐ once a block may be evicted; not for a captured call
 *     argcheck_range ──► evict_in_name ──┤ the block is named
 *     copies ───────► evict_in_data ──┤ a block whose address is copied; it then stays in
 *     graph launch ─► pins_bring ──┘ so is what its instance names
 *     before REAL ──► evict_in_ready ─── all of it comes in, or the call is not made
 *     submit_end ───► evict_in_end, evict_in_go_on
 *
 * A block that is named for longer than a call (pins.h: IPC, registrations, tensor maps, textures
 * ...) comes in before it is pinned (evict_in_pinned), and the pin keeps it there. For a call in a
 * host function nothing is brought in: the driver refuses the call.
 *
 * Blocks come in outside of all reader sections (R66, reader sections), those of an event that the
 * call also is included. A block that such an event releases may lose its storage meanwhile; a call
 * that names it is stopped like any other.
 *
 * A call is not made where its blocks cannot all be in at once: CUDA_ERROR_OUT_OF_MEMORY, and one
 * line for each hint. If a capture of another stream runs and the blocks are out, nothing can be
 * moved: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.
 * Threads: any; a struct evict_in belongs to one thread. The driver is called in evict_in_ready,
 * evict_in_pinned and evict_in_go_on.
 * Rules: R10 R38 R66 R80.
 */
#ifndef KEDGE_PRELOAD_EVICT_IN_H
#define KEDGE_PRELOAD_EVICT_IN_H

#include "alloc/pool.h"
#include "preload/base/cuda_abi.h"
#include "preload/base/guard.h"
#include "preload/driver/session.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    EVICT_IN_POINTERS = 8,
};

struct evict_in {
    struct pool_call call;
    /* the handle that kedge uses (stream_named); NULL = no stream that could be waited on */
    CUstream stream;
    CUresult refused; /* reason why the call must not be made */
    /* blocks that stay in if the call is made: those at these addresses; all */
    devptr_t pointer[EVICT_IN_POINTERS];
    unsigned pointers;
    bool is_untold;
};

/* True once a block may be out. */
static inline bool evict_in_is_wanted(void)
{
    return session_pool && pool_evicts(session_pool);
}

/* A block of an evict rule was allocated. */
void evict_in_made(devptr_t ptr, uint64_t size);

/* Sets guard_thread.bring to `bring` until evict_in_end. */
void evict_in_begin(struct evict_in *bring, CUstream stream);
/* The call was made, or not. Returns the result for the program. */
CUresult evict_in_end(struct evict_in *bring, CUresult result);

/*
 * The call of guard_thread.bring, which must be set, names this memory. Inside a reader section.
 * True: no memory to note it, so the call must not be made. `is_written`: a copy or a set may write
 * there.
 */
bool evict_in_name(devptr_t ptr, uint64_t size, bool is_written);

/*
 * The same if guard_thread.bring is set, for addresses in the host bytes that a copy brings to
 * `dst`, as far as they are searched.
 */
bool evict_in_data_slowly(devptr_t dst, const void *src, uint64_t size);
static inline bool evict_in_data(devptr_t dst, const void *src, uint64_t size)
{
    return __builtin_expect(guard_thread.bring != NULL, 0) && evict_in_data_slowly(dst, src, size);
}

/*
 * The same for all live blocks, since the call's uses are unknown. All of them stay in if the call
 * is made.
 */
bool evict_in_all(void);

/* Brings all named blocks in. Anything but CUDA_SUCCESS: the call must not be made. */
CUresult evict_in_ready_slowly(struct evict_in *bring);
static inline CUresult evict_in_ready(void)
{
    return __builtin_expect(guard_thread.bring != NULL, 0)
            ? evict_in_ready_slowly(guard_thread.bring)
            : CUDA_SUCCESS;
}

/* Brings in [ptr, ptr + size) to be pinned; call evict_in_end afterwards, whatever the result. */
CUresult evict_in_pinned(struct evict_in *bring, devptr_t ptr, uint64_t size);

/*
 * The same where nothing can be moved because a capture runs: the block comes in before the first
 * call after the capture (evict_in_owed). Blocks that a capture itself names are brought in by the
 * launch.
 */
void evict_in_later(devptr_t ptr, uint64_t size);
extern atomic_bool evict_in_owes;
/* Inside a reader section. */
void evict_in_owed(void);

/* Whether moves for later calls may begin now. */
static inline bool evict_in_has_more(void)
{
    return evict_in_is_wanted() && pool_evict_has_more(session_pool);
}

/* Begins those moves. Outside of reader sections. */
void evict_in_go_on_slowly(void);
static inline void evict_in_go_on(void)
{
    if (evict_in_has_more())
        evict_in_go_on_slowly();
}

#endif
