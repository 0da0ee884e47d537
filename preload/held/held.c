/* SPDX-License-Identifier: MIT */
#include "preload/held/held.h"

#include "preload/anchors/pyhost.h"
#include "preload/base/guard.h"
#include "preload/base/msg.h"
#include "preload/driver/life.h"
#include "preload/driver/session.h"
#include "preload/held/asked.h"
#include "preload/held/collect.h"
#include "preload/held/grown.h"
#include "preload/held/held_text.h"
#include "preload/held/history.h"
#include "preload/held/pycall.h"
#include "preload/held/scan.h"
#include "preload/held/still.h"
#include "preload/held/storages.h"
#include "preload/request/oom.h"
#include "tracker/capture/capture.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct pyhost_object object;

#define HELD_BLOCKS_MAX   (1u << 18) /* live blocks that a walk is given */
#define HELD_FAILURES_MAX 16        /* walks at failed allocations: the first, second, fourth ... */
#define HELD_TRIES        100       /* for a moment without a backward pass, */
#define HELD_TRY_NS       10000000L /* with this time between two */
#define HELD_BYTES_LEAST  (UINT64_C(1) << 20) /* live at the end: less is not looked at */

enum {
    WANTED_OOM = 1, /* words of KEDGE_HELD */
    WANTED_END = 2,
    WANTED_ASK = 4,
    WANTED_STEP = 8,
    WANTED_GROWTH = 16,
    WANTED_COLLECT = 32,
    WANTED_SCAN = 64,
    STEPS_FIRST = 4, /* the first step after which is walked: what fills up at first is there */
};

/* As in Python's documentation. */
#define HELD_FUNCTIONS(F)                                            \
    F(object *, PyBytes_FromStringAndSize, (const char *, intptr_t)) \
    F(char *, PyBytes_AsString, (object *))                          \
    F(intptr_t, PyBytes_Size, (object *))                            \
    F(object *, Py_BuildValue, (const char *, ...))                  \
    F(object *, PyTuple_GetItem, (object *, intptr_t))               \
    F(long, PyLong_AsLong, (object *))                               \
    F(const char *, PyUnicode_AsUTF8, (object *))                    \
    F(object *, PyErr_Occurred, (void))                              \
    F(void, PyErr_Clear, (void))                                     \
    F(void, PyErr_SetInterrupt, (void))                              \
    F(int, Py_IsInitialized, (void))                                 \
    F(int, PyGILState_Ensure, (void))                                \
    F(void, PyGILState_Release, (int))                               \
    F(void *, PyEval_SaveThread, (void))                             \
    F(void, PyEval_RestoreThread, (void *))                          \
    F(void, Py_DecRef, (object *))

static const char *const held_names[] = {HELD_FUNCTIONS(PYCALL_NAME) "_Py_NoneStruct"};
static struct {
    HELD_FUNCTIONS(PYCALL_MEMBER)
    object *none;
} py;

static unsigned wanted; /* fixed by held_start */
static double seconds;
static long most; /* objects of a walk */
static bool is_found;
/* The classes' own functions. */
static pyhost_init make_error, make_accelerator_error, make_cupy_error, make_memory_error;
static uint64_t errors, failures; /* counted by this module; by oom.c at the last look */

static bool held_find_functions(void)
{
    return still_find() && pycall_can()
            && pycall_find(&py, held_names, sizeof held_names / sizeof *held_names);
}

/* ---- what the walk found --------------------------------------------------------------------- */

static uint64_t held_word(const char **io_at)
{
    uint64_t word;

    memcpy(&word, *io_at, sizeof word);
    *io_at += sizeof word;
    return word;
}

/* Names what holds most, once. */
static void held_tell(object *answer)
{
    long bytes = py.PyLong_AsLong(py.PyTuple_GetItem(answer, 3));
    const char *holders = py.PyUnicode_AsUTF8(py.PyTuple_GetItem(answer, 4));
    char text[OOM_BYTES_MAX];

    if (holders)
        msg_warn("%s are held by %s; see kedge report %s --view oom",
                oom_bytes_text(text, (uint64_t)bytes), holders, capture_path());
}

