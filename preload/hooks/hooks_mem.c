/* SPDX-License-Identifier: MIT */
/* Memory without a stream: cuMemAlloc and cuMemFree are served, pitched and managed memory is forwarded and recorded (R18). */
#include "preload/base/guard.h"
#include "preload/driver/life.h"
#include "preload/driver/resolve.h"
#include "preload/driver/session.h"
#include "preload/graph/graphmem.h"
#include "preload/graph/ipc.h"
#include "preload/request/dispatch.h"
#include "preload/request/quick.h"
#include "preload/request/spill.h"

#include <errno.h>

/* Whether there is anything to do about a request: its context is found out on the way. */
static bool hooks_mem_prepare(struct dispatch_request *request, uint64_t size, const void *caller)
{
    *request = (struct dispatch_request){.size = size, .api = API_SYNC, .caller = caller};
    /* A request for nothing, without a context or in a callback is answered by the driver (R17, R38). */
    return size > 0 && !guard_in_callback() && context_here(&request->context) == 0;
}

static CUresult hooks_mem_alloc(
        CUdeviceptr *ret_ptr, size_t size, const void *caller, const struct tag *counted)
{
    struct dispatch_request request;
    CUresult result;
    devptr_t ptr;
    int r;

    if (!ret_ptr || !hooks_mem_prepare(&request, size, caller))
        return REAL(cuMemAlloc_v2)(ret_ptr, size);
    request.counted = counted;
    r = dispatch_alloc(&request, &ptr);
    if (r == 0)
        *ret_ptr = ptr;
    if (r >= 0)
        return (CUresult)r;
    result = REAL(cuMemAlloc_v2)(ret_ptr, size);
    if (dispatch_make_room((int)result, size, request.context.device, &request.ladder))
        result = REAL(cuMemAlloc_v2)(ret_ptr, size);
    if (dispatch_beside_capture(&request, (int)result, &ptr)) {
        *ret_ptr = ptr;
        return CUDA_SUCCESS;
    }
    dispatch_forwarded(&request, (int)result, result == CUDA_SUCCESS ? *ret_ptr : 0, size);
    return result;
}

static __attribute__((noinline)) CUresult hooks_mem_alloc_fully(
        CUdeviceptr *ret_ptr, size_t size, const void *caller, const struct tag *counted)
{
    CUresult result;

    if (!life_enter(SLOT_cuMemAlloc_v2))
        return REAL(cuMemAlloc_v2)(ret_ptr, size);
    result = hooks_mem_alloc(ret_ptr, size, caller, counted);
    life_leave();
    return result;
}

/* The short path where hints are asked (quick.h), else the long one. */
static __attribute__((noinline)) CUresult hooks_mem_alloc_decided(
        CUdeviceptr *ret_ptr, size_t size, const void *caller)
{
    struct quick_call call = {NULL, API_SYNC, SLOT_cuMemAlloc_v2};
    struct tag tag;
    struct pool_given given = quick_alloc_decided(size, NULL, call, caller, &tag);

    if (!given.ptr)
        return hooks_mem_alloc_fully(ret_ptr, size, caller, tag.path ? &tag : NULL);
    *ret_ptr = given.ptr;
    return CUDA_SUCCESS;
}

/* The short path while requests are recorded or there are hints, else the long one. */
static __attribute__((noinline)) CUresult hooks_mem_alloc_recorded(
        CUdeviceptr *ret_ptr, size_t size, const void *caller)
{
    struct pool_given given = {0, 0};

    if (ret_ptr && quick_asks(size))
        return hooks_mem_alloc_decided(ret_ptr, size, caller);
    if (ret_ptr && (quick_records() || quick_decides()) && quick_is_calm(quick_records()))
        given = quick_alloc(SESSION_RECORDED | SESSION_DECIDED, size, caller);
    if (!given.ptr)
        return hooks_mem_alloc_fully(ret_ptr, size, caller, NULL);
    *ret_ptr = given.ptr;
    if (!quick_records())
        return CUDA_SUCCESS;
    return quick_record_alloc(
            given, size, (struct quick_call){NULL, API_SYNC, SLOT_cuMemAlloc_v2}, caller);
}

