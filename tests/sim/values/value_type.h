/* SPDX-License-Identifier: MIT */
/*
 * value_type.h - types of elements: their names in C++ and in PyTorch, their bytes, and conversion.
 *
 * A number is computed in double precision or in 64 bits, and rounded once when it is stored. Threads: any.
 */
#ifndef KEDGE_TESTS_SIM_VALUE_TYPE_H
#define KEDGE_TESTS_SIM_VALUE_TYPE_H

#include "tests/sim/kernel/sim_name.h"

#include <stdint.h>

enum value_type {
    VALUE_NONE, /* not known, or one that is not computed with */
    VALUE_BOOL,
    VALUE_U8,
    VALUE_I8,
    VALUE_I16,
    VALUE_I32,
    VALUE_I64,
    VALUE_U16,
    VALUE_U32,
    VALUE_U64,
    VALUE_F8_E4M3,
    VALUE_F8_E5M2,
    VALUE_F16,
    VALUE_BF16,
    VALUE_F32,
    VALUE_F64,
    VALUE_TYPE_COUNT
};

/* A number in both forms; one of them is exact. */
struct value {
    double f;
    int64_t i;
    bool is_float;
};

enum value_type value_type_named(struct text name);

/* PyTorch's number of a ScalarType. */
enum value_type value_type_numbered(unsigned number);

uint32_t value_size(enum value_type type);
bool value_is_float(enum value_type type);

/* What functors compute with: float for floats of 8 and 16 bits. */
enum value_type value_math_type(enum value_type type);

struct value value_of_float(double f);
struct value value_of_integer(int64_t i);

struct value value_read(enum value_type type, const void *bytes);
void value_write(enum value_type type, struct value value, void *bytes);

/* As it is after a store and a load. */
struct value value_as(enum value_type type, struct value value);

#endif
