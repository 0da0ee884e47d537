/* SPDX-License-Identifier: MIT */
#include "preload/held/pycall.h"

#include "preload/base/guard.h"
#include "tracker/capture/capture.h"

#include <stdio.h>
#include <string.h>

typedef struct pyhost_object object;

enum {
    FILE_INPUT = 257, /* Py_file_input */
};

#define PYCALL_FUNCTIONS(F)                                          \
    F(object *, PyImport_GetModuleDict, (void))                      \
    F(object *, Py_CompileString, (const char *, const char *, int)) \
    F(object *, PyEval_EvalCode, (object *, object *, object *))     \
    F(object *, PyDict_New, (void))                                  \
    F(int, PyDict_SetItemString, (object *, const char *, object *)) \
    F(object *, PyDict_GetItemString, (object *, const char *))      \
    F(void, PyDict_Clear, (object *))                                \
    F(object *, PyObject_CallObject, (object *, object *))           \
    F(object *, PyErr_Occurred, (void))                              \
    F(int, PyErr_ExceptionMatches, (object *))                       \
    F(void, PyErr_Clear, (void))                                     \
    F(void *, PyThreadState_Get, (void))

static const char *const pycall_names[] = {PYCALL_FUNCTIONS(PYCALL_NAME) "PyExc_Exception"};
static struct {
    PYCALL_FUNCTIONS(PYCALL_MEMBER)
    object **exception;
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

void pycall_begin(struct pycall *call)
{
    object *modules = py.PyImport_GetModuleDict();

    *call = (struct pycall){py.PyDict_New(), py.PyThreadState_Get()};
    if (py.PyThreadState_EnterTracing)
        py.PyThreadState_EnterTracing(call->thread);
    if (call->space && modules && py.PyDict_SetItemString(call->space, "modules", modules) == 0)
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

void pycall_end(struct pycall *call, const char *what)
{
    pycall_forget_error(what);
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
