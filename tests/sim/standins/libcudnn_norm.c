/* SPDX-License-Identifier: MIT */
/*
 * libcudnn: batch norm.
 *
 * NVIDIA's reference of cudnnBatchNormalizationForwardTrainingEx says that without a workspace it is
 * the function that is not extended, which takes neither workspace nor reserve; the fast path is for
 * NHWC and the persistent mode. There the workspace holds two sums a channel in float. The reserve
 * carries what an activation that is fused needs backwards, a bit for each element (the ReLU bitmask of
 * NVIDIA's cudnn-frontend); batch norm alone has its mean and deviation in tensors of the program.
 * PyTorch's decomposition of cudnn_batch_norm has a reserve of no bytes, too.
 */
#include "libcudnn.h"

enum { /* cudnnBatchNormMode_t */
    PER_ACTIVATION = 0,
    PERSISTENT = 2
};
enum {
    FLOAT = 0, /* cudnnDataType_t */
    DOUBLE = 1
};
enum {
    ALONE = 0 /* cudnnBatchNormOps_t */
};

/* Scale, bias and statistics: of each channel, or of each element of a sample; of half precision in float. */
BODY(cudnnDeriveBNTensorDescriptor, struct descriptor *channels, const struct descriptor *x,
        int mode)
{
    int sizes[DIMENSIONS] = {0};

    for (int i = 0; i < x->count; i++)
        sizes[i] = i == 1 || (i > 1 && mode == PER_ACTIVATION) ? x->sizes[i] : 1;
    return dnn_set_packed(channels, x->type == DOUBLE ? DOUBLE : FLOAT, x->count, sizes);
}

static size_t workspace(int mode, const struct descriptor *channels)
{
    return mode == PERSISTENT ? (size_t)dnn_extent(channels) * 2 : 0;
}

BODY(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize, struct handle *h, int mode, int what,
        struct descriptor *x, struct descriptor *z, struct descriptor *y,
        struct descriptor *channels, void *activation, size_t *ret_bytes)
{
    *ret_bytes = workspace(mode, channels);
    return SUCCESS;
}

BODY(cudnnGetBatchNormalizationBackwardExWorkspaceSize, struct handle *h, int mode, int what,
        struct descriptor *x, struct descriptor *y, struct descriptor *dy, struct descriptor *dz,
        struct descriptor *dx, struct descriptor *channels, void *activation, size_t *ret_bytes)
{
    *ret_bytes = workspace(mode, channels);
    return SUCCESS;
}

BODY(cudnnGetBatchNormalizationTrainingExReserveSpaceSize, struct handle *h, int mode, int what,
        void *activation, struct descriptor *x, size_t *ret_bytes)
{
    *ret_bytes = what == ALONE ? 0 : (size_t)(dnn_extent(x) / dnn_bytes_of_type(x->type) + 7) / 8;
    return SUCCESS;
}

BODY(cudnnBatchNormalizationForwardTrainingEx, struct handle *h, int mode, int what,
        const void *alpha, const void *beta, struct descriptor *x, const void *px,
        struct descriptor *z, const void *pz, struct descriptor *y, void *py,
        struct descriptor *channels, const void *scale, const void *bias, double factor,
        void *running_mean, void *running_variance, double epsilon, void *mean, void *deviation,
        void *activation, void *work, size_t bytes, void *reserve, size_t reserve_bytes)
{
    uint64_t each = dnn_extent(channels);
    struct operand read[] = {{px, dnn_extent(x)}, {scale, each}, {bias, each}};
    uint64_t seed = standin_seed("cudnnBatchNormalizationForwardTrainingEx", NULL, 0);
    int error = standin_compute(h->stream, seed, work, bytes, false, read, 1);

    error |= standin_compute(h->stream, seed + 1, mean, each, false, read, 1);
    error |= standin_compute(h->stream, seed + 2, deviation, each, false, read, 1);
    error |= standin_compute(h->stream, seed + 3, running_mean, each, true, read, 1);
    error |= standin_compute(h->stream, seed + 4, running_variance, each, true, read, 1);
    error |= standin_compute(h->stream, seed + 5, reserve, reserve_bytes, false, read, 1);
    error |= standin_compute(h->stream, seed + 6, py, dnn_extent(y), false, read, 3);
    return error ? EXECUTION_FAILED : SUCCESS;
}

