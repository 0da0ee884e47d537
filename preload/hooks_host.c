/* SPDX-License-Identifier: MIT */
/*
 * Host memory that the driver pinned: allocated by it, or the program's own and registered. Recorded under its address and
 * left to the driver; it is no device memory, and no figure of a report counts it as such (R18).
 */
#include "preload/conduct.h"
#include "preload/guard.h"
#include "preload/life.h"
#include "preload/resolve.h"

static void made(enum memclass memclass, const void *ptr, size_t size)
{
    if (ptr && !guard_in_callback())
        conduct_made(memclass, (uintptr_t)ptr, size, conduct_device());
}

CUresult cuMemHostAlloc(void **ret_ptr, size_t size, unsigned int flags)
{
    bool entered = life_enter(SLOT_cuMemHostAlloc);
    CUresult result = REAL(cuMemHostAlloc)(ret_ptr, size, flags);

    if (entered && result == CUDA_SUCCESS && ret_ptr)
        made(MEMCLASS_HOST, *ret_ptr, size);
    if (entered)
        life_leave();
    return result;
}

CUresult cuMemAllocHost_v2(void **ret_ptr, size_t size)
{
    bool entered = life_enter(SLOT_cuMemAllocHost_v2);
    CUresult result = REAL(cuMemAllocHost_v2)(ret_ptr, size);

    if (entered && result == CUDA_SUCCESS && ret_ptr)
        made(MEMCLASS_HOST, *ret_ptr, size);
    if (entered)
        life_leave();
    return result;
}

CUresult cuMemAllocHost(void **ret_ptr, unsigned int size)
{
    bool entered = life_enter(SLOT_cuMemAllocHost);
    CUresult result = REAL(cuMemAllocHost)(ret_ptr, size);

    if (entered && result == CUDA_SUCCESS && ret_ptr)
        made(MEMCLASS_HOST, *ret_ptr, size);
    if (entered)
        life_leave();
    return result;
}

CUresult cuMemFreeHost(void *ptr)
{
    bool entered = life_enter(SLOT_cuMemFreeHost);
    struct conduct_end end = {.key = 0};
    CUresult result;

    if (entered && ptr)
        end = conduct_end((uintptr_t)ptr);
    result = REAL(cuMemFreeHost)(ptr);
    if (entered) {
        conduct_ended(&end, (int)result);
        life_leave();
    }
    return result;
}

CUresult cuMemHostRegister_v2(void *ptr, size_t size, unsigned int flags)
{
    bool entered = life_enter(SLOT_cuMemHostRegister_v2);
    CUresult result = REAL(cuMemHostRegister_v2)(ptr, size, flags);

    if (entered && result == CUDA_SUCCESS)
        made(MEMCLASS_REGISTERED, ptr, size);
    if (entered)
        life_leave();
    return result;
}

CUresult cuMemHostRegister(void *ptr, size_t size, unsigned int flags)
{
    bool entered = life_enter(SLOT_cuMemHostRegister);
    CUresult result = REAL(cuMemHostRegister)(ptr, size, flags);

    if (entered && result == CUDA_SUCCESS)
        made(MEMCLASS_REGISTERED, ptr, size);
    if (entered)
        life_leave();
    return result;
}

/* Memory that stays registered because the driver refused stays on record: nobody else can have this address. */
CUresult cuMemHostUnregister(void *ptr)
{
    bool entered = life_enter(SLOT_cuMemHostUnregister);
    CUresult result = REAL(cuMemHostUnregister)(ptr);

    if (entered && result == CUDA_SUCCESS && ptr)
        conduct_gone((uintptr_t)ptr);
    if (entered)
        life_leave();
    return result;
}
