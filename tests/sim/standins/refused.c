/* SPDX-License-Identifier: MIT */
/* A function that refuses for each name in the list: weak, so that one with a body takes its place. */
#include "common.h"

long standin_refused(const char *name);

#define N(name)                                   \
    EXPORT __attribute__((weak)) long name(void); \
    EXPORT __attribute__((weak)) long name(void)  \
    {                                             \
        return standin_refused(#name);            \
    }
#include STANDIN_NAMES
