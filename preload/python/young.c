/* SPDX-License-Identifier: MIT */
#include "preload/python/young.h"

#include "preload/anchors/pyhost.h"
#include "preload/python/pycall.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct pyhost_object object;

enum {
    WAITING_SIZE = 20,   /* items of the longest tuple that waits */
    FREED_SIZE = 32,     /* items of one that does not */
    WAITING = 2000,      /* tuples of a size that wait */
    TUPLES_AT_ONCE = 50, /* between two questions for the count */
};

/* As in Python's documentation. */
#define YOUNG_FUNCTIONS(F)                                 \
    F(object *, PyObject_CallObject, (object *, object *)) \
    F(object *, PyTuple_New, (intptr_t))                   \
    F(object *, PyTuple_GetItem, (object *, intptr_t))     \
    F(int, _PyTuple_Resize, (object **, intptr_t))         \
    F(long, PyLong_AsLong, (object *))                     \
    F(void, PyErr_Clear, (void))

static const char *const young_names[] = {YOUNG_FUNCTIONS(PYCALL_NAME)};
static struct {
    YOUNG_FUNCTIONS(PYCALL_MEMBER)
} py;

long young_count(void)
{
    object *get = pycall_find(&py, young_names, sizeof young_names / sizeof *young_names)
            ? pyhost_in_module("gc", "get_count")
            : NULL;
    object *counts = get ? py.PyObject_CallObject(get, NULL) : NULL;
    object *first = counts ? py.PyTuple_GetItem(counts, 0) : NULL;
    long count = first ? py.PyLong_AsLong(first) : -1;

    pyhost_drop(counts);
    if (count < 0 && get)
        py.PyErr_Clear();
    return count;
}

static void young_free(intptr_t size, long tuples)
{
    for (; tuples > 0; tuples--) {
        object *tuple = py.PyTuple_New(size);

        if (tuple && py._PyTuple_Resize(&tuple, FREED_SIZE) == 0)
            pyhost_drop(tuple);
        else
            py.PyErr_Clear();
    }
}

void young_restore(long was)
{
    long count = was < 0 ? was : young_count();

    for (intptr_t size = 1; size <= WAITING_SIZE; size++)
        for (long freed = 0; count > was && freed < WAITING; freed += TUPLES_AT_ONCE) {
            long left = count - was;

            young_free(size, left < TUPLES_AT_ONCE ? left : TUPLES_AT_ONCE);
            count = young_count();
            if (count > was && count >= was + left)
                break; /* none of this size waits */
        }
}
