/* SPDX-License-Identifier: MIT */
/*
 * libcusparse: matrices, and their products through the functions that take descriptors. The older ones,
 * by type, are in libcusparse_typed.c.
 */
#include "libcusparse.h"

#include <stdlib.h>
#include <string.h>

REFUSED_IS(10) /* CUSPARSE_STATUS_NOT_SUPPORTED */

CREATE(cusparseCreate)
DESTROY(cusparseDestroy)
NOTHING(cusparseSetPointerMode)
NOTHING(cusparseSpMatSetAttribute)
NOTHING(cusparseSpMatSetStridedBatch)

BODY(cusparseSetStream, struct handle *h, void *stream)
{
    standin_begin();
    h->stream = stream;
    return SUCCESS;
}

BODY(cusparseGetStream, struct handle *h, void **ret_stream)
{
    *ret_stream = h->stream;
    return SUCCESS;
}

EXPORT const char *cusparseGetErrorString(int status);
EXPORT const char *cusparseGetErrorString(int status)
{
    return status ? "an error of a stand-in" : "success";
}

BODY(cusparseGetVersion, void *handle, int *ret_version)
{
    *ret_version = STANDIN_MAJOR * 1000 + 999;
    return SUCCESS;
}

BODY(cusparseGetProperty, int which, int *ret_value)
{
    *ret_value = which == 0 ? STANDIN_MAJOR : 9;
    return SUCCESS;
}

/* ---- matrices ---- */

/* cudaDataType */
static uint64_t bytes_of_type(int type)
{
    static const uint8_t bytes[] = {4, 8, 2, 1, 8, 16, 4, 2, 1, 2, 4, 8, 4, 8, 2, 4};

    return type >= 0 && type < (int)sizeof bytes ? bytes[type] : 4;
}

/* cusparseIndexType_t */
static uint64_t bytes_of_index(int type)
{
    return type == 1 ? 2 : type == 3 ? 8 : 4;
}

static int keep(struct matrix **ret, struct matrix matrix)
{
    *ret = standin_new(sizeof(matrix));
    if (!*ret)
        return NO_MEMORY;
    matrix.batch = 1;
    **ret = matrix;
    return SUCCESS;
}

BODY(cusparseCreateCsr, struct matrix **ret, int64_t rows, int64_t columns, int64_t nonzero,
        void *offsets, void *indices, void *values, int offset_type, int index_type, int base,
        int type)
{
    return keep(ret,
            (struct matrix){.rows = rows,
                    .columns = columns,
                    .nonzero = nonzero,
                    .offsets = offsets,
                    .indices = indices,
                    .values = values,
                    .offset_bytes = bytes_of_index(offset_type),
                    .index_bytes = bytes_of_index(index_type),
                    .element = bytes_of_type(type)});
}

BODY(cusparseCreateCoo, struct matrix **ret, int64_t rows, int64_t columns, int64_t nonzero,
        void *row_indices, void *indices, void *values, int index_type, int base, int type)
{
    int status = cusparseCreateCsr(ret, rows, columns, nonzero, row_indices, indices, values,
            index_type, index_type, base, type);

    if (status == SUCCESS)
        (*ret)->is_coo = true;
    return status;
}

BODY(cusparseCreateDnMat, struct matrix **ret, int64_t rows, int64_t columns, int64_t leading,
        void *values, int type, int order)
{
    return keep(ret,
            (struct matrix){.is_dense = true,
                    .by_rows = order == 2,
                    .rows = rows,
                    .columns = columns,
                    .leading = leading,
                    .values = values,
                    .element = bytes_of_type(type)});
}

BODY(cusparseCreateDnVec, struct matrix **ret, int64_t size, void *values, int type)
{
    return cusparseCreateDnMat(ret, size, 1, size, values, type, 1);
}

DESTROY(cusparseDestroySpMat)
DESTROY(cusparseDestroyDnMat)
DESTROY(cusparseDestroyDnVec)

BODY(cusparseCsrSetPointers, struct matrix *x, void *offsets, void *indices, void *values)
{
    x->offsets = offsets;
    x->indices = indices;
    x->values = values;
    return SUCCESS;
}

BODY(cusparseDnMatSetStridedBatch, struct matrix *x, int count, int64_t stride)
{
    x->batch = count;
    x->stride = stride;
    return SUCCESS;
}

