/* SPDX-License-Identifier: MIT */
#include "preload/kinds/tensors.h"

#include "preload/anchors/pyhost.h"
#include "preload/kinds/storages.h"
#include "preload/python/pycall.h"

#include <stddef.h>
#include <string.h>

typedef struct pyhost_object object;

/* As in Python's documentation. */
#define TENSORS_FUNCTIONS(F)                                                      \
    F(int, PyDict_Next, (object *, intptr_t *, object **, object **))             \
    F(intptr_t, PyDict_Size, (object *))                                          \
    F(object *, PyList_GetItem, (object *, intptr_t))                             \
    F(intptr_t, PyList_Size, (object *))                                          \
    F(object *, PyTuple_GetItem, (object *, intptr_t))                            \
    F(intptr_t, PyTuple_Size, (object *))                                         \
    F(const char *, PyUnicode_AsUTF8, (object *))                                 \
    F(object *, PyObject_CallObject, (object *, object *))                        \
    F(object *, PyObject_CallMethod, (object *, const char *, const char *, ...)) \
    F(object *, PyObject_GenericGetDict, (object *, void *))                      \
    F(int, PyType_IsSubtype, (const object *, const object *))                    \
    F(void *, PyType_GetSlot, (object *, int))                                    \
    F(int, PyGC_Disable, (void))                                                  \
    F(int, PyGC_Enable, (void))                                                   \
    F(void, PyErr_Clear, (void))                                                  \
    F(void, Py_IncRef, (object *))

static const char *const tensors_names[] = {TENSORS_FUNCTIONS(PYCALL_NAME) "_Py_NoneStruct",
        "_Py_TrueStruct", "PyDict_Type", "PyList_Type", "PyTuple_Type", "PyMemberDescr_Type"};
static struct {
    TENSORS_FUNCTIONS(PYCALL_MEMBER)
    object *none, *yes, *dict, *list, *tuple, *member; /* None, True, and types */
} py;

/* A getter in C of a class. */
struct getter {
    object *descriptor;
    object *(*get)(object *descriptor, object *of, object *type);
};

/* Borrowed from PyTorch's classes and modules, which live as long as the interpreter. */
static struct {
    object *tensor, *module, *optimizer, *disable;
    object *exact, *parameter; /* classes whose objects have storages of their own */
    struct getter is_cuda, grad, grad_fn;
} of;

static bool is_found;
static object *off;   /* holds __torch_function__ off; NULL outside of a look */
static bool collects; /* the collector was on */

enum {
    CLASSES = 2048,
    TYPE = 8 /* of an object with a GIL: offset of its type */
};
static struct {
    const object *type;
    enum tensors_class class;
} classes[CLASSES]; /* of the current look */

static object *tensors_type(const object *which)
{
    object *type;

    memcpy((void *)&type, (const char *)which + TYPE, sizeof(void *));
    return type;
}

static bool tensors_find_getter(struct getter *getter, object *type, const char *name)
{
    enum {
        DESCR_GET = 54 /* the number of this slot in CPython's stable interface */
    };

    getter->descriptor = pyhost_in_class(type, name);
    if (!getter->descriptor)
        return false;
    *(void **)&getter->get = py.PyType_GetSlot(tensors_type(getter->descriptor), DESCR_GET);
    return getter->get != NULL;
}

static bool tensors_find_torch(void)
{
    of.tensor = pyhost_in_module("torch._C", "TensorBase");
    if (!of.tensor)
        of.tensor = pyhost_in_module("torch._C", "_TensorBase"); /* older ones */
    of.disable = pyhost_in_module("torch._C", "DisableTorchFunction");
    of.module = pyhost_in_module("torch.nn.modules.module", "Module");
    of.optimizer = pyhost_in_module("torch.optim.optimizer", "Optimizer");
    of.exact = pyhost_in_module("torch", "Tensor");
    of.parameter = pyhost_in_module("torch.nn.parameter", "Parameter");
    return of.tensor && of.disable && of.module && of.optimizer && of.exact && of.parameter
            && storages_find() && tensors_find_getter(&of.is_cuda, of.tensor, "is_cuda")
            && tensors_find_getter(&of.grad, of.tensor, "grad")
            && tensors_find_getter(&of.grad_fn, of.tensor, "grad_fn");
}

bool tensors_find(void)
{
    if (!is_found)
        is_found = pycall_find(&py, tensors_names, sizeof tensors_names / sizeof *tensors_names)
                && tensors_find_torch();
    return is_found;
}

void tensors_forget(void)
{
    is_found = false;
}

bool tensors_begin(void)
{
    object *entered;

    if (!tensors_find())
        return false;
    memset(classes, 0, sizeof classes);
    off = py.PyObject_CallObject(of.disable, NULL);
    entered = off ? py.PyObject_CallMethod(off, "__enter__", NULL) : NULL;
    if (!entered) {
        py.PyErr_Clear();
        pyhost_drop(off);
        off = NULL;
        return false;
    }
    pyhost_drop(entered);
    collects = py.PyGC_Disable();
    return true;
}

