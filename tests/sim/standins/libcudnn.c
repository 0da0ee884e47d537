/* SPDX-License-Identifier: MIT */
/*
 * libcudnn: convolutions by their extents, through the functions that take descriptors one by one.
 * The newer interface of graphs is refused: frameworks fall back, or are told to.
 */
#include "common.h"

#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

REFUSED_IS(3000) /* CUDNN_STATUS_NOT_SUPPORTED */

enum {
    SUCCESS = 0,
    BAD_PARAM = 2000,
    NO_MEMORY = 4002,
    EXECUTION_FAILED = 5000
};
enum {
    DIMENSIONS = 8,
    VERSION = STANDIN_MAJOR >= 9 ? 91300 : 8900, /* XLA wants 9.8 or later */
    MAJOR_UNIT = STANDIN_MAJOR >= 9 ? 10000 : 1000
};

struct handle {
    void *stream;
};

/* One kind of memory block serves every descriptor; each uses what it needs. */
struct descriptor {
    int type, format, count;
    int sizes[DIMENSIONS], strides[DIMENSIONS];
};

/* ---- the version ---- */

/*
 * The version of the wheel nvidia-cudnn-cuN in the folder of packages that `library` is in; 0: there
 * is none.
 */
static unsigned version_beside(const char *library)
{
    static const char packages[] = "/site-packages/", wheel[] = "nvidia_cudnn_cu";
    const char *end = strstr(library, packages);
    unsigned major, minor, patch, version = 0;
    char *pattern;
    glob_t found;

    if (!end
            || asprintf(&pattern, "%.*s%s*-%d.*.dist-info",
                       (int)(end + sizeof packages - 1 - library), library, wheel, STANDIN_MAJOR)
                    < 0)
        return 0;
    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
        const char *number = strchr(strstr(found.gl_pathv[0], wheel), '-');

        if (sscanf(number, "-%u.%u.%u", &major, &minor, &patch) == 3)
            version = major * MAJOR_UNIT + minor * 100 + patch;
        globfree(&found);
    }
    free(pattern);
    return version;
}

static int look_beside(struct dl_phdr_info *object, size_t size, void *ret_version)
{
    (void)size;
    *(unsigned *)ret_version = version_beside(object->dlpi_name);
    return *(unsigned *)ret_version != 0;
}

/* PyTorch refuses a cuDNN that is older than the one it was built with, which its wheel requires. */
EXPORT size_t cudnnGetVersion(void);
EXPORT size_t cudnnGetVersion(void)
{
    static unsigned version;

    if (version == 0 && dl_iterate_phdr(look_beside, &version) == 0)
        version = VERSION;
    return version;
}

EXPORT size_t cudnnGetCudartVersion(void);
EXPORT size_t cudnnGetCudartVersion(void)
{
    return 12040;
}

EXPORT int cudnnGetProperty(int which, int *ret_value);
EXPORT int cudnnGetProperty(int which, int *ret_value)
{
    int version = (int)cudnnGetVersion();

    *ret_value = which == 0 ? version / MAJOR_UNIT
            : which == 1    ? version % MAJOR_UNIT / 100
                            : version % 100;
    return SUCCESS;
}

EXPORT const char *cudnnGetErrorString(int status);
EXPORT const char *cudnnGetErrorString(int status)
{
    return status ? "an error of a stand-in" : "success";
}

EXPORT void cudnnGetLastErrorString(char *message, size_t bytes);
EXPORT void cudnnGetLastErrorString(char *message, size_t bytes)
{
    if (bytes)
        *message = 0;
}

EXPORT int cudnnCreate(struct handle **ret_handle);
EXPORT int cudnnCreate(struct handle **ret_handle)
{
    *ret_handle = standin_new(sizeof(**ret_handle));
    standin_begin();
    return *ret_handle ? SUCCESS : NO_MEMORY;
}

EXPORT int cudnnSetStream(struct handle *h, void *stream);
EXPORT int cudnnSetStream(struct handle *h, void *stream)
{
    h->stream = stream;
    return SUCCESS;
}

EXPORT int cudnnGetStream(struct handle *h, void **ret_stream);
EXPORT int cudnnGetStream(struct handle *h, void **ret_stream)
{
    *ret_stream = h->stream;
    return SUCCESS;
}

/* ---- descriptors ---- */

