/* SPDX-License-Identifier: MIT */
#include "tests/sim/driver/sim_python.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What is used of CPython's interface; objects are opaque. */
static struct {
    void *(*PyGILState_GetThisThreadState)(void);
    int (*PyGILState_Ensure)(void);
    void (*PyGILState_Release)(int);
    int (*PyGC_Disable)(void);
    int (*PyGC_Enable)(void);
    void (*PyErr_Fetch)(void **, void **, void **);
    void (*PyErr_Restore)(void *, void *, void *);
    void *(*PyEval_GetFrame)(void);
    void *(*PyFrame_GetBack)(void *);
    void *(*PyFrame_GetCode)(void *);
    int (*PyFrame_GetLineNumber)(void *);
    void *(*PyObject_GetAttrString)(void *, const char *);
    const char *(*PyUnicode_AsUTF8)(void *);
    void (*Py_IncRef)(void *);
    void (*Py_DecRef)(void *);
    bool is_there;
} python;
static int (*is_ending)(void);
static uintptr_t loop;
static size_t loop_bytes;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool find(const char *name, void *ret_function)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);

    memcpy(ret_function, &symbol, sizeof(symbol));
    return symbol != NULL;
}

/* A program that uses the device has its interpreter by then, if it ever has one. */
static void look(void)
{
    ElfW(Sym) *entry = NULL;
    const void *symbol = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
    Dl_info info;
    bool all = true;

    if (symbol && dladdr1(symbol, &info, (void **)&entry, RTLD_DL_SYMENT) && entry) {
        loop = (uintptr_t)symbol;
        loop_bytes = entry->st_size;
    }
#define FIND(name) all = find(#name, &python.name) && all
    FIND(PyGILState_GetThisThreadState);
    FIND(PyGILState_Ensure);
    FIND(PyGILState_Release);
    FIND(PyErr_Fetch);
    FIND(PyErr_Restore);
    FIND(PyEval_GetFrame);
    FIND(PyFrame_GetBack);
    FIND(PyFrame_GetCode);
    FIND(PyFrame_GetLineNumber);
    FIND(PyObject_GetAttrString);
    FIND(PyUnicode_AsUTF8);
    FIND(Py_IncRef);
    FIND(Py_DecRef);
#undef FIND
    /* 3.10 and later */
    (void)(find("PyGC_Disable", &python.PyGC_Disable) && find("PyGC_Enable", &python.PyGC_Enable));
    /* its name up to 3.12, and from 3.13 on */
    python.is_there =
            all && (find("_Py_IsFinalizing", &is_ending) || find("Py_IsFinalizing", &is_ending));
}

/* A text attribute of an object; "?" where there is none that can be written. */
static bool put_text(FILE *line, void *object, const char *attribute)
{
    void *value = python.PyObject_GetAttrString(object, attribute);
    const char *text = value ? python.PyUnicode_AsUTF8(value) : NULL;

    if (text)
        (void)fprintf(line, "\t%s", text);
    if (value)
        python.Py_DecRef(value);
    if (!text) {
        void *type, *error, *trace;

        python.PyErr_Fetch(&type, &error, &trace);
        for (int i = 0; i < 3; i++)
            if ((void *[]){type, error, trace}[i])
                python.Py_DecRef((void *[]){type, error, trace}[i]);
    }
    return text != NULL;
}

static unsigned put_frames(FILE *line)
{
    unsigned count = 0;
    void *frame = python.PyEval_GetFrame();

    if (frame)
        python.Py_IncRef(frame);
    while (frame) {
        void *code = python.PyFrame_GetCode(frame);
        void *back = python.PyFrame_GetBack(frame);

        if (!put_text(line, code, "co_qualname") && !put_text(line, code, "co_name"))
            (void)fputs("\t?", line);
        if (!put_text(line, code, "co_filename"))
            (void)fputs("\t?", line);
        (void)fprintf(line, "\t%d", python.PyFrame_GetLineNumber(frame));
        python.Py_DecRef(code);
        python.Py_DecRef(frame);
        frame = back;
        count++;
    }
    return count;
}

void sim_python_put(FILE *line)
{
    void *type, *error, *trace;
    char *text = NULL;
    size_t length = 0;
    unsigned count;
    int had_gil, collects;
    FILE *frames;

    (void)pthread_once(&once, look);
    if (!python.is_there || is_ending() || !python.PyGILState_GetThisThreadState()
            || !(frames = open_memstream(&text, &length))) {
        (void)fputs("\t0", line);
        return;
    }
    had_gil = python.PyGILState_Ensure();
    collects = python.PyGC_Enable ? python.PyGC_Disable() : 0;
    python.PyErr_Fetch(&type, &error, &trace);
    count = put_frames(frames);
    python.PyErr_Restore(type, error, trace);
    if (collects)
        (void)python.PyGC_Enable();
    python.PyGILState_Release(had_gil);
    (void)fclose(frames);
    (void)fprintf(line, "\t%u%s", count, text);
    free(text);
}

bool sim_python_is_loop(uintptr_t address)
{
    (void)pthread_once(&once, look);
    return address - loop < loop_bytes;
}