/* The addresses of tensors inside of blocks, of the row before. */
static void held_record_inside(uint32_t walk, const char *at, size_t count)
{
    enum {
        AT_ONCE = 512
    };
    uint64_t addresses[AT_ONCE];

    while (count > 0) {
        size_t part = count < AT_ONCE ? count : AT_ONCE;

        memcpy(addresses, at, part * sizeof *addresses);
        session_report(capture_held_at(walk, addresses, part));
        at += part * sizeof *addresses;
        count -= part;
    }
}

/* Rows as held.py packs them. */
static void held_record_rows(uint32_t walk, const char *at, size_t length)
{
    enum {
        WORDS = 6
    };
    const char *end = at + length;

    while ((size_t)(end - at) >= WORDS * sizeof(uint64_t)) {
        struct capture_block sum = {.addr = 0, .size = held_word(&at)};
        uint64_t count = held_word(&at);
        size_t text, inside;

        sum.stack = held_word(&at);
        sum.pystack = held_word(&at);
        inside = held_word(&at) * sizeof(uint64_t);
        text = held_word(&at);
        if (text > (size_t)(end - at) || inside > (size_t)(end - at) - text)
            return;
        session_report(capture_held(walk, &sum, count, at, text));
        held_record_inside(walk, at + text, inside / sizeof(uint64_t));
        at += text + inside;
    }
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* The live blocks as bytes; NULL: no memory. */
static object *held_blocks(int device, struct format_def_walk *walk)
{
    uint32_t count, room;
    object *blocks;
    char *bytes;

    guard_push();
    count = capture_live(device, NULL, 0, &walk->bytes);
    guard_pop();
    room = count < HELD_BLOCKS_MAX ? count : HELD_BLOCKS_MAX;
    blocks = py.PyBytes_FromStringAndSize(NULL, (intptr_t)(room * sizeof(struct capture_block)));
    bytes = blocks ? py.PyBytes_AsString(blocks) : NULL;
    if (!bytes)
        return NULL;
    memset(bytes, 0, room * sizeof(struct capture_block));
    guard_push();
    walk->count = capture_live(device, (struct capture_block *)(void *)bytes, room, &walk->bytes);
    guard_pop();
    walk->flags = walk->count > room ? FORMAT_WALK_BLOCKS : 0;
    return blocks;
}

/* Returns the number of the walk, 0: it is not on record. */
static uint32_t held_record(object *answer, struct format_def_walk *walk, bool tells)
{
    object *rows = py.PyTuple_GetItem(answer, 2); /* borrowed, as the others */
    const char *bytes = rows ? py.PyBytes_AsString(rows) : NULL;
    uint32_t number;

    if (!bytes)
        return 0;
    walk->flags |= (uint32_t)py.PyLong_AsLong(py.PyTuple_GetItem(answer, 0));
    walk->objects = (uint64_t)py.PyLong_AsLong(py.PyTuple_GetItem(answer, 1));
    guard_push();
    number = capture_walk_begin();
    held_record_rows(number, bytes, (size_t)py.PyBytes_Size(rows));
    session_report(capture_walk(number, walk));
    guard_pop();
    if (tells)
        held_tell(answer);
    return number;
}

static uint64_t held_clock(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Seconds of the bound that are left. */
static double held_left(uint64_t begin)
{
    return seconds - (double)(held_clock(CLOCK_MONOTONIC) - begin) / 1e9;
}

/* What held.py's look takes. */
static object *held_arguments(object *blocks, object *error, uint64_t begin)
{
    return py.Py_BuildValue("(OOdl(dd))", blocks, error ? error : py.none, held_left(begin), most,
            (double)held_clock(CLOCK_MONOTONIC) / 1e9,
            (double)held_clock(CLOCK_THREAD_CPUTIME_ID) / 1e9);
}

/*
 * `error` NULL: none. An interrupt may be set afterwards. Returns the number of the walk, 0: it is
 * not on record.
 */
static uint32_t held_walk(enum format_walk_why why, object *error, int device, bool tells)
{
    struct format_def_walk walk = {.why = (uint32_t)why, .device = device};
    struct pycall call;
    struct still was;
    object *blocks, *answer = NULL;
    uint32_t number = 0;
    uint64_t begin = held_clock(CLOCK_MONOTONIC);

    pycall_begin(&call);
    still_begin(&was, seconds);
    blocks = held_blocks(device, &walk);
    if (blocks && call.space && still_add(call.space) && storages_add(call.space))
        answer = pycall_text(&call, held_text, "look", held_arguments(blocks, error, begin));
    walk.spent_ns = held_clock(CLOCK_MONOTONIC) - begin;
    if (answer)
        number = held_record(answer, &walk, tells);
    pyhost_drop(answer);
    pyhost_drop(blocks);
    pycall_end(&call, "what holds the memory is not known: %s in the walk");
    still_end(&was);
    return number;
}

static bool held_may_walk(void)
{
    return life_is_on() && *capture_path() != '\0';
}

object *held_holders(object *reference)
{
    struct pycall call;
    struct still was;
    object *answer = NULL;

    if (!is_found || !held_may_walk())
        return NULL;
    pycall_begin(&call);
    still_begin(&was, seconds);
    if (call.space && still_add(call.space) && storages_add(call.space))
        answer = pycall_text(
                &call, held_text, "holders", py.Py_BuildValue("(Odl)", reference, seconds, most));
    pycall_end(&call, "what holds a tensor is not known: %s in the walk");
    still_end(&was);
    return answer;
}

/* ---- when ------------------------------------------------------------------------------------ */

static bool held_is_told(void)
{
    return (wanted & WANTED_OOM) && (errors & (errors - 1)) == 0
            && errors >> HELD_FAILURES_MAX == 0;
}

/* An error about memory was made, and its first handler has not run yet. -1: an interrupt came. */
static int held_failed(object *error)
{
    static bool is_busy;
    int device = -1;

    failures = oom_count(&device);
    errors++;
    if (is_busy)
        return 0;
    is_busy = true;
    if (held_is_told())
        (void)held_walk(FORMAT_WALK_OOM, error, device, errors == 1);
    if ((wanted & WANTED_COLLECT) && !py.PyErr_Occurred())
        collect_now();
    is_busy = false;
    return py.PyErr_Occurred() ? -1 : 0;
}

static int held_error(object *self, object *args, object *keywords)
{
    int r = make_error(self, args, keywords);

    return r < 0 || !held_may_walk() ? r : held_failed(self);
}

/* Of any error of CUDA's; without PyTorch's cache also of a failed cudaMalloc. */
static int held_accelerator_error(object *self, object *args, object *keywords)
{
    int r = make_accelerator_error(self, args, keywords);
    int device;

    return r < 0 || !held_may_walk() || oom_count(&device) == failures ? r : held_failed(self);
}

static int held_cupy_error(object *self, object *args, object *keywords)
{
    int r = make_cupy_error(self, args, keywords);

    return r < 0 || !held_may_walk() ? r : held_failed(self);
}

/*
 * Of PaddlePaddle, whose error is Python's own class. The interpreter makes its own without a call
 * of this; others come without a request of the device that failed.
 */
static int held_memory_error(object *self, object *args, object *keywords)
{
    int r = make_memory_error(self, args, keywords);
    int device;

    return r < 0 || !held_may_walk() || oom_count(&device) == failures ? r : held_failed(self);
}

static atomic_int asking;
enum {
    ASKING_NEVER, /* no interpreter with one of the frameworks */
    ASKING_MAY,
    ASKING_NOW,  /* the thread of asked.c asks for the GIL, or has it */
    ASKING_OVER, /* the interpreter ends */
};

/* Lets the thread of asked.c end its walk: it may not ask for the GIL of what is no interpreter. */
static void held_end_asking(void)
{
    struct timespec time = {0, HELD_TRY_NS};
    void *thread = NULL;

    for (int may = ASKING_MAY;
            !atomic_compare_exchange_strong(&asking, &may, ASKING_OVER) && may == ASKING_NOW;
            may = ASKING_MAY) {
        if (!thread)
            thread = py.PyEval_SaveThread();
        (void)nanosleep(&time, NULL);
    }
    if (thread)
        py.PyEval_RestoreThread(thread);
}

/* ---- where live memory is compared ---- */

enum {
    ROUNDLESS_BLOCKS = 16, /* fewer that are left of a program without rounds are no leak of it */
    ROUNDLESS_PART = 8,    /* and so if more than this part of its peak is gone */
};

/* With the GIL. `steps` end with the last of these kinds that the program has come to. */
static struct grown steps, evals;
static enum pyloop_kind steps_by;
static uint64_t walked_at; /* live when its growth was last walked */

/*
 * A round of training is compared at the end of an optimizer's step, where there is none at the end
 * of a backward pass, else before a forward pass. Evaluations and services call modules that do not
 * train: before such a call there is what earlier ones have left.
 */
static struct grown *held_place(const struct pyhost_moment *moment)
{
    if (moment->is_begin != (moment->kind == PYLOOP_FORWARD) || pyhost_passes() > 0)
        return NULL;
    if (!moment->trains && moment->kind == PYLOOP_FORWARD)
        return &evals;
    if (moment->kind > steps_by) {
        steps_by = moment->kind;
        steps = (struct grown){0};
    }
    return moment->kind == steps_by ? &steps : NULL;
}

static bool held_has_grown(struct grown *place)
{
    uint64_t peak;
    uint64_t live = capture_live_bytes(-1, &peak);

    if (!grown_round(place, live) || live < HELD_BYTES_LEAST || !grown_is_clear(walked_at, live))
        return false;
    walked_at = live;
    return true;
}

/*
 * Whether what is left at the end has grown, and was not walked for it. Of a program without rounds:
 * many blocks, and all that it ever had.
 */
static bool held_is_left(uint64_t count, uint64_t bytes)
{
    const struct grown *place = steps.rounds ? &steps : &evals;
    uint64_t peak;

    if (walked_at)
        return false;
    if (place->rounds)
        return grown_is_clear(place->most, bytes);
    (void)capture_live_bytes(-1, &peak);
    return count >= ROUNDLESS_BLOCKS && bytes >= peak - peak / ROUNDLESS_PART;
}

/* Whether a walk at the end is wanted, and there is something to tell. */
static bool held_ends(void)
{
    uint64_t bytes = 0;
    uint32_t count;

    if (!(wanted & (WANTED_END | WANTED_GROWTH)) || !held_may_walk())
        return false;
    guard_push();
    count = capture_live(-1, NULL, 0, &bytes);
    guard_pop();
    return bytes >= HELD_BYTES_LEAST && ((wanted & WANTED_END) || held_is_left(count, bytes));
}

static void held_end(void)
{
    held_end_asking();
    if (held_ends())
        (void)held_walk(FORMAT_WALK_END, NULL, -1, false);
}

/* A step that KEDGE_HELD=step asks for. */
static bool held_is_due(const struct pyhost_moment *moment)
{
    static uint64_t count; /* with the GIL */

    if (moment->kind != PYLOOP_OPTIMIZER || moment->is_begin)
        return false;
    count++;
    return count >= STEPS_FIRST && (count & (count - 1)) == 0;
}

void held_at(const struct pyhost_moment *moment)
{
    enum format_walk_why why = FORMAT_WALK_NONE;
    struct grown *place;

    if (!is_found || !held_may_walk())
        return;
    place = held_place(moment);
    if ((wanted & WANTED_GROWTH) && place && held_has_grown(place))
        why = FORMAT_WALK_GROWN;
    if ((wanted & WANTED_STEP) && held_is_due(moment))
        why = FORMAT_WALK_STEP;
    if (why != FORMAT_WALK_NONE)
        (void)held_walk(why, NULL, -1, false);
    if ((wanted & WANTED_COLLECT) && place && !py.PyErr_Occurred())
        collect_at_round();
    if (!py.PyErr_Occurred())
        return;
    py.PyErr_Clear(); /* the call has a result, or comes: the program gets the interrupt again */
    py.PyErr_SetInterrupt();
}

/* Not while a backward pass runs, if it ends soon. True: this thread has the GIL. */
static bool held_take(bool (*may_go_on)(enum format_ask_state), int *ret_gil)
{
    struct timespec time = {0, HELD_TRY_NS};

    for (int i = 0; may_go_on(FORMAT_ASK_WAITS); i++) {
        *ret_gil = py.PyGILState_Ensure();
        if (may_go_on(FORMAT_ASK_WALKS) && (pyhost_passes() <= 0 || i >= HELD_TRIES))
            return true;
        py.PyGILState_Release(*ret_gil);
        (void)nanosleep(&time, NULL);
    }
    return false;
}

/* ---- programs without a framework that is known ---------------------------------------------- */

static atomic_bool has_framework; /* it was found, and objects are walked */

static uint32_t held_scan(enum format_walk_why why, int device)
{
    return (wanted & WANTED_SCAN) && !has_framework && held_may_walk() ? scan_walk(why, device) : 0;
}

static void held_request_failed(int device, uint64_t count)
{
    if ((count & (count - 1)) == 0 && count >> HELD_FAILURES_MAX == 0)
        (void)held_scan(FORMAT_WALK_OOM, device);
}

void held_exits(void)
{
    if ((wanted & WANTED_SCAN) && held_ends())
        (void)held_scan(FORMAT_WALK_END, -1);
}

static enum format_ask_result held_asked_scan(
        bool (*may_go_on)(enum format_ask_state), uint32_t *ret_walk)
{
    if (!may_go_on(FORMAT_ASK_WALKS))
        return FORMAT_ASK_WITHDRAWN;
    *ret_walk = held_scan(FORMAT_WALK_ASKED, -1);
    return *ret_walk ? FORMAT_ASK_WALKED : FORMAT_ASK_FAILED;
}

static enum format_ask_result held_asked(
        bool (*may_go_on)(enum format_ask_state), uint32_t *ret_walk)
{
    enum format_ask_result result = FORMAT_ASK_WITHDRAWN;
    int may = ASKING_MAY;
    int gil;

    *ret_walk = 0;
    if ((wanted & WANTED_SCAN) && !has_framework)
        return held_asked_scan(may_go_on, ret_walk);
    if (!atomic_compare_exchange_strong(&asking, &may, ASKING_NOW))
        return may == ASKING_OVER ? FORMAT_ASK_ENDED : FORMAT_ASK_NO_PYTHON;
    if (!held_may_walk() || !py.Py_IsInitialized()) {
        result = FORMAT_ASK_ENDED;
    } else if (held_take(may_go_on, &gil)) {
        *ret_walk = held_walk(FORMAT_WALK_ASKED, NULL, -1, false);
        result = *ret_walk ? FORMAT_ASK_WALKED : FORMAT_ASK_FAILED;
        history_asked();
        py.PyGILState_Release(gil);
    }
    atomic_store(&asking, ASKING_MAY);
    return result;
}

bool held_start(const struct config *config)
{
    const struct config_value *limit = config_key(config, CONFIG_HELD, "seconds");
    const struct config_value *objects = config_key(config, CONFIG_HELD, "objects");

    wanted = config_word(config, CONFIG_HELD)
            & (WANTED_OOM | WANTED_END | WANTED_ASK | WANTED_STEP | WANTED_GROWTH | WANTED_COLLECT
                    | WANTED_SCAN);
    if (wanted == WANTED_SCAN)
        wanted |= WANTED_OOM;
    seconds = limit ? (double)limit->number : 0;
    most = objects ? (long)objects->number : 0;
    if (wanted & WANTED_SCAN)
        scan_start(seconds, objects ? objects->number : 0);
    if ((wanted & WANTED_SCAN) && (wanted & WANTED_OOM))
        oom_on_record(held_request_failed);
    if (wanted & WANTED_ASK)
        asked_start(held_asked);
    return (wanted & (WANTED_STEP | WANTED_GROWTH | WANTED_COLLECT)) != 0;
}

/* ---- frameworks ------------------------------------------------------------------------------ */

/* Those whose objects held.py knows, with the errors about memory. */
static const struct held_framework {
    const char *module, *errors_in; /* what has to be there; the module of the errors */
    struct held_error {
        const char *name, *older; /* what it was called */
        pyhost_init ours, *theirs;
    } errors[2];
} frameworks[] = {
        {"torch._C", "torch._C",
                {{"OutOfMemoryError", "_OutOfMemoryError", held_error, &make_error},
                        {"AcceleratorError", NULL, held_accelerator_error, /* not in 2.5 */
                                &make_accelerator_error}}},
        {"cupy.cuda.memory", "cupy.cuda.memory",
                {{"OutOfMemoryError", NULL, held_cupy_error, &make_cupy_error}}},
        {"paddle.optimizer", "builtins",
                {{"MemoryError", NULL, held_memory_error, &make_memory_error}}},
};
enum {
    FRAMEWORKS = sizeof frameworks / sizeof *frameworks,
    FRAMEWORK_ERRORS = sizeof frameworks->errors / sizeof *frameworks->errors,
};
static bool is_watched[FRAMEWORKS];

static object *held_error_type(const struct held_framework *framework, size_t at)
{
    const struct held_error *error = &framework->errors[at];
    const char *module = framework->errors_in;
    object *type = error->name ? pyhost_in_module(module, error->name) : NULL;

    return type || !error->older ? type : pyhost_in_module(module, error->older);
}

/* What is the same with each framework. */
static bool held_begin(void)
{
    object *end = pyhost_in_module("threading", "_shutdown");

    if (!end || !held_find_functions())
        return false;
    is_found = true;
    has_framework = true;
    if (!collect_find())
        wanted &= ~(unsigned)WANTED_COLLECT;
    if ((wanted & (WANTED_END | WANTED_ASK | WANTED_GROWTH)) && pyhost_watch_before(end, held_end)
            && (wanted & WANTED_ASK))
        atomic_store(&asking, ASKING_MAY);
    return true;
}

static bool held_watch(const struct held_framework *framework)
{
    if (!pyhost_has_module(framework->module) || !held_error_type(framework, 0)
            || !(is_found || held_begin()))
        return false;
    for (size_t i = 0; i < FRAMEWORK_ERRORS && (wanted & (WANTED_OOM | WANTED_COLLECT)); i++) {
        const struct held_error *error = &framework->errors[i];
        object *type = held_error_type(framework, i);

        if (type)
            (void)pyhost_watch_init(type, error->ours, error->theirs);
    }
    return true;
}

void held_find(void)
{
    for (size_t i = 0; wanted && i < FRAMEWORKS; i++)
        is_watched[i] = is_watched[i] || held_watch(&frameworks[i]);
}

void held_forget(void)
{
    is_found = false;
    memset(is_watched, 0, sizeof is_watched);
    if (atomic_load(&asking) != ASKING_NEVER)
        atomic_store(&asking, ASKING_OVER);
}