/* All batches lie behind each other. */
BODY(cusparseCsrSetStridedBatch, struct matrix *x, int count, int64_t offsets, int64_t values)
{
    x->batch = count;
    return SUCCESS;
}

BODY(cusparseSpMatGetSize, const struct matrix *x, int64_t *ret_rows, int64_t *ret_columns,
        int64_t *ret_nonzero)
{
    *ret_rows = x->rows;
    *ret_columns = x->columns;
    *ret_nonzero = x->nonzero;
    return SUCCESS;
}

static uint64_t bytes_of_values(const struct matrix *x)
{
    if (!x->is_dense)
        return (uint64_t)(x->nonzero * x->batch) * x->element;

    uint64_t one = x->by_rows ? standin_extent(x->columns, x->rows, x->leading, x->element)
                              : standin_extent(x->rows, x->columns, x->leading, x->element);

    return one ? one + (uint64_t)((x->batch - 1) * x->stride) * x->element : 0;
}

unsigned sparse_operands(const struct matrix *x, struct operand *operands)
{
    int64_t offsets = x->is_coo ? x->nonzero : x->rows + 1;

    operands[0] = (struct operand){x->values, bytes_of_values(x)};
    if (x->is_dense)
        return 1;
    operands[1] = (struct operand){x->offsets, (uint64_t)(offsets * x->batch) * x->offset_bytes};
    operands[2] = (struct operand){x->indices, (uint64_t)(x->nonzero * x->batch) * x->index_bytes};
    return 3;
}

int sparse_call(struct handle *h, const char *name, const struct matrix *a, const struct matrix *b,
        const struct matrix *c, void *work, uint64_t bytes)
{
    struct operand reads[9], outs[] = {{work, bytes}, {c->values, bytes_of_values(c)}};
    unsigned count = sparse_operands(a, reads);

    if (b)
        count += sparse_operands(b, reads + count);
    count += sparse_operands(c, reads + count);
    return standin_write(h->stream, name, outs, 2, reads, count) ? EXECUTION_FAILED : SUCCESS;
}

size_t sparse_row_area(int64_t rows)
{
    return (size_t)(rows + 1) * sizeof(int);
}

/* ---- sparse times dense, and dense times dense at the places of a sparse one ---- */

static size_t area_of(const struct matrix *sparse)
{
    return sparse->is_coo ? 0 : sparse_row_area(sparse->rows * sparse->batch);
}

BODY(cusparseSpMV_bufferSize, struct handle *h, int op, const void *alpha, const struct matrix *a,
        const struct matrix *x, const void *beta, const struct matrix *y, int compute,
        int algorithm, size_t *ret_bytes)
{
    *ret_bytes = area_of(a);
    return SUCCESS;
}

BODY(cusparseSpMV, struct handle *h, int op, const void *alpha, const struct matrix *a,
        const struct matrix *x, const void *beta, const struct matrix *y, int compute,
        int algorithm, void *work)
{
    return sparse_call(h, "SpMV", a, x, y, work, area_of(a));
}

BODY(cusparseSpMM_bufferSize, struct handle *h, int op_a, int op_b, const void *alpha,
        const struct matrix *a, const struct matrix *b, const void *beta, const struct matrix *c,
        int compute, int algorithm, size_t *ret_bytes)
{
    *ret_bytes = area_of(a);
    return SUCCESS;
}

BODY(cusparseSpMM, struct handle *h, int op_a, int op_b, const void *alpha, const struct matrix *a,
        const struct matrix *b, const void *beta, const struct matrix *c, int compute,
        int algorithm, void *work)
{
    return sparse_call(h, "SpMM", a, b, c, work, area_of(a));
}

BODY(cusparseSDDMM_bufferSize, struct handle *h, int op_a, int op_b, const void *alpha,
        const struct matrix *a, const struct matrix *b, const void *beta, const struct matrix *c,
        int compute, int algorithm, size_t *ret_bytes)
{
    *ret_bytes = area_of(c);
    return SUCCESS;
}

NOTHING(cusparseSDDMM_preprocess)

BODY(cusparseSDDMM, struct handle *h, int op_a, int op_b, const void *alpha, const struct matrix *a,
        const struct matrix *b, const void *beta, const struct matrix *c, int compute,
        int algorithm, void *work)
{
    return sparse_call(h, "SDDMM", a, b, c, work, area_of(c));
}

