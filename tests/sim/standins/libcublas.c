/* SPDX-License-Identifier: MIT */
/*
 * libcublas: matrix products by their extents. Matrices are column major. Batches and what is solved:
 * libcublas_solve.c.
 */
#include "libcublas.h"

#include <stdlib.h>

REFUSED_IS(15) /* CUBLAS_STATUS_NOT_SUPPORTED */

enum {
    VERSION = 120400
};

EXPORT int cublasCreate_v2(struct handle **ret_handle);
EXPORT int cublasCreate_v2(struct handle **ret_handle)
{
    *ret_handle = standin_new(sizeof(**ret_handle));
    standin_begin();
    return *ret_handle ? SUCCESS : NO_MEMORY;
}

EXPORT int cublasDestroy_v2(struct handle *h);
EXPORT int cublasDestroy_v2(struct handle *h)
{
    free(h);
    return SUCCESS;
}

EXPORT int cublasGetVersion_v2(struct handle *h, int *ret_version);
EXPORT int cublasGetVersion_v2(struct handle *h, int *ret_version)
{
    *ret_version = VERSION;
    return SUCCESS;
}

EXPORT size_t cublasGetCudartVersion(void);
EXPORT size_t cublasGetCudartVersion(void)
{
    return VERSION / 10;
}

EXPORT const char *cublasGetStatusString(int status);
EXPORT const char *cublasGetStatusString(int status)
{
    return status ? "an error of a stand-in" : "success";
}

EXPORT int cublasSetStream_v2(struct handle *h, void *stream);
EXPORT int cublasSetStream_v2(struct handle *h, void *stream)
{
    h->stream = stream;
    h->workspace = NULL; /* as the library: back to a workspace of its own */
    h->workspace_bytes = 0;
    return SUCCESS;
}

EXPORT int cublasGetStream_v2(struct handle *h, void **ret_stream);
EXPORT int cublasGetStream_v2(struct handle *h, void **ret_stream)
{
    *ret_stream = h->stream;
    return SUCCESS;
}

EXPORT int cublasSetWorkspace_v2(struct handle *h, void *workspace, size_t bytes);
EXPORT int cublasSetWorkspace_v2(struct handle *h, void *workspace, size_t bytes)
{
    h->workspace = workspace;
    h->workspace_bytes = bytes;
    return SUCCESS;
}

#define MODE(Name, field)                                        \
    EXPORT int cublasSet##Name(struct handle *h, int mode);      \
    EXPORT int cublasSet##Name(struct handle *h, int mode)       \
    {                                                            \
        h->field = mode;                                         \
        return SUCCESS;                                          \
    }                                                            \
    EXPORT int cublasGet##Name(struct handle *h, int *ret_mode); \
    EXPORT int cublasGet##Name(struct handle *h, int *ret_mode)  \
    {                                                            \
        *ret_mode = h->field;                                    \
        return SUCCESS;                                          \
    }

MODE(PointerMode_v2, pointer_mode)
MODE(MathMode, math_mode)
MODE(AtomicsMode, atomics_mode)

NOTHING(cublasSetSmCountTarget)
NOTHING(cublasLoggerConfigure)

/* ---- products ---- */

/* cudaDataType */
static uint64_t bytes_of_type(int type)
{
    switch (type) {
    case 0:  /* R_32F */
    case 6:  /* C_16F */
    case 10: /* R_32I */
        return 4;
    case 1: /* R_64F */
    case 4: /* C_32F */
        return 8;
    case 5: /* C_64F */
        return 16;
    case 2:  /* R_16F */
    case 14: /* R_16BF */
        return 2;
    default: /* 8 bits */
        return 1;
    }
}

struct matrix {
    const void *at;
    uint64_t element;
    int64_t leading, stride;
};

