/* SPDX-License-Identifier: MIT */
/*
 * libcusparse.h - what the parts of the stand-in for cuSPARSE share.
 *
 * NVIDIA's reference says which routines need extra storage, and gives no formula. Those that go through
 * the rows of a CSR matrix have an integer for each row here and one more; of SpGEMM "the memory is in
 * proportion to the intermediate products": an index and a value for each.
 */
#ifndef KEDGE_TESTS_SIM_STANDINS_LIBCUSPARSE_H
#define KEDGE_TESTS_SIM_STANDINS_LIBCUSPARSE_H

#include "common.h"

enum {
    SUCCESS = 0,
    NO_MEMORY = 2,
    EXECUTION_FAILED = 6
};

struct handle {
    void *stream;
};

/* A matrix, sparse or dense, or a vector. */
struct matrix {
    bool is_dense, is_coo, by_rows;
    int64_t rows, columns, nonzero, leading, batch, stride;
    const void *offsets, *indices, *values;
    uint64_t offset_bytes, index_bytes, element;
};

/* The memory that a matrix uses, as operands; returns how many. */
unsigned sparse_operands(const struct matrix *x, struct operand *operands);

/* Writes the values of `c`, and `work` before, from all that `a`, `b` and `c` hold. */
int sparse_call(struct handle *h, const char *name, const struct matrix *a, const struct matrix *b,
        const struct matrix *c, void *work, uint64_t bytes);

/* An integer for each of `rows` rows, and one. */
size_t sparse_row_area(int64_t rows);

#define CREATE(name)                                      \
    BODY(name, void **ret_object)                         \
    {                                                     \
        *ret_object = standin_new(sizeof(struct matrix)); \
        return *ret_object ? SUCCESS : NO_MEMORY;         \
    }
#define DESTROY(name)        \
    BODY(name, void *object) \
    {                        \
        free(object);        \
        return SUCCESS;      \
    }

#endif