/* ---- sparse times sparse ---- */

CREATE(cusparseSpGEMM_createDescr)
DESTROY(cusparseSpGEMM_destroyDescr)

static double share(const struct matrix *x)
{
    double places = (double)x->rows * (double)x->columns;

    return places > 0 ? (double)x->nonzero / places : 0;
}

/* Products of nonzeros, where they lie anywhere with the same probability. */
static int64_t products(const struct matrix *a, const struct matrix *b)
{
    return a->columns > 0 ? (int64_t)((double)a->nonzero * (double)b->nonzero / (double)a->columns)
                          : 0;
}

/* Places with at least one of them: the values of the indices are not known here. */
static int64_t places(const struct matrix *a, const struct matrix *b)
{
    double none = 1, each = 1 - share(a) * share(b);

    for (int64_t n = a->columns; n > 0; n /= 2, each *= each)
        if (n % 2)
            none *= each;
    return (int64_t)((double)a->rows * (double)b->columns * (1 - none) + 0.5);
}

BODY(cusparseSpGEMM_workEstimation, struct handle *h, int op_a, int op_b, const void *alpha,
        const struct matrix *a, const struct matrix *b, const void *beta, struct matrix *c,
        int compute, int algorithm, void *d, size_t *bytes, void *work)
{
    if (!work)
        *bytes = sparse_row_area(a->rows);
    return SUCCESS;
}

BODY(cusparseSpGEMM_compute, struct handle *h, int op_a, int op_b, const void *alpha,
        const struct matrix *a, const struct matrix *b, const void *beta, struct matrix *c,
        int compute, int algorithm, void *d, size_t *bytes, void *work)
{
    struct operand reads[6], out = {work, *bytes};
    unsigned count;

    c->nonzero = places(a, b);
    if (!work) {
        *bytes = (size_t)products(a, b) * (sizeof(int) + c->element);
        return SUCCESS;
    }
    count = sparse_operands(a, reads);
    count += sparse_operands(b, reads + count);
    return standin_write(h->stream, "SpGEMM", &out, 1, reads, count) ? EXECUTION_FAILED : SUCCESS;
}

BODY(cusparseSpGEMM_copy, struct handle *h, int op_a, int op_b, const void *alpha,
        const struct matrix *a, const struct matrix *b, const void *beta, struct matrix *c,
        int compute, int algorithm, void *d)
{
    struct operand reads[6], outs[3];
    unsigned count = sparse_operands(a, reads);

    count += sparse_operands(b, reads + count);
    return standin_write(h->stream, "SpGEMM", outs, sparse_operands(c, outs), reads, count)
            ? EXECUTION_FAILED
            : SUCCESS;
}

/* ---- triangular systems ---- */

CREATE(cusparseSpSV_createDescr)
DESTROY(cusparseSpSV_destroyDescr)
CREATE(cusparseSpSM_createDescr)
DESTROY(cusparseSpSM_destroyDescr)

BODY(cusparseSpSV_bufferSize, struct handle *h, int op, const void *alpha, const struct matrix *a,
        const struct matrix *x, const struct matrix *y, int compute, int algorithm, void *d,
        size_t *ret_bytes)
{
    *ret_bytes = sparse_row_area(a->rows);
    return SUCCESS;
}

NOTHING(cusparseSpSV_analysis)

BODY(cusparseSpSV_solve, struct handle *h, int op, const void *alpha, const struct matrix *a,
        const struct matrix *x, const struct matrix *y, int compute, int algorithm, void *d)
{
    return sparse_call(h, "SpSV", a, x, y, NULL, 0);
}

BODY(cusparseSpSM_bufferSize, struct handle *h, int op_a, int op_b, const void *alpha,
        const struct matrix *a, const struct matrix *b, const struct matrix *c, int compute,
        int algorithm, void *d, size_t *ret_bytes)
{
    *ret_bytes = sparse_row_area(a->rows);
    return SUCCESS;
}

NOTHING(cusparseSpSM_analysis)

BODY(cusparseSpSM_solve, struct handle *h, int op_a, int op_b, const void *alpha,
        const struct matrix *a, const struct matrix *b, const struct matrix *c, int compute,
        int algorithm, void *d)
{
    return sparse_call(h, "SpSM", a, b, c, NULL, 0);
}
