/* SPDX-License-Identifier: MIT */
/* Streams, events, host functions. */
#include "tests/sim/runtime/runtime_core.h"

#include <stdlib.h>

/* ---- streams ---- */

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return RUNTIME_CALL(cuStreamCreate, (stream, cudaStreamDefault));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    return RUNTIME_CALL(cuStreamCreate, (stream, flags));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
    return RUNTIME_CALL(cuStreamCreateWithPriority, (stream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return RUNTIME_CALL(cuStreamDestroy_v2, (stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return runtime_enter() != cudaSuccess ? runtime_last()
                                          : runtime_asked(DRIVER(cuStreamQuery, (stream)));
}

cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream)
{
    return runtime_enter() != cudaSuccess ? runtime_last()
                                          : runtime_asked(DRIVER(cuStreamQuery_ptsz, (stream)));
}

RUNTIME_PTSZ(cudaStreamSynchronize, (cudaStream_t stream), cuStreamSynchronize, (stream))

RUNTIME_PTSZ(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
        cuStreamWaitEvent, (stream, event, flags))

RUNTIME_PTSZ(cudaStreamGetFlags, (cudaStream_t stream, unsigned int *flags), cuStreamGetFlags,
        (stream, flags))

RUNTIME_PTSZ(cudaStreamGetPriority, (cudaStream_t stream, int *priority), cuStreamGetPriority,
        (stream, priority))

RUNTIME_PTSZ(
        cudaStreamGetId, (cudaStream_t stream, unsigned long long *id), cuStreamGetId, (stream, id))

RUNTIME_PTSZ(cudaStreamGetDevice, (cudaStream_t stream, int *device), cuStreamGetDevice,
        (stream, device))

/* ---- host functions ---- */

RUNTIME_PTSZ(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *data),
        cuLaunchHostFunc, (stream, function, data))

/* The two callback types differ in the type of the error, so the program's goes through one of ours. */
struct callback {
    cudaStreamCallback_t function;
    void *data;
};

static void call_back(CUstream stream, CUresult status, void *data)
{
    struct callback c = *(struct callback *)data;

    free(data);
    c.function(stream, (cudaError_t)status, c.data);
}

typedef CUresult add_callback_fn(CUstream, CUstreamCallback, void *, unsigned int);

static cudaError_t add_callback(add_callback_fn *const *entry, cudaStream_t stream,
        cudaStreamCallback_t function, void *data, unsigned int flags)
{
    struct callback *c;
    cudaError_t error;

    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    if (!function)
        return runtime_fail(cudaErrorInvalidValue);
    if (!*entry)
        return runtime_fail(cudaErrorCallRequiresNewerDriver);
    c = malloc(sizeof(*c));
    if (!c)
        return runtime_fail(cudaErrorOperatingSystem);
    *c = (struct callback){function, data};
    error = runtime_done((*entry)(stream, call_back, c, flags));
    if (error != cudaSuccess)
        free(c);
    return error;
}

cudaError_t cudaStreamAddCallback(
        cudaStream_t stream, cudaStreamCallback_t function, void *data, unsigned int flags)
{
    return add_callback(&runtime_driver.cuStreamAddCallback, stream, function, data, flags);
}

cudaError_t cudaStreamAddCallback_ptsz(
        cudaStream_t stream, cudaStreamCallback_t function, void *data, unsigned int flags)
{
    return add_callback(&runtime_driver.cuStreamAddCallback_ptsz, stream, function, data, flags);
}

/* ---- events ---- */

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return RUNTIME_CALL(cuEventCreate, (event, cudaEventDefault));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    return RUNTIME_CALL(cuEventCreate, (event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return RUNTIME_CALL(cuEventDestroy_v2, (event));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return runtime_enter() != cudaSuccess ? runtime_last()
                                          : runtime_asked(DRIVER(cuEventQuery, (event)));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return RUNTIME_CALL(cuEventSynchronize, (event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    if (runtime_enter() != cudaSuccess)
        return runtime_last();
    return runtime_done(runtime_driver.cuEventElapsedTime_v2
                    ? runtime_driver.cuEventElapsedTime_v2(ms, start, end)
                    : DRIVER(cuEventElapsedTime, (ms, start, end)));
}

/* A program's timer tells the simulated device that a step has ended. */
static cudaError_t recorded(cudaError_t error)
{
    if (error == cudaSuccess && runtime_driver.witness_step)
        runtime_driver.witness_step();
    return error;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return recorded(RUNTIME_CALL(cuEventRecord, (event, stream)));
}

cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream)
{
    return recorded(RUNTIME_CALL(cuEventRecord_ptsz, (event, stream)));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    return recorded(RUNTIME_CALL(cuEventRecordWithFlags, (event, stream, flags)));
}

cudaError_t cudaEventRecordWithFlags_ptsz(
        cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    return recorded(RUNTIME_CALL(cuEventRecordWithFlags_ptsz, (event, stream, flags)));
}
