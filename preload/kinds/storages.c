/* SPDX-License-Identifier: MIT */
#include "preload/kinds/storages.h"

#include "preload/anchors/pyhost.h"
#include "preload/driver/resolve.h"
#include "preload/python/pycall.h"

#include <dlfcn.h>

typedef struct pyhost_object object;

/* As in Python's documentation. */
#define STORAGES_FUNCTIONS(F)                                                     \
    F(object *, PyObject_CallFunctionObjArgs, (object *, ...))                    \
    F(object *, PyObject_CallMethod, (object *, const char *, const char *, ...)) \
    F(unsigned long long, PyLong_AsUnsignedLongLong, (object *))                  \
    F(object *, PyCFunction_NewEx, (void *, object *, object *))                  \
    F(int, PyDict_SetItemString, (object *, const char *, object *))              \
    F(object *, Py_BuildValue, (const char *, ...))                               \
    F(void, PyErr_Clear, (void))                                                  \
    F(void, Py_IncRef, (object *))

static const char *const storages_names[] = {STORAGES_FUNCTIONS(PYCALL_NAME) "_Py_NoneStruct"};
static struct {
    STORAGES_FUNCTIONS(PYCALL_MEMBER)
    object *none;
} py;

/* Borrowed from PyTorch's classes and modules, which live as long as the interpreter. */
static struct {
    object *untyped_storage, *data_ptr, *nbytes;
    object *data_address, *cdata; /* cdata: the descriptor of a tensor's address in C++ */
    int32_t (*size)(void *tensor, int64_t *ret_bytes);
} of;

/* PyMethodDef. */
static object *storages_place_of(object *self, object *tensor);
static struct {
    const char *name;
    object *(*call)(object *, object *);
    int flags;
    const char *doc;
} storages_def = {"place_of", storages_place_of, 8 /* METH_O */, NULL};

/* Of PyTorch's C interface; NULL: it has none. */
static void *storages_size(void)
{
    void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD); /* it stays loaded */

    return library ? resolve_real_dlsym()(library, "aoti_torch_get_storage_size") : NULL;
}

bool storages_find(void)
{
    object *tensor = pyhost_in_module("torch._C", "TensorBase");
    object *storage = pyhost_in_module("torch._C", "StorageBase");

    if (!tensor)
        tensor = pyhost_in_module("torch._C", "_TensorBase"); /* older ones */
    if (!tensor || !storage
            || !pycall_find(&py, storages_names, sizeof storages_names / sizeof *storages_names))
        return false;
    of.untyped_storage = pyhost_in_class(tensor, "untyped_storage");
    of.data_ptr = pyhost_in_class(storage, "data_ptr");
    of.nbytes = pyhost_in_class(storage, "nbytes");
    of.data_address = pyhost_in_module("torch._C", "_data_address");
    of.cdata = pyhost_in_class(tensor, "_cdata");
    *(void **)&of.size = of.data_address && of.cdata ? storages_size() : NULL;
    return of.untyped_storage && of.data_ptr && of.nbytes;
}

/* Of a new object, which is dropped. 0: it failed. */
static uint64_t storages_number(object *number)
{
    uint64_t result = number ? py.PyLong_AsUnsignedLongLong(number) : 0;

    pyhost_drop(number);
    py.PyErr_Clear();
    return result;
}

static uint64_t storages_answer(object *function, object *from)
{
    return storages_number(py.PyObject_CallFunctionObjArgs(function, from, NULL));
}

/* The size is asked after the address: of a tensor without a storage it would print an error. */
static bool storages_read(object *tensor, struct storages_place *ret)
{
    void *in_cpp; /* what a Tensor of C++ is */
    int64_t size = 0;

    ret->address = storages_answer(of.data_address, tensor);
    if (ret->address == 0)
        return false;
    in_cpp = (void *)storages_number(py.PyObject_CallMethod(of.cdata, "__get__", "O", tensor));
    if (!in_cpp || of.size(&in_cpp, &size) != 0 || size <= 0)
        return false;
    ret->size = (uint64_t)size;
    return true;
}

bool storages_ask(object *tensor, struct storages_place *ret)
{
    object *storage;

    if (of.size)
        return storages_read(tensor, ret);
    storage = py.PyObject_CallFunctionObjArgs(of.untyped_storage, tensor, NULL);
    py.PyErr_Clear();
    if (!storage)
        return false;
    *ret = (struct storages_place){
            storages_answer(of.data_ptr, storage), storages_answer(of.nbytes, storage)};
    pyhost_drop(storage);
    return ret->address && ret->size;
}

/* ---- for held.py ----------------------------------------------------------------------------- */

static object *storages_place_of(object *self, object *tensor)
{
    struct storages_place place;

    (void)self;
    if (storages_read(tensor, &place))
        return py.Py_BuildValue(
                "(KK)", (unsigned long long)place.address, (unsigned long long)place.size);
    py.Py_IncRef(py.none);
    return py.none;
}

bool storages_add(object *space)
{
    object *function = NULL;
    bool is_there;

    if (!pycall_find(&py, storages_names, sizeof storages_names / sizeof *storages_names))
        return false;
    if (storages_find() && of.size)
        function = py.PyCFunction_NewEx(&storages_def, NULL, NULL);
    is_there =
            py.PyDict_SetItemString(space, storages_def.name, function ? function : py.none) == 0;
    pyhost_drop(function);
    return is_there;
}