static uint64_t extent(const struct matrix *x, int64_t rows, int64_t columns, int64_t count)
{
    uint64_t one = standin_extent(rows, columns, x->leading, x->element);

    return one ? one + (uint64_t)((count - 1) * x->stride) * x->element : 0;
}

/* C (m x n) = op(A) op(B), `count` of each. */
static int product(struct handle *h, const char *name, bool ta, bool tb, int64_t m, int64_t n,
        int64_t k, struct matrix a, struct matrix b, struct matrix c, int64_t count)
{
    struct operand read[] = {{a.at, ta ? extent(&a, k, m, count) : extent(&a, m, k, count)},
            {b.at, tb ? extent(&b, n, k, count) : extent(&b, k, n, count)},
            {h->workspace, h->workspace_bytes}};
    uint64_t seed = standin_seed(name, (int64_t[]){ta, tb, m, n, k, count}, 6);
    int error = 0;

    if (count <= 0)
        return SUCCESS;
    if (h->workspace)
        error = standin_compute(h->stream, seed, h->workspace, h->workspace_bytes, false, read, 2);
    if (error == 0)
        error = standin_compute(
                h->stream, seed, (void *)(uintptr_t)c.at, extent(&c, m, n, count), false, read, 3);
    return error ? EXECUTION_FAILED : SUCCESS;
}

/* The type that a name states: S, D or H; -1: complex. */
static int type_of(const char *name)
{
    return name[6] == 'S'    ? PRODUCT_FLOAT
            : name[6] == 'D' ? PRODUCT_DOUBLE
            : name[6] == 'H' ? PRODUCT_HALF
                             : -1;
}

/* A factor of that type, `otherwise` if it is not given; a half is known as 0 and 1 only, or else NaN. */
static double factor(int type, const void *at, double otherwise)
{
    uint16_t half;

    if (!at)
        return otherwise;
    if (type == PRODUCT_FLOAT)
        return (double)*(const float *)at;
    if (type == PRODUCT_DOUBLE)
        return *(const double *)at;
    half = *(const uint16_t *)at;
    return half == 0 ? 0 : half == 0x3c00 ? 1 : 0.0 / 0.0;
}

struct factors {
    const void *alpha, *beta;
    int type; /* their own */
    int type_a, type_b, type_c;
};

/* The same with its numbers: computed, if it is small. */
static int multiply(struct handle *h, const char *name, bool ta, bool tb, int64_t m, int64_t n,
        int64_t k, struct matrix a, struct matrix b, struct matrix c, int64_t count,
        struct factors f)
{
    struct value_product p = {.c = {(uintptr_t)c.at, 0, f.type_c, c.leading, c.stride},
            .a = {(uintptr_t)a.at, 0, f.type_a, a.leading, a.stride},
            .b = {(uintptr_t)b.at, 0, f.type_b, b.leading, b.stride},
            .seed = standin_seed(name, (int64_t[]){ta, tb, m, n, k, count}, 6),
            .rows = m,
            .columns = n,
            .depth = k,
            .count = count,
            .transposes_a = ta,
            .transposes_b = tb};
    bool is_known = f.type >= 0 && f.type_a >= 0 && f.type_b >= 0 && f.type_c >= 0
            && ((!f.alpha && !f.beta) || h->pointer_mode == 0);

    if (!is_known || !standin_multiplies(&p))
        return product(h, name, ta, tb, m, n, k, a, b, c, count);
    p.alpha = factor(f.type, f.alpha, 1);
    p.beta = factor(f.type, f.beta, 0);
    p.a.bytes = ta ? extent(&a, k, m, count) : extent(&a, m, k, count);
    p.b.bytes = tb ? extent(&b, n, k, count) : extent(&b, k, n, count);
    p.c.bytes = extent(&c, m, n, count);
    return standin_product(h->stream, &p) ? EXECUTION_FAILED : SUCCESS;
}

#define ONE_TYPE(name) type_of(#name), type_of(#name), type_of(#name), type_of(#name)

