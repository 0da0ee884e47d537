/* SPDX-License-Identifier: MIT */
#include "preload/anchors/pyhost.h"

#include "preload/anchors/source.h"
#include "preload/driver/resolve.h"
#include "tracker/where/anchor.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pyhost_object object;
typedef object *(*vectorcall_fn)(object *, object *const *, size_t, object *);
typedef object *(*method_fn)(object *, object *, object *);
typedef int (*audit_fn)(const char *, object *, void *);

/* ---- the interpreter's interface ------------------------------------------------------------- */

/* As in Python's documentation. */
#define PYHOST_FUNCTIONS(F)                                                       \
    F(int, PySys_AddAuditHook, (audit_fn, void *))                                \
    F(int, Py_IsInitialized, (void))                                              \
    F(int, PyGILState_Check, (void))                                              \
    F(void *, PyInterpreterState_Get, (void))                                     \
    F(void *, PyInterpreterState_Main, (void))                                    \
    F(object *, PyImport_GetModuleDict, (void))                                   \
    F(object *, PyModule_GetDict, (object *))                                     \
    F(object *, PyDict_GetItemString, (object *, const char *))                   \
    F(object *, PyDict_GetItemWithError, (object *, object *))                    \
    F(int, PyDict_Next, (object *, intptr_t *, object **, object **))             \
    F(object *, PyObject_GetAttrString, (object *, const char *))                 \
    F(object *, PyObject_GenericGetDict, (object *, void *))                      \
    F(object *, PyObject_Type, (object *))                                        \
    F(int, PyType_IsSubtype, (object *, object *))                                \
    F(object *, _PyType_Lookup, (object *, object *))                             \
    F(int, PyObject_IsTrue, (object *))                                           \
    F(object *, PyObject_CallObject, (object *, object *))                        \
    F(object *, PyObject_CallFunctionObjArgs, (object *, ...))                    \
    F(object *, PyObject_CallMethod, (object *, const char *, const char *, ...)) \
    F(object *, PyUnicode_InternFromString, (const char *))                       \
    F(intptr_t, PyList_Size, (object *))                                          \
    F(object *, PyList_GetItem, (object *, intptr_t))                             \
    F(const char *, PyUnicode_AsUTF8, (object *))                                 \
    F(object *, PyErr_Occurred, (void))                                           \
    F(int, PyErr_ExceptionMatches, (object *))                                    \
    F(void, PyErr_Clear, (void))                                                  \
    F(void, Py_IncRef, (object *))                                                \
    F(void, Py_DecRef, (object *))

#define PYHOST_MEMBER(result, name, params) \
    result(*name) params; /* NOLINT(bugprone-macro-parentheses) */
static struct {
    PYHOST_FUNCTIONS(PYHOST_MEMBER)
    void (*PyFunction_SetVectorcall)(object *, vectorcall_fn); /* NULL before 3.12 */
    object *type_type, *function_type, *c_function_type, *method_type, *dict_type;
    object *none, *yes, *no; /* None, True, False */
    object **exception;
} py;
#undef PYHOST_MEMBER

/* Offsets in objects of a build with a GIL, 3.10 to 3.15; verified before use. */
enum {
    TYPE_NAME = 24,            /* in a type: a C string */
    TYPE_BASICSIZE = 32,       /* in a type: the size of its objects */
    TYPE_VECTORCALL = 56,      /* in a type: offset of the vectorcall slot in its objects */
    TYPE_INIT = 296,           /* in a type: tp_init */
    METHOD_DEF = 40,           /* in a method descriptor */
    METHOD_BASICSIZE = 56,     /* of a method descriptor */
    OBJECT_BASICSIZE = 16,     /* of an object */
    CALL_WITH_KEYWORDS = 1 | 2 /* METH_VARARGS | METH_KEYWORDS */
};

/* PyMethodDef. */
struct method_def {
    const char *name;
    method_fn call;
    int flags;
    const char *doc;
};

static struct pyhost_parts parts; /* fixed by pyhost_start */
static void *interpreter;         /* for dlsym; valid once the functions were found */

