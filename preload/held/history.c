/* SPDX-License-Identifier: MIT */
#include "preload/held/history.h"

#include "preload/anchors/pyhost.h"
#include "preload/base/guard.h"
#include "preload/driver/life.h"
#include "preload/driver/session.h"
#include "preload/held/held_text.h"
#include "preload/python/pycall.h"
#include "tracker/capture/capture.h"

#include <stdint.h>
#include <string.h>

typedef struct pyhost_object object;

#define HISTORY_FAILURES_MAX 2 /* the first, second ... failures */
#define HISTORY_ASKED_MAX    8 /* for the others there is room as well: FORMAT_RECORDS_MAX */
#define HISTORY_UNKNOWN      "tensors are not known: %s where PyTorch's history is read"

enum {
    HISTORY_ON, /* words of KEDGE_TENSORS */
    HISTORY_READ,
    HISTORY_OFF,
    NO_ARGUMENTS = 4, /* METH_NOARGS; the others are flags of functions with keywords */
    BY_TUPLE = 0x1 | 0x2,
    BY_VECTOR = 0x80 | 0x2,
};

/* As in Python's documentation. */
struct history_def {
    const char *name;
    void *call;
    int flags;
    const char *doc;
};

#define HISTORY_FUNCTIONS(F)                                                   \
    F(int, PyBytes_AsStringAndSize, (object *, char **, intptr_t *))           \
    F(object *, Py_BuildValue, (const char *, ...))                            \
    F(object *, PyTuple_GetItem, (object *, intptr_t))                         \
    F(long, PyLong_AsLong, (object *))                                         \
    F(int, PyList_Append, (object *, object *))                                \
    F(object *, PyCFunction_NewEx, (struct history_def *, object *, object *)) \
    F(void *, PyCFunction_GetFunction, (object *))                             \
    F(int, PyCFunction_GetFlags, (object *))                                   \
    F(object *, PyErr_Occurred, (void))                                        \
    F(void, Py_IncRef, (object *))

static const char *const history_names[] = {HISTORY_FUNCTIONS(PYCALL_NAME) "_Py_NoneStruct",
        "_Py_TrueStruct", "PyCFunction_Type", "PyList_Type"};
static struct {
    HISTORY_FUNCTIONS(PYCALL_MEMBER)
    object *none, *yes, *c_function, *list;
} py;

enum history_record {
    HISTORY_NONE,
    HISTORY_OURS,
    HISTORY_PROGRAMS,
};

static unsigned wanted; /* fixed by history_start */
static long bound;
static bool is_found;
/* with the GIL: */
static enum history_record record;
static bool is_inside; /* PyTorch is called by us */
static uint64_t failures;
static pyhost_init make_error;             /* the class's own function */
static struct history_def program_records; /* PyTorch's function that begins a history, watched */
static void *records;

/* ---- history.py ------------------------------------------------------------------------------ */

/* Calls a function of the text, and `then` with its answer. An interrupt may be set afterwards. */
static void history_run(const char *name, uint32_t why, void (*then)(object *answer, uint32_t why))
{
    bool is_end = strcmp(name, "end") == 0;
    struct pycall call;
    object *answer;

    pycall_begin(&call);
    is_inside = true;
    answer = pycall_text(&call, history_text, name,
            is_end ? py.Py_BuildValue("()")
                   : py.Py_BuildValue("(l)", record == HISTORY_PROGRAMS ? 0L : bound));
    is_inside = false;
    if (answer && answer != py.none)
        then(answer, why);
    pyhost_drop(answer);
    pycall_end(&call, HISTORY_UNKNOWN);
}

static void history_began(object *answer, uint32_t why)
{
    (void)why;
    record = py.PyLong_AsLong(answer) == 1 ? HISTORY_OURS : HISTORY_NONE;
}

static void history_ended(object *answer, uint32_t why)
{
    (void)answer;
    (void)why;
    record = HISTORY_NONE;
}

/* (whether older events are missing, peaks, the snapshot) */
static void history_taken(object *answer, uint32_t why)
{
    struct format_record what = {.why = why, .bound = record == HISTORY_OURS ? (uint64_t)bound : 0};
    char *peaks, *bytes;
    intptr_t peaks_length, length;

    if (py.PyLong_AsLong(py.PyTuple_GetItem(answer, 0)) == 1)
        what.flags |= FORMAT_RECORD_CUT;
    if (record != HISTORY_OURS)
        what.flags |= FORMAT_RECORD_OWN;
    if (py.PyBytes_AsStringAndSize(py.PyTuple_GetItem(answer, 1), &peaks, &peaks_length) < 0
            || py.PyBytes_AsStringAndSize(py.PyTuple_GetItem(answer, 2), &bytes, &length) < 0
            || peaks_length > (intptr_t)sizeof what.peak)
        return;
    memcpy(what.peak, peaks, (size_t)peaks_length);
    guard_push();
    session_report(capture_record(&what, bytes, (size_t)length));
    guard_pop();
}

static void history_take(uint32_t why)
{
    if (!is_inside && life_is_on() && *capture_path() != '\0')
        history_run("take", why, history_taken);
}

/* ---- when ------------------------------------------------------------------------------------ */