CUresult cuMemAlloc_v2(CUdeviceptr *ret_ptr, size_t size)
{
    struct pool_given given = {0, 0};

    if (ret_ptr)
        given = quick_alloc(0, size, __builtin_return_address(0));
    if (!given.ptr)
        return hooks_mem_alloc_recorded(ret_ptr, size, __builtin_return_address(0));
    *ret_ptr = given.ptr;
    return CUDA_SUCCESS;
}

/* Of memory that the driver serves in any case. */
static bool prepare_forwarded(
        struct dispatch_request *request, uint64_t size, enum memclass memclass, const void *caller)
{
    if (!hooks_mem_prepare(request, size, caller))
        return false;
    request->forward = true;
    request->memclass = memclass;
    (void)dispatch_alloc(request, NULL);
    return true;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *ret_ptr, size_t *p_pitch, size_t width, size_t height,
        unsigned int element_size)
{
    struct dispatch_request request;
    bool entered = life_enter(SLOT_cuMemAllocPitch_v2);
    size_t size = 0;
    bool tells = entered && ret_ptr && p_pitch && !__builtin_mul_overflow(width, height, &size)
            && prepare_forwarded(&request, size, MEMCLASS_PITCHED, __builtin_return_address(0));
    CUresult result = REAL(cuMemAllocPitch_v2)(ret_ptr, p_pitch, width, height, element_size);

    if (tells && dispatch_make_room((int)result, size, request.context.device, &request.ladder))
        result = REAL(cuMemAllocPitch_v2)(ret_ptr, p_pitch, width, height, element_size);
    if (tells && result == CUDA_SUCCESS)
        dispatch_forwarded(&request, 0, *ret_ptr, *p_pitch * height);
    else if (tells)
        dispatch_forwarded(&request, (int)result, 0, size);
    if (entered)
        life_leave();
    return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *ret_ptr, size_t size, unsigned int flags)
{
    struct dispatch_request request;
    bool entered = life_enter(SLOT_cuMemAllocManaged);
    bool tells = entered && ret_ptr
            && prepare_forwarded(&request, size, MEMCLASS_MANAGED, __builtin_return_address(0));
    CUresult result = REAL(cuMemAllocManaged)(ret_ptr, size, flags);

    if (tells && dispatch_make_room((int)result, size, request.context.device, &request.ladder))
        result = REAL(cuMemAllocManaged)(ret_ptr, size, flags);
    if (tells)
        dispatch_forwarded(&request, (int)result, result == CUDA_SUCCESS ? *ret_ptr : 0, size);
    if (entered)
        life_leave();
    return result;
}

static __attribute__((noinline)) CUresult hooks_mem_free_fully(CUdeviceptr ptr)
{
    struct dispatch_end end = {.key = 0};
    CUresult result;
    uint64_t native;
    int r = -ENOENT; /* NULL is the driver's no-op */

    if (!life_enter(SLOT_cuMemFree_v2))
        return dispatch_free_passive(ptr) ? CUDA_SUCCESS : REAL(cuMemFree_v2)(ptr);
    if (ptr)
        r = dispatch_free(ptr, API_SYNC, NULL, &end);
    native = r < 0 ? spill_pool_of(ptr) : 0;
    result = r < 0 ? REAL(cuMemFree_v2)(ptr) : (CUresult)r;
    dispatch_ended(&end, (int)result);
    if (end.key && result == CUDA_SUCCESS)
        graphmem_freed(ptr);
    spill_served(native);
    if (r == 0)
        ipc_freed(ptr);
    life_leave();
    return result;
}

static __attribute__((noinline)) CUresult hooks_mem_free_recorded(CUdeviceptr ptr)
{
    struct pool_taken taken;

    if (!quick_records() || !quick_free(SESSION_RECORDED, ptr, &taken))
        return hooks_mem_free_fully(ptr);
    quick_record_free(ptr, &taken, (struct quick_call){NULL, API_SYNC, SLOT_cuMemFree_v2});
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr ptr)
{
    return quick_free(0, ptr, NULL) ? CUDA_SUCCESS : hooks_mem_free_recorded(ptr);
}
