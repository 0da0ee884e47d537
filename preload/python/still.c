/* SPDX-License-Identifier: MIT */
#include "preload/python/still.h"

#include "preload/python/young.h"

#include <stdint.h>
#include <time.h>

typedef struct pyhost_object object;

#define STILL_LONGER  4.0 /* the switch interval in walks */
#define STILL_PART    0.2 /* of the time of a walk: longest time for turns before it */
#define STILL_TURN_NS 100000L
#define STILL_ASKED   0.001 /* seconds: Python code took longer, so somebody had a turn */

enum {
    STILL_TURNS = 50,
    STILL_INPUT = 257, /* Py_file_input */
};

/* As in Python's documentation. */
#define STILL_FUNCTIONS(F)                                            \
    F(object *, PyObject_CallFunction, (object *, const char *, ...)) \
    F(object *, PyObject_CallObject, (object *, object *))            \
    F(object *, PyTuple_Pack, (intptr_t, ...))                        \
    F(object *, PyTuple_GetItem, (object *, intptr_t))                \
    F(object *, PyFloat_FromDouble, (double))                         \
    F(double, PyFloat_AsDouble, (object *))                           \
    F(object *, PyCFunction_NewEx, (void *, object *, object *))      \
    F(int, PyDict_SetItemString, (object *, const char *, object *))  \
    F(object *, PyLong_FromLong, (long))                              \
    F(object *, PyDict_New, (void))                                   \
    F(object *, Py_CompileString, (const char *, const char *, int))  \
    F(object *, PyEval_EvalCode, (object *, object *, object *))      \
    F(object *, PyObject_CallFunctionObjArgs, (object *, ...))        \
    F(void, Py_IncRef, (object *))                                    \
    F(object *, PyObject_GetAttrString, (object *, const char *))     \
    F(int, PySequence_Contains, (object *, object *))                 \
    F(object *, PyUnicode_FromString, (const char *))                 \
    F(int, PyDict_Next, (object *, intptr_t *, object **, object **)) \
    F(unsigned long, PyLong_AsUnsignedLong, (object *))               \
    F(unsigned long, PyThread_get_thread_ident, (void))               \
    F(object *, PyList_New, (intptr_t))                               \
    F(intptr_t, PyList_Size, (object *))                              \
    F(object *, PyList_GetItem, (object *, intptr_t))                 \
    F(int, PyList_Append, (object *, object *))                       \
    F(int, PyErr_ExceptionMatches, (object *))                        \
    F(void, PyErr_Clear, (void))                                      \
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
    object *none, **exception;
} py;
#undef STILL_MEMBER

/* PyMethodDef. */
static object *still_passes(object *self, object *unused);
static object *still_quiet(object *self, object *args);
static struct {
    const char *name;
    object *(*call)(object *, object *);
    int flags;
    const char *doc;
} still_defs[] = {
        {"passes", still_passes, 4 /* METH_NOARGS */, NULL},
        {"quiet", still_quiet, 1 /* METH_VARARGS */, NULL},
};

