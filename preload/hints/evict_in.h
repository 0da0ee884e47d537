/* SPDX-License-Identifier: MIT */
/*
 * evict_in.h - what a call names is on the device before the driver gets the call (hints that evict; alloc/pool.h, "blocks that go
 * out and come in").
 *
 *     submit_begin ─► evict_in_begin ─┐ only once a block may be out, and not for a captured call: that uses nothing now
 *     argcheck_range ──► evict_in_name ──┤ the block is named
 *     copies ───────► evict_in_data ──┤ so is one whose address is in bytes that go to the device; it stays in if they do
 *     graph launch ─► pins_bring ──┘ so is what its instance names
 *     before REAL ──► evict_in_ready ─── all of it comes in, or the call is not made
 *     submit_end ───► evict_in_end, evict_in_go_on
 *
 * What is named longer than a call (pins.h: IPC, registrations, tensor maps, textures ...) comes in before it is pinned
 * (evict_in_pinned), and the pin keeps it there. In a host function no call is brought for: the driver refuses it.
 *
 * Coming in takes place outside of all reader sections (R66), the sections of an event that the call is too. What such an
 * event releases may lose its storage meanwhile; a call that names it is stopped as any other.
 *
 * A call is not made where its blocks cannot all be in at once: CUDA_ERROR_OUT_OF_MEMORY, and one line for each hint. If a
 * capture of another stream runs and the blocks are out, nothing can be moved: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED.
 * Threads: any; a struct evict_in belongs to one thread. The driver is called in evict_in_ready, evict_in_pinned and evict_in_go_on.
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
    CUstream stream;  /* as stream_named says it; NULL = no stream that could be waited on */
    CUresult refused; /* why the call must not be made */
    /* what stays in if the call is made: blocks at these addresses; all */
    devptr_t pointer[EVICT_IN_POINTERS];
    unsigned pointers;
    bool is_untold;
};

/* True once a block may be out. */
static inline bool evict_in_is_wanted(void)
{
    return session_pool && pool_evicts(session_pool);
}

/* A block of such a rule was made. */
void evict_in_made(devptr_t ptr, uint64_t size);

/* guard_thread.bring is `bring` until its end. */
void evict_in_begin(struct evict_in *bring, CUstream stream);
/* The call was made, or not. Returns what it comes to. */
CUresult evict_in_end(struct evict_in *bring, CUresult result);

/*
 * The call of guard_thread.bring, which is there, names this. Inside a reader section. True: there is no memory to note it, so the call
 * must not be made. `is_written`: a copy or a set may write there.
 */
bool evict_in_name(devptr_t ptr, uint64_t size, bool is_written);

/* The same, if there is such a call: of addresses in the host's bytes that a copy brings to `dst`, as far as they are looked through. */
bool evict_in_data_slowly(devptr_t dst, const void *src, uint64_t size);
static inline bool evict_in_data(devptr_t dst, const void *src, uint64_t size)
{
    return __builtin_expect(guard_thread.bring != NULL, 0) && evict_in_data_slowly(dst, src, size);
}

/* The same: of whatever is live, since nobody tells what the call uses. All of it stays in if the call is made. */
bool evict_in_all(void);

/* All is named: it comes in. Anything but CUDA_SUCCESS: the call must not be made. */
CUresult evict_in_ready_slowly(struct evict_in *bring);
static inline CUresult evict_in_ready(void)
{
    return __builtin_expect(guard_thread.bring != NULL, 0)
            ? evict_in_ready_slowly(guard_thread.bring)
            : CUDA_SUCCESS;
}

/* Brings in [ptr, ptr + size) to be pinned; evict_in_end after that, whatever it says. */
CUresult evict_in_pinned(struct evict_in *bring, devptr_t ptr, uint64_t size);

/*
 * The same where nothing can be moved, since a capture runs: it comes in before the first call after that (evict_in_owed). Of what a
 * capture names itself the launch brings in.
 */
void evict_in_later(devptr_t ptr, uint64_t size);
extern atomic_bool evict_in_owes;
/* Inside a reader section. */
void evict_in_owed(void);

/* Whether there are moves that may begin ahead of the next calls. */
static inline bool evict_in_has_more(void)
{
    return evict_in_is_wanted() && pool_evict_has_more(session_pool);
}

/* Outside of reader sections: moves that may begin ahead of the next calls do. */
void evict_in_go_on_slowly(void);
static inline void evict_in_go_on(void)
{
    if (evict_in_has_more())
        evict_in_go_on_slowly();
}

#endif