BODY(cudnnBatchNormalizationBackwardEx, struct handle *h, int mode, int what,
        const void *alpha_data, const void *beta_data, const void *alpha_param,
        const void *beta_param, struct descriptor *x, const void *px, struct descriptor *y,
        const void *py, struct descriptor *dy, const void *pdy, struct descriptor *dz, void *pdz,
        struct descriptor *dx, void *pdx, struct descriptor *channels, const void *scale,
        const void *bias, void *dscale, void *dbias, double epsilon, const void *mean,
        const void *deviation, void *activation, void *work, size_t bytes, void *reserve,
        size_t reserve_bytes)
{
    uint64_t each = dnn_extent(channels);
    struct operand read[] = {{px, dnn_extent(x)}, {pdy, dnn_extent(dy)}, {scale, each},
            {mean, each}, {deviation, each}, {reserve, reserve_bytes}};
    uint64_t seed = standin_seed("cudnnBatchNormalizationBackwardEx", NULL, 0);
    int error = standin_compute(h->stream, seed, work, bytes, false, read, 2);

    error |= standin_compute(h->stream, seed + 1, dscale, each, false, read, 2);
    error |= standin_compute(h->stream, seed + 2, dbias, each, false, read, 2);
    error |= standin_compute(h->stream, seed + 3, pdx, dnn_extent(dx), false, read, 6);
    return error ? EXECUTION_FAILED : SUCCESS;
}

/* ---- the functions that are not extended ---- */

BODY(cudnnBatchNormalizationForwardTraining, struct handle *h, int mode, const void *alpha,
        const void *beta, struct descriptor *x, const void *px, struct descriptor *y, void *py,
        struct descriptor *channels, const void *scale, const void *bias, double factor,
        void *running_mean, void *running_variance, double epsilon, void *mean, void *deviation)
{
    return cudnnBatchNormalizationForwardTrainingEx(h, mode, ALONE, alpha, beta, x, px, NULL, NULL,
            y, py, channels, scale, bias, factor, running_mean, running_variance, epsilon, mean,
            deviation, NULL, NULL, 0, NULL, 0);
}

BODY(cudnnBatchNormalizationForwardInference, struct handle *h, int mode, const void *alpha,
        const void *beta, struct descriptor *x, const void *px, struct descriptor *y, void *py,
        struct descriptor *channels, const void *scale, const void *bias, const void *mean,
        const void *variance, double epsilon)
{
    uint64_t each = dnn_extent(channels);
    struct operand out = {py, dnn_extent(y)};
    struct operand reads[] = {
            {px, dnn_extent(x)}, {scale, each}, {bias, each}, {mean, each}, {variance, each}};

    return standin_write(h->stream, "cudnnBatchNormalizationForwardInference", &out, 1, reads, 5)
            ? EXECUTION_FAILED
            : SUCCESS;
}

BODY(cudnnBatchNormalizationBackward, struct handle *h, int mode, const void *alpha_data,
        const void *beta_data, const void *alpha_param, const void *beta_param,
        struct descriptor *x, const void *px, struct descriptor *dy, const void *pdy,
        struct descriptor *dx, void *pdx, struct descriptor *channels, const void *scale,
        void *dscale, void *dbias, double epsilon, const void *mean, const void *deviation)
{
    return cudnnBatchNormalizationBackwardEx(h, mode, ALONE, alpha_data, beta_data, alpha_param,
            beta_param, x, px, NULL, NULL, dy, pdy, NULL, NULL, dx, pdx, channels, scale, NULL,
            dscale, dbias, epsilon, mean, deviation, NULL, NULL, 0, NULL, 0);
}