#define CREATE(name)                                             \
    EXPORT int name(struct descriptor **ret_descriptor);         \
    EXPORT int name(struct descriptor **ret_descriptor)          \
    {                                                            \
        *ret_descriptor = standin_new(sizeof(**ret_descriptor)); \
        return *ret_descriptor ? SUCCESS : NO_MEMORY;            \
    }

#define DESTROY(name)              \
    EXPORT int name(void *object); \
    EXPORT int name(void *object)  \
    {                              \
        free(object);              \
        return SUCCESS;            \
    }

DESTROY(cudnnDestroy)
CREATE(cudnnCreateTensorDescriptor)
DESTROY(cudnnDestroyTensorDescriptor)
CREATE(cudnnCreateFilterDescriptor)
DESTROY(cudnnDestroyFilterDescriptor)
CREATE(cudnnCreateConvolutionDescriptor)
DESTROY(cudnnDestroyConvolutionDescriptor)
CREATE(cudnnCreateActivationDescriptor)
DESTROY(cudnnDestroyActivationDescriptor)
CREATE(cudnnCreatePoolingDescriptor)
DESTROY(cudnnDestroyPoolingDescriptor)
CREATE(cudnnCreateDropoutDescriptor)
DESTROY(cudnnDestroyDropoutDescriptor)
NOTHING(cudnnSetConvolutionGroupCount)
NOTHING(cudnnSetConvolutionMathType)
NOTHING(cudnnSetActivationDescriptor)

EXPORT int cudnnSetTensorNdDescriptor(
        struct descriptor *d, int type, int count, const int *sizes, const int *strides);
EXPORT int cudnnSetTensorNdDescriptor(
        struct descriptor *d, int type, int count, const int *sizes, const int *strides)
{
    if (count < 0 || count > DIMENSIONS)
        return BAD_PARAM;
    d->type = type;
    d->count = count;
    memcpy(d->sizes, sizes, (size_t)count * sizeof(int));
    memcpy(d->strides, strides, (size_t)count * sizeof(int));
    return SUCCESS;
}

/* Packed: the last dimension's elements lie side by side. */
static int set_packed(struct descriptor *d, int type, int count, const int *sizes)
{
    if (count < 0 || count > DIMENSIONS)
        return BAD_PARAM;
    d->type = type;
    d->count = count;
    memcpy(d->sizes, sizes, (size_t)count * sizeof(int));
    for (int i = count - 1, step = 1; i >= 0; step *= sizes[i--])
        d->strides[i] = step;
    return SUCCESS;
}

EXPORT int cudnnSetFilterNdDescriptor(
        struct descriptor *d, int type, int format, int count, const int *sizes);
EXPORT int cudnnSetFilterNdDescriptor(
        struct descriptor *d, int type, int format, int count, const int *sizes)
{
    d->format = format;
    return set_packed(d, type, count, sizes);
}

EXPORT int cudnnSetTensor4dDescriptor(
        struct descriptor *d, int format, int type, int n, int c, int h, int w);
EXPORT int cudnnSetTensor4dDescriptor(
        struct descriptor *d, int format, int type, int n, int c, int h, int w)
{
    d->format = format;
    return set_packed(d, type, 4, (int[]){n, c, h, w});
}

EXPORT int cudnnSetFilter4dDescriptor(
        struct descriptor *d, int type, int format, int k, int c, int h, int w);
EXPORT int cudnnSetFilter4dDescriptor(
        struct descriptor *d, int type, int format, int k, int c, int h, int w)
{
    d->format = format;
    return set_packed(d, type, 4, (int[]){k, c, h, w});
}

EXPORT int cudnnSetConvolutionNdDescriptor(struct descriptor *d, int count, const int *pads,
        const int *strides, const int *dilations, int mode, int type);
EXPORT int cudnnSetConvolutionNdDescriptor(struct descriptor *d, int count, const int *pads,
        const int *strides, const int *dilations, int mode, int type)
{
    if (count < 0 || count > DIMENSIONS)
        return BAD_PARAM;
    d->type = type;
    d->count = count;
    memcpy(d->strides, strides, (size_t)count * sizeof(int));
    return SUCCESS;
}

/* cudnnDataType_t */
EXPORT int cudnnSetTensorNdDescriptorEx(
        struct descriptor *d, int format, int type, int count, const int *sizes);
