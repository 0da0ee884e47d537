/* SPDX-License-Identifier: MIT */
/*
 * libcusolver.h - what the parts of the stand-in for cuSOLVER share.
 *
 * NVIDIA's documentation gives no formula for what `bufferSize` returns. The work areas here are those
 * that LAPACK's Users' Guide states for the routine of the same name (the optimal LWORK, with ILAENV's
 * block size); of the factorisations, which LAPACK does in place, a panel of that many columns, as
 * MAGMA's published ones on a GPU keep. Jacobi methods hold a copy of the matrix and the vectors.
 */
#ifndef KEDGE_TESTS_SIM_STANDINS_LIBCUSOLVER_H
#define KEDGE_TESTS_SIM_STANDINS_LIBCUSOLVER_H

#include "common.h"

enum {
    BLOCK = 32,       /* ILAENV: geqrf, orgqr, ormqr, sytrd, gebrd, gehrd */
    BLOCK_FACTOR = 64 /* ILAENV: getrf, potrf, sytrf */
};

struct handle {
    void *stream;
};

/* Bytes of an element of a cudaDataType. */
uint64_t solver_element(int type);

/*
 * One call of the library: writes `outs` from `reads`, and the states of `count` problems are 0.
 * Returns the library's status.
 */
int solver_call(struct handle *h, const char *name, const struct operand *outs, unsigned out_count,
        const struct operand *reads, unsigned read_count, int *info, int64_t count);

#define MATRIX(at, rows, columns, leading, element)         \
    {                                                       \
        at, standin_extent(rows, columns, leading, element) \
    }

#endif
