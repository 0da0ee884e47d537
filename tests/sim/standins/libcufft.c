/* SPDX-License-Identifier: MIT */
/*
 * libcufft: transforms by their extents.
 *
 * The work area follows NVIDIA's documentation of cuFFT ("Fourier Transform Setup"): as little as
 * batch * n[0] * .. * n[rank-1] complex elements, at most eight times as many; "large prime
 * numbers use different algorithms and may need up to eight times" ("Estimating the Size of Temporary
 * Work Areas"), and those are sizes with a prime factor above 127 ("Accuracy and Performance").
 */
#include "common.h"

#include <pthread.h>
#include <stdlib.h>

REFUSED_IS(16) /* CUFFT_NOT_SUPPORTED */

enum {
    SUCCESS = 0,
    INVALID_PLAN = 1,
    ALLOC_FAILED = 2,
    INVALID_SIZE = 8,
    EXEC_FAILED = 6
};
enum {
    PLANS = 8192,
    DIMENSIONS = 3,
    LARGEST_FACTOR = 127,
    MOST_AREAS = 8
};

/* One side of a transform. */
struct side {
    bool real;
    uint64_t element;
    int64_t stride, distance;
    int64_t used[DIMENSIONS], storage[DIMENSIONS];
};

struct plan {
    void *stream, *own, *area;
    bool keeps_none; /* the program brings the work area */
    int rank;
    int64_t batch;
    size_t area_bytes;
    struct side in, out;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct plan *plans[PLANS]; /* by handle; 0 is none */

static struct plan *plan_of(int handle)
{
    return handle > 0 && handle < PLANS ? plans[handle] : NULL;
}

/* STANDIN_MAJOR 11 is that of CUDA 12: JAX asks for no older one than it was built with. */
BODY(cufftGetVersion, int *ret_version)
{
    *ret_version = STANDIN_MAJOR * 1000 + 999;
    return SUCCESS;
}

BODY(cufftCreate, int *ret_handle)
{
    struct plan *plan = standin_new(sizeof(*plan));
    int handle = 1;

    if (!plan)
        return ALLOC_FAILED;
    standin_begin();
    (void)pthread_mutex_lock(&lock);
    while (handle < PLANS && plans[handle])
        handle++;
    if (handle < PLANS)
        plans[handle] = plan;
    (void)pthread_mutex_unlock(&lock);
    if (handle == PLANS) {
        free(plan);
        return ALLOC_FAILED;
    }
    *ret_handle = handle;
    return SUCCESS;
}

BODY(cufftDestroy, int handle)
{
    struct plan *plan = plan_of(handle);

    if (!plan)
        return INVALID_PLAN;
    (void)pthread_mutex_lock(&lock);
    plans[handle] = NULL;
    (void)pthread_mutex_unlock(&lock);
    standin_device_delete(plan->own);
    free(plan);
    return SUCCESS;
}

#define SETS(name, type, what)               \
    BODY(name, int handle, type value)       \
    {                                        \
        struct plan *plan = plan_of(handle); \
                                             \
        if (!plan)                           \
            return INVALID_PLAN;             \
        plan->what;                          \
        return SUCCESS;                      \
    }

SETS(cufftSetStream, void *, stream = value)
SETS(cufftSetWorkArea, void *, area = value)
SETS(cufftSetAutoAllocation, int, keeps_none = value == 0)

BODY(cufftGetSize, int handle, size_t *ret_bytes)
{
    struct plan *plan = plan_of(handle);

    if (!plan)
        return INVALID_PLAN;
    *ret_bytes = plan->area_bytes;
    return SUCCESS;
}

/* ---- plans ---- */

static bool has_large_factor(int64_t n)
{
    for (int64_t factor = 2; factor <= LARGEST_FACTOR; factor++)
        while (n % factor == 0)
            n /= factor;
    return n > 1;
}

/* cudaDataType of a side: real or complex, and the bytes of an element. */
static struct side side_of_type(int type)
{
    static const uint64_t bytes[] = {4, 8, 2};
    bool complex = type >= 4 && type <= 6;
    int index = complex ? type - 4 : type;
    uint64_t one = index >= 0 && index < 3 ? bytes[index] : 2; /* bfloat16: 14, 15 */

