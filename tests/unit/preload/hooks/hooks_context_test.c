/* SPDX-License-Identifier: MIT */
/* covers: hooks_context.c */
/* A primary context that is reset, with a driver that has it active afterwards, or not before it is asked for again. */
#include "preload/base/gate.h"
#include "preload/driver/backend.h"
#include "preload/driver/contexts.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"
#include "preload/graph/ending.h"
#include "preload/graph/ipc.h"
#include "preload/graph/kernelnames.h"
#include "preload/graph/launches.h"
#include "preload/hints/params.h"
#include "preload/request/dispatch.h"
#include "tests/check.h"

/* ---- what hooks_context.c calls ------------------------------------------------------------- */

static uint64_t hidden, gone; /* the last generation that was */
static unsigned ends;
static unsigned resets;

bool life_enter(int slot)
{
    (void)slot;
    return true;
}

void life_leave(void)
{
}

bool backend_is_idle(uint64_t generation)
{
    (void)generation;
    return true;
}

void backend_apply_peer(const struct context *from, const struct context *to, bool enabled)
{
    (void)from;
    (void)to;
    (void)enabled;
}

struct pool *session_pool;

bool dispatch_more_room(struct pool_ladder *ladder)
{
    (void)ladder;
    return false;
}

struct ending ending_begin(uint64_t generation)
{
    CHECK_EQ(generation, 0); /* all that are known are idle */
    return (struct ending){0};
}

void ending_done(const struct ending *ending)
{
    (void)ending;
}

void ending_hide(uint64_t generation, bool is_hidden)
{
    hidden = is_hidden ? generation : 0;
}

void ending_context_gone(uint64_t generation)
{
    gone = generation;
    ends++;
}

void ending_device_reset(int device)
{
    resets += device == 0;
}

void ipc_context_gone(uint64_t context)
{
    CHECK_EQ(context, gone);
}

void gate_fences_end(void)
{
}

void kernelnames_forget(void)
{
}

void launches_leave_gone(void)
{
}

void params_forget(void)
{
}

/* ---- a driver ------------------------------------------------------------------------------- */

void *resolve_real[SLOT_COUNT];
static uintptr_t current;
static unsigned long long id = 100; /* of the context that a handle stands for now */
static bool is_active;              /* the primary context is, also right after a reset: */
static bool stays_active;
static CUresult answer;

/* NOLINTBEGIN(performance-no-int-to-ptr): a handle is a number here */
#define HANDLE ((CUcontext)(uintptr_t)0x40)
/* NOLINTEND(performance-no-int-to-ptr) */

bool resolve_has(enum resolve_slot slot)
{
    return resolve_real[slot] != NULL;
}

static CUresult get_current(CUcontext *ret_context)
{
    *ret_context = (CUcontext)current; // NOLINT(performance-no-int-to-ptr)
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    current = (uintptr_t)context;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *ret_context)
{
    (void)get_current(ret_context);
    current = 0;
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *ret_device)
{
    *ret_device = 0;
    return CUDA_SUCCESS;
}

static CUresult get_id(CUcontext context, unsigned long long *ret_id)
{
    CHECK(context == HANDLE);
    *ret_id = id;
    return CUDA_SUCCESS;
}

static CUresult retain(CUcontext *ret_context, CUdevice device)
{
    (void)device;
    is_active = true;
    *ret_context = HANDLE;
    return CUDA_SUCCESS;
}

static CUresult reset(CUdevice device)
{
    (void)device;
    if (answer == CUDA_SUCCESS) {
        id++;
        is_active = stays_active;
    }
    return answer;
}

static CUresult get_state(CUdevice device, unsigned *ret_flags, int *ret_active)
{
    (void)device;
    *ret_flags = 0;
    *ret_active = is_active;
    return CUDA_SUCCESS;
}

static CUresult create(CUcontext *ret_context, unsigned flags, CUdevice device)
{
    (void)flags;
    (void)device;
    *ret_context = HANDLE;
    return CUDA_SUCCESS;
}

/* With a primary context; its generation. */
static uint64_t start(bool stays)
{
    CUcontext made = NULL;
    struct context context;

    resolve_real[SLOT_cuCtxGetCurrent] = (void *)(uintptr_t)get_current;
    resolve_real[SLOT_cuCtxPushCurrent_v2] = (void *)(uintptr_t)push;
    resolve_real[SLOT_cuCtxPopCurrent_v2] = (void *)(uintptr_t)pop;
    resolve_real[SLOT_cuCtxGetDevice] = (void *)(uintptr_t)get_device;
    resolve_real[SLOT_cuCtxGetId] = (void *)(uintptr_t)get_id;
    resolve_real[SLOT_cuDevicePrimaryCtxRetain] = (void *)(uintptr_t)retain;
    resolve_real[SLOT_cuDevicePrimaryCtxReset] = (void *)(uintptr_t)reset;
    resolve_real[SLOT_cuDevicePrimaryCtxReset_v2] = (void *)(uintptr_t)reset;
    resolve_real[SLOT_cuDevicePrimaryCtxGetState] = (void *)(uintptr_t)get_state;
    resolve_real[SLOT_cuCtxCreate_v2] = (void *)(uintptr_t)create;
    stays_active = stays;
    REQUIRE_EQ(cuDevicePrimaryCtxRetain(&made, 0), CUDA_SUCCESS);
    CHECK(context_primary(0) == HANDLE);
    REQUIRE(context_of_handle(HANDLE, &context));
    return context.generation;
}

TEST(r26_a_reset_ends_the_primary_context_and_whoever_has_it_has_a_new_one)
{
    uint64_t before = start(true);
    struct context context;

    CHECK_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    CHECK_EQ(ends, 1);
    CHECK_EQ(gone, before);
    CHECK(context_primary(0) == HANDLE);
    REQUIRE(context_of_handle(HANDLE, &context));
    CHECK_EQ(context.generation, before + 1);
    CHECK_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
    CHECK_EQ(ends, 2);
    CHECK_EQ(gone, before + 1);
    CHECK_EQ(resets, 2);
}

/* Its handle may be another context's by then. */
TEST(r26_a_reset_of_a_primary_context_that_is_none_ends_nothing)
{
    uint64_t before = start(false);
    CUcontext other = NULL;
    struct context context;

    CHECK_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    CHECK_EQ(ends, 1);
    CHECK_EQ(gone, before);
    CHECK(context_primary(0) == NULL);
    CHECK(!context_of_handle(HANDLE, &context));
    CHECK_EQ(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
    CHECK(other == HANDLE);
    hidden = 0;
    CHECK_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    CHECK_EQ(ends, 1);
    CHECK_EQ(hidden, 0);
    REQUIRE(context_of_handle(HANDLE, &context));
    CHECK_EQ(context.generation, before + 1);
}

TEST(a_reset_that_the_driver_refuses_ends_nothing)
{
    uint64_t before = start(true);
    struct context context;

    answer = CUDA_ERROR_NOT_PERMITTED;
    CHECK_EQ(cuDevicePrimaryCtxReset_v2(0), answer);
    CHECK_EQ(ends, 0);
    CHECK_EQ(resets, 0);
    CHECK_EQ(hidden, 0); /* no more */
    REQUIRE(context_of_handle(HANDLE, &context));
    CHECK_EQ(context.generation, before);
}
