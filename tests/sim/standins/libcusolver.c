/* SPDX-License-Identifier: MIT */
/* libcusolver: factorisations and what is solved with them. The eigenvalues and singular values are in libcusolver_values.c. */
#include "libcusolver.h"

#include <stdlib.h>

REFUSED_IS(9) /* CUSOLVER_STATUS_NOT_SUPPORTED */

enum {
    SUCCESS = 0,
    NO_MEMORY = 2,
    EXECUTION_FAILED = 6
};

#define CREATE(name)                                      \
    BODY(name, void **ret_object)                         \
    {                                                     \
        *ret_object = standin_new(sizeof(struct handle)); \
        standin_begin();                                  \
        return *ret_object ? SUCCESS : NO_MEMORY;         \
    }
#define DESTROY(name)        \
    BODY(name, void *object) \
    {                        \
        free(object);        \
        return SUCCESS;      \
    }

CREATE(cusolverDnCreate)
DESTROY(cusolverDnDestroy)
CREATE(cusolverDnCreateParams)
DESTROY(cusolverDnDestroyParams)
CREATE(cusolverDnCreateGesvdjInfo)
DESTROY(cusolverDnDestroyGesvdjInfo)
CREATE(cusolverDnCreateSyevjInfo)
DESTROY(cusolverDnDestroySyevjInfo)
NOTHING(cusolverDnXgesvdjSetMaxSweeps)
NOTHING(cusolverDnXgesvdjSetSortEig)
NOTHING(cusolverDnXgesvdjSetTolerance)
NOTHING(cusolverDnXsyevjSetMaxSweeps)
NOTHING(cusolverDnXsyevjSetSortEig)
NOTHING(cusolverDnXsyevjSetTolerance)

BODY(cusolverDnSetStream, struct handle *h, void *stream)
{
    h->stream = stream;
    return SUCCESS;
}

BODY(cusolverGetProperty, int which, int *ret_value)
{
    *ret_value = which == 0 ? STANDIN_MAJOR : 9;
    return SUCCESS;
}

uint64_t solver_element(int type)
{
    return type == 0 ? 4 : type == 5 ? 16 : 8; /* R_32F, C_64F; R_64F and C_32F */
}

int solver_call(struct handle *h, const char *name, const struct operand *outs, unsigned out_count,
        const struct operand *reads, unsigned read_count, int *info, int64_t count)
{
    int error = standin_write(h->stream, name, outs, out_count, reads, read_count);

    if (error == 0)
        error = standin_set(h->stream, info, 0, count > 0 ? (uint64_t)count : 0);
    return error ? EXECUTION_FAILED : SUCCESS;
}

/*
 * A batch of matrices is a list of addresses in the device's memory, which a kernel of the program
 * wrote there and which does not run: of such a batch the list is read, and what is no matrix is
 * written.
 */
static int batched(struct handle *h, const void *addresses, int *info, int64_t info_count)
{
    return solver_call(h, "batched", NULL, 0, LIST({addresses, 8}), info, info_count);
}

/* ---- Cholesky ---- */

