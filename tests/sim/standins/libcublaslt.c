/* SPDX-License-Identifier: MIT */
/* libcublasLt: a matrix product that is described by attributes. */
#include "common.h"

#include <stdlib.h>
#include <string.h>

REFUSED_IS(15) /* CUBLAS_STATUS_NOT_SUPPORTED */

enum {
    SUCCESS = 0,
    NO_MEMORY = 3,
    INVALID_VALUE = 7,
    EXECUTION_FAILED = 13
};

/* Attributes of a layout: batch count and the stride of a batch in elements. */
enum {
    LAYOUT_TYPE,
    LAYOUT_ORDER,
    LAYOUT_ROWS,
    LAYOUT_COLUMNS,
    LAYOUT_LEADING,
    LAYOUT_COUNT,
    LAYOUT_STRIDE
};

struct layout {
    int type, order;
    uint64_t rows, columns;
    int64_t leading;
    int count;
    int64_t stride;
};

/* Attributes of a product: the transpositions, the epilogue and a bias; of 8-bit numbers also scales. */
enum {
    PRODUCT_TRANSPOSE_A = 3,
    PRODUCT_TRANSPOSE_B = 4,
    PRODUCT_EPILOGUE = 7,
    PRODUCT_BIAS = 8,
    PRODUCT_SCALE_A = 17,
    PRODUCT_SCALE_B = 18,
    PRODUCT_SCALE_D = 20,
    PRODUCT_LARGEST_D = 21
};

enum {
    ATTRIBUTES = 64
};

struct product {
    int transpose_a, transpose_b, epilogue;
    const void *bias;
    uint64_t set[ATTRIBUTES]; /* as they were set, for whoever asks */
};

