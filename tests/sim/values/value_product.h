/* SPDX-License-Identifier: MIT */
/*
 * value_product.h - a matrix product, as stand-ins of libraries hand it to the kernel kedge_product.
 *
 *     C = epilogue(alpha * op(A) op(B) + beta * C + bias), `count` of them; matrices lie in columns
 *
 * Shared with the stand-ins: words of 8 bytes, nothing but numbers.
 */
#ifndef KEDGE_TESTS_SIM_VALUE_PRODUCT_H
#define KEDGE_TESTS_SIM_VALUE_PRODUCT_H

#include <stdint.h>

/* Numbers of the library's own: cudaDataType, and cublasLtEpilogue_t without its bias. */
enum {
    PRODUCT_FLOAT = 0,
    PRODUCT_DOUBLE = 1,
    PRODUCT_HALF = 2,
    PRODUCT_BFLOAT = 14,
    PRODUCT_RELU = 2,
    PRODUCT_GELU = 32
};

/* Products of at most so many multiplications are handed over. */
#define PRODUCT_MOST 4000000

struct value_product_matrix {
    uint64_t at, bytes; /* its extent */
    int64_t type, leading, stride;
};

struct value_product {
    struct value_product_matrix c, a, b;
    uint64_t bias, bias_bytes; /* a number for each row; 0: none */
    uint64_t seed;             /* of the digest that is written where nothing can be computed */
    int64_t rows, columns, depth, count;
    int64_t transposes_a, transposes_b, epilogue;
    double alpha, beta;
};

#endif