    if (type == 15)
        complex = true;
    return (struct side){.real = !complex, .element = complex ? 2 * one : one};
}

/*
 * Without a storage of its own (`embed`) a side is packed. Of the last dimension half is kept where
 * the other side is real.
 */
static void lay_out(struct plan *plan, struct side *side, const int64_t *n, const int64_t *embed,
        int64_t stride, int64_t distance, bool half)
{
    int64_t all = 1;

    for (int i = 0; i < plan->rank; i++) {
        side->used[i] = half && i == plan->rank - 1 ? n[i] / 2 + 1 : n[i];
        side->storage[i] = embed ? embed[i] : side->used[i];
        all *= side->storage[i];
    }
    side->stride = embed ? stride : 1;
    side->distance = embed ? distance : all;
}

static int make(int handle, int rank, const int64_t *n, const int64_t *inembed, int64_t istride,
        int64_t idist, int in_type, const int64_t *onembed, int64_t ostride, int64_t odist,
        int out_type, int64_t batch, size_t *ret_bytes)
{
    struct plan *plan = plan_of(handle);
    uint64_t elements = batch > 0 ? (uint64_t)batch : 0, areas = 1;

    if (!plan)
        return INVALID_PLAN;
    if (rank < 1 || rank > DIMENSIONS)
        return INVALID_SIZE;
    plan->rank = rank;
    plan->batch = batch;
    plan->in = side_of_type(in_type);
    plan->out = side_of_type(out_type);
    for (int i = 0; i < rank; i++) {
        if (n[i] < 1)
            return INVALID_SIZE;
        elements *= (uint64_t)n[i];
        if (has_large_factor(n[i]))
            areas = MOST_AREAS;
    }
    lay_out(plan, &plan->in, n, inembed, istride, idist, !plan->in.real && plan->out.real);
    lay_out(plan, &plan->out, n, onembed, ostride, odist, plan->in.real && !plan->out.real);
    plan->area_bytes = elements * areas * (plan->in.real ? 2 * plan->in.element : plan->in.element);
    if (ret_bytes)
        *ret_bytes = plan->area_bytes;
    if (!plan->keeps_none)
        plan->area = plan->own = standin_device_new(plan->area_bytes);
    return plan->keeps_none || plan->own ? SUCCESS : ALLOC_FAILED;
}

BODY(cufftXtMakePlanMany, int handle, int rank, long long *n, long long *inembed, long long istride,
        long long idist, int in_type, long long *onembed, long long ostride, long long odist,
        int out_type, long long batch, size_t *ret_bytes, int execution_type)
{
    return make(handle, rank, (const int64_t *)n, (const int64_t *)inembed, istride, idist, in_type,
            (const int64_t *)onembed, ostride, odist, out_type, batch, ret_bytes);
}

/* cufftType as two of cudaDataType */
static int in_of(int type)
{
    return type == 0x2a ? 0 : type == 0x6a ? 1 : type & 0x40 ? 5 : 4; /* R2C, D2Z */
}

static int out_of(int type)
{
    return type == 0x2c ? 0 : type == 0x6c ? 1 : type & 0x40 ? 5 : 4; /* C2R, Z2D */
}

BODY(cufftMakePlanMany64, int handle, int rank, long long *n, long long *inembed, long long istride,
        long long idist, long long *onembed, long long ostride, long long odist, int type,
        long long batch, size_t *ret_bytes)
{
    return make(handle, rank, (const int64_t *)n, (const int64_t *)inembed, istride, idist,
            in_of(type), (const int64_t *)onembed, ostride, odist, out_of(type), batch, ret_bytes);
}

BODY(cufftMakePlanMany, int handle, int rank, int *n, int *inembed, int istride, int idist,
        int *onembed, int ostride, int odist, int type, int batch, size_t *ret_bytes)
{
    int64_t wide[3][DIMENSIONS];

    if (rank < 1 || rank > DIMENSIONS)
        return INVALID_SIZE;
    for (int i = 0; i < rank; i++) {
        wide[0][i] = n[i];
        wide[1][i] = inembed ? inembed[i] : 0;
        wide[2][i] = onembed ? onembed[i] : 0;
    }
    return make(handle, rank, wide[0], inembed ? wide[1] : NULL, istride, idist, in_of(type),
            onembed ? wide[2] : NULL, ostride, odist, out_of(type), batch, ret_bytes);
}

BODY(cufftMakePlan1d, int handle, int n, int type, int batch, size_t *ret_bytes)
{
    return cufftMakePlanMany(handle, 1, &n, NULL, 1, 0, NULL, 1, 0, type, batch, ret_bytes);
}

BODY(cufftMakePlan2d, int handle, int n, int m, int type, size_t *ret_bytes)
{
    return cufftMakePlanMany(handle, 2, (int[]){n, m}, NULL, 1, 0, NULL, 1, 0, type, 1, ret_bytes);
}

BODY(cufftMakePlan3d, int handle, int n, int m, int k, int type, size_t *ret_bytes)
{
    return cufftMakePlanMany(
            handle, 3, (int[]){n, m, k}, NULL, 1, 0, NULL, 1, 0, type, 1, ret_bytes);
}

BODY(cufftPlanMany, int *ret_handle, int rank, int *n, int *inembed, int istride, int idist,
        int *onembed, int ostride, int odist, int type, int batch)
{
    int status = cufftCreate(ret_handle);

    return status ? status
                  : cufftMakePlanMany(*ret_handle, rank, n, inembed, istride, idist, onembed,
                          ostride, odist, type, batch, NULL);
}

BODY(cufftPlan1d, int *ret_handle, int n, int type, int batch)
{
    return cufftPlanMany(ret_handle, 1, &n, NULL, 1, 0, NULL, 1, 0, type, batch);
}

BODY(cufftPlan2d, int *ret_handle, int n, int m, int type)
{
    return cufftPlanMany(ret_handle, 2, (int[]){n, m}, NULL, 1, 0, NULL, 1, 0, type, 1);
}

BODY(cufftPlan3d, int *ret_handle, int n, int m, int k, int type)
{
    return cufftPlanMany(ret_handle, 3, (int[]){n, m, k}, NULL, 1, 0, NULL, 1, 0, type, 1);
}

/* ---- transforms ---- */

static uint64_t extent(const struct plan *plan, const struct side *side)
{
    int64_t last = 0, step = side->stride;

    for (int i = plan->rank - 1; i >= 0; step *= side->storage[i--])
        last += (side->used[i] - 1) * step;
    return (uint64_t)(last + 1 + (plan->batch - 1) * side->distance) * side->element;
}

BODY(cufftXtExec, int handle, void *in, void *out, int direction)
{
    struct plan *plan = plan_of(handle);

    if (!plan)
        return INVALID_PLAN;

    struct operand read = {in, extent(plan, &plan->in)};
    struct operand outs[] = {
            {plan->area, plan->area ? plan->area_bytes : 0}, {out, extent(plan, &plan->out)}};

    return standin_write(plan->stream, direction < 0 ? "forward" : "inverse", outs, 2, &read, 1)
            ? EXEC_FAILED
            : SUCCESS;
}

#define WITH_DIRECTION(name)                                   \
    BODY(name, int handle, void *in, void *out, int direction) \
    {                                                          \
        return cufftXtExec(handle, in, out, direction);        \
    }
#define ONE_WAY(name, direction)                        \
    BODY(name, int handle, void *in, void *out)         \
    {                                                   \
        return cufftXtExec(handle, in, out, direction); \
    }

WITH_DIRECTION(cufftExecC2C)
WITH_DIRECTION(cufftExecZ2Z)
ONE_WAY(cufftExecR2C, -1)
ONE_WAY(cufftExecD2Z, -1)
ONE_WAY(cufftExecC2R, 1)
ONE_WAY(cufftExecZ2D, 1)
