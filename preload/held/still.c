/* SPDX-License-Identifier: MIT */
#include "preload/held/still.h"

#include "preload/driver/resolve.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct pyhost_object object;

#define STILL_LOOKS   100      /* at threads that are in an operation, */
#define STILL_LOOK_NS 1000000L /* with this time between two */
#define STILL_LONGER  4.0      /* the switch interval in walks */
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
    F(intptr_t, PyTuple_Size, (object *))                             \
    F(object *, PyTuple_GetItem, (object *, intptr_t))                \
    F(long, PyLong_AsLong, (object *))                                \
    F(object *, PyBool_FromLong, (long))                              \
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

/* Where the interpreter's own state lies, with the lock of the GIL. */
static uintptr_t runtime, runtime_end;

/* PyMethodDef. */
static object *still_ask(object *self, object *arg);
static struct {
    const char *name;
    object *(*call)(object *, object *);
    int flags;
    const char *doc;
} still_def = {"still", still_ask, 8 /* METH_O */, NULL};

static void still_find_runtime(void)
{
    int (*find)(const void *, Dl_info *, void **, int);
    const void *at = pyhost_function("_PyRuntime");
    void *symbol = NULL;
    Dl_info info;

    runtime = runtime_end = 0;
    *(void **)&find = resolve_next("dladdr1");
    if (!at || !find || !find(at, &info, &symbol, RTLD_DL_SYMENT) || !symbol)
        return;
    runtime = (uintptr_t)at;
    runtime_end = runtime + ((const ElfW(Sym) *)symbol)->st_size;
}

bool still_find(void)
{
    bool is_whole = true;

#define STILL_FIND(result, name, params)         \
    *(void **)&py.name = pyhost_function(#name); \
    is_whole &= py.name != NULL;
    STILL_FUNCTIONS(STILL_FIND)
#undef STILL_FIND
    still_find_runtime();
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

/* ---- threads --------------------------------------------------------------------------------- */

/*
 * Whether a thread waits for the GIL: for a futex in the interpreter's own state. One that sleeps
 * (time.sleep from CPython 3.11 on) is in no operation either.
 */
static bool still_waits(long tid)
{
    char text[128];
    char *at;
    unsigned long number, word;
    ssize_t length;
    int fd;

    (void)snprintf(text, sizeof text, "/proc/self/task/%ld/syscall", tid);
    fd = (int)syscall(SYS_openat, AT_FDCWD, text, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    length = syscall(SYS_read, fd, text, sizeof text - 1);
    (void)syscall(SYS_close, fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    number = strtoul(text, &at, 10);
    if (at == text || number != SYS_futex) /* "running" is no number */
        return at != text && number == SYS_clock_nanosleep;
    word = strtoul(at, NULL, 16);
    return word >= runtime && word < runtime_end;
}

static bool still_all_wait(object *threads, intptr_t count)
{
    for (intptr_t i = 1; i < count; i++) {
        long tid = py.PyLong_AsLong(py.PyTuple_GetItem(threads, i));

        if (tid <= 0 || !still_waits(tid))
            return false;
    }
    return true;
}

/* Without counted passes all other threads must be idle. */
static object *still_ask(object *self, object *arg)
{
    struct timespec time = {0, STILL_LOOK_NS};
    intptr_t count = py.PyTuple_Size(arg);
    int passes = pyhost_passes();
    bool is_still = count == 1;

    (void)self;
    if (passes >= 0 && passes > py.PyLong_AsLong(py.PyTuple_GetItem(arg, 0)))
        return py.PyBool_FromLong(0);
    for (int i = 0; passes >= 0 && !is_still && i < STILL_LOOKS; i++) {
        if (i > 0)
            (void)nanosleep(&time, NULL);
        is_still = still_all_wait(arg, count);
    }
    return py.PyBool_FromLong(is_still);
}

bool still_add(object *space)
{
    object *function = py.PyCFunction_NewEx(&still_def, NULL, NULL);
    bool is_there = function && py.PyDict_SetItemString(space, "still", function) == 0;

    pyhost_drop(function);
    return is_there;
}