#define CHOLESKY(T, e)                                                                             \
    BODY(cusolverDn##T##potrf_bufferSize, void *h, int uplo, int n, void *a, int lda, int *ret)    \
    {                                                                                              \
        *ret = n * BLOCK_FACTOR;                                                                   \
        return SUCCESS;                                                                            \
    }                                                                                              \
    BODY(cusolverDn##T##potrf, struct handle *h, int uplo, int n, void *a, int lda, void *work,    \
            int count, int *info)                                                                  \
    {                                                                                              \
        return solver_call(h, "potrf", LIST({work, (uint64_t)count * e}, MATRIX(a, n, n, lda, e)), \
                LIST(MATRIX(a, n, n, lda, e)), info, 1);                                           \
    }                                                                                              \
    BODY(cusolverDn##T##potrs, struct handle *h, int uplo, int n, int nrhs, const void *a,         \
            int lda, void *b, int ldb, int *info)                                                  \
    {                                                                                              \
        return solver_call(h, "potrs", LIST(MATRIX(b, n, nrhs, ldb, e)),                           \
                LIST(MATRIX(a, n, n, lda, e), MATRIX(b, n, nrhs, ldb, e)), info, 1);               \
    }                                                                                              \
    BODY(cusolverDn##T##potrfBatched, struct handle *h, int uplo, int n, void *a[], int lda,       \
            int *info, int count)                                                                  \
    {                                                                                              \
        return batched(h, a, info, count);                                                         \
    }                                                                                              \
    BODY(cusolverDn##T##potrsBatched, struct handle *h, int uplo, int n, int nrhs, void *a[],      \
            int lda, void *b[], int ldb, int *info, int count)                                     \
    {                                                                                              \
        return batched(h, b, info, 1);                                                             \
    }

/* ---- LU, and the symmetric one of Bunch and Kaufman ---- */

static int factor(
        struct handle *h, struct operand work, struct operand a, int *pivots, int count, int *info)
{
    int error = standin_set(h->stream, pivots, 1, (uint64_t)count);

    return error ? EXECUTION_FAILED : solver_call(h, "factor", LIST(work, a), LIST(a), info, 1);
}

#define LU(T, e)                                                                                 \
    BODY(cusolverDn##T##getrf_bufferSize, void *h, int m, int n, void *a, int lda, int *ret)     \
    {                                                                                            \
        *ret = m * BLOCK_FACTOR;                                                                 \
        return SUCCESS;                                                                          \
    }                                                                                            \
    BODY(cusolverDn##T##getrf, struct handle *h, int m, int n, void *a, int lda, void *work,     \
            int *pivots, int *info)                                                              \
    {                                                                                            \
        return factor(h, (struct operand){work, (uint64_t)m * BLOCK_FACTOR * e},                 \
                (struct operand)MATRIX(a, m, n, lda, e), pivots, m < n ? m : n, info);           \
    }                                                                                            \
    BODY(cusolverDn##T##getrs, struct handle *h, int trans, int n, int nrhs, const void *a,      \
            int lda, const int *pivots, void *b, int ldb, int *info)                             \
    {                                                                                            \
        return solver_call(h, "getrs", LIST(MATRIX(b, n, nrhs, ldb, e)),                         \
                LIST(MATRIX(a, n, n, lda, e), {pivots, (uint64_t)n * 4},                         \
                        MATRIX(b, n, nrhs, ldb, e)),                                             \
                info, 1);                                                                        \
    }                                                                                            \
    BODY(cusolverDn##T##sytrf_bufferSize, void *h, int n, void *a, int lda, int *ret)            \
    {                                                                                            \
        *ret = n * BLOCK_FACTOR;                                                                 \
        return SUCCESS;                                                                          \
    }                                                                                            \
    BODY(cusolverDn##T##sytrf, struct handle *h, int uplo, int n, void *a, int lda, int *pivots, \
            void *work, int count, int *info)                                                    \
    {                                                                                            \
        return factor(h, (struct operand){work, (uint64_t)count * e},                            \
                (struct operand)MATRIX(a, n, n, lda, e), pivots, n, info);                       \
    }

/* ---- QR ---- */

#define QR(T, e, orgqr, ormqr)                                                                     \
    BODY(cusolverDn##T##geqrf_bufferSize, void *h, int m, int n, void *a, int lda, int *ret)       \
    {                                                                                              \
        *ret = n * BLOCK;                                                                          \
        return SUCCESS;                                                                            \
    }                                                                                              \
    BODY(cusolverDn##T##geqrf, struct handle *h, int m, int n, void *a, int lda, void *tau,        \
            void *work, int count, int *info)                                                      \
    {                                                                                              \
        return solver_call(h, "geqrf",                                                             \
                LIST({work, (uint64_t)count * e}, {tau, (uint64_t)(m < n ? m : n) * e},            \
                        MATRIX(a, m, n, lda, e)),                                                  \
                LIST(MATRIX(a, m, n, lda, e)), info, 1);                                           \
    }                                                                                              \
    BODY(cusolverDn##T##orgqr##_bufferSize, void *h, int m, int n, int k, const void *a, int lda,  \
            const void *tau, int *ret)                                                             \
    {                                                                                              \
        *ret = n * BLOCK;                                                                          \
        return SUCCESS;                                                                            \
    }                                                                                              \
    BODY(cusolverDn##T##orgqr, struct handle *h, int m, int n, int k, void *a, int lda,            \
            const void *tau, void *work, int count, int *info)                                     \
    {                                                                                              \
        return solver_call(h, "orgqr", LIST({work, (uint64_t)count * e}, MATRIX(a, m, n, lda, e)), \
                LIST(MATRIX(a, m, n, lda, e), {tau, (uint64_t)k * e}), info, 1);                   \
    }                                                                                              \
    BODY(cusolverDn##T##ormqr##_bufferSize, void *h, int side, int trans, int m, int n, int k,     \
            const void *a, int lda, const void *tau, const void *c, int ldc, int *ret)             \
    {                                                                                              \
        *ret = (side ? m : n) * BLOCK;                                                             \
        return SUCCESS;                                                                            \
    }                                                                                              \
    BODY(cusolverDn##T##ormqr, struct handle *h, int side, int trans, int m, int n, int k,         \
            const void *a, int lda, const void *tau, void *c, int ldc, void *work, int count,      \
            int *info)                                                                             \
    {                                                                                              \
        return solver_call(h, "ormqr", LIST({work, (uint64_t)count * e}, MATRIX(c, m, n, ldc, e)), \
                LIST(MATRIX(a, side ? n : m, k, lda, e), {tau, (uint64_t)k * e},                   \
                        MATRIX(c, m, n, ldc, e)),                                                  \
                info, 1);                                                                          \
    }

#define FAMILY(T, e, orgqr, ormqr) CHOLESKY(T, e) LU(T, e) QR(T, e, orgqr, ormqr)
FAMILY(S, 4, orgqr, ormqr)
FAMILY(D, 8, orgqr, ormqr)
FAMILY(C, 8, ungqr, unmqr)
FAMILY(Z, 16, ungqr, unmqr)

/* ---- the same with types as numbers; sizes are in bytes, and none is needed of the host ---- */

static int answer(size_t *ret_device, size_t *ret_host, uint64_t bytes)
{
    *ret_device = bytes;
    *ret_host = 0;
    return SUCCESS;
}

BODY(cusolverDnXpotrf_bufferSize, void *h, void *params, int uplo, int64_t n, int type,
        const void *a, int64_t lda, int compute, size_t *ret_device, size_t *ret_host)
{
    return answer(ret_device, ret_host, (uint64_t)n * BLOCK_FACTOR * solver_element(type));
}

BODY(cusolverDnXpotrf, struct handle *h, void *params, int uplo, int64_t n, int type, void *a,
        int64_t lda, int compute, void *work, size_t bytes, void *host, size_t host_bytes,
        int *info)
{
    uint64_t e = solver_element(type);

    return solver_call(h, "potrf", LIST({work, bytes}, MATRIX(a, n, n, lda, e)),
            LIST(MATRIX(a, n, n, lda, e)), info, 1);
}

BODY(cusolverDnXpotrs, struct handle *h, void *params, int uplo, int64_t n, int64_t nrhs, int type,
        const void *a, int64_t lda, int type_b, void *b, int64_t ldb, int *info)
{
    uint64_t e = solver_element(type);

    return solver_call(h, "potrs", LIST(MATRIX(b, n, nrhs, ldb, e)),
            LIST(MATRIX(a, n, n, lda, e), MATRIX(b, n, nrhs, ldb, e)), info, 1);
}

BODY(cusolverDnXgeqrf_bufferSize, void *h, void *params, int64_t m, int64_t n, int type,
        const void *a, int64_t lda, int type_tau, const void *tau, int compute, size_t *ret_device,
        size_t *ret_host)
{
    return answer(ret_device, ret_host, (uint64_t)n * BLOCK * solver_element(type));
}

BODY(cusolverDnXgeqrf, struct handle *h, void *params, int64_t m, int64_t n, int type, void *a,
        int64_t lda, int type_tau, void *tau, int compute, void *work, size_t bytes, void *host,
        size_t host_bytes, int *info)
{
    uint64_t e = solver_element(type);

    return solver_call(h, "geqrf",
            LIST({work, bytes}, {tau, (uint64_t)(m < n ? m : n) * e}, MATRIX(a, m, n, lda, e)),
            LIST(MATRIX(a, m, n, lda, e)), info, 1);
}

/* LAPACK's sytrs needs no work area. */
BODY(cusolverDnXsytrs_bufferSize, void *h, int uplo, int64_t n, int64_t nrhs, int type,
        const void *a, int64_t lda, const int64_t *pivots, int type_b, void *b, int64_t ldb,
        size_t *ret_device, size_t *ret_host)
{
    return answer(ret_device, ret_host, 0);
}

BODY(cusolverDnXsytrs, struct handle *h, int uplo, int64_t n, int64_t nrhs, int type, const void *a,
        int64_t lda, const int64_t *pivots, int type_b, void *b, int64_t ldb, void *work,
        size_t bytes, void *host, size_t host_bytes, int *info)
{
    uint64_t e = solver_element(type);

    return solver_call(h, "sytrs", LIST(MATRIX(b, n, nrhs, ldb, e)),
            LIST(MATRIX(a, n, n, lda, e), {pivots, (uint64_t)n * 8}, MATRIX(b, n, nrhs, ldb, e)),
            info, 1);
}
