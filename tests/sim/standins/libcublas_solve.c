/* SPDX-License-Identifier: MIT */
/*
 * libcublas: triangular systems, and batches of matrices by lists of addresses.
 *
 * A list of addresses is in the device's memory, where a kernel of the program wrote it, which the
 * simulated device does not run. So of a batch the list is read; the matrices stay as they were, and
 * pivots and states, which are no list, are written.
 */
#include "libcublas.h"

/* Lists that a call reads, pivots and states that it writes, and states in the host's memory. */
struct batch {
    const void *a, *b, *c;
    int *pivots, *info, *host_info;
    int64_t count, pivot_count;
};

static int solve_batch(struct handle *h, struct batch batch)
{
    uint64_t bytes = batch.count > 0 ? (uint64_t)batch.count * sizeof(void *) : 0;
    struct operand lists[] = {{batch.a, bytes}, {batch.b, bytes}, {batch.c, bytes}};
    int error = 0;

    if (bytes && batch.info)
        error = standin_compute(
                h->stream, 0, batch.info, (uint64_t)batch.count * 4, false, lists, 3);
    if (bytes && error == 0)
        error = standin_set(h->stream, batch.info, 0, (uint64_t)batch.count);
    if (bytes && error == 0)
        error = standin_set(
                h->stream, batch.pivots, 1, (uint64_t)(batch.pivot_count * batch.count));
    if (batch.host_info)
        *batch.host_info = 0;
    return error ? EXECUTION_FAILED : SUCCESS;
}

#define SOLVE(T, e)                                                                                \
    BODY(cublas##T##getrfBatched, struct handle *h, int n, void *const a[], int lda, int *pivots,  \
            int *info, int count)                                                                  \
    {                                                                                              \
        return solve_batch(h,                                                                      \
                (struct batch){.a = a,                                                             \
                        .pivots = pivots,                                                          \
                        .pivot_count = n,                                                          \
                        .info = info,                                                              \
                        .count = count});                                                          \
    }                                                                                              \
    BODY(cublas##T##getriBatched, struct handle *h, int n, const void *const a[], int lda,         \
            const int *pivots, void *const c[], int ldc, int *info, int count)                     \
    {                                                                                              \
        return solve_batch(h, (struct batch){.a = a, .c = c, .info = info, .count = count});       \
    }                                                                                              \
    BODY(cublas##T##getrsBatched, struct handle *h, int trans, int n, int nrhs,                    \
            const void *const a[], int lda, const int *pivots, void *const b[], int ldb,           \
            int *host_info, int count)                                                             \
    {                                                                                              \
        return solve_batch(                                                                        \
                h, (struct batch){.a = a, .b = b, .host_info = host_info, .count = count});        \
    }                                                                                              \
    BODY(cublas##T##geqrfBatched, struct handle *h, int m, int n, void *const a[], int lda,        \
            void *const tau[], int *host_info, int count)                                          \
    {                                                                                              \
        return solve_batch(                                                                        \
                h, (struct batch){.a = a, .b = tau, .host_info = host_info, .count = count});      \
    }                                                                                              \
    BODY(cublas##T##gelsBatched, struct handle *h, int trans, int m, int n, int nrhs,              \
            void *const a[], int lda, void *const c[], int ldc, int *host_info, int *info,         \
            int count)                                                                             \
    {                                                                                              \
        return solve_batch(h,                                                                      \
                (struct batch){                                                                    \
                        .a = a, .c = c, .host_info = host_info, .info = info, .count = count});    \
    }                                                                                              \
    BODY(cublas##T##gemmBatched, struct handle *h, int ta, int tb, int m, int n, int k,            \
            const void *alpha, const void *const a[], int lda, const void *const b[], int ldb,     \
            const void *beta, void *const c[], int ldc, int count)                                 \
    {                                                                                              \
        return solve_batch(h, (struct batch){.a = a, .b = b, .c = c, .count = count});             \
    }                                                                                              \
    BODY(cublas##T##trsmBatched, struct handle *h, int side, int uplo, int trans, int diagonal,    \
            int m, int n, const void *alpha, const void *const a[], int lda, void *const b[],      \
            int ldb, int count)                                                                    \
    {                                                                                              \
        return solve_batch(h, (struct batch){.a = a, .b = b, .count = count});                     \
    }                                                                                              \
    BODY(cublas##T##trsm_v2, struct handle *h, int side, int uplo, int trans, int diagonal, int m, \
            int n, const void *alpha, const void *a, int lda, void *b, int ldb)                    \
    {                                                                                              \
        int order = side ? n : m;                                                                  \
        struct operand out = {b, standin_extent(m, n, ldb, e)};                                    \
        struct operand read[] = {{a, standin_extent(order, order, lda, e)}, out};                  \
                                                                                                   \
        return standin_write(h->stream, "trsm", &out, 1, read, 2) ? EXECUTION_FAILED : SUCCESS;    \
    }

SOLVE(S, 4)
SOLVE(D, 8)
SOLVE(C, 8)
SOLVE(Z, 16)
