/* SPDX-License-Identifier: MIT */
#include "preload/python/pycall.h"

#include "preload/base/guard.h"
#include "tracker/capture/capture.h"

#include <stdio.h>
#include <string.h>

typedef struct pyhost_object object;

enum {
    FILE_INPUT = 257, /* Py_file_input */
    TP_CLEAR = 51,    /* the number of this slot in CPython's stable interface */
};

#define PYCALL_FUNCTIONS(F)                                           \
    F(object *, PyImport_GetModuleDict, (void))                       \
    F(object *, Py_CompileString, (const char *, const char *, int))  \
    F(object *, PyEval_EvalCode, (object *, object *, object *))      \
    F(object *, PyDict_New, (void))                                   \
    F(int, PyDict_SetItemString, (object *, const char *, object *))  \
    F(object *, PyDict_GetItemString, (object *, const char *))       \
    F(void, PyDict_Clear, (object *))                                 \
    F(object *, PyObject_CallObject, (object *, object *))            \
    F(object *, PyErr_Occurred, (void))                               \
    F(object *, PyUnicode_FromString, (const char *))                 \
    F(int, PyDict_Next, (object *, intptr_t *, object **, object **)) \
    F(void *, PyType_GetSlot, (object *, int))                        \
    F(int, PyErr_ExceptionMatches, (object *))                        \
    F(void, PyErr_Clear, (void))                                      \
    F(void *, PyThreadState_Get, (void))

static const char *const pycall_names[] = {
        PYCALL_FUNCTIONS(PYCALL_NAME) "PyExc_Exception", "PyType_Type"};
static struct {
    PYCALL_FUNCTIONS(PYCALL_MEMBER)
    object **exception, *type;
    void (*PyThreadState_EnterTracing)(void *); /* both NULL before 3.11 */
    void (*PyThreadState_LeaveTracing)(void *);
} py;

bool pycall_find(void *members, const char *const *names, size_t count)
{
    bool is_whole = true;

    for (size_t i = 0; i < count; i++) {
        void *found = pyhost_function(names[i]);

        memcpy((char *)members + i * sizeof found, &found, sizeof found);
        is_whole &= found != NULL;
    }
    return is_whole;
}

bool pycall_can(void)
{
    *(void **)&py.PyThreadState_EnterTracing = pyhost_function("PyThreadState_EnterTracing");
    *(void **)&py.PyThreadState_LeaveTracing = pyhost_function("PyThreadState_LeaveTracing");
    return pycall_find(&py, pycall_names, sizeof pycall_names / sizeof *pycall_names);
}

/* The name that the text's classes have as that of their module. */
static bool pycall_name(object *space)
{
    object *name = py.PyUnicode_FromString("<kedge>");
    bool is_there = name && py.PyDict_SetItemString(space, "__name__", name) == 0;

    pyhost_drop(name);
    return is_there;
}

void pycall_begin(struct pycall *call)
{
    object *modules = py.PyImport_GetModuleDict();

    *call = (struct pycall){py.PyDict_New(), py.PyThreadState_Get()};
    if (py.PyThreadState_EnterTracing)
        py.PyThreadState_EnterTracing(call->thread);
    if (call->space && modules && py.PyDict_SetItemString(call->space, "modules", modules) == 0
            && pycall_name(call->space))
        return;
    pyhost_drop(call->space);
    call->space = NULL;
}

object *pycall_text(struct pycall *call, const unsigned char *text, const char *name, object *args)
{
    object *space = args ? call->space : NULL;
    object *code = space ? py.Py_CompileString((const char *)text, "<kedge>", FILE_INPUT) : NULL;
    object *done = code ? py.PyEval_EvalCode(code, space, space) : NULL;
    object *function = done ? py.PyDict_GetItemString(space, name) : NULL;
    object *answer = function ? py.PyObject_CallObject(function, args) : NULL;

    pyhost_drop(done);
    pyhost_drop(code);
    pyhost_drop(args);
    return answer;
}

/*
 * A class is in a cycle with what it is made of. Those of the text are taken apart as the collector
 * would, which finds nothing of them then. They have no objects any more.
 */
static void pycall_clear_classes(object *space)
{
    const object *name = py.PyDict_GetItemString(space, "__name__");
    int (*clear)(object *) = NULL;
    object *key, *value;
    intptr_t at = 0;

    *(void **)&clear = py.PyType_GetSlot(py.type, TP_CLEAR);
    while (clear && name && py.PyDict_Next(space, &at, &key, &value))
        if (pyhost_in_class(value, "__module__") == name)
            (void)clear(value);
}

void pycall_end(struct pycall *call, const char *what)
{
    pycall_forget_error(what);
    if (call->space && !py.PyErr_Occurred())
        pycall_clear_classes(call->space);
    if (call->space)
        py.PyDict_Clear(call->space); /* its functions refer to it */
    pyhost_drop(call->space);
    if (py.PyThreadState_LeaveTracing)
        py.PyThreadState_LeaveTracing(call->thread);
}

void pycall_forget_error(const char *what)
{
    char text[128];
    const object *type = py.PyErr_Occurred();

    if (!type || !py.PyErr_ExceptionMatches(*py.exception))
        return;
    (void)snprintf(text, sizeof text, what, pyhost_type_name(type));
    py.PyErr_Clear();
    guard_push();
    (void)capture_note(2, text);
    guard_pop();
}