struct heuristic {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

EXPORT size_t cublasLtGetVersion(void);
EXPORT size_t cublasLtGetVersion(void)
{
    return 120400;
}

EXPORT int cublasLtCreate(void **ret_handle);
EXPORT int cublasLtCreate(void **ret_handle)
{
    *ret_handle = standin_new(8);
    standin_begin();
    return *ret_handle ? SUCCESS : NO_MEMORY;
}

#define DESTROY(name)              \
    EXPORT int name(void *object); \
    EXPORT int name(void *object)  \
    {                              \
        free(object);              \
        return SUCCESS;            \
    }

DESTROY(cublasLtDestroy)
DESTROY(cublasLtMatmulDescDestroy)
DESTROY(cublasLtMatrixLayoutDestroy)
DESTROY(cublasLtMatmulPreferenceDestroy)

EXPORT int cublasLtMatmulDescCreate(struct product **ret_product, int compute, int scale);
EXPORT int cublasLtMatmulDescCreate(struct product **ret_product, int compute, int scale)
{
    *ret_product = standin_new(sizeof(**ret_product));
    if (!*ret_product)
        return NO_MEMORY;
    (*ret_product)->set[0] = (unsigned)compute;
    (*ret_product)->set[1] = (unsigned)scale;
    return SUCCESS;
}

EXPORT int cublasLtMatmulDescSetAttribute(
        struct product *product, int which, const void *value, size_t bytes);
EXPORT int cublasLtMatmulDescSetAttribute(
        struct product *product, int which, const void *value, size_t bytes)
{
    if (which >= 0 && which < ATTRIBUTES && bytes <= sizeof(product->set[0]))
        memcpy(&product->set[which], value, bytes);
    if (which == PRODUCT_TRANSPOSE_A && bytes == sizeof(int))
        memcpy(&product->transpose_a, value, bytes);
    else if (which == PRODUCT_TRANSPOSE_B && bytes == sizeof(int))
        memcpy(&product->transpose_b, value, bytes);
    else if (which == PRODUCT_EPILOGUE && bytes == sizeof(int))
        memcpy(&product->epilogue, value, bytes);
    else if (which == PRODUCT_BIAS && bytes == sizeof(void *))
        memcpy(&product->bias, value, bytes);
    return SUCCESS;
}

EXPORT int cublasLtMatrixLayoutCreate(
        struct layout **ret_layout, int type, uint64_t rows, uint64_t columns, int64_t leading);
EXPORT int cublasLtMatrixLayoutCreate(
        struct layout **ret_layout, int type, uint64_t rows, uint64_t columns, int64_t leading)
{
    *ret_layout = standin_new(sizeof(**ret_layout));
    if (!*ret_layout)
        return NO_MEMORY;
    **ret_layout = (struct layout){
            .type = type, .rows = rows, .columns = columns, .leading = leading, .count = 1};
    return SUCCESS;
}

EXPORT int cublasLtMatrixLayoutSetAttribute(
        struct layout *layout, int which, const void *value, size_t bytes);
EXPORT int cublasLtMatrixLayoutSetAttribute(
        struct layout *layout, int which, const void *value, size_t bytes)
{
    if (which == LAYOUT_ORDER && bytes == sizeof(int))
        memcpy(&layout->order, value, bytes);
    else if (which == LAYOUT_COUNT && bytes == sizeof(int))
        memcpy(&layout->count, value, bytes);
    else if (which == LAYOUT_STRIDE && bytes == sizeof(int64_t))
        memcpy(&layout->stride, value, bytes);
    return SUCCESS;
}

static int answer(const void *value, size_t size, void *ret_value, size_t room, size_t *ret_bytes)
{
    if (ret_bytes)
        *ret_bytes = size;
    if (!ret_value)
        return SUCCESS;
    if (room < size)
        return INVALID_VALUE;
    memcpy(ret_value, value, size);
    return SUCCESS;
}

EXPORT int cublasLtMatmulDescGetAttribute(
        const struct product *product, int which, void *ret_value, size_t room, size_t *ret_bytes);
EXPORT int cublasLtMatmulDescGetAttribute(
        const struct product *product, int which, void *ret_value, size_t room, size_t *ret_bytes)
{
    if (which < 0 || which >= ATTRIBUTES)
        return INVALID_VALUE;
    return answer(&product->set[which], room < sizeof(uint64_t) ? room : sizeof(uint64_t),
            ret_value, room, ret_bytes);
}

EXPORT int cublasLtMatrixLayoutGetAttribute(
        const struct layout *layout, int which, void *ret_value, size_t room, size_t *ret_bytes);
EXPORT int cublasLtMatrixLayoutGetAttribute(
        const struct layout *layout, int which, void *ret_value, size_t room, size_t *ret_bytes)
{
    switch (which) {
    case LAYOUT_TYPE:
        return answer(&layout->type, sizeof layout->type, ret_value, room, ret_bytes);
    case LAYOUT_ORDER:
        return answer(&layout->order, sizeof layout->order, ret_value, room, ret_bytes);
    case LAYOUT_ROWS:
        return answer(&layout->rows, sizeof layout->rows, ret_value, room, ret_bytes);
    case LAYOUT_COLUMNS:
        return answer(&layout->columns, sizeof layout->columns, ret_value, room, ret_bytes);
    case LAYOUT_LEADING:
        return answer(&layout->leading, sizeof layout->leading, ret_value, room, ret_bytes);
    case LAYOUT_COUNT:
        return answer(&layout->count, sizeof layout->count, ret_value, room, ret_bytes);
    case LAYOUT_STRIDE:
        return answer(&layout->stride, sizeof layout->stride, ret_value, room, ret_bytes);
    default:
        return INVALID_VALUE;
    }
}

EXPORT int cublasLtMatmulPreferenceCreate(void **ret_preference);
EXPORT int cublasLtMatmulPreferenceCreate(void **ret_preference)
{
    *ret_preference = standin_new(8);
    return *ret_preference ? SUCCESS : NO_MEMORY;
}

NOTHING(cublasLtMatmulPreferenceSetAttribute)

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, const struct product *product,
        const struct layout *a, const struct layout *b, const struct layout *c,
        const struct layout *d, const void *preference, int asked, struct heuristic *results,
        int *ret_count);
EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, const struct product *product,
        const struct layout *a, const struct layout *b, const struct layout *c,
        const struct layout *d, const void *preference, int asked, struct heuristic *results,
        int *ret_count)
{
    if (asked <= 0)
        return INVALID_VALUE;
    *results = (struct heuristic){.waves = 1};
    *ret_count = 1;
    return SUCCESS;
}

static uint64_t bytes_of_type(int type)
{
    switch (type) {
    case 0:
    case 10:
        return 4;
    case 1:
    case 4:
        return 8;
    case 5:
        return 16;
    case 2:
    case 14:
        return 2;
    default:
        return 1;
    }
}

