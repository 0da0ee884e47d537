/* SPDX-License-Identifier: MIT */
/* libcublas.h - what the parts of the stand-in for cuBLAS share. */
#ifndef KEDGE_TESTS_SIM_STANDINS_LIBCUBLAS_H
#define KEDGE_TESTS_SIM_STANDINS_LIBCUBLAS_H

#include "common.h"

enum {
    SUCCESS = 0,
    NO_MEMORY = 3,
    EXECUTION_FAILED = 13
};

struct handle {
    void *stream;
    int pointer_mode, math_mode, atomics_mode;
    void *workspace;
    size_t workspace_bytes;
};

#endif
