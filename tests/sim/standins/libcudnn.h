/* SPDX-License-Identifier: MIT */
/* libcudnn.h - what the parts of the stand-in for cuDNN share. */
#ifndef KEDGE_TESTS_SIM_STANDINS_LIBCUDNN_H
#define KEDGE_TESTS_SIM_STANDINS_LIBCUDNN_H

#include "common.h"

enum {
    SUCCESS = 0,
    BAD_PARAM = 2000,
    NO_MEMORY = 4002,
    EXECUTION_FAILED = 5000
};
enum {
    DIMENSIONS = 8
};

struct handle {
    void *stream;
};

/* One kind of memory block serves every descriptor; each uses what it needs. */
struct descriptor {
    int type, format, count;
    int sizes[DIMENSIONS], strides[DIMENSIONS];
};

/* Sizes of a descriptor of a network. */
enum {
    CELL,
    BIASES, /* of each gate */
    DIRECTIONS,
    INPUT,
    HIDDEN,
    PROJECTION,
    LAYERS,
    MASKED
};

/* Sizes of a descriptor of data: steps, sequences, elements of a vector, and vectors that there are. */
enum {
    STEPS,
    SEQUENCES,
    VECTOR,
    VECTORS
};

#define CREATE(name)                                             \
    BODY(name, struct descriptor **ret_descriptor)               \
    {                                                            \
        *ret_descriptor = standin_new(sizeof(**ret_descriptor)); \
        return *ret_descriptor ? SUCCESS : NO_MEMORY;            \
    }

#define DESTROY(name)        \
    BODY(name, void *object) \
    {                        \
        free(object);        \
        return SUCCESS;      \
    }

/* Of a cudnnDataType_t. */
uint64_t dnn_bytes_of_type(int type);

/* Bytes from the first to behind the last element of a tensor. */
uint64_t dnn_extent(const struct descriptor *d);

/* Bytes of the vectors of a descriptor of data. */
uint64_t dnn_bytes_of_data(const struct descriptor *x);

/* A state of a network, or nothing. */
struct operand dnn_state(const void *at, const struct descriptor *d);

/* Packed: the last dimension's elements lie side by side. */
int dnn_set_packed(struct descriptor *d, int type, int count, const int *sizes);

#endif