/* As a matrix lies: in columns (order 0) or in rows (order 1). */
static uint64_t extent(const struct layout *l)
{
    uint64_t element = bytes_of_type(l->type);
    int64_t rows = (int64_t)(l->order == 1 ? l->columns : l->rows);
    int64_t columns = (int64_t)(l->order == 1 ? l->rows : l->columns);
    uint64_t one = standin_extent(rows, columns, l->leading, element);

    return one ? one + (uint64_t)((l->count - 1) * l->stride) * element : 0;
}

/* A number of the device's memory; of scales for rows or blocks the first one. */
static struct operand scale(const struct product *product, int which)
{
    return (struct operand){
            (const void *)(uintptr_t)product->set[which], product->set[which] ? sizeof(float) : 0};
}

static struct value_product_matrix matrix_of(const void *at, const struct layout *l)
{
    return (struct value_product_matrix){(uintptr_t)at, extent(l), l->type, l->leading, l->stride};
}

/* A product that may be computed: matrices in columns, factors of 32 or 64 bits, and a bias of the result's type. */
static bool is_plain(const struct product *p, const struct layout *la, const struct layout *lb,
        const struct layout *ld)
{
    int epilogue = p->epilogue & ~4;

    return la->order == 0 && lb->order == 0 && ld->order == 0
            && (p->set[1] == PRODUCT_FLOAT || p->set[1] == PRODUCT_DOUBLE) && p->set[2] == 0
            && (epilogue <= PRODUCT_RELU || epilogue == PRODUCT_GELU)
            && ((p->epilogue & 4) == 0 || p->bias);
}

static double factor(const struct product *p, const void *at)
{
    return p->set[1] == PRODUCT_DOUBLE ? *(const double *)at : (double)*(const float *)at;
}

EXPORT int cublasLtMatmul(void *handle, const struct product *product, const void *alpha,
        const void *a, const struct layout *la, const void *b, const struct layout *lb,
        const void *beta, const void *c, const struct layout *lc, void *d, const struct layout *ld,
        const void *algorithm, void *workspace, size_t workspace_bytes, void *stream);
EXPORT int cublasLtMatmul(void *handle, const struct product *product, const void *alpha,
        const void *a, const struct layout *la, const void *b, const struct layout *lb,
        const void *beta, const void *c, const struct layout *lc, void *d, const struct layout *ld,
        const void *algorithm, void *workspace, size_t workspace_bytes, void *stream)
{
    int64_t shape[] = {product->transpose_a, product->transpose_b, product->epilogue,
            (int64_t)ld->rows, (int64_t)ld->columns, ld->count};
    struct operand read[] = {{a, extent(la)}, {b, extent(lb)},
            {product->bias, product->bias ? ld->rows * bytes_of_type(ld->type) : 0},
            {workspace, workspace ? workspace_bytes : 0}, scale(product, PRODUCT_SCALE_A),
            scale(product, PRODUCT_SCALE_B), scale(product, PRODUCT_SCALE_D)};
    struct operand largest = scale(product, PRODUCT_LARGEST_D);
    uint64_t seed = standin_seed("cublasLtMatmul", shape, 6);
    struct value_product small = {.c = matrix_of(d, ld),
            .a = matrix_of(a, la),
            .b = matrix_of(b, lb),
            .bias = product->epilogue & 4 ? (uintptr_t)product->bias : 0,
            .bias_bytes = product->epilogue & 4 ? read[2].bytes : 0,
            .seed = seed,
            .rows = (int64_t)ld->rows,
            .columns = (int64_t)ld->columns,
            .depth = (int64_t)(product->transpose_a ? la->rows : la->columns),
            .count = ld->count,
            .transposes_a = product->transpose_a,
            .transposes_b = product->transpose_b,
            .epilogue = product->epilogue & ~4};
    int error;

    if (is_plain(product, la, lb, ld) && standin_multiplies(&small)) {
        small.alpha = factor(product, alpha);
        small.beta = factor(product, beta);
        if (small.beta == 0 || c == d)
            return standin_product(stream, &small) ? EXECUTION_FAILED : SUCCESS;
    }
    error = standin_compute(stream, seed, workspace, workspace_bytes, false, read, 2);
    if (error == 0)
        error = standin_compute(stream, seed, d, extent(ld), false, read, 7);
    if (error == 0)
        error = standin_compute(
                stream, seed, (void *)(uintptr_t)largest.at, largest.bytes, false, read, 2);
    return error ? EXECUTION_FAILED : SUCCESS;
}
