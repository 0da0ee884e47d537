/* SPDX-License-Identifier: MIT */
/* libcusparse: the functions that have a type in their name, and those of indices alone. */
#include "libcusparse.h"

#include <stdlib.h>

CREATE(cusparseCreateMatDescr)
DESTROY(cusparseDestroyMatDescr)
CREATE(cusparseCreateBsrsv2Info)
DESTROY(cusparseDestroyBsrsv2Info)
CREATE(cusparseCreateBsrsm2Info)
DESTROY(cusparseDestroyBsrsm2Info)
NOTHING(cusparseSetMatType)
NOTHING(cusparseSetMatFillMode)
NOTHING(cusparseSetMatDiagType)
NOTHING(cusparseSetMatIndexBase)

static int call(struct handle *h, const char *name, const struct operand *outs, unsigned out_count,
        const struct operand *reads, unsigned read_count)
{
    return standin_write(h->stream, name, outs, out_count, reads, read_count) ? EXECUTION_FAILED
                                                                              : SUCCESS;
}

static uint64_t ints(int64_t count)
{
    return count > 0 ? (uint64_t)count * sizeof(int) : 0;
}

/* ---- indices; a sort has its keys and what goes with them a second time ---- */

BODY(cusparseXcoo2csr, struct handle *h, const int *rows, int nonzero, int m, int *offsets,
        int base)
{
    return call(h, "coo2csr", LIST({offsets, ints(m + 1)}), LIST({rows, ints(nonzero)}));
}

BODY(cusparseXcsr2coo, struct handle *h, const int *offsets, int nonzero, int m, int *rows,
        int base)
{
    return call(h, "csr2coo", LIST({rows, ints(nonzero)}), LIST({offsets, ints(m + 1)}));
}

BODY(cusparseCreateIdentityPermutation, struct handle *h, int n, int *p)
{
    return call(h, "identity", LIST({p, ints(n)}), NULL, 0);
}

BODY(cusparseXcoosort_bufferSizeExt, struct handle *h, int m, int n, int nonzero, const int *rows,
        const int *columns, size_t *ret_bytes)
{
    *ret_bytes = ints(nonzero) * 4;
    return SUCCESS;
}

BODY(cusparseXcoosortByRow, struct handle *h, int m, int n, int nonzero, int *rows, int *columns,
        int *p, void *work)
{
    uint64_t bytes = ints(nonzero);

    return call(h, "coosort", LIST({work, bytes * 4}, {rows, bytes}, {columns, bytes}, {p, bytes}),
            LIST({rows, bytes}, {columns, bytes}, {p, bytes}));
}

BODY(cusparseXcsrsort_bufferSizeExt, struct handle *h, int m, int n, int nonzero,
        const int *offsets, const int *columns, size_t *ret_bytes)
{
    *ret_bytes = ints(nonzero) * 4;
    return SUCCESS;
}

BODY(cusparseXcsrsort, struct handle *h, int m, int n, int nonzero, void *d, const int *offsets,
        int *columns, int *p, void *work)
{
    uint64_t bytes = ints(nonzero);

    return call(h, "csrsort", LIST({work, bytes * 4}, {columns, bytes}, {p, bytes}),
            LIST({offsets, ints(m + 1)}, {columns, bytes}, {p, bytes}));
}

/* ---- the sum of two: as many nonzeros as both, if there is room for them ---- */

static int nonzero_of_sum(int m, int n, int a, int b)
{
    int64_t places = (int64_t)m * n, both = (int64_t)a + b;

    return (int)(both < places ? both : places);
}

BODY(cusparseXcsrgeam2Nnz, struct handle *h, int m, int n, void *da, int nonzero_a,
        const int *offsets_a, const int *columns_a, void *db, int nonzero_b, const int *offsets_b,
        const int *columns_b, void *dc, int *offsets_c, int *ret_nonzero, void *work)
{
    uint64_t offsets = ints(m + 1);

    *ret_nonzero = nonzero_of_sum(m, n, nonzero_a, nonzero_b);
    return call(h, "csrgeam2Nnz", LIST({work, sparse_row_area(m)}, {offsets_c, offsets}),
            LIST({offsets_a, offsets}, {columns_a, ints(nonzero_a)}, {offsets_b, offsets},
                    {columns_b, ints(nonzero_b)}));
}

#define SUM(T, e)                                                                                \
    BODY(cusparse##T##csrgeam2_bufferSizeExt, struct handle *h, int m, int n, const void *alpha, \
            void *da, int nonzero_a, const void *a, const int *offsets_a, const int *columns_a,  \
            const void *beta, void *db, int nonzero_b, const void *b, const int *offsets_b,      \
            const int *columns_b, void *dc, const void *c, const int *offsets_c,                 \
            const int *columns_c, size_t *ret_bytes)                                             \
    {                                                                                            \
        *ret_bytes = sparse_row_area(m);                                                         \
        return SUCCESS;                                                                          \
    }                                                                                            \
    BODY(cusparse##T##csrgeam2, struct handle *h, int m, int n, const void *alpha, void *da,     \
            int nonzero_a, const void *a, const int *offsets_a, const int *columns_a,            \
            const void *beta, void *db, int nonzero_b, const void *b, const int *offsets_b,      \
            const int *columns_b, void *dc, void *c, int *offsets_c, int *columns_c, void *work) \
    {                                                                                            \
        int64_t nonzero = nonzero_of_sum(m, n, nonzero_a, nonzero_b);                            \
                                                                                                 \
        return call(h, "csrgeam2",                                                               \
                LIST({work, sparse_row_area(m)}, {c, (uint64_t)nonzero * e},                     \
                        {columns_c, ints(nonzero)}),                                             \
                LIST({a, (uint64_t)nonzero_a * e}, {columns_a, ints(nonzero_a)},                 \
                        {b, (uint64_t)nonzero_b * e}, {columns_b, ints(nonzero_b)}));            \
    }

