/* SPDX-License-Identifier: MIT */
/* A library of a program that asks for memory: receipts.py has it in two builds. */
#include <stddef.h>

int relay_alloc(int (*alloc)(void **, size_t), void **ret_ptr, size_t bytes);

int relay_alloc(int (*alloc)(void **, size_t), void **ret_ptr, size_t bytes)
{
    int result = alloc(ret_ptr, bytes);

#ifdef RELAY_REBUILT
    result += bytes == 1; /* another build */
#else
    result += bytes == 2; /* the call is not the last thing here: the frame stays */
#endif
    return result;
}
