/* SPDX-License-Identifier: MIT */
#include "tests/sim/kernel/sim_launch.h"

#include "tests/sim/driver/sim_attributes.h"
#include "tests/sim/driver/sim_context.h"
#include "tests/sim/graph/sim_capture.h"
#include "tests/sim/graph/sim_edges.h"
#include "tests/sim/kernel/sim_kernels.h"
#include "tests/sim/kernel/sim_module.h"
#include "tests/sim/stream/sim_event.h"

#include <string.h>

struct launch {
    const struct sim_kernel *kernel;
    CUDA_KERNEL_NODE_PARAMS given; /* without the pointers to parameters */
    int device;
    uint64_t params[]; /* their bytes in the device's layout */
};

static struct sim_grid grid_of(const struct launch *launch)
{
    return (struct sim_grid){launch->given.gridDimX, launch->given.gridDimY};
}

static CUresult run_launch(struct sim_op *op)
{
    const struct launch *launch = (const struct launch *)op->payload;

    launch->kernel->body(launch->kernel, launch->device, grid_of(launch), launch->params);
    return CUDA_SUCCESS;
}

bool sim_launch_is(const struct sim_op *op)
{
    return op->run == run_launch;
}

void sim_launch_params(struct sim_op *op, CUDA_KERNEL_NODE_PARAMS *ret_params, void **ret_pointers)
{
    struct launch *launch = (struct launch *)op->payload;
    void **pointers = sim_new((launch->kernel->params_count + 1) * sizeof(void *));

    for (unsigned i = 0; i < launch->kernel->params_count; i++)
        pointers[i] = (char *)launch->params + launch->kernel->params[i].offset;
    *ret_params = launch->given;
    ret_params->kernelParams = pointers;
    *ret_pointers = pointers;
}

/* The buffer behind `extra`, or NULL if it is too short or not there. */
static const char *extra_buffer(void **extra, size_t wanted)
{
    const char *buffer = NULL;
    size_t size = 0;

    for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(const size_t *)extra[1];
    }
    return size >= wanted ? buffer : NULL;
}

static int read_params(struct launch *launch, void **params, void **extra)
{
    const struct sim_kernel *kernel = launch->kernel;
    const char *buffer = params ? NULL : extra_buffer(extra, kernel->params_size);

    if (kernel->params_count && !params && !buffer)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < kernel->params_count; i++) {
        const struct sim_param *param = &kernel->params[i];

        if (params && !params[i])
            return CUDA_ERROR_INVALID_VALUE;
        memcpy((char *)launch->params + param->offset, params ? params[i] : buffer + param->offset,
                param->size);
    }
    return 0;
}

static int check_shape(const CUDA_KERNEL_NODE_PARAMS *p, int device)
{
    int shared = sim_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device);
    uint64_t threads = (uint64_t)p->blockDimX * p->blockDimY * p->blockDimZ;

    if (!p->gridDimX || !p->gridDimY || !p->gridDimZ || threads == 0 || threads > 1024
            || p->blockDimZ > 64 || p->gridDimX > 2147483647U || p->gridDimY > 65535
            || p->gridDimZ > 65535)
        return CUDA_ERROR_INVALID_VALUE;
    return p->sharedMemBytes > (unsigned)shared ? CUDA_ERROR_INVALID_VALUE : 0;
}

int sim_launch_make(
        struct CUctx_st *ctx, const CUDA_KERNEL_NODE_PARAMS *params, struct sim_op **ret_op)
{
    const struct sim_kernel *kernel;
    struct launch *launch;
    struct sim_op *op;
    int r = params ? check_shape(params, ctx->device) : CUDA_ERROR_INVALID_VALUE;

    if (r)
        return r;
    kernel = sim_module_kernel(
            params->func ? (const void *)params->func : (const void *)params->kern);
    if (!kernel)
        return CUDA_ERROR_INVALID_HANDLE;
    op = sim_op_new(kernel->name, sizeof(*launch) + sim_round(kernel->params_size, 8));
    launch = (struct launch *)op->payload;
    launch->kernel = kernel;
    launch->device = ctx->device;
    launch->given = *params;
    launch->given.kernelParams = NULL;
    launch->given.extra = NULL;
    op->run = run_launch;
    op->note = kernel->note;
    op->engine = SIM_ENGINE_COMPUTE;
    r = read_params(launch, params->kernelParams, params->extra);
    if (r) {
        sim_op_free(op);
        return r;
    }
    kernel->declare(kernel, op, ctx->device, grid_of(launch), launch->params);
    *ret_op = op;
    return 0;
}

