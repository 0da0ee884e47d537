/* SPDX-License-Identifier: MIT */
/*
 * libcudnn: convolutions by their extents, through the functions that take descriptors one by one.
 * Batch norm, recurrent networks and the CTC loss have files of their own.
 * The newer interface of graphs is refused: frameworks fall back, or are told to.
 */
#include "libcudnn.h"

#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

REFUSED_IS(3000) /* CUDNN_STATUS_NOT_SUPPORTED */

enum {
    /* XLA wants 9.8 or later, PyTorch 2.15 wants 9.26 */
    VERSION = STANDIN_MAJOR >= 9 ? 92600 : 8900,
    MAJOR_UNIT = STANDIN_MAJOR >= 9 ? 10000 : 1000
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

BODY(cudnnGetProperty, int which, int *ret_value)
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

BODY(cudnnCreate, struct handle **ret_handle)
{
    *ret_handle = standin_new(sizeof(**ret_handle));
    standin_begin();
    return *ret_handle ? SUCCESS : NO_MEMORY;
}

BODY(cudnnSetStream, struct handle *h, void *stream)
{
    h->stream = stream;
    return SUCCESS;
}

BODY(cudnnGetStream, struct handle *h, void **ret_stream)
{
    *ret_stream = h->stream;
    return SUCCESS;
}

/* ---- descriptors ---- */

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

BODY(cudnnSetTensorNdDescriptor, struct descriptor *d, int type, int count, const int *sizes,
        const int *strides)
{
    if (count < 0 || count > DIMENSIONS)
        return BAD_PARAM;
    d->type = type;
    d->count = count;
    memcpy(d->sizes, sizes, (size_t)count * sizeof(int));
    memcpy(d->strides, strides, (size_t)count * sizeof(int));
    return SUCCESS;
}

int dnn_set_packed(struct descriptor *d, int type, int count, const int *sizes)
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

BODY(cudnnSetFilterNdDescriptor, struct descriptor *d, int type, int format, int count,
        const int *sizes)
{
    d->format = format;
    return dnn_set_packed(d, type, count, sizes);
}

BODY(cudnnSetTensor4dDescriptor, struct descriptor *d, int format, int type, int n, int c, int h,
        int w)
{
    d->format = format;
    return dnn_set_packed(d, type, 4, (int[]){n, c, h, w});
}

BODY(cudnnSetFilter4dDescriptor, struct descriptor *d, int type, int format, int k, int c, int h,
        int w)
{
    d->format = format;
    return dnn_set_packed(d, type, 4, (int[]){k, c, h, w});
}

BODY(cudnnSetConvolutionNdDescriptor, struct descriptor *d, int count, const int *pads,
        const int *strides, const int *dilations, int mode, int type)
{
    if (count < 0 || count > DIMENSIONS)
        return BAD_PARAM;
    d->type = type;
    d->count = count;
    memcpy(d->strides, strides, (size_t)count * sizeof(int));
    return SUCCESS;
}

BODY(cudnnSetTensorNdDescriptorEx, struct descriptor *d, int format, int type, int count,
        const int *sizes)
{
    d->format = format;
    return dnn_set_packed(d, type, count, sizes);
}

NOTHING(cudnnSetPoolingNdDescriptor)

uint64_t dnn_bytes_of_type(int type)
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

uint64_t dnn_extent(const struct descriptor *d)
{
    uint64_t last = 0;

    for (int i = 0; i < d->count; i++) {
        if (d->sizes[i] <= 0)
            return 0;
        last += (uint64_t)(d->sizes[i] - 1) * (uint64_t)d->strides[i];
    }
    return d->count ? (last + 1) * dnn_bytes_of_type(d->type) : 0;
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
    return (size_t)((dnn_extent(a) + dnn_extent(b)) / 8 + 511) & ~(size_t)511;
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
    struct operand read[] = {
            {pa, dnn_extent(a)}, {pb, dnn_extent(b)}, {workspace, workspace ? bytes : 0}};
    uint64_t seed = standin_seed(name,
            (int64_t[]){(int64_t)read[0].bytes, (int64_t)read[1].bytes, (int64_t)dnn_extent(c)}, 3);
    int error = standin_compute(h->stream, seed, workspace, bytes, false, read, 2);

    if (error == 0)
        error = standin_compute(h->stream, seed, pc, dnn_extent(c), false, read, 3);
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

/* ---- pooling and softmax ---- */

static int pass(struct handle *h, const char *name, const struct operand *read, unsigned count,
        void *out, uint64_t bytes)
{
    uint64_t seed = standin_seed(name, (int64_t[]){(int64_t)read[0].bytes, (int64_t)bytes}, 2);

    return standin_compute(h->stream, seed, out, bytes, false, read, count) ? EXECUTION_FAILED
                                                                            : SUCCESS;
}

BODY(cudnnPoolingForward, struct handle *h, const void *pooling, const void *alpha,
        struct descriptor *x, const void *px, const void *beta, struct descriptor *y, void *py)
{
    struct operand read[] = {{px, dnn_extent(x)}};

    return pass(h, "cudnnPoolingForward", read, 1, py, dnn_extent(y));
}

BODY(cudnnPoolingBackward, struct handle *h, const void *pooling, const void *alpha,
        struct descriptor *y, const void *py, struct descriptor *dy, const void *pdy,
        struct descriptor *x, const void *px, const void *beta, struct descriptor *dx, void *pdx)
{
    struct operand read[] = {{py, dnn_extent(y)}, {pdy, dnn_extent(dy)}, {px, dnn_extent(x)}};

    return pass(h, "cudnnPoolingBackward", read, 3, pdx, dnn_extent(dx));
}

BODY(cudnnSoftmaxForward, struct handle *h, int algorithm, int mode, const void *alpha,
        struct descriptor *x, const void *px, const void *beta, struct descriptor *y, void *py)
{
    struct operand read[] = {{px, dnn_extent(x)}};

    return pass(h, "cudnnSoftmaxForward", read, 1, py, dnn_extent(y));
}

BODY(cudnnSoftmaxBackward, struct handle *h, int algorithm, int mode, const void *alpha,
        struct descriptor *y, const void *py, struct descriptor *dy, const void *pdy,
        const void *beta, struct descriptor *dx, void *pdx)
{
    struct operand read[] = {{py, dnn_extent(y)}, {pdy, dnn_extent(dy)}};

    return pass(h, "cudnnSoftmaxBackward", read, 2, pdx, dnn_extent(dx));
}
