/* SPDX-License-Identifier: MIT */
/*
 * hookrow.h - hooks that are one row: make the real call, and record the object that it created or
 * ended.
 *
 * HOOKROW        `then`, if the call has succeeded; it may set `result`. Like every hooked call, it
 *                is made once more after a trim if the driver has no memory for it (R81)
 * HOOKROW_ON     the same, for a call that names a stream (contexts.h)
 * HOOKROW_MADE   the same, for memory that only the driver knows: its class, its key
 *                (dispatch_made), its size
 * HOOKROW_ROOM   as HOOKROW; the call is for memory of this size on `device`, and its result is
 *                recorded
 * HOOKROW_LOAD   the same for a call that needs memory as a side effect; it is not recorded, and it
 *                does not start kedge
 * HOOKROW_END    the end of the object that is recorded under the key `recorded`, which is 0 for
 *                the driver's no-op
 * HOOKROW_OWNER  the end of `object`, of that type, which has pinned blocks under `id` (pins.h);
 *                `first` runs before the call, `then` after it, whatever `result` is. `first`
 *                forgets or sets aside the state under the handle, since the driver may give the
 *                handle to another thread before the call returns
 * HOOKROW_UNPINS the same for any call that ends pins of an owner; `take` takes them
 *
 * In a row that creates an object, `made` is the place where the driver stores it; it is valid once
 * the call has succeeded. Where kedge does not act (life_enter), a row is the real call alone.
 */
#ifndef KEDGE_PRELOAD_HOOKROW_H
#define KEDGE_PRELOAD_HOOKROW_H

#include "preload/driver/contexts.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"
#include "preload/hints/pins.h"
#include "preload/request/dispatch.h"
#include "preload/request/submit.h"

/* The key of a handle, 0 for none. */
static inline uint64_t hookrow_key(enum memclass memclass, const void *handle)
{
    return handle ? dispatch_key(memclass, (uintptr_t)handle) : 0;
}

/* The driver had no memory for the call, and kedge has freed some (R81, shared OOM retry). */
static inline bool hookrow_again(CUresult result)
{
    struct pool_ladder ladder = {.waits = 0};

    return __builtin_expect(result == CUDA_ERROR_OUT_OF_MEMORY, 0) && dispatch_more_room(&ladder);
}

/* NOLINTBEGIN(bugprone-macro-parentheses): parameter lists cannot be put in parentheses */
/* clang-format off */
#define HOOKROW(symbol, params, args, then)                                       \
    CUresult symbol params                                                         \
    HOOKROW_BODY(symbol, args, then)
#define HOOKROW_ON(symbol, params, args, on_stream, per_thread, then)             \
    ON_STREAM(symbol, params, on_stream, per_thread, HOOKROW_BODY(symbol, args, then))
#define HOOKROW_BODY(symbol, args, then)                                          \
    {                                                                              \
        bool entered = life_enter(SLOT_##symbol);                                  \
        CUresult result = REAL(symbol) args;                                       \
        if (entered && hookrow_again(result))                                      \
            result = REAL(symbol) args;                                            \
        if (entered && result == CUDA_SUCCESS)                                     \
            then;                                                                  \
        if (entered)                                                               \
            life_leave();                                                          \
        return result;                                                             \
    }
#define HOOKROW_MADE(symbol, params, args, memclass, key, size)                   \
    HOOKROW(symbol, params, args,                                                 \
            dispatch_made(MEMCLASS_##memclass, key, size, dispatch_device()))
#define HOOKROW_ROOM(symbol, params, args, size, device, then)                    \
    CUresult symbol params                                                         \
    {                                                                              \
        bool entered = life_enter(SLOT_##symbol);                                  \
        CUresult result = REAL(symbol) args;                                       \
        struct pool_ladder ladder = {.waits = 0};                                  \
        if (entered && dispatch_make_room((int)result, size, device, &ladder))      \
            result = REAL(symbol) args;                                            \
        if (entered && (device) >= 0)                                              \
            dispatch_refused((int)result, size, device, &ladder);                   \
        if (entered && result == CUDA_SUCCESS)                                     \
            then;                                                                  \
        if (entered)                                                               \
            life_leave();                                                          \
        return result;                                                             \
    }
#define HOOKROW_LOAD(symbol, params, args, then)                                  \
    CUresult symbol params                                                         \
    HOOKROW_LOAD_BODY(symbol, args, then)
#define HOOKROW_LOAD_ON(symbol, params, args, on_stream, per_thread, then)        \
    ON_STREAM(symbol, params, on_stream, per_thread, HOOKROW_LOAD_BODY(symbol, args, then))
#define HOOKROW_LOAD_BODY(symbol, args, then)                                     \
    {                                                                              \
        CUresult result;                                                           \
        if (!resolve_ready())                                                      \
            return resolve_missing();                                              \
        SUBMIT_CALL(symbol, REAL(symbol) args, false);                             \
        if (result == CUDA_SUCCESS)                                                \
            then;                                                                  \
        return result;                                                             \
    }
#define HOOKROW_END(symbol, params, args, recorded)                               \
    CUresult symbol params                                                         \
    {                                                                              \
        bool entered = life_enter(SLOT_##symbol);                                  \
        uint64_t ends = entered ? (recorded) : 0;                                  \
        struct dispatch_end end = {.key = 0};                                       \
        CUresult result;                                                           \
        if (ends)                                                                  \
            end = dispatch_end(ends);                                               \
        result = REAL(symbol) args;                                                \
        dispatch_ended(&end, (int)result);                                          \
        if (entered)                                                               \
            life_leave();                                                          \
        return result;                                                             \
    }
#define HOOKROW_OWNER(symbol, type, owner, id, first, then)                       \
    HOOKROW_UNPINS(symbol, (type object), (object),                                \
            (pins_take(&pins, owner, id), first), owner, id, then)
#define HOOKROW_UNPINS(symbol, params, args, take, owner, id, then)               \
    CUresult symbol params                                                         \
    {                                                                              \
        struct pins pins = PINS_NONE(POOL_PIN_LIVE);                               \
        CUresult result;                                                           \
        if (!life_enter(SLOT_##symbol))                                            \
            return REAL(symbol) args;                                              \
        take;                                                                      \
        result = REAL(symbol) args;                                                \
        pins_end(&pins, result == CUDA_SUCCESS, owner, id);                        \
        then;                                                                      \
        life_leave();                                                              \
        return result;                                                             \
    }
/* clang-format on */
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