static int launch(struct CUstream_st *stream, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_op *op;
    int r = sim_launch_make(stream->ctx, params, &op);

    if (r)
        return r;
    sim_stats.launches++;
    return sim_stream_submit(stream, op);
}

#define LAUNCH(params_, extra_)               \
    launch(stream,                            \
            &(const CUDA_KERNEL_NODE_PARAMS){ \
                    f, gx, gy, gz, bx, by, bz, shared, params_, extra_, NULL, NULL})

SIM_STREAM_CALL(cuLaunchKernel, SIM_NEED_CONTEXT,
        (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                unsigned int by, unsigned int bz, unsigned int shared, CUstream handle,
                void **params, void **extra),
        LAUNCH(params, extra))
SIM_STREAM_CALL(cuLaunchCooperativeKernel, SIM_NEED_CONTEXT,
        (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
                unsigned int by, unsigned int bz, unsigned int shared, CUstream handle,
                void **params),
        LAUNCH(params, NULL))

/* The event that an attribute has a launch record, NULL: none, and the edge that stands for it in a graph. */
static CUevent event_of(const CUlaunchAttribute *attribute, CUgraphEdgeData *ret_edge)
{
    *ret_edge = (CUgraphEdgeData){.from_port = SIM_EDGE_PORT_LAUNCH_ORDER};
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
        return attribute->value.launchCompletionEvent.event;
    if (attribute->id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT)
        return NULL;
    ret_edge->type = SIM_EDGE_TYPE_PROGRAMMATIC;
    if (!attribute->value.programmaticEvent.triggerAtBlockStart)
        ret_edge->from_port = SIM_EDGE_PORT_PROGRAMMATIC;
    return attribute->value.programmaticEvent.event;
}

/* An event that a launch records stands for the moment when the kernel begins, or for any later one: here, for the earliest. */
static int record_events(struct CUstream_st *stream, const CUlaunchConfig *config)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && config->attrs && i < config->numAttrs; i++) {
        CUgraphEdgeData edge;
        CUevent event = event_of(&config->attrs[i], &edge);

        if (event)
            r = sim_event_record(stream, event, 0);
        if (event && r == 0)
            sim_capture_event_is_early(event, edge);
    }
    return r;
}

static bool begins_early(const CUlaunchConfig *config)
{
    for (unsigned i = 0; config->attrs && i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            return config->attrs[i].value.programmaticStreamSerializationAllowed != 0;
    return false;
}

/* In a capture an event that it records is an edge from the kernel, which must be there. */
static int launch_with_events(
        struct CUstream_st *stream, const CUlaunchConfig *c, const CUDA_KERNEL_NODE_PARAMS *params)
{
    bool is_captured = stream->capture != NULL;
    int r = is_captured ? 0 : record_events(stream, c);

    if (r == 0 && begins_early(c))
        sim_capture_begin_early(stream);
    if (r == 0)
        r = launch(stream, params);
    if (r == 0 && is_captured)
        r = record_events(stream, c);
    return r;
}

static CUresult launch_config(const char *name, bool per_thread, const CUlaunchConfig *c,
        CUfunction f, void **params, void **extra)
{
    struct sim_call call;
    struct CUstream_st *stream;
    int r = sim_stream_enter(
            &call, name, SIM_NEED_CONTEXT, c ? c->hStream : NULL, per_thread, &stream);

    if (r == 0 && !c)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0)
        r = launch_with_events(stream, c,
                &(const CUDA_KERNEL_NODE_PARAMS){f, c->gridDimX, c->gridDimY, c->gridDimZ,
                        c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes, params, extra,
                        NULL, NULL});
    return sim_leave(&call, r);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    return launch_config(__func__, false, config, f, params, extra);
}

CUresult cuLaunchKernelEx_ptsz(
        const CUlaunchConfig *config, CUfunction f, void **params, void **extra)
{
    return launch_config(__func__, true, config, f, params, extra);
}

