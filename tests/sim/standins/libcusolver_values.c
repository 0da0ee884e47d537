/* SPDX-License-Identifier: MIT */
/* libcusolver: eigenvalues and singular values. */
#include "libcusolver.h"

/*
 * Elements of work areas: LAPACK's syevd and heevd with vectors, gesvd and geev; the Jacobi methods.
 * The real numbers of a complex one are counted as complex.
 */
static int64_t for_syevd(int64_t n)
{
    return 1 + 6 * n + 2 * n * n;
}

static int64_t for_gesvd(int64_t m, int64_t n)
{
    return 3 * (m < n ? m : n) + (m + n) * BLOCK;
}

static int64_t for_geev(int64_t n)
{
    return n * n + n * BLOCK + 4 * n;
}

static int64_t for_jacobi(int64_t m, int64_t n)
{
    return m * n + (m < n ? m * m : n * n);
}

/* A V of `count` matrices that lie behind each other, `stride` elements apart. */
static struct operand many(const void *at, int64_t rows, int64_t columns, int64_t leading,
        int64_t stride, int64_t count, uint64_t e)
{
    uint64_t one = standin_extent(rows, columns, leading, e);

    return (struct operand){at, one && count > 0 ? one + (uint64_t)((count - 1) * stride) * e : 0};
}

static int eigen(struct handle *h, bool vectors, int64_t n, void *a, int64_t lda, void *w,
        void *work, uint64_t bytes, int *info, int64_t count, uint64_t e, uint64_t real)
{
    struct operand matrix = many(a, n, n, lda, lda * n, count, e);
    struct operand values = {w, (uint64_t)(n * count) * real};

    return solver_call(h, "eigen", LIST({work, bytes}, values, matrix), LIST(matrix), info, count);
}

#define EIGEN(T, e, real, syev)                                                                    \
    BODY(cusolverDn##T##syev##d_bufferSize, void *h, int vectors, int uplo, int n, const void *a,  \
            int lda, const void *w, int *ret)                                                      \
    {                                                                                              \
        *ret = (int)for_syevd(n);                                                                  \
        return 0;                                                                                  \
    }                                                                                              \
    BODY(cusolverDn##T##syev##d, struct handle *h, int vectors, int uplo, int n, void *a, int lda, \
            void *w, void *work, int count, int *info)                                             \
    {                                                                                              \
        return eigen(h, vectors, n, a, lda, w, work, (uint64_t)count * e, info, 1, e, real);       \
    }                                                                                              \
    BODY(cusolverDn##T##syev##j_bufferSize, void *h, int vectors, int uplo, int n, const void *a,  \
            int lda, const void *w, int *ret, void *params)                                        \
    {                                                                                              \
        *ret = (int)for_jacobi(n, n);                                                              \
        return 0;                                                                                  \
    }                                                                                              \
    BODY(cusolverDn##T##syev##j, struct handle *h, int vectors, int uplo, int n, void *a, int lda, \
            void *w, void *work, int count, int *info, void *params)                               \
    {                                                                                              \
        return eigen(h, vectors, n, a, lda, w, work, (uint64_t)count * e, info, 1, e, real);       \
    }                                                                                              \
    BODY(cusolverDn##T##syev##jBatched_bufferSize, void *h, int vectors, int uplo, int n,          \
            const void *a, int lda, const void *w, int *ret, void *params, int batch)              \
    {                                                                                              \
        *ret = (int)for_jacobi(n, n) * batch;                                                      \
        return 0;                                                                                  \
    }                                                                                              \
    BODY(cusolverDn##T##syev##jBatched, struct handle *h, int vectors, int uplo, int n, void *a,   \
            int lda, void *w, void *work, int count, int *info, void *params, int batch)           \
    {                                                                                              \
        return eigen(h, vectors, n, a, lda, w, work, (uint64_t)count * e, info, batch, e, real);   \
    }

/* U is m x m, or m x k of the economical form, and V n x n or n x k. */
struct singular {
    int64_t m, n, batch;
    uint64_t e, real;
    bool vectors, economical;
};