EXPORT int cudnnSetTensorNdDescriptorEx(
        struct descriptor *d, int format, int type, int count, const int *sizes)
{
    d->format = format;
    return set_packed(d, type, count, sizes);
}

NOTHING(cudnnSetPoolingNdDescriptor)

static uint64_t bytes_of_type(int type)
{
    switch (type) {
    case 1: /* double */
        return 8;
    case 2: /* half */
    case 9: /* bfloat16 */
        return 2;
    case 3: /* int8 */
        return 1;
    default:
        return 4;
    }
}

static uint64_t extent(const struct descriptor *d)
{
    uint64_t last = 0;

    for (int i = 0; i < d->count; i++) {
        if (d->sizes[i] <= 0)
            return 0;
        last += (uint64_t)(d->sizes[i] - 1) * (uint64_t)d->strides[i];
    }
    return d->count ? (last + 1) * bytes_of_type(d->type) : 0;
}

/* ---- convolutions ---- */

struct performance {
    int algorithm, status;
    float time;
    size_t workspace;
    int determinism, math_type, reserved[3];
};

/* What an algorithm with precomputed indices might need: an eighth of both tensors. */
static size_t workspace_for(const struct descriptor *a, const struct descriptor *b)
{
    return (size_t)((extent(a) + extent(b)) / 8 + 511) & ~(size_t)511;
}

static int one_algorithm(size_t workspace, int asked, int *ret_count, struct performance *results)
{
    if (asked <= 0)
        return BAD_PARAM;
    *results = (struct performance){.algorithm = 1, .workspace = workspace, .determinism = 1};
    *ret_count = 1;
    return SUCCESS;
}

#define ALGORITHM(name, first, second, from)                                                       \
    EXPORT int cudnnGetConvolution##name##Algorithm_v7(struct handle *h, struct descriptor *a,     \
            struct descriptor *b, struct descriptor *convolution, struct descriptor *c, int asked, \
            int *ret_count, struct performance *results);                                          \
    EXPORT int cudnnGetConvolution##name##Algorithm_v7(struct handle *h, struct descriptor *a,     \
            struct descriptor *b, struct descriptor *convolution, struct descriptor *c, int asked, \
            int *ret_count, struct performance *results)                                           \
    {                                                                                              \
        return one_algorithm(workspace_for(from, c), asked, ret_count, results);                   \
    }                                                                                              \
    EXPORT int cudnnGetConvolution##name##WorkspaceSize(struct handle *h, struct descriptor *a,    \
            struct descriptor *b, struct descriptor *convolution, struct descriptor *c,            \
            int algorithm, size_t *ret_bytes);                                                     \
    EXPORT int cudnnGetConvolution##name##WorkspaceSize(struct handle *h, struct descriptor *a,    \
            struct descriptor *b, struct descriptor *convolution, struct descriptor *c,            \
            int algorithm, size_t *ret_bytes)                                                      \
    {                                                                                              \
        *ret_bytes = workspace_for(from, c);                                                       \
        return SUCCESS;                                                                            \
    }                                                                                              \
    EXPORT int cudnnFindConvolution##name##AlgorithmEx(struct handle *h, struct descriptor *a,     \
            const void *first, struct descriptor *b, const void *second,                           \
            struct descriptor *convolution, struct descriptor *c, void *out, int asked,            \
            int *ret_count, struct performance *results, void *workspace, size_t bytes);           \
    EXPORT int cudnnFindConvolution##name##AlgorithmEx(struct handle *h, struct descriptor *a,     \
            const void *first, struct descriptor *b, const void *second,                           \
            struct descriptor *convolution, struct descriptor *c, void *out, int asked,            \
            int *ret_count, struct performance *results, void *workspace, size_t bytes)            \
    {                                                                                              \
        return one_algorithm(workspace_for(from, c), asked, ret_count, results);                   \
    }

ALGORITHM(Forward, x, w, a)
ALGORITHM(BackwardData, w, dy, b)
ALGORITHM(BackwardFilter, x, dy, a)

