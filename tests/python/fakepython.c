/* SPDX-License-Identifier: MIT */
/*
 * fakepython.c - a library that says of itself that it is a Python which nobody here knows.
 *
 * VERSION is what it says. Asking it for a thread's state would be the first step into structs of unknown shape.
 */
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT const char *Py_GetVersion(void);
EXPORT void *PyGILState_GetThisThreadState(void);
EXPORT void *_PyThreadState_UncheckedGet(void);
EXPORT int _Py_IsFinalizing(void);

EXPORT char PyType_Type[416], PyCode_Type[416], _PyRuntime[4096];

const char *Py_GetVersion(void)
{
    return VERSION;
}

void *PyGILState_GetThisThreadState(void)
{
    abort();
}

void *_PyThreadState_UncheckedGet(void)
{
    abort();
}

int _Py_IsFinalizing(void)
{
    abort();
}