static object *history_none(void)
{
    if (py.PyErr_Occurred())
        return NULL; /* an interrupt */
    py.Py_IncRef(py.none);
    return py.none;
}

static object *history_cuda_begins(object *self, object *unused)
{
    (void)self;
    (void)unused;
    if (record == HISTORY_NONE && life_is_wanted())
        history_run("begin", 0, history_began);
    return history_none();
}

static object *history_python_ends(object *self, object *unused)
{
    (void)self;
    (void)unused;
    history_take(FORMAT_RECORD_END);
    return history_none();
}

/* The program begins or ends a history of its own. False: an interrupt came. */
static bool history_program_records(void)
{
    if (is_inside)
        return true;
    if (record == HISTORY_OURS) {
        history_take(FORMAT_RECORD_CHANGED);
        if (!py.PyErr_Occurred())
            history_run("end", 0, history_ended);
    }
    record = HISTORY_PROGRAMS;
    return !py.PyErr_Occurred();
}

static object *history_by_tuple(object *self, object *args, object *keywords)
{
    object *(*call)(object *, object *, object *);

    *(void **)&call = records;
    return history_program_records() ? call(self, args, keywords) : NULL;
}

static object *history_by_vector(
        object *self, object *const *args, intptr_t count, object *keywords)
{
    object *(*call)(object *, object *const *, intptr_t, object *);

    *(void **)&call = records;
    return history_program_records() ? call(self, args, count, keywords) : NULL;
}

static int history_error(object *self, object *args, object *keywords)
{
    int r = make_error(self, args, keywords);

    if (r < 0 || failures++ >= HISTORY_FAILURES_MAX)
        return r;
    history_take(FORMAT_RECORD_OOM);
    return py.PyErr_Occurred() ? -1 : 0;
}

void history_asked(void)
{
    static unsigned asked;

    if (is_found && asked < HISTORY_ASKED_MAX) {
        asked++;
        history_take(FORMAT_RECORD_ASKED);
    }
}

/* ---- finding PyTorch ------------------------------------------------------------------------- */

/* Puts a function of ours in the place of PyTorch's, whose object stays. */
static void history_watch(object *function)
{
    const size_t at_def = 2 * sizeof(void *); /* after count and type, since CPython 3.0 */
    struct history_def *def;
    void *theirs, *ours = &program_records;
    int flags;

    if (!function || *((object **)(void *)function + 1) != py.c_function)
        return;
    memcpy(&def, (char *)function + at_def, sizeof(void *));
    flags = py.PyCFunction_GetFlags(function);
    theirs = py.PyCFunction_GetFunction(function);
    if (def == &program_records || def->call != theirs || def->flags != flags
            || (flags != BY_TUPLE && flags != BY_VECTOR))
        return;
    records = theirs;
    program_records = *def;
    program_records.call = flags == BY_TUPLE ? (void *)history_by_tuple : (void *)history_by_vector;
    memcpy((char *)function + at_def, &ours, sizeof ours);
}

/* Appends `item`, which is given, to a list of the interpreter's. */
static bool history_append(object *list, object *item)
{
    bool is_done =
            item && *((object **)(void *)list + 1) == py.list && py.PyList_Append(list, item) == 0;

    pyhost_drop(item);
    pycall_forget_error(HISTORY_UNKNOWN);
    return is_done;
}

/* Functions that PyTorch and the interpreter call: from these lists of theirs. */
static void history_queue(object *at_begin, object *at_end)
{
    static struct history_def begin = {"kedge", (void *)history_cuda_begins, NO_ARGUMENTS, NULL};
    static struct history_def end = {"kedge", (void *)history_python_ends, NO_ARGUMENTS, NULL};
    object *function = py.PyCFunction_NewEx(&begin, NULL, NULL);

    if (wanted == HISTORY_ON && function)
        (void)history_append(at_begin, py.Py_BuildValue("(O[])", function));
    pyhost_drop(function);
    (void)history_append(at_end, py.PyCFunction_NewEx(&end, NULL, NULL));
}

void history_start(const struct config *config)
{
    const struct config_value *events = config_key(config, CONFIG_TENSORS, "events");

    wanted = config_word(config, CONFIG_TENSORS);
    bound = events ? (long)events->number : 0;
}

void history_find(void)
{
    object *at_begin, *at_end, *error;

    if (is_found || wanted == HISTORY_OFF || !pyhost_has_module("torch.cuda.memory"))
        return;
    at_begin = pyhost_in_module("torch.cuda", "_queued_calls");
    at_end = pyhost_in_module("threading", "_threading_atexits");
    error = pyhost_in_module("torch._C", "OutOfMemoryError");
    if (!at_begin || !at_end || !pycall_can()
            || !pycall_find(&py, history_names, sizeof history_names / sizeof *history_names))
        return;
    is_found = true;
    if (pyhost_in_module("torch.cuda", "_initialized") == py.yes)
        return;
    history_queue(at_begin, at_end);
    history_watch(pyhost_in_module("torch._C", "_cuda_record_memory_history"));
    if (error)
        (void)pyhost_watch_init(error, history_error, &make_error);
}

void history_forget(void)
{
    is_found = false;
    record = HISTORY_NONE;
}