void tensors_end(void)
{
    if (collects)
        (void)py.PyGC_Enable();
    pyhost_drop(py.PyObject_CallMethod(off, "__exit__", "OOO", py.none, py.none, py.none));
    py.PyErr_Clear();
    pyhost_drop(off);
    off = NULL;
}

/* ---- objects --------------------------------------------------------------------------------- */

static enum tensors_class tensors_class_of_type(const object *type)
{
    const struct {
        const object *base;
        enum tensors_class class;
    } bases[] = {{of.tensor, TENSORS_TENSOR}, {of.module, TENSORS_MODULE},
            {of.optimizer, TENSORS_OPTIMIZER}, {py.dict, TENSORS_DICT}, {py.list, TENSORS_LIST},
            {py.tuple, TENSORS_TUPLE}};

    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
        if (py.PyType_IsSubtype(type, bases[i].base))
            return bases[i].class;
    return TENSORS_OTHER;
}

enum tensors_class tensors_class(const object *which)
{
    const object *type = tensors_type(which);
    size_t at = (uintptr_t)type / 64 % CLASSES;

    if (!off)
        return tensors_class_of_type(type);
    if (classes[at].type != type) {
        classes[at].type = type;
        classes[at].class = tensors_class_of_type(type);
    }
    return classes[at].class;
}

const char *tensors_class_name(const object *which)
{
    return pyhost_type_name(tensors_type(which));
}

/* The result of a getter, or NULL for None and errors. */
static object *tensors_new_got(const struct getter *getter, object *from)
{
    object *result = getter->get(getter->descriptor, from, tensors_type(from));

    if (!result)
        py.PyErr_Clear();
    if (result != py.none)
        return result;
    pyhost_drop(result);
    return NULL;
}

/* False: the tensor is elsewhere, or has no storage. */
static bool tensors_storage(object *tensor, struct storages_place *ret)
{
    object *is_cuda = tensors_new_got(&of.is_cuda, tensor);

    pyhost_drop(is_cuda); /* True and False are never freed */
    return is_cuda == py.yes && storages_ask(tensor, ret);
}

/* What a DTensor wraps; NULL: it is none. */
static object *tensors_new_local(object *tensor)
{
    struct getter getter;
    object *type = tensors_type(tensor);

    if (!tensors_find_getter(&getter, type, "_local_tensor")
            || tensors_type(getter.descriptor) != py.member)
        return NULL;
    return tensors_new_got(&getter, tensor);
}

/* Tensors in the dict of a tensor. */
static unsigned tensors_inside(object *tensor, struct storages_place *to)
{
    object *own = py.PyObject_GenericGetDict(tensor, NULL);
    object *key, *value;
    intptr_t at = 0;
    unsigned count = 0;

    py.PyErr_Clear();
    while (own && count < TENSORS_PARTS && py.PyDict_Next(own, &at, &key, &value))
        if (tensors_class(value) == TENSORS_TENSOR)
            count += tensors_storage(value, &to[count]);
    pyhost_drop(own);
    return count;
}

unsigned tensors_storages(object *tensor, struct storages_place to[static TENSORS_PARTS])
{
    const object *type = tensors_type(tensor);
    object *local;
    unsigned count;

    if (tensors_storage(tensor, to))
        return 1;
    if (type == of.exact || type == of.parameter)
        return 0;
    local = tensors_new_local(tensor);
    count = local && tensors_class(local) == TENSORS_TENSOR && tensors_storage(local, to);
    pyhost_drop(local);
    return count ? count : tensors_inside(tensor, to);
}

object *tensors_new_grad(object *tensor)
{
    return tensors_new_got(&of.grad, tensor);
}

bool tensors_is_computed(object *tensor)
{
    object *by = tensors_new_got(&of.grad_fn, tensor);

    pyhost_drop(by);
    return by;
}

bool tensors_next(object *dict, intptr_t *io_at, object **ret_key, object **ret_value)
{
    return py.PyDict_Next(dict, io_at, ret_key, ret_value);
}

object *tensors_item(object *list, enum tensors_class class, intptr_t at)
{
    if (class == TENSORS_LIST)
        return at < py.PyList_Size(list) ? py.PyList_GetItem(list, at) : NULL;
    return at < py.PyTuple_Size(list) ? py.PyTuple_GetItem(list, at) : NULL;
}

uint64_t tensors_count(object *dict)
{
    return (uint64_t)py.PyDict_Size(dict);
}

const char *tensors_text(object *which)
{
    const char *text = py.PyUnicode_AsUTF8(which);

    if (!text)
        py.PyErr_Clear();
    return text;
}

object *tensors_new_objects(void)
{
    object *function = pyhost_in_module("gc", "get_objects");
    object *list = function ? py.PyObject_CallObject(function, NULL) : NULL;

    if (!list)
        py.PyErr_Clear();
    if (list && tensors_class(list) == TENSORS_LIST)
        return list;
    pyhost_drop(list);
    return NULL;
}

object *tensors_own_dict(object *owner, const char *name)
{
    object *found = pyhost_own(owner, name);

    return found && tensors_class(found) == TENSORS_DICT ? found : NULL;
}