bool still_find(void)
{
    bool is_whole = true;

#define STILL_FIND(result, name, params)         \
    *(void **)&py.name = pyhost_function(#name); \
    is_whole &= py.name != NULL;
    STILL_FUNCTIONS(STILL_FIND)
#undef STILL_FIND
    py.none = pyhost_function("_Py_NoneStruct");
    py.exception = pyhost_function("PyExc_Exception");
    return is_whole && py.none && py.exception;
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

/* Nothing, in Python: only between its instructions the interpreter gives the GIL to who asked. */
static object *still_new_code(void)
{
    return py.Py_CompileString("for i in range(3): pass", "<kedge>", STILL_INPUT);
}

static double still_clock(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Gives the GIL to who has asked for it. Whether somebody had. */
static bool still_give_turn(object *code, object *space, struct still *was)
{
    double begin = still_clock();
    object *done = py.PyEval_EvalCode(code, space, space);
    bool had_turn = still_clock() - begin > STILL_ASKED;

    if (!done && !was->error[0])
        py.PyErr_Fetch(&was->error[0], &was->error[1], &was->error[2]);
    pyhost_drop(done);
    return had_turn;
}

/* Gives turns until nobody asks, or until then. `longer`, `shorter`: as still_set_interval takes them. */
static void still_give_turns(object *longer, object *shorter, struct still *was, double until)
{
    object *code = still_new_code();
    object *space = py.PyDict_New();
    bool had_turn = code && space;

    for (int i = 0; had_turn && i < STILL_TURNS && still_clock() < until; i++) {
        still_nap(2 * was->interval); /* who began to wait before has asked by then */
        still_set_interval(shorter);
        had_turn = still_give_turn(code, space, was);
        still_set_interval(longer);
    }
    pyhost_drop(space);
    pyhost_drop(code);
}

void still_begin(struct still *ret_was, double seconds)
{
    object *longer = still_new_interval(STILL_LONGER * seconds);

    *ret_was = (struct still){.interval = still_interval(), .collects = py.PyGC_Disable() != 0};
    still_set_interval(longer);
    if (still_others() > 0) {
        object *shorter = still_new_interval(ret_was->interval);
        still_give_turns(longer, shorter, ret_was, still_clock() + STILL_PART * seconds);
        pyhost_drop(shorter);
    }
    pyhost_drop(longer);
    ret_was->young = young_count();
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
    young_restore(was->young);
    if (!type && was->error[0]) {
        py.PyErr_Restore(was->error[0], was->error[1], was->error[2]);
    } else {
        for (size_t i = 0; i < STILL_ERROR; i++)
            pyhost_drop(was->error[i]);
        py.PyErr_Restore(type, value, traceback);
    }
    if (was->collects)
        (void)py.PyGC_Enable();
    for (; others; others--) { /* those that began to wait meanwhile would wait for that long */
        void *thread = py.PyEval_SaveThread();

        (void)nanosleep(&turn, NULL);
        py.PyEval_RestoreThread(thread);
    }
}

/* ---- passes ---------------------------------------------------------------------------------- */

static uint64_t begun; /* passes, at the last call of `passes` */

static object *still_passes(object *self, object *unused)
{
    (void)self;
    (void)unused;
    begun = pyhost_passes_begun();
    return py.PyLong_FromLong(pyhost_passes());
}

/* Whether code names one of these: `.grad = None` and `detach_()` free tensors and graphs without the GIL. */
static bool still_names(object *code, const char *member)
{
    static const char *const words[] = {"grad", "detach_"};
    object *names = py.PyObject_GetAttrString(code, member);
    bool is_there = !names;

    for (size_t i = 0; !is_there && i < sizeof words / sizeof *words; i++) {
        object *word = py.PyUnicode_FromString(words[i]);

        is_there = !word || py.PySequence_Contains(names, word) != 0;
        pyhost_drop(word);
    }
    pyhost_drop(names);
    return is_there;
}

bool still_is_at_work(void)
{
    object *current = pyhost_in_module("sys", "_current_frames");
    object *frames = current ? py.PyObject_CallFunctionObjArgs(current, NULL) : NULL;
    unsigned long mine = frames ? py.PyThread_get_thread_ident() : 0;
    bool is_at_work = !frames;
    object *thread, *frame;
    intptr_t at = 0;

    while (!is_at_work && py.PyDict_Next(frames, &at, &thread, &frame)) {
        object *code = py.PyLong_AsUnsignedLong(thread) == mine
                ? NULL
                : py.PyObject_GetAttrString(frame, "f_code");

        is_at_work = code && (still_names(code, "co_names") || still_names(code, "co_consts"));
        pyhost_drop(code);
    }
    pyhost_drop(frames);
    return is_at_work;
}

/* Appends get(object) for each of a list, None where it raises an error. False: no memory, or an interrupt. */
static bool still_read_all(object *result, object *get, object *list)
{
    intptr_t count = py.PyList_Size(list);
    bool is_whole = true;

    for (intptr_t i = 0; is_whole && i < count; i++) {
        object *found = py.PyObject_CallFunctionObjArgs(get, py.PyList_GetItem(list, i), NULL);

        if (!found && py.PyErr_ExceptionMatches(*py.exception)) {
            py.PyErr_Clear();
            py.Py_IncRef(py.none);
            found = py.none;
        }
        is_whole = found && py.PyList_Append(result, found) == 0;
        pyhost_drop(found);
    }
    return is_whole;
}

/*
 * quiet(get, list): [get(object), ...]; None if a backward pass has begun since `passes` was called,
 * or another thread may be taking apart what is read. `get` is a function of C's: between the
 * question and the end of the reading the interpreter runs no instruction, so nobody takes the GIL.
 */
static object *still_quiet(object *self, object *args)
{
    object *get = py.PyTuple_GetItem(args, 0);
    object *list = get ? py.PyTuple_GetItem(args, 1) : NULL;
    object *result;

    (void)self;
    if (!list)
        return NULL;
    if (pyhost_passes_begun() != begun || still_is_at_work()) {
        py.PyErr_Clear();
        py.Py_IncRef(py.none);
        return py.none;
    }
    result = py.PyList_New(0);
    if (!result || still_read_all(result, get, list))
        return result;
    pyhost_drop(result);
    return NULL;
}

bool still_add(object *space)
{
    bool is_there = true;

    for (size_t i = 0; i < sizeof still_defs / sizeof *still_defs; i++) {
        object *function = py.PyCFunction_NewEx(&still_defs[i], NULL, NULL);

        is_there = is_there && function
                && py.PyDict_SetItemString(space, still_defs[i].name, function) == 0;
        pyhost_drop(function);
    }
    return is_there;
}