#define GEMM(name, type, element)                                                                \
    EXPORT int name(struct handle *h, int ta, int tb, int m, int n, int k, const type *alpha,    \
            const type *a, int lda, const type *b, int ldb, const type *beta, type *c, int ldc); \
    EXPORT int name(struct handle *h, int ta, int tb, int m, int n, int k, const type *alpha,    \
            const type *a, int lda, const type *b, int ldb, const type *beta, type *c, int ldc)  \
    {                                                                                            \
        return multiply(h, #name, ta, tb, m, n, k, (struct matrix){a, element, lda, 0},          \
                (struct matrix){b, element, ldb, 0}, (struct matrix){c, element, ldc, 0}, 1,     \
                (struct factors){alpha, beta, ONE_TYPE(name)});                                  \
    }

#define STRIDED(name, type, element)                                                               \
    EXPORT int name(struct handle *h, int ta, int tb, int m, int n, int k, const type *alpha,      \
            const type *a, int lda, long long sa, const type *b, int ldb, long long sb,            \
            const type *beta, type *c, int ldc, long long sc, int count);                          \
    EXPORT int name(struct handle *h, int ta, int tb, int m, int n, int k, const type *alpha,      \
            const type *a, int lda, long long sa, const type *b, int ldb, long long sb,            \
            const type *beta, type *c, int ldc, long long sc, int count)                           \
    {                                                                                              \
        return multiply(h, #name, ta, tb, m, n, k, (struct matrix){a, element, lda, sa},           \
                (struct matrix){b, element, ldb, sb}, (struct matrix){c, element, ldc, sc}, count, \
                (struct factors){alpha, beta, ONE_TYPE(name)});                                    \
    }

GEMM(cublasSgemm_v2, float, 4)
GEMM(cublasDgemm_v2, double, 8)
GEMM(cublasCgemm_v2, void, 8)
GEMM(cublasZgemm_v2, void, 16)
GEMM(cublasHgemm, void, 2)
STRIDED(cublasSgemmStridedBatched, float, 4)
STRIDED(cublasDgemmStridedBatched, double, 8)
STRIDED(cublasCgemmStridedBatched, void, 8)
STRIDED(cublasZgemmStridedBatched, void, 16)
STRIDED(cublasHgemmStridedBatched, void, 2)

#define GEMM_EX(name, extra, factors_type)                                                    \
    EXPORT int name(struct handle *h, int ta, int tb, int m, int n, int k, const void *alpha, \
            const void *a, int type_a, int lda, const void *b, int type_b, int ldb,           \
            const void *beta, void *c, int type_c, int ldc extra);                            \
    EXPORT int name(struct handle *h, int ta, int tb, int m, int n, int k, const void *alpha, \
            const void *a, int type_a, int lda, const void *b, int type_b, int ldb,           \
            const void *beta, void *c, int type_c, int ldc extra)                             \
    {                                                                                         \
        return multiply(h, #name, ta, tb, m, n, k,                                            \
                (struct matrix){a, bytes_of_type(type_a), lda, 0},                            \
                (struct matrix){b, bytes_of_type(type_b), ldb, 0},                            \
                (struct matrix){c, bytes_of_type(type_c), ldc, 0}, 1,                         \
                (struct factors){alpha, beta, factors_type, type_a, type_b, type_c});         \
    }

/* What factors are where a product is computed so (cublasComputeType_t); -1: integers. */
static int type_of_factors(int compute)
{
    if (compute == 64 || compute == 65)
        return PRODUCT_HALF;
    if (compute == 70 || compute == 71)
        return PRODUCT_DOUBLE;
    return compute >= 68 && compute <= 78 && compute != 72 && compute != 73 ? PRODUCT_FLOAT : -1;
}

#define AND_HOW , int compute, int algorithm
GEMM_EX(cublasSgemmEx, , PRODUCT_FLOAT)
GEMM_EX(cublasGemmEx, AND_HOW, type_of_factors(compute))

