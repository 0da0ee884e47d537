/* SPDX-License-Identifier: MIT */
/*
 * value_functor.h - PyTorch's functors by name: types of arguments and result, what they carry, what they compute.
 *
 * Threads: any; pure but for the bytes of a functor, which the caller gives.
 */
#ifndef KEDGE_TESTS_SIM_VALUE_FUNCTOR_H
#define KEDGE_TESTS_SIM_VALUE_FUNCTOR_H

#include "tests/sim/values/value_type.h"

#define VALUE_ARGUMENTS 4

struct value_row;

struct value_functor {
    const struct value_row *row;
    unsigned arity; /* without an argument that is bound */
    enum value_type argument[VALUE_ARGUMENTS], result;
    bool is_float; /* computed in double precision */
    int bound;     /* the argument that the functor carries; -1: none */
    enum value_type bound_type;
    uint32_t bound_at;
    uint32_t size; /* of the functor, unless its lambda has a word more at its end */
    bool is_lambda;
};

/* `arity`: of what the kernel calls. False: not known. */
bool value_functor_find(struct text functor, unsigned arity, struct value_functor *ret_functor);

/* What it carries. */
struct value_carried {
    double f[VALUE_ARGUMENTS];
    int64_t i[VALUE_ARGUMENTS];
    struct value bound;
};

/* Bytes of the functor that `value_functor_carried` reads. */
uint32_t value_functor_reads(const struct value_functor *functor);
void value_functor_carried(
        const struct value_functor *functor, const char *bytes, struct value_carried *ret_carried);

struct value value_functor_call(const struct value_functor *functor,
        const struct value_carried *carried, const struct value *arguments);

#endif