static int singular(struct handle *h, struct singular s, void *a, int64_t lda, int64_t stride_a,
        void *values, void *u, int64_t ldu, int64_t stride_u, void *v, int64_t ldv,
        int64_t columns_v, int64_t rows_v, int64_t stride_v, void *work, uint64_t bytes, int *info)
{
    int64_t k = s.m < s.n ? s.m : s.n;
    struct operand matrix = many(a, s.m, s.n, lda, stride_a, s.batch, s.e);
    struct operand left =
            many(s.vectors ? u : NULL, s.m, s.economical ? k : s.m, ldu, stride_u, s.batch, s.e);
    struct operand right =
            many(s.vectors ? v : NULL, rows_v, columns_v, ldv, stride_v, s.batch, s.e);

    return solver_call(h, "singular",
            LIST({work, bytes}, {values, (uint64_t)(k * s.batch) * s.real}, left, right, matrix),
            LIST(matrix), info, s.batch);
}

#define SINGULAR(T, e, real)                                                                       \
    BODY(cusolverDn##T##gesvd_bufferSize, void *h, int m, int n, int *ret)                         \
    {                                                                                              \
        *ret = (int)for_gesvd(m, n);                                                               \
        return 0;                                                                                  \
    }                                                                                              \
    BODY(cusolverDn##T##gesvd, struct handle *h, signed char job_u, signed char job_v, int m,      \
            int n, void *a, int lda, void *s, void *u, int ldu, void *v, int ldv, void *work,      \
            int count, void *real_work, int *info)                                                 \
    {                                                                                              \
        int k = m < n ? m : n;                                                                     \
                                                                                                   \
        return singular(h, (struct singular){m, n, 1, e, real, job_u != 'N', job_u != 'A'}, a,     \
                lda, 0, s, u, ldu, 0, v, ldv, n, job_v == 'A' ? n : k, 0, work,                    \
                (uint64_t)count * e, info);                                                        \
    }                                                                                              \
    BODY(cusolverDn##T##gesvdj_bufferSize, void *h, int vectors, int economical, int m, int n,     \
            const void *a, int lda, const void *s, const void *u, int ldu, const void *v, int ldv, \
            int *ret, void *params)                                                                \
    {                                                                                              \
        *ret = (int)for_jacobi(m, n);                                                              \
        return 0;                                                                                  \
    }                                                                                              \
    BODY(cusolverDn##T##gesvdj, struct handle *h, int vectors, int economical, int m, int n,       \
            void *a, int lda, void *s, void *u, int ldu, void *v, int ldv, void *work, int count,  \
            int *info, void *params)                                                               \
    {                                                                                              \
        return singular(h, (struct singular){m, n, 1, e, real, vectors != 0, economical != 0}, a,  \
                lda, 0, s, u, ldu, 0, v, ldv, economical && m < n ? m : n, n, 0, work,             \
                (uint64_t)count * e, info);                                                        \
    }                                                                                              \
    BODY(cusolverDn##T##gesvdjBatched_bufferSize, void *h, int vectors, int m, int n,              \
            const void *a, int lda, const void *s, const void *u, int ldu, const void *v, int ldv, \
            int *ret, void *params, int batch)                                                     \
    {                                                                                              \
        *ret = (int)for_jacobi(m, n) * batch;                                                      \
        return 0;                                                                                  \
    }                                                                                              \
    BODY(cusolverDn##T##gesvdjBatched, struct handle *h, int vectors, int m, int n, void *a,       \
            int lda, void *s, void *u, int ldu, void *v, int ldv, void *work, int count,           \
            int *info, void *params, int batch)                                                    \
    {                                                                                              \
        return singular(h, (struct singular){m, n, batch, e, real, vectors != 0, false}, a, lda,   \
                (int64_t)lda * n, s, u, ldu, (int64_t)ldu * m, v, ldv, n, n, (int64_t)ldv * n,     \
                work, (uint64_t)count * e, info);                                                  \
    }                                                                                              \
    BODY(cusolverDn##T##gesvdaStridedBatched_bufferSize, void *h, int vectors, int rank, int m,    \
            int n, const void *a, int lda, long long stride_a, const void *s, long long stride_s,  \
            const void *u, int ldu, long long stride_u, const void *v, int ldv,                    \
            long long stride_v, int *ret, int batch)                                               \
    {                                                                                              \
        *ret = (int)for_jacobi(n, n) * batch;                                                      \
        return 0;                                                                                  \
    }                                                                                              \
    BODY(cusolverDn##T##gesvdaStridedBatched, struct handle *h, int vectors, int rank, int m,      \
            int n, const void *a, int lda, long long stride_a, void *s, long long stride_s,        \
            void *u, int ldu, long long stride_u, void *v, int ldv, long long stride_v,            \
            void *work, int count, int *info, double *norms, int batch)                            \
    {                                                                                              \
        for (int i = 0; norms && i < batch; i++)                                                   \
            norms[i] = 0; /* of the host: how far the product is from the matrix */                \
        return singular(h, (struct singular){m, n, batch, e, real, vectors != 0, true},            \
                (void *)(uintptr_t)a, lda, stride_a, s, u, ldu, stride_u, v, ldv, rank, n,         \
                stride_v, work, (uint64_t)count * e, info);                                        \
    }

EIGEN(S, 4, 4, syev)
EIGEN(D, 8, 8, syev)
EIGEN(C, 8, 4, heev)
EIGEN(Z, 16, 8, heev)
SINGULAR(S, 4, 4)
SINGULAR(D, 8, 8)
SINGULAR(C, 8, 4)
SINGULAR(Z, 16, 8)

/* ---- the same with types as numbers; sizes are in bytes, and none is needed of the host ---- */

BODY(cusolverDnXsyevd_bufferSize, void *h, void *params, int vectors, int uplo, int64_t n, int type,
        const void *a, int64_t lda, int type_w, const void *w, int compute, size_t *ret_device,
        size_t *ret_host)
{
    *ret_device = (size_t)for_syevd(n) * solver_element(type);
    *ret_host = 0;
    return 0;
}

BODY(cusolverDnXsyevd, struct handle *h, void *params, int vectors, int uplo, int64_t n, int type,
        void *a, int64_t lda, int type_w, void *w, int compute, void *work, size_t bytes,
        void *host, size_t host_bytes, int *info)
{
    return eigen(h, vectors, n, a, lda, w, work, bytes, info, 1, solver_element(type),
            solver_element(type_w));
}

BODY(cusolverDnXsyevBatched_bufferSize, void *h, void *params, int vectors, int uplo, int64_t n,
        int type, const void *a, int64_t lda, int type_w, const void *w, int compute,
        size_t *ret_device, size_t *ret_host, int64_t batch)
{
    *ret_device = (size_t)(for_jacobi(n, n) * batch) * solver_element(type);
    *ret_host = 0;
    return 0;
}

BODY(cusolverDnXsyevBatched, struct handle *h, void *params, int vectors, int uplo, int64_t n,
        int type, void *a, int64_t lda, int type_w, void *w, int compute, void *work, size_t bytes,
        void *host, size_t host_bytes, int *info, int64_t batch)
{
    return eigen(h, vectors, n, a, lda, w, work, bytes, info, batch, solver_element(type),
            solver_element(type_w));
}

BODY(cusolverDnXgeev_bufferSize, void *h, void *params, int left, int right, int64_t n, int type,
        const void *a, int64_t lda, int type_w, const void *w, int type_l, const void *l,
        int64_t ldl, int type_r, const void *r, int64_t ldr, int compute, size_t *ret_device,
        size_t *ret_host)
{
    *ret_device = (size_t)for_geev(n) * solver_element(type);
    *ret_host = 0;
    return 0;
}

BODY(cusolverDnXgeev, struct handle *h, void *params, int left, int right, int64_t n, int type,
        void *a, int64_t lda, int type_w, void *w, int type_l, void *l, int64_t ldl, int type_r,
        void *r, int64_t ldr, int compute, void *work, size_t bytes, void *host, size_t host_bytes,
        int *info)
{
    uint64_t e = solver_element(type);

    return solver_call(h, "geev",
            LIST({work, bytes}, {w, (uint64_t)n * solver_element(type_w)},
                    MATRIX(left ? l : NULL, n, n, ldl, solver_element(type_l)),
                    MATRIX(right ? r : NULL, n, n, ldr, solver_element(type_r)),
                    MATRIX(a, n, n, lda, e)),
            LIST(MATRIX(a, n, n, lda, e)), info, 1);
}
