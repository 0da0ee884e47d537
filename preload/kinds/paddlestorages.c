/* SPDX-License-Identifier: MIT */
#include "preload/kinds/paddlestorages.h"

#include "preload/anchors/pyhost.h"
#include "preload/python/pycall.h"

#include <string.h>

typedef struct pyhost_object object;

/* As in Python's documentation. */
#define PADDLESTORAGES_FUNCTIONS(F)                                               \
    F(object *, PyObject_CallMethod, (object *, const char *, const char *, ...)) \
    F(unsigned long long, PyLong_AsUnsignedLongLong, (object *))                  \
    F(intptr_t, PyList_Size, (object *))                                          \
    F(object *, PyList_GetItem, (object *, intptr_t))                             \
    F(void, PyErr_Clear, (void))

static const char *const paddlestorages_names[] = {
        PADDLESTORAGES_FUNCTIONS(PYCALL_NAME) "_Py_NoneStruct", "_Py_TrueStruct"};
static struct {
    PADDLESTORAGES_FUNCTIONS(PYCALL_MEMBER)
    object *none, *yes;
} py;

/* Descriptors, borrowed from the class, which lives as long as the interpreter. */
static struct {
    object *data_ptr, *element_size; /* methods */
    object *shape, *place, *grad, *name, *grad_fn;
} of;

bool paddlestorages_find(void)
{
    object *tensor = pyhost_in_module("paddle", "Tensor");

    if (!tensor
            || !pycall_find(&py, paddlestorages_names,
                    sizeof paddlestorages_names / sizeof *paddlestorages_names))
        return false;
    of.data_ptr = pyhost_in_class(tensor, "data_ptr");
    of.element_size = pyhost_in_class(tensor, "element_size");
    of.shape = pyhost_in_class(tensor, "shape");
    of.place = pyhost_in_class(tensor, "place");
    of.grad = pyhost_in_class(tensor, "grad");
    of.name = pyhost_in_class(tensor, "name");
    of.grad_fn = pyhost_in_class(tensor, "grad_fn");
    return of.data_ptr && of.element_size && of.shape && of.place && of.grad && of.name
            && of.grad_fn;
}

/* A new reference, NULL for None and errors. */
static object *paddlestorages_real(object *result)
{
    if (!result)
        py.PyErr_Clear();
    if (result != py.none)
        return result;
    pyhost_drop(result);
    return NULL;
}

static object *paddlestorages_new_got(object *descriptor, object *tensor)
{
    return paddlestorages_real(py.PyObject_CallMethod(descriptor, "__get__", "O", tensor));
}

/* What a method without arguments returns, 0: it failed. */
static uint64_t paddlestorages_number(object *method, object *tensor)
{
    object *number = paddlestorages_real(py.PyObject_CallMethod(method, "__call__", "O", tensor));
    uint64_t result = number ? py.PyLong_AsUnsignedLongLong(number) : 0;

    pyhost_drop(number);
    py.PyErr_Clear();
    return result;
}

static bool paddlestorages_is_on_device(object *tensor)
{
    object *place = paddlestorages_new_got(of.place, tensor);
    object *is =
            place ? paddlestorages_real(py.PyObject_CallMethod(place, "is_gpu_place", NULL)) : NULL;

    pyhost_drop(is); /* True and False are never freed */
    pyhost_drop(place);
    return is == py.yes;
}

static uint64_t paddlestorages_size(object *tensor)
{
    uint64_t size = paddlestorages_number(of.element_size, tensor);
    object *shape = size ? paddlestorages_new_got(of.shape, tensor) : NULL;
    intptr_t dimensions = shape ? py.PyList_Size(shape) : -1;

    for (intptr_t i = 0; i < dimensions; i++)
        size *= py.PyLong_AsUnsignedLongLong(py.PyList_GetItem(shape, i));
    pyhost_drop(shape);
    py.PyErr_Clear();
    return dimensions < 0 ? 0 : size;
}

/* A tensor without memory must not be asked for the size of an element: PaddlePaddle would end the process. */
bool paddlestorages_ask(object *tensor, struct storages_place *ret)
{
    if (!paddlestorages_is_on_device(tensor))
        return false;
    ret->address = paddlestorages_number(of.data_ptr, tensor);
    ret->size = ret->address ? paddlestorages_size(tensor) : 0;
    return ret->size > 0;
}

object *paddlestorages_new_grad(object *tensor)
{
    return paddlestorages_new_got(of.grad, tensor);
}

object *paddlestorages_new_name(object *tensor)
{
    return paddlestorages_new_got(of.name, tensor);
}

bool paddlestorages_is_computed(object *tensor)
{
    object *by = paddlestorages_new_got(of.grad_fn, tensor);

    pyhost_drop(by);
    return by;
}