/* ---- matrices of blocks: `mb` rows of them, each of `d` times `d` ---- */

#define BLOCKS                                                                            \
    {values, (uint64_t)nonzero * (uint64_t)d * (uint64_t)d * e}, {offsets, ints(mb + 1)}, \
    {                                                                                     \
        columns, ints(nonzero)                                                            \
    }
#define VECTOR(at, blocks)                      \
    {                                           \
        at, (uint64_t)(blocks) * (uint64_t)d *e \
    }
#define DENSE(at, rows, columns, leading)             \
    {                                                 \
        at, standin_extent(rows, columns, leading, e) \
    }

/* A triangular system has an integer for each block row: in which step it is solved. */
#define BLOCK_MATRICES(T, e_bytes)                                                                 \
    BODY(cusparse##T##bsrmv, struct handle *h, int direction, int op, int mb, int nb, int nonzero, \
            const void *alpha, void *descriptor, const void *values, const int *offsets,           \
            const int *columns, int d, const void *x, const void *beta, void *y)                   \
    {                                                                                              \
        uint64_t e = e_bytes;                                                                      \
                                                                                                   \
        return call(h, "bsrmv", LIST(VECTOR(y, mb)), LIST(BLOCKS, VECTOR(x, nb), VECTOR(y, mb)));  \
    }                                                                                              \
    BODY(cusparse##T##bsrmm, struct handle *h, int direction, int op_a, int op_b, int mb, int n,   \
            int kb, int nonzero, const void *alpha, void *descriptor, const void *values,          \
            const int *offsets, const int *columns, int d, const void *b, int ldb,                 \
            const void *beta, void *c, int ldc)                                                    \
    {                                                                                              \
        uint64_t e = e_bytes;                                                                      \
                                                                                                   \
        return call(h, "bsrmm", LIST(DENSE(c, mb * d, n, ldc)),                                    \
                LIST(BLOCKS, DENSE(b, op_b ? n : kb * d, op_b ? kb * d : n, ldb),                  \
                        DENSE(c, mb * d, n, ldc)));                                                \
    }                                                                                              \
    BODY(cusparse##T##bsrsv2_bufferSize, struct handle *h, int direction, int op, int mb,          \
            int nonzero, void *descriptor, void *values, const int *offsets, const int *columns,   \
            int d, void *info, int *ret_bytes)                                                     \
    {                                                                                              \
        *ret_bytes = (int)sparse_row_area(mb);                                                     \
        return SUCCESS;                                                                            \
    }                                                                                              \
    NOTHING(cusparse##T##bsrsv2_analysis)                                                          \
    BODY(cusparse##T##bsrsv2_solve, struct handle *h, int direction, int op, int mb, int nonzero,  \
            const void *alpha, void *descriptor, const void *values, const int *offsets,           \
            const int *columns, int d, void *info, const void *f, void *x, int policy, void *work) \
    {                                                                                              \
        uint64_t e = e_bytes;                                                                      \
                                                                                                   \
        return call(h, "bsrsv2", LIST({work, sparse_row_area(mb)}, VECTOR(x, mb)),                 \
                LIST(BLOCKS, VECTOR(f, mb)));                                                      \
    }                                                                                              \
    BODY(cusparse##T##bsrsm2_bufferSize, struct handle *h, int direction, int op_a, int op_x,      \
            int mb, int n, int nonzero, void *descriptor, void *values, const int *offsets,        \
            const int *columns, int d, void *info, int *ret_bytes)                                 \
    {                                                                                              \
        *ret_bytes = (int)sparse_row_area(mb);                                                     \
        return SUCCESS;                                                                            \
    }                                                                                              \
    NOTHING(cusparse##T##bsrsm2_analysis)                                                          \
    BODY(cusparse##T##bsrsm2_solve, struct handle *h, int direction, int op_a, int op_x, int mb,   \
            int n, int nonzero, const void *alpha, void *descriptor, const void *values,           \
            const int *offsets, const int *columns, int d, void *info, const void *b, int ldb,     \
            void *x, int ldx, int policy, void *work)                                              \
    {                                                                                              \
        uint64_t e = e_bytes;                                                                      \
        int rows = op_x ? n : mb * d, across = op_x ? mb * d : n;                                  \
                                                                                                   \
        return call(h, "bsrsm2", LIST({work, sparse_row_area(mb)}, DENSE(x, rows, across, ldx)),   \
                LIST(BLOCKS, DENSE(b, rows, across, ldb)));                                        \
    }

#define TYPED(T, e) SUM(T, e) BLOCK_MATRICES(T, e)
TYPED(S, 4)
TYPED(D, 8)
TYPED(C, 8)
TYPED(Z, 16)

#define ZERO_PIVOT(name)                                     \
    BODY(name, struct handle *h, void *info, int *ret_place) \
    {                                                        \
        *ret_place = -1; /* there is none */                 \
        return SUCCESS;                                      \
    }

ZERO_PIVOT(cusparseXbsrsv2_zeroPivot)
ZERO_PIVOT(cusparseXbsrsm2_zeroPivot)