static int convolve(struct handle *h, const char *name, const struct descriptor *a, const void *pa,
        const struct descriptor *b, const void *pb, const struct descriptor *c, void *pc,
        void *workspace, size_t bytes)
{
    struct operand read[] = {{pa, extent(a)}, {pb, extent(b)}, {workspace, workspace ? bytes : 0}};
    uint64_t seed = standin_seed(name,
            (int64_t[]){(int64_t)read[0].bytes, (int64_t)read[1].bytes, (int64_t)extent(c)}, 3);
    int error = standin_compute(h->stream, seed, workspace, bytes, false, read, 2);

    if (error == 0)
        error = standin_compute(h->stream, seed, pc, extent(c), false, read, 3);
    return error ? EXECUTION_FAILED : SUCCESS;
}

#define CONVOLUTION(name)                                                                        \
    EXPORT int name(struct handle *h, const void *alpha, struct descriptor *a, const void *pa,   \
            struct descriptor *b, const void *pb, struct descriptor *convolution, int algorithm, \
            void *workspace, size_t bytes, const void *beta, struct descriptor *c, void *pc);    \
    EXPORT int name(struct handle *h, const void *alpha, struct descriptor *a, const void *pa,   \
            struct descriptor *b, const void *pb, struct descriptor *convolution, int algorithm, \
            void *workspace, size_t bytes, const void *beta, struct descriptor *c, void *pc)     \
    {                                                                                            \
        return convolve(h, #name, a, pa, b, pb, c, pc, workspace, bytes);                        \
    }

CONVOLUTION(cudnnConvolutionForward)
CONVOLUTION(cudnnConvolutionBackwardData)
CONVOLUTION(cudnnConvolutionBackwardFilter)

/* ---- pooling ---- */

static int pool(struct handle *h, const char *name, const struct operand *read, unsigned count,
        void *out, uint64_t bytes)
{
    uint64_t seed = standin_seed(name, (int64_t[]){(int64_t)read[0].bytes, (int64_t)bytes}, 2);

    return standin_compute(h->stream, seed, out, bytes, false, read, count) ? EXECUTION_FAILED
                                                                            : SUCCESS;
}

EXPORT int cudnnPoolingForward(struct handle *h, const void *pooling, const void *alpha,
        struct descriptor *x, const void *px, const void *beta, struct descriptor *y, void *py);
EXPORT int cudnnPoolingForward(struct handle *h, const void *pooling, const void *alpha,
        struct descriptor *x, const void *px, const void *beta, struct descriptor *y, void *py)
{
    struct operand read[] = {{px, extent(x)}};

    return pool(h, "cudnnPoolingForward", read, 1, py, extent(y));
}

EXPORT int cudnnPoolingBackward(struct handle *h, const void *pooling, const void *alpha,
        struct descriptor *y, const void *py, struct descriptor *dy, const void *pdy,
        struct descriptor *x, const void *px, const void *beta, struct descriptor *dx, void *pdx);
EXPORT int cudnnPoolingBackward(struct handle *h, const void *pooling, const void *alpha,
        struct descriptor *y, const void *py, struct descriptor *dy, const void *pdy,
        struct descriptor *x, const void *px, const void *beta, struct descriptor *dx, void *pdx)
{
    struct operand read[] = {{py, extent(y)}, {pdy, extent(dy)}, {px, extent(x)}};

    return pool(h, "cudnnPoolingBackward", read, 3, pdx, extent(dx));
}

/* ---- batch norm ---- */

/* The workspace holds a few values for each channel, the reserve a bit for each element. */
EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(struct handle *h, int mode,
        int what, struct descriptor *x, struct descriptor *z, struct descriptor *y,
        struct descriptor *channels, void *activation, size_t *ret_bytes);
EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(struct handle *h, int mode,
        int what, struct descriptor *x, struct descriptor *z, struct descriptor *y,
        struct descriptor *channels, void *activation, size_t *ret_bytes)
{
    *ret_bytes = extent(channels) * 8;
    return SUCCESS;
}

EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(struct handle *h, int mode, int what,
        struct descriptor *x, struct descriptor *y, struct descriptor *dy, struct descriptor *dz,
        struct descriptor *dx, struct descriptor *channels, void *activation, size_t *ret_bytes);
EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(struct handle *h, int mode, int what,
        struct descriptor *x, struct descriptor *y, struct descriptor *dy, struct descriptor *dz,
        struct descriptor *dx, struct descriptor *channels, void *activation, size_t *ret_bytes)
{
    *ret_bytes = extent(channels) * 8;
    return SUCCESS;
}

EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(struct handle *h, int mode,
        int what, void *activation, struct descriptor *x, size_t *ret_bytes);
EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(struct handle *h, int mode,
        int what, void *activation, struct descriptor *x, size_t *ret_bytes)
{
    *ret_bytes = (size_t)extent(x) / 32;
    return SUCCESS;
}

EXPORT int cudnnBatchNormalizationForwardTrainingEx(struct handle *h, int mode, int what,
        const void *alpha, const void *beta, struct descriptor *x, const void *px,
        struct descriptor *z, const void *pz, struct descriptor *y, void *py,
        struct descriptor *channels, const void *scale, const void *bias, double factor,
        void *running_mean, void *running_variance, double epsilon, void *mean, void *deviation,
        void *activation, void *workspace, size_t bytes, void *reserve, size_t reserve_bytes);
EXPORT int cudnnBatchNormalizationForwardTrainingEx(struct handle *h, int mode, int what,
        const void *alpha, const void *beta, struct descriptor *x, const void *px,
        struct descriptor *z, const void *pz, struct descriptor *y, void *py,
        struct descriptor *channels, const void *scale, const void *bias, double factor,
        void *running_mean, void *running_variance, double epsilon, void *mean, void *deviation,
        void *activation, void *workspace, size_t bytes, void *reserve, size_t reserve_bytes)
{
    uint64_t each = extent(channels);
    struct operand read[] = {{px, extent(x)}, {scale, each}, {bias, each}};
    uint64_t seed = standin_seed("cudnnBatchNormalizationForwardTrainingEx", NULL, 0);
    int error = standin_compute(h->stream, seed, workspace, bytes, false, read, 1);

    error |= standin_compute(h->stream, seed + 1, mean, each, false, read, 1);
    error |= standin_compute(h->stream, seed + 2, deviation, each, false, read, 1);
    error |= standin_compute(h->stream, seed + 3, running_mean, each, true, read, 1);
    error |= standin_compute(h->stream, seed + 4, running_variance, each, true, read, 1);
    error |= standin_compute(h->stream, seed + 5, reserve, reserve_bytes, false, read, 1);
    error |= standin_compute(h->stream, seed + 6, py, extent(y), false, read, 3);
    return error ? EXECUTION_FAILED : SUCCESS;
}

EXPORT int cudnnBatchNormalizationBackwardEx(struct handle *h, int mode, int what,
        const void *alpha_data, const void *beta_data, const void *alpha_param,
        const void *beta_param, struct descriptor *x, const void *px, struct descriptor *y,
        const void *py, struct descriptor *dy, const void *pdy, struct descriptor *dz, void *pdz,
        struct descriptor *dx, void *pdx, struct descriptor *channels, const void *scale,
        const void *bias, void *dscale, void *dbias, double epsilon, const void *mean,
        const void *deviation, void *activation, void *workspace, size_t bytes, void *reserve,
        size_t reserve_bytes);
EXPORT int cudnnBatchNormalizationBackwardEx(struct handle *h, int mode, int what,
        const void *alpha_data, const void *beta_data, const void *alpha_param,
        const void *beta_param, struct descriptor *x, const void *px, struct descriptor *y,
        const void *py, struct descriptor *dy, const void *pdy, struct descriptor *dz, void *pdz,
        struct descriptor *dx, void *pdx, struct descriptor *channels, const void *scale,
        const void *bias, void *dscale, void *dbias, double epsilon, const void *mean,
        const void *deviation, void *activation, void *workspace, size_t bytes, void *reserve,
        size_t reserve_bytes)
{
    uint64_t each = extent(channels);
    struct operand read[] = {{px, extent(x)}, {pdy, extent(dy)}, {scale, each}, {mean, each},
            {deviation, each}, {reserve, reserve_bytes}};
    uint64_t seed = standin_seed("cudnnBatchNormalizationBackwardEx", NULL, 0);
    int error = standin_compute(h->stream, seed, workspace, bytes, false, read, 2);

    error |= standin_compute(h->stream, seed + 1, dscale, each, false, read, 2);
    error |= standin_compute(h->stream, seed + 2, dbias, each, false, read, 2);
    error |= standin_compute(h->stream, seed + 3, pdx, extent(dx), false, read, 6);
    return error ? EXECUTION_FAILED : SUCCESS;
}