/*
 * The vectorcall function that every Python function has in its slot. 3.13 does not export it, so
 * it is read from the first function that is watched.
 */
static vectorcall_fn plain_call;

static intptr_t pyhost_word_at(const void *base, size_t offset)
{
    intptr_t word;

    memcpy(&word, (const char *)base + offset, sizeof word);
    return word;
}

/* "3.11.2 (main, ...": 3.10 to 3.15, with a GIL. */
static bool pyhost_is_known(const char *version)
{
    long minor = strncmp(version, "3.", 2) == 0 ? strtol(version + 2, NULL, 10) : 0;

    return minor >= 10 && minor <= 15 && !strstr(version, "free-threading");
}

static bool pyhost_find_functions(void *handle)
{
    void *(*symbol)(void *, const char *) = resolve_real_dlsym();
    const char *(*version)(void);
    const void *base_type;
    bool is_whole = true;

    interpreter = handle;
    *(void **)&version = symbol(handle, "Py_GetVersion");
    if (!version || !pyhost_is_known(version()))
        return false;
#define PYHOST_FIND(result, name, params)       \
    *(void **)&py.name = symbol(handle, #name); \
    is_whole &= py.name != NULL;
    PYHOST_FUNCTIONS(PYHOST_FIND)
#undef PYHOST_FIND
    *(void **)&py.PyFunction_SetVectorcall = symbol(handle, "PyFunction_SetVectorcall");
    py.type_type = symbol(handle, "PyType_Type");
    py.function_type = symbol(handle, "PyFunction_Type");
    py.c_function_type = symbol(handle, "PyCFunction_Type");
    py.method_type = symbol(handle, "PyMethodDescr_Type");
    py.dict_type = symbol(handle, "PyDict_Type");
    py.none = symbol(handle, "_Py_NoneStruct");
    py.yes = symbol(handle, "_Py_TrueStruct");
    py.no = symbol(handle, "_Py_FalseStruct");
    py.exception = symbol(handle, "PyExc_Exception");
    base_type = symbol(handle, "PyBaseObject_Type");
    return is_whole && py.type_type && py.function_type && py.c_function_type && py.method_type
            && py.dict_type && py.none && py.yes && py.no && py.exception && base_type
            && pyhost_word_at(base_type, TYPE_BASICSIZE) == OBJECT_BASICSIZE;
}

/*
 * Finds the interpreter in the program or a library that it is linked with, else in one that is
 * open. The loader is not asked for its list of libraries: in the child of a fork the lock of that
 * list may stay taken for ever.
 */
static bool pyhost_find(bool in_program)
{
    char name[sizeof "libpython3.15.so.1.0"];
    void *handle;

    if (in_program)
        return pyhost_find_functions(RTLD_DEFAULT);
    for (int minor = 10; minor <= 15; minor++) {
        (void)snprintf(name, sizeof name, "libpython3.%d.so.1.0", minor);
        handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD); /* the library stays loaded */
        if (handle)
            return pyhost_find_functions(handle);
    }
    return false;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* Clears the error of a failed query; an interrupt stays. */
static void pyhost_forget_error(void)
{
    if (py.PyErr_Occurred() && py.PyErr_ExceptionMatches(*py.exception))
        py.PyErr_Clear();
}

static object *pyhost_module(const char *module)
{
    object *modules = py.PyImport_GetModuleDict();

    return modules ? py.PyDict_GetItemString(modules, module) : NULL;
}

bool pyhost_has_module(const char *module)
{
    return pyhost_module(module) != NULL;
}

object *pyhost_in_module(const char *module, const char *name)
{
    object *found = pyhost_module(module);
    object *dict = found ? py.PyModule_GetDict(found) : NULL;

    if (!dict)
        pyhost_forget_error();
    return dict ? py.PyDict_GetItemString(dict, name) : NULL;
}

static bool pyhost_has_type(object *of, const object *type)
{
    object *found = py.PyObject_Type(of);

    pyhost_drop(found); /* its owner keeps a reference */
    return found == type;
}

static bool pyhost_is_type(object *of)
{
    object *metatype = py.PyObject_Type(of);
    bool is_type = metatype && py.PyType_IsSubtype(metatype, py.type_type);

    pyhost_drop(metatype);
    return is_type;
}

object *pyhost_own(object *of, const char *name)
{
    object *dict = pyhost_is_type(of) ? NULL : py.PyObject_GenericGetDict(of, NULL);
    object *found = dict ? py.PyDict_GetItemString(dict, name) : NULL;

    if (!dict)
        pyhost_forget_error();
    pyhost_drop(dict); /* its owner keeps a reference */
    return found;
}

object *pyhost_new_key(const char *name)
{
    return py.PyUnicode_InternFromString(name);
}

object *pyhost_own_at(object *of, object *key)
{
    object *dict = py.PyObject_GenericGetDict(of, NULL);
    object *found = dict ? py.PyDict_GetItemWithError(dict, key) : NULL;

    if (!dict)
        pyhost_forget_error();
    pyhost_drop(dict); /* its owner keeps a reference */
    return found;
}

object *pyhost_in_dict(object *dict, object *key)
{
    object *found = py.PyDict_GetItemWithError(dict, key);

    if (!found)
        pyhost_forget_error();
    return found;
}

bool pyhost_next(object *dict, intptr_t *io_at, object **ret_key, object **ret_value)
{
    return py.PyDict_Next(dict, io_at, ret_key, ret_value);
}

const char *pyhost_text(object *text)
{
    const char *bytes = py.PyUnicode_AsUTF8(text);

    if (!bytes)
        pyhost_forget_error();
    return bytes;
}

object *pyhost_keep(object *of)
{
    py.Py_IncRef(of);
    return of;
}

object *pyhost_in_class(object *type, const char *name)
{
    object *text = pyhost_is_type(type) ? py.PyUnicode_InternFromString(name) : NULL;
    object *found = text ? py._PyType_Lookup(type, text) : NULL;

    if (!found)
        pyhost_forget_error();
    pyhost_drop(text);
    return found;
}

object *pyhost_new_subclasses(object *type)
{
    object *method = pyhost_in_class(py.type_type, "__subclasses__");
    object *list = NULL;

    if (method && pyhost_is_type(type))
        list = py.PyObject_CallFunctionObjArgs(method, type, NULL);
    if (!list)
        pyhost_forget_error();
    return list;
}

size_t pyhost_list_size(object *list)
{
    intptr_t size = py.PyList_Size(list);

    if (size < 0)
        pyhost_forget_error();
    return size < 0 ? 0 : (size_t)size;
}

object *pyhost_list_at(object *list, size_t i)
{
    return py.PyList_GetItem(list, (intptr_t)i);
}

void pyhost_drop(object *of)
{
    if (of)
        py.Py_DecRef(of);
}

/* 1 or 0; -1: unknown, or an interrupt. Takes the reference. */
static int pyhost_is_true(object *answer)
{
    int is_true = answer ? py.PyObject_IsTrue(answer) : -1;

    pyhost_drop(answer);
    if (is_true < 0)
        pyhost_forget_error();
    return is_true;
}

/* ---- whether the program trains ------------------------------------------------------------- */

static object *grad_function, *tracer_state;

bool pyhost_ask_grad(object *function)
{
    if (!pyhost_has_type(function, py.c_function_type))
        return false;
    py.Py_IncRef(function);
    grad_function = function;
    return true;
}

bool pyhost_ask_tracer(object *state)
{
    py.Py_IncRef(state);
    tracer_state = state;
    return true;
}

/* PaddlePaddle's tracer: none while a static graph is built. */
static int pyhost_tracer_has_grad(bool *ret_is_static)
{
    object *tracer = py.PyObject_GetAttrString(tracer_state, "_dygraph_tracer_");
    int has_grad = -1;

    *ret_is_static = tracer == py.none;
    if (tracer && !*ret_is_static)
        has_grad = pyhost_is_true(py.PyObject_GetAttrString(tracer, "_has_grad"));
    pyhost_forget_error();
    pyhost_drop(tracer);
    return has_grad;
}

/* The module inside a compiled or traced one; NULL: it wraps none. */
static object *pyhost_inside(object *module)
{
    object *modules = pyhost_own(module, "_modules");
    object *compiled = modules ? py.PyDict_GetItemString(modules, "_orig_mod") : NULL;

    return compiled ? compiled : pyhost_own(module, "_actual_script_module");
}

enum {
    COMPILED_DEEP = 4
};

/* A scripted module has its `training` in C. -1: unknown. */
static int pyhost_script_trains(object *module)
{
    object *script = pyhost_own(module, "_c");

    if (!script || !pyhost_has_type(script, pyhost_in_module("torch._C", "ScriptModule")))
        return -1;
    return pyhost_is_true(py.PyObject_CallMethod(script, "getattr", "s", "training"));
}

static bool pyhost_module_trains(object *module)
{
    for (unsigned i = 0; module && i < COMPILED_DEEP; i++) {
        object *training = pyhost_own(module, "training");

        if (training)
            return training != py.no;
        if (pyhost_script_trains(module) == 0)
            return false;
        module = pyhost_inside(module);
    }
    return true;
}

/* Unknown counts as training. *ret_is_real: false if nothing is computed. */
static bool pyhost_trains(
        enum pyloop_kind kind, enum pyhost_framework framework, object *self, bool *ret_is_real)
{
    int grad = 1;
    bool is_static = false;

    if (framework == PYHOST_PADDLE && tracer_state)
        grad = pyhost_tracer_has_grad(&is_static);
    else if (framework == PYHOST_TORCH && grad_function)
        grad = pyhost_is_true(py.PyObject_CallObject(grad_function, NULL));
    *ret_is_real = !is_static;
    if (grad == 0 || kind != PYLOOP_FORWARD || !self)
        return grad != 0;
    return pyhost_module_trains(self);
}

/* ---- modules by name ------------------------------------------------------------------------ */

static bool names_wanted;

/* What is below no module that is called has the name of one that is called outermost, or its class. */
static void pyhost_name(const struct pyhost_inner *call, char name[static ANCHOR_NAME_MAX + 1])
{
    const char *title;
    object *type;

    if (parts.inner && parts.inner(call, name))
        return;
    title = parts.name ? parts.name(call->module) : NULL;
    type = py.PyObject_Type(call->module);
    (void)snprintf(
            name, ANCHOR_NAME_MAX + 1, "%s", title && *title ? title : pyhost_type_name(type));
    pyhost_drop(type);
}

__attribute__((noinline)) static object *pyhost_call_inner(
        object *callable, object *const *args, size_t count, object *names)
{
    struct pyhost_inner here = {args[0], pyloop_inner()};
    char name[ANCHOR_NAME_MAX + 1];
    object *result;

    pyhost_name(&here, name);
    if (py.PyErr_Occurred())
        return NULL;
    pyloop_set_inner(&here);
    source_enter_python(name);
    result = plain_call(callable, args, count, names);
    source_leave_python(name);
    pyloop_set_inner((void *)here.outer);
    return result;
}

/* ---- calls of watched functions ------------------------------------------------------------- */

/* The argument count of a vectorcall, without the flag in its top bit. */
static size_t pyhost_count(size_t count)
{
    return count & ~((size_t)1 << (8 * sizeof count - 1));
}

/* The argument at `i`, which is the optimizer for kinds that have one. */
static uintptr_t pyhost_who(object *const *args, size_t count, size_t i)
{
    return pyhost_count(count) > i ? (uintptr_t)args[i] : 0;
}

static void pyhost_tell(struct pyhost_moment moment)
{
    moment.count = pyhost_count(moment.count);
    if (moment.count > 0)
        parts.at(&moment);
}

/* A module that is called outermost has a range of its own, unless it is the program's first. */
static object *pyhost_call_named(object *callable, object *const *args, size_t count, object *names)
{
    const char *title = parts.name && pyloop_inner() ? parts.name(args[0]) : NULL;
    char name[ANCHOR_NAME_MAX + 1];
    object *result;

    if (!title || !*title)
        return plain_call(callable, args, count, names);
    (void)snprintf(name, sizeof name, "%s", title); /* the call may end the module */
    source_enter_python(name);
    result = plain_call(callable, args, count, names);
    source_leave_python(name);
    return result;
}

/* PaddlePaddle's compiled functions are called as its layers are. */
static bool pyhost_is_module(enum pyhost_framework framework, object *self)
{
    return framework == PYHOST_TORCH || pyhost_own(self, "_sub_layers");
}

static object *pyhost_call(enum pyloop_kind kind, enum pyhost_framework framework, object *callable,
        object *const *args, size_t count, object *names)
{
    object *self = pyhost_count(count) > 0 ? args[0] : NULL;
    struct pyhost_inner here = {self, NULL}, *before = pyloop_inner();
    bool is_told = parts.at && (kind == PYLOOP_FORWARD || kind == PYLOOP_OPTIMIZER);
    struct pyloop_call call;
    bool trains, is_real;
    object *result;

    if (!pyloop_may_open(kind)) {
        if (names_wanted && kind == PYLOOP_FORWARD && self && pyloop_inner() && pyloop_in_forward()
                && pyhost_is_module(framework, self))
            return pyhost_call_inner(callable, args, count, names);
        return plain_call(callable, args, count, names);
    }
    if (kind == PYLOOP_BACKWARD)
        parts.look_for_classes();
    trains = pyhost_trains(kind, framework, self, &is_real);
    if (py.PyErr_Occurred())
        return NULL;
    if (!is_real)
        return plain_call(callable, args, count, names);
    if (is_told)
        pyhost_tell((struct pyhost_moment){framework, kind, true, trains, args, count, names});
    pyloop_enter(&call, kind, trains, pyhost_who(args, count, kind == PYLOOP_SCALER));
    if (kind == PYLOOP_FORWARD && pyloop_in_forward())
        pyloop_set_inner(&here);
    result = names_wanted && kind == PYLOOP_FORWARD && self && pyhost_is_module(framework, self)
            ? pyhost_call_named(callable, args, count, names)
            : plain_call(callable, args, count, names);
    pyloop_set_inner(before);
    if (is_told && result)
        pyhost_tell((struct pyhost_moment){framework, kind, false, trains, args, count, names});
    pyloop_leave(&call, !result);
    return result;
}

#define PYHOST_WATCHER(function, kind, framework)                                               \
    static object *function(object *callable, object *const *args, size_t count, object *names) \
    {                                                                                           \
        return pyhost_call(kind, framework, callable, args, count, names);                      \
    }
PYHOST_WATCHER(pyhost_torch_forward, PYLOOP_FORWARD, PYHOST_TORCH)
PYHOST_WATCHER(pyhost_torch_data, PYLOOP_DATA, PYHOST_TORCH)
PYHOST_WATCHER(pyhost_torch_optimizer, PYLOOP_OPTIMIZER, PYHOST_TORCH)
PYHOST_WATCHER(pyhost_torch_scaler, PYLOOP_SCALER, PYHOST_TORCH)
PYHOST_WATCHER(pyhost_paddle_forward, PYLOOP_FORWARD, PYHOST_PADDLE)
PYHOST_WATCHER(pyhost_paddle_data, PYLOOP_DATA, PYHOST_PADDLE)
PYHOST_WATCHER(pyhost_paddle_optimizer, PYLOOP_OPTIMIZER, PYHOST_PADDLE)

static int paddle_passes; /* changed with the GIL */

int pyhost_paddle_passes(void)
{
    return paddle_passes;
}

static object *pyhost_paddle_backward(
        object *callable, object *const *args, size_t count, object *names)
{
    object *result;

    paddle_passes++;
    result = pyhost_call(PYLOOP_BACKWARD, PYHOST_PADDLE, callable, args, count, names);
    paddle_passes--;
    return result;
}

static const vectorcall_fn watchers[][PYLOOP_SCALER + 1] = {
        [PYHOST_TORCH] = {[PYLOOP_FORWARD] = pyhost_torch_forward,
                [PYLOOP_DATA] = pyhost_torch_data,
                [PYLOOP_OPTIMIZER] = pyhost_torch_optimizer,
                [PYLOOP_SCALER] = pyhost_torch_scaler},
        [PYHOST_PADDLE] = {[PYLOOP_FORWARD] = pyhost_paddle_forward,
                [PYLOOP_BACKWARD] = pyhost_paddle_backward,
                [PYLOOP_DATA] = pyhost_paddle_data,
                [PYLOOP_OPTIMIZER] = pyhost_paddle_optimizer},
};

/* ---- watching ------------------------------------------------------------------------------- */

/* Whether a function is the interpreter's own. */
static bool pyhost_is_its_own(vectorcall_fn call)
{
    Dl_info theirs, info;

    return dladdr((void *)py.PySys_AddAuditHook, &theirs) && dladdr((void *)call, &info)
            && info.dli_fbase == theirs.dli_fbase;
}

/*
 * The vectorcall slot of a function; NULL: it is no Python function, or its slot holds a foreign
 * function.
 */
static vectorcall_fn *pyhost_slot(object *function, vectorcall_fn ours)
{
    intptr_t offset = pyhost_word_at(py.function_type, TYPE_VECTORCALL);
    intptr_t size = pyhost_word_at(py.function_type, TYPE_BASICSIZE);
    vectorcall_fn *slot;

    if (!pyhost_has_type(function, py.function_type) || offset < OBJECT_BASICSIZE
            || offset > size - (intptr_t)sizeof *slot)
        return NULL;
    slot = (vectorcall_fn *)(void *)((char *)function + offset);
    if (!plain_call && pyhost_is_its_own(*slot))
        plain_call = *slot;
    return *slot && (*slot == plain_call || *slot == ours) ? slot : NULL;
}

static bool pyhost_watch_one(object *function, vectorcall_fn ours)
{
    vectorcall_fn *slot = pyhost_slot(function, ours);

    if (!slot || *slot == ours)
        return slot;
    if (py.PyFunction_SetVectorcall)
        py.PyFunction_SetVectorcall(function, ours);
    else
        *slot = ours;
    return true;
}

enum {
    DECORATORS = 8
};

bool pyhost_watch_function(object *function, enum pyloop_kind kind, enum pyhost_framework framework)
{
    for (unsigned i = 0; framework == PYHOST_PADDLE && i < DECORATORS; i++) {
        object *wrapped = pyhost_own(function, "__wrapped__");

        if (!wrapped)
            break;
        function = wrapped;
    }
    return pyhost_watch_one(function, watchers[framework][kind]);
}

void *pyhost_function(const char *name)
{
    return resolve_real_dlsym()(interpreter, name);
}

const char *pyhost_type_name(const object *type)
{
    return (const char *)pyhost_word_at(type, TYPE_NAME);
}

bool pyhost_watch_init(object *type, pyhost_init ours, pyhost_init *ret_theirs)
{
    enum {
        PY_TP_INIT = 60 /* the number of this slot in CPython's stable interface */
    };
    void *(*slot)(object *, int);
    uintptr_t is = (uintptr_t)ours;
    uintptr_t was;

    *(void **)&slot = pyhost_function("PyType_GetSlot");
    was = pyhost_is_type(type) ? (uintptr_t)pyhost_word_at(type, TYPE_INIT) : 0;
    if (!slot || !was || was == is || (uintptr_t)slot(type, PY_TP_INIT) != was)
        return was == is;
    if (*ret_theirs && (uintptr_t)*ret_theirs != was)
        return true; /* of the interpreter before, below another function of ours */
    memcpy(ret_theirs, &was, sizeof was);
    memcpy((char *)type + TYPE_INIT, &is, sizeof is);
    return true;
}

static void (*run_before)(void);

static object *pyhost_call_after(object *callable, object *const *args, size_t count, object *names)
{
    run_before();
    return py.PyErr_Occurred() ? NULL : plain_call(callable, args, count, names);
}

bool pyhost_watch_before(object *function, void (*before)(void))
{
    run_before = before;
    return pyhost_watch_one(function, pyhost_call_after);
}

static struct method_def engine_def;
static method_fn engine_call;
static int passes; /* changed with the GIL, as the next one */
static uint64_t passes_begun;

int pyhost_passes(void)
{
    return engine_call ? passes : -1;
}

uint64_t pyhost_passes_begun(void)
{
    return passes_begun;
}

static object *pyhost_backward(object *self, object *args, object *keywords)
{
    object *accumulates = keywords ? py.PyDict_GetItemString(keywords, "accumulate_grad") : NULL;
    struct pyloop_call call;
    bool opens = accumulates == py.yes && pyloop_may_open(PYLOOP_BACKWARD);
    object *result;

    if (opens) {
        parts.look_for_classes();
        pyloop_enter(&call, PYLOOP_BACKWARD, true, 0);
    }
    passes++;
    passes_begun++;
    result = engine_call(self, args, keywords);
    passes--;
    if (opens && parts.at && result)
        pyhost_tell(
                (struct pyhost_moment){PYHOST_TORCH, PYLOOP_BACKWARD, false, true, &self, 1, NULL});
    if (opens)
        pyloop_leave(&call, !result);
    return result;
}

bool pyhost_watch_engine(object *engine, const char *method)
{
    object *type = py.PyObject_Type(engine);
    object *descriptor = pyhost_in_class(type, method);
    uintptr_t ours = (uintptr_t)&engine_def;
    struct method_def *def = NULL;

    if (descriptor && pyhost_has_type(descriptor, py.method_type)
            && pyhost_word_at(py.method_type, TYPE_BASICSIZE) == METHOD_BASICSIZE)
        def = (struct method_def *)pyhost_word_at(descriptor, METHOD_DEF);
    if (def && def != &engine_def && strcmp(def->name, method) == 0
            && def->flags == CALL_WITH_KEYWORDS) {
        engine_call = def->call;
        engine_def = *def;
        engine_def.call = pyhost_backward;
        def = &engine_def;
        memcpy((char *)descriptor + METHOD_DEF, &ours, sizeof ours);
    }
    pyhost_drop(type);
    return def == &engine_def;
}

/* ---- finding the interpreter ---------------------------------------------------------------- */

enum {
    UNWANTED,
    WANTED,
    LOOKING,
    HOOKED,
};
static atomic_int state;

/* The interpreter ends; another one may be started. */
static void pyhost_end(void)
{
    parts.forget();
    grad_function = NULL;
    tracer_state = NULL;
    passes = 0;
    paddle_passes = 0;
    atomic_store(&state, WANTED);
}

/*
 * Runs at each audit event of the interpreter, imports above all: new modules may be a framework's.
 */
static int pyhost_audit(const char *event, object *args, void *unused)
{
    static bool is_looking;

    (void)args;
    (void)unused;
    if (strcmp(event, "cpython._PySys_ClearAuditHooks") == 0) {
        pyhost_end();
        return 0;
    }
    if (is_looking || !py.Py_IsInitialized()
            || py.PyInterpreterState_Get() != py.PyInterpreterState_Main())
        return 0;
    is_looking = true;
    parts.look();
    is_looking = false;
    return 0;
}

/* One thread at a time; opening a library that is already loaded may re-enter this function. */
static void pyhost_look(bool in_program)
{
    int wanted = WANTED;

    if (!atomic_compare_exchange_strong(&state, &wanted, LOOKING))
        return;
    /* a running interpreter needs a thread with the GIL, such as one that loads an extension */
    if (!pyhost_find(in_program) || (py.Py_IsInitialized() && !py.PyGILState_Check())) {
        atomic_store(&state, WANTED);
        return;
    }
    (void)py.PySys_AddAuditHook(pyhost_audit, NULL);
    atomic_store(&state, HOOKED);
}

void pyhost_start(bool names, const struct pyhost_parts *of_frameworks)
{
    parts = *of_frameworks;
    names_wanted = names;
    atomic_store_explicit(&state, WANTED, memory_order_relaxed);
    pyhost_look(true);
}

void pyhost_library_comes(const char *file)
{
    const char *slash = file ? strrchr(file, '/') : NULL;

    if (!slash || atomic_load_explicit(&state, memory_order_relaxed) != WANTED)
        return;
    if (strstr(slash, ".cpython-3") || strstr(slash, ".abi3."))
        pyhost_look(false);
}