EXPORT int cublasGemmStridedBatchedEx(struct handle *h, int ta, int tb, int m, int n, int k,
        const void *alpha, const void *a, int type_a, int lda, long long sa, const void *b,
        int type_b, int ldb, long long sb, const void *beta, void *c, int type_c, int ldc,
        long long sc, int count, int compute, int algorithm);
EXPORT int cublasGemmStridedBatchedEx(struct handle *h, int ta, int tb, int m, int n, int k,
        const void *alpha, const void *a, int type_a, int lda, long long sa, const void *b,
        int type_b, int ldb, long long sb, const void *beta, void *c, int type_c, int ldc,
        long long sc, int count, int compute, int algorithm)
{
    return multiply(h, "cublasGemmStridedBatchedEx", ta, tb, m, n, k,
            (struct matrix){a, bytes_of_type(type_a), lda, sa},
            (struct matrix){b, bytes_of_type(type_b), ldb, sb},
            (struct matrix){c, bytes_of_type(type_c), ldc, sc}, count,
            (struct factors){alpha, beta, type_of_factors(compute), type_a, type_b, type_c});
}

/* A matrix and a vector: the vector is a matrix of one column whose elements lie `inc` apart. */
#define GEMV(name, type, element)                                                                  \
    EXPORT int name(struct handle *h, int ta, int m, int n, const type *alpha, const type *a,      \
            int lda, const type *x, int incx, const type *beta, type *y, int incy);                \
    EXPORT int name(struct handle *h, int ta, int m, int n, const type *alpha, const type *a,      \
            int lda, const type *x, int incx, const type *beta, type *y, int incy)                 \
    {                                                                                              \
        int rows = ta ? n : m, columns = ta ? m : n;                                               \
                                                                                                   \
        return multiply(h, #name, ta, true, rows, 1, columns, (struct matrix){a, element, lda, 0}, \
                (struct matrix){x, element, incx, 0},                                              \
                (struct matrix){y, element, (int64_t)rows * incy, 0}, 1,                           \
                (struct factors){alpha, beta, incy == 1 ? type_of(#name) : -1, type_of(#name),     \
                        type_of(#name), type_of(#name)});                                          \
    }

GEMV(cublasSgemv_v2, float, 4)
GEMV(cublasDgemv_v2, double, 8)
GEMV(cublasCgemv_v2, void, 8)
GEMV(cublasZgemv_v2, void, 16)

#define DOT(name, type, element)                                                                   \
    EXPORT int name(                                                                               \
            struct handle *h, int n, const type *x, int incx, const type *y, int incy, type *ret); \
    EXPORT int name(                                                                               \
            struct handle *h, int n, const type *x, int incx, const type *y, int incy, type *ret)  \
    {                                                                                              \
        return multiply(h, #name, false, true, 1, 1, n, (struct matrix){x, element, incx, 0},      \
                (struct matrix){y, element, incy, 0}, (struct matrix){ret, element, 1, 0}, 1,      \
                (struct factors){NULL, NULL, ONE_TYPE(name)});                                     \
    }

DOT(cublasSdot_v2, float, 4)
DOT(cublasDdot_v2, double, 8)
DOT(cublasCdotu_v2, void, 8)
DOT(cublasCdotc_v2, void, 8)
DOT(cublasZdotu_v2, void, 16)
DOT(cublasZdotc_v2, void, 16)

BODY(cublasDotEx, struct handle *h, int n, const void *x, int type_x, int incx, const void *y,
        int type_y, int incy, void *ret, int type, int execution_type)
{
    return product(h, "cublasDotEx", false, true, 1, 1, n,
            (struct matrix){x, bytes_of_type(type_x), incx, 0},
            (struct matrix){y, bytes_of_type(type_y), incy, 0},
            (struct matrix){ret, bytes_of_type(type), 1, 0}, 1);
}
