/* SPDX-License-Identifier: MIT */
#include "preload/kinds/tensors.h"

#include "preload/anchors/pyhost.h"
#include "preload/kinds/paddlestorages.h"
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

/* The same of PaddlePaddle. */
static struct {
    object *tensor, *module, *optimizer;
} paddle;

static bool has_torch, has_paddle;
static object *off;     /* holds __torch_function__ off; NULL: without PyTorch */
static bool is_looking; /* between tensors_begin and tensors_end */
static bool collects;   /* the collector was on */

enum {
    CLASSES = 2048,
    TYPE = 8 /* of an object with a GIL: offset of its type */
};
static struct {
    const object *type;
    enum tensors_class class;
    bool is_paddles;
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

static bool tensors_find_paddle(void)
{
    paddle.tensor = pyhost_in_module("paddle", "Tensor");
    paddle.module = pyhost_in_module("paddle.nn", "Layer");
    paddle.optimizer = pyhost_in_module("paddle.optimizer", "Optimizer");
    return paddle.tensor && paddle.module && paddle.optimizer && paddlestorages_find();
}

/* Looks for the frameworks that are not known yet. */
static void tensors_look(void)
{
    if (!pycall_find(&py, tensors_names, sizeof tensors_names / sizeof *tensors_names))
        return;
    has_torch = has_torch || tensors_find_torch();
    has_paddle = has_paddle || tensors_find_paddle();
}

bool tensors_find(void)
{
    if (!has_torch && !has_paddle)
        tensors_look();
    return has_torch || has_paddle;
}

void tensors_forget(void)
{
    has_torch = false;
    has_paddle = false;
}

/* False: PyTorch would see what is asked. */
static bool tensors_switch_off(void)
{
    object *entered;

    off = py.PyObject_CallObject(of.disable, NULL);
    entered = off ? py.PyObject_CallMethod(off, "__enter__", NULL) : NULL;
    if (!entered) {
        py.PyErr_Clear();
        pyhost_drop(off);
        off = NULL;
    }
    pyhost_drop(entered);
    return off;
}

bool tensors_begin(void)
{
    if (!has_torch || !has_paddle)
        tensors_look();
    if (!tensors_find() || (has_torch && !tensors_switch_off()))
        return false;
    memset(classes, 0, sizeof classes);
    is_looking = true;
    collects = py.PyGC_Disable();
    return true;
}

void tensors_end(void)
{
    if (collects)
        (void)py.PyGC_Enable();
    is_looking = false;
    if (!off)
        return;
    pyhost_drop(py.PyObject_CallMethod(off, "__exit__", "OOO", py.none, py.none, py.none));
    py.PyErr_Clear();
    pyhost_drop(off);
    off = NULL;
}

/* ---- objects --------------------------------------------------------------------------------- */

static enum tensors_class tensors_class_of_type(const object *type, bool *ret_is_paddles)
{
    const struct {
        const object *base;
        enum tensors_class class;
        bool is_there, is_paddles;
    } bases[] = {{of.tensor, TENSORS_TENSOR, has_torch, false},
            {of.module, TENSORS_MODULE, has_torch, false},
            {of.optimizer, TENSORS_OPTIMIZER, has_torch, false},
            {paddle.tensor, TENSORS_TENSOR, has_paddle, true},
            {paddle.module, TENSORS_MODULE, has_paddle, true},
            {paddle.optimizer, TENSORS_OPTIMIZER, has_paddle, true},
            {py.dict, TENSORS_DICT, true, false}, {py.list, TENSORS_LIST, true, false},
            {py.tuple, TENSORS_TUPLE, true, false}};

    *ret_is_paddles = false;
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
        if (bases[i].is_there && py.PyType_IsSubtype(type, bases[i].base)) {
            *ret_is_paddles = bases[i].is_paddles;
            return bases[i].class;
        }
    return TENSORS_OTHER;
}

static enum tensors_class tensors_class_and_owner(const object *which, bool *ret_is_paddles)
{
    const object *type = tensors_type(which);
    size_t at = (uintptr_t)type / 64 % CLASSES;

    if (!is_looking)
        return tensors_class_of_type(type, ret_is_paddles);
    if (classes[at].type != type) {
        classes[at].type = type;
        classes[at].class = tensors_class_of_type(type, &classes[at].is_paddles);
    }
    *ret_is_paddles = classes[at].is_paddles;
    return classes[at].class;
}

enum tensors_class tensors_class(const object *which)
{
    bool is_paddles;

    return tensors_class_and_owner(which, &is_paddles);
}

static bool tensors_is_paddles(const object *which)
{
    bool is_paddles;

    (void)tensors_class_and_owner(which, &is_paddles);
    return is_paddles;
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

    if (tensors_is_paddles(tensor))
        return paddlestorages_ask(tensor, to);
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
    return tensors_is_paddles(tensor) ? paddlestorages_new_grad(tensor)
                                      : tensors_new_got(&of.grad, tensor);
}

bool tensors_is_computed(object *tensor)
{
    object *by;

    if (tensors_is_paddles(tensor))
        return paddlestorages_is_computed(tensor);
    by = tensors_new_got(&of.grad_fn, tensor);
    pyhost_drop(by);
    return by;
}

object *tensors_new_name(object *tensor)
{
    return tensors_is_paddles(tensor) ? paddlestorages_new_name(tensor) : NULL;
}

object *tensors_children(object *module)
{
    return tensors_own_dict(module, tensors_is_paddles(module) ? "_sub_layers" : "_modules");
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
