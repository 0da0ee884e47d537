/* SPDX-License-Identifier: MIT */
#include "preload/held/held.h"

#include "preload/anchors/pyhost.h"
#include "preload/base/guard.h"
#include "preload/held/asked.h"
#include "preload/held/collect.h"
#include "preload/held/helderrors.h"
#include "preload/held/heldrounds.h"
#include "preload/held/heldwalk.h"
#include "preload/held/history.h"
#include "preload/python/pycall.h"
#include "preload/request/oom.h"
#include "preload/scan/scan.h"
#include "tracker/capture/capture.h"

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

typedef struct pyhost_object object;

#define HELD_FAILURES_MAX 16        /* walks at failed allocations: the first, second, fourth ... */
#define HELD_TRIES        100       /* for a moment without a backward pass, */
#define HELD_TRY_NS       10000000L /* with this time between two */

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
#define HELD_FUNCTIONS(F)                \
    F(object *, PyErr_Occurred, (void))  \
    F(void, PyErr_Clear, (void))         \
    F(void, PyErr_SetInterrupt, (void))  \
    F(int, Py_IsInitialized, (void))     \
    F(int, PyGILState_Ensure, (void))    \
    F(void, PyGILState_Release, (int))   \
    F(void *, PyEval_SaveThread, (void)) \
    F(void, PyEval_RestoreThread, (void *))

static const char *const held_names[] = {HELD_FUNCTIONS(PYCALL_NAME)};
static struct {
    HELD_FUNCTIONS(PYCALL_MEMBER)
} py;

static unsigned wanted; /* fixed by held_start */
static bool is_found;
static uint64_t errors; /* about memory, of this process */

static bool held_find_functions(void)
{
    return heldwalk_find() && pycall_find(&py, held_names, sizeof held_names / sizeof *held_names);
}

object *held_holders(object *reference)
{
    return is_found && heldwalk_may() ? heldwalk_holders(reference) : NULL;
}

/* ---- when ------------------------------------------------------------------------------------ */

static bool held_is_told(void)
{
    return (wanted & WANTED_OOM) && (errors & (errors - 1)) == 0
            && errors >> HELD_FAILURES_MAX == 0;
}

/* For helderrors_find. */
static int held_failed(object *error, int device)
{
    static bool is_busy;

    errors++;
    if (is_busy)
        return 0;
    is_busy = true;
    if (held_is_told())
        (void)heldwalk_run(FORMAT_WALK_OOM, error, device, errors == 1);
    if ((wanted & WANTED_COLLECT) && !py.PyErr_Occurred())
        collect_now();
    is_busy = false;
    return py.PyErr_Occurred() ? -1 : 0;
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

/* Whether a walk at the end is wanted, and there is something to tell. */
static bool held_ends(void)
{
    uint64_t bytes = 0;
    uint32_t count;

    if (!(wanted & (WANTED_END | WANTED_GROWTH)) || !heldwalk_may())
        return false;
    guard_push();
    count = capture_live(-1, NULL, 0, &bytes);
    guard_pop();
    return bytes >= HELDROUNDS_LEAST
            && ((wanted & WANTED_END) || heldrounds_are_left(count, bytes));
}

static void held_end(void)
{
    held_end_asking();
    if (held_ends())
        (void)heldwalk_run(FORMAT_WALK_END, NULL, -1, false);
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

    if (!is_found || moment->framework != PYHOST_TORCH || !heldwalk_may())
        return;
    place = heldrounds_of(moment);
    if ((wanted & WANTED_GROWTH) && place && heldrounds_have_grown(place))
        why = FORMAT_WALK_GROWN;
    if ((wanted & WANTED_STEP) && held_is_due(moment))
        why = FORMAT_WALK_STEP;
    if (why != FORMAT_WALK_NONE)
        (void)heldwalk_run(why, NULL, -1, false);
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
    return (wanted & WANTED_SCAN) && !has_framework && heldwalk_may() ? scan_walk(why, device) : 0;
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
    if (!heldwalk_may() || !py.Py_IsInitialized()) {
        result = FORMAT_ASK_ENDED;
    } else if (held_take(may_go_on, &gil)) {
        *ret_walk = heldwalk_run(FORMAT_WALK_ASKED, NULL, -1, false);
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
    double seconds = limit ? (double)limit->number : 0;

    wanted = config_word(config, CONFIG_HELD)
            & (WANTED_OOM | WANTED_END | WANTED_ASK | WANTED_STEP | WANTED_GROWTH | WANTED_COLLECT
                    | WANTED_SCAN);
    if (wanted == WANTED_SCAN)
        wanted |= WANTED_OOM;
    heldwalk_start(seconds, objects ? (long)objects->number : 0);
    if (wanted & WANTED_SCAN)
        scan_start(seconds, objects ? objects->number : 0);
    if ((wanted & WANTED_SCAN) && (wanted & WANTED_OOM))
        oom_on_record(held_request_failed);
    if (wanted & WANTED_ASK)
        asked_start(held_asked);
    return (wanted & (WANTED_STEP | WANTED_GROWTH | WANTED_COLLECT)) != 0;
}

/* What is the same with each framework. */
static bool held_begin(void)
{
    object *end = pyhost_in_module("threading", "_shutdown");

    if (is_found)
        return true;
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

void held_find(void)
{
    if (wanted)
        helderrors_find(held_begin, wanted & (WANTED_OOM | WANTED_COLLECT) ? held_failed : NULL);
}

void held_forget(void)
{
    is_found = false;
    helderrors_forget();
    if (atomic_load(&asking) != ASKING_NEVER)
        atomic_store(&asking, ASKING_OVER);
}
