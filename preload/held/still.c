/* SPDX-License-Identifier: MIT */
#include "preload/held/still.h"

#include <stdint.h>
#include <time.h>

typedef struct pyhost_object object;

#define STILL_LONGER  4.0 /* the switch interval in walks */
#define STILL_TURN_NS 100000L

/* As in Python's documentation. */
#define STILL_FUNCTIONS(F)                                            \
    F(object *, PyObject_CallFunction, (object *, const char *, ...)) \
    F(object *, PyObject_CallObject, (object *, object *))            \
    F(object *, PyTuple_Pack, (intptr_t, ...))                        \
    F(object *, PyFloat_FromDouble, (double))                         \
    F(double, PyFloat_AsDouble, (object *))                           \
    F(object *, PyCFunction_NewEx, (void *, object *, object *))      \
    F(int, PyDict_SetItemString, (object *, const char *, object *))  \
    F(object *, PyLong_FromLong, (long))                              \
    F(int, PyGC_Disable, (void))                                      \
    F(int, PyGC_Enable, (void))                                       \
    F(void, PyErr_Fetch, (object **, object **, object **))           \
    F(void, PyErr_Restore, (object *, object *, object *))            \
    F(void *, PyInterpreterState_Get, (void))                         \
    F(void *, PyInterpreterState_ThreadHead, (void *))                \
    F(void *, PyThreadState_Next, (void *))                           \
    F(void *, PyEval_SaveThread, (void))                              \
    F(void, PyEval_RestoreThread, (void *))

#define STILL_MEMBER(result, name, params) \
    result(*name) params; /* NOLINT(bugprone-macro-parentheses) */
static struct {
    STILL_FUNCTIONS(STILL_MEMBER)
} py;
#undef STILL_MEMBER

/* PyMethodDef. */
static object *still_passes(object *self, object *unused);
static struct {
    const char *name;
    object *(*call)(object *, object *);
    int flags;
    const char *doc;
} still_def = {"passes", still_passes, 4 /* METH_NOARGS */, NULL};

bool still_find(void)
{
    bool is_whole = true;

#define STILL_FIND(result, name, params)         \
    *(void **)&py.name = pyhost_function(#name); \
    is_whole &= py.name != NULL;
    STILL_FUNCTIONS(STILL_FIND)
#undef STILL_FIND
    return is_whole;
}

/* ---- the GIL --------------------------------------------------------------------------------- */

static void still_nap(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};

    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    (void)nanosleep(&time, NULL);
}

/* 0 if the interpreter does not say. */
static double still_interval(void)
{
    object *get = pyhost_in_module("sys", "getswitchinterval");
    object *value = get ? py.PyObject_CallFunction(get, NULL) : NULL;
    double seconds = value ? py.PyFloat_AsDouble(value) : 0;

    pyhost_drop(value);
    return seconds;
}

/* What still_set_interval takes, so that setting it is one call. */
static object *still_new_interval(double seconds)
{
    object *number = py.PyFloat_FromDouble(seconds);
    object *args = number ? py.PyTuple_Pack(1, number) : NULL;

    pyhost_drop(number);
    return args;
}

static void still_set_interval(object *args)
{
    object *set = pyhost_in_module("sys", "setswitchinterval");

    if (set && args)
        pyhost_drop(py.PyObject_CallObject(set, args));
}

/* The other threads of the interpreter. */
static unsigned still_others(void)
{
    unsigned count = 0;

    for (void *thread = py.PyInterpreterState_ThreadHead(py.PyInterpreterState_Get()); thread;
            thread = py.PyThreadState_Next(thread))
        count++;
    return count - 1;
}

void still_begin(struct still *ret_was, double seconds)
{
    bool has_others = still_others() > 0;
    object *longer = still_new_interval(STILL_LONGER * seconds);

    ret_was->interval = still_interval();
    ret_was->collects = py.PyGC_Disable() != 0;
    if (has_others) { /* those that wait have asked by then, and one gets it */
        still_nap(ret_was->interval);
        py.PyEval_RestoreThread(py.PyEval_SaveThread());
    }
    still_set_interval(longer);
    pyhost_drop(longer);
    if (has_others) /* one that began to wait in between asks now, and has its turn before the walk */
        still_nap(ret_was->interval);
}

void still_end(const struct still *was)
{
    struct timespec turn = {0, STILL_TURN_NS};
    unsigned others = still_others();
    object *type, *value, *traceback; /* of an interrupt that the program gets */
    object *interval;

    py.PyErr_Fetch(&type, &value, &traceback);
    interval = still_new_interval(was->interval);
    still_set_interval(interval);
    pyhost_drop(interval);
    py.PyErr_Restore(type, value, traceback);
    if (was->collects)
        (void)py.PyGC_Enable();
    for (; others; others--) { /* those that began to wait meanwhile would wait for that long */
        void *thread = py.PyEval_SaveThread();

        (void)nanosleep(&turn, NULL);
        py.PyEval_RestoreThread(thread);
    }
}

/* ---- passes ---------------------------------------------------------------------------------- */

static object *still_passes(object *self, object *unused)
{
    (void)self;
    (void)unused;
    return py.PyLong_FromLong(pyhost_passes());
}

bool still_add(object *space)
{
    object *function = py.PyCFunction_NewEx(&still_def, NULL, NULL);
    bool is_there = function && py.PyDict_SetItemString(space, "passes", function) == 0;

    pyhost_drop(function);
    return is_there;
}