CUresult cuLaunchCooperativeKernelMultiDevice(
        CUDA_LAUNCH_PARAMS *list, unsigned int count, unsigned int flags)
{
    struct sim_call call;
    int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT);

    if (r == 0 && (!list || count == 0 || flags > 3))
        r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; r == 0 && i < count; i++) {
        const CUDA_LAUNCH_PARAMS *p = &list[i];
        struct CUstream_st *stream;
        r = sim_handle_is(p->hStream, SIM_KIND_STREAM)
                ? sim_stream_get(call.ctx, p->hStream, false, &stream)
                : CUDA_ERROR_INVALID_HANDLE; /* the reference wants created streams */
        if (r == 0)
            r = launch(stream,
                    &(const CUDA_KERNEL_NODE_PARAMS){p->function, p->gridDimX, p->gridDimY,
                            p->gridDimZ, p->blockDimX, p->blockDimY, p->blockDimZ,
                            p->sharedMemBytes, p->kernelParams, NULL, NULL, NULL});
    }
    return sim_leave(&call, r);
}

/* ---- as in CUDA 3: what a launch is given, the function keeps ---- */

static int set_block(CUfunction f, int x, int y, int z)
{
    struct sim_module_launch *given = sim_module_launch(f);

    if (!given)
        return CUDA_ERROR_INVALID_HANDLE;
    if (x <= 0 || y <= 0 || z <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    given->block[0] = (unsigned)x;
    given->block[1] = (unsigned)y;
    given->block[2] = (unsigned)z;
    return 0;
}

static int set_shared(CUfunction f, unsigned bytes)
{
    struct sim_module_launch *given = sim_module_launch(f);

    if (given)
        given->shared = bytes;
    return given ? 0 : CUDA_ERROR_INVALID_HANDLE;
}

static int set_size(CUfunction f, unsigned size)
{
    struct sim_module_launch *given = sim_module_launch(f);

    if (!given)
        return CUDA_ERROR_INVALID_HANDLE;
    if (size > sizeof(given->params))
        return CUDA_ERROR_INVALID_VALUE;
    given->size = size;
    return 0;
}

static int set_param(CUfunction f, int offset, const void *bytes, unsigned size)
{
    struct sim_module_launch *given = sim_module_launch(f);

    if (!given)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!bytes || offset < 0 || (unsigned)offset > sizeof(given->params)
            || size > sizeof(given->params) - (unsigned)offset)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(given->params + offset, bytes, size);
    return 0;
}

#define GIVE(name, params, answer)                            \
    CUresult name params                                      \
    {                                                         \
        struct sim_call call;                                 \
        int r = sim_enter(&call, __func__, SIM_NEED_CONTEXT); \
        return sim_leave(&call, r ? r : (answer));            \
    }
GIVE(cuFuncSetBlockShape, (CUfunction f, int x, int y, int z), set_block(f, x, y, z))
GIVE(cuFuncSetSharedSize, (CUfunction f, unsigned int bytes), set_shared(f, bytes))
GIVE(cuParamSetSize, (CUfunction f, unsigned int size), set_size(f, size))
GIVE(cuParamSeti, (CUfunction f, int offset, unsigned int value), set_param(f, offset, &value, 4))
GIVE(cuParamSetf, (CUfunction f, int offset, float value), set_param(f, offset, &value, 4))
GIVE(cuParamSetv, (CUfunction f, int offset, void *bytes, unsigned int size),
        set_param(f, offset, bytes, size))

static CUresult launch_given(const char *name, CUfunction f, int width, int height, CUstream handle)
{
    struct sim_call call;
    struct CUstream_st *stream;
    int r = sim_stream_enter(&call, name, SIM_NEED_CONTEXT, handle, false, &stream);
    struct sim_module_launch *given = r ? NULL : sim_module_launch(f);

    if (r == 0 && !given)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (r == 0 && (width <= 0 || height <= 0))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == 0) {
        size_t size = given->size;
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, given->params, CU_LAUNCH_PARAM_BUFFER_SIZE,
                &size, CU_LAUNCH_PARAM_END};

        r = launch(stream,
                &(const CUDA_KERNEL_NODE_PARAMS){f, (unsigned)width, (unsigned)height, 1,
                        given->block[0], given->block[1], given->block[2], given->shared, NULL,
                        extra, NULL, NULL});
    }
    return sim_leave(&call, r);
}

CUresult cuLaunch(CUfunction f)
{
    return launch_given(__func__, f, 1, 1, NULL);
}

CUresult cuLaunchGrid(CUfunction f, int width, int height)
{
    return launch_given(__func__, f, width, height, NULL);
}

CUresult cuLaunchGridAsync(CUfunction f, int width, int height, CUstream handle)
{
    return launch_given(__func__, f, width, height, handle);
}
