/* SPDX-License-Identifier: MIT */
#include "preload/held/kinds.h"

#include "alloc/base/table.h"
#include "preload/driver/life.h"
#include "preload/held/kindwalk.h"
#include "preload/held/tensors.h"
#include "tracker/capture/capture.h"

typedef struct pyhost_object object;

enum {
    WANTED_ON = 0, /* index in "on|off" */
    CALLED = 4096, /* modules and optimizers that are called, at one time */
    SEARCHES = 64  /* among all objects, before they become rare */
};

/* A module that was called outermost, or an optimizer that has stepped. */
struct called {
    uint64_t is;  /* the object; valid as long as `weak` refers to it */
    object *weak; /* NULL: it cannot be told whether it is still the same */
    uint64_t times;
    uint64_t members; /* of an optimizer's state, at the last look */
};

static struct table called = TABLE_OF(struct called);
static uint64_t strangers, failures;
static bool is_wanted, is_found;
static pyhost_init make_error; /* the class's own function */

/* The first four times, then each time that the number has doubled. */
static bool kinds_is_due(uint64_t times)
{
    return times <= 4 || (times & (times - 1)) == 0;
}

static bool kinds_may_look(void)
{
    return life_is_on() && *capture_path() != '\0';
}

/* `stranger`: an object that may be part of what is not known yet; NULL: none. */
static void kinds_look(object *stranger, bool searches)
{
    kindwalk_look(stranger, searches, pyhost_passes() == 0);
}

/* A program may make a module for each call. */
static bool kinds_may_search(void)
{
    strangers++;
    return strangers <= SEARCHES || (strangers & (strangers - 1)) == 0;
}

/* NULL: there is no room for more. */
static struct called *kinds_called(object *is)
{
    struct called *found = table_find(&called, (uintptr_t)is);

    if (found && tensors_is_weak_of(found->weak, is))
        return found;
    if (!found && called.count >= CALLED)
        return NULL;
    if (found)
        pyhost_drop(found->weak);
    else
        found = table_add(&called, (uintptr_t)is);
    if (found) {
        *found = (struct called){.is = (uintptr_t)is, .weak = tensors_new_weak(is)};
        if (!found->weak)
            (void)table_remove(&called, found);
    }
    return found && found->weak ? found : NULL;
}

/* An outermost module is called. A module that was not called before may be part of a new model. */
static void kinds_module(const struct pyhost_moment *moment)
{
    struct called *module = kinds_called(moment->args[0]);
    bool is_new = module && module->times == 0;

    if (!module || !kinds_is_due(++module->times))
        return;
    if (kindwalk_has_members(moment->args[0]))
        kinds_look(is_new ? moment->args[0] : NULL, is_new && kinds_may_search());
    kindwalk_inputs(moment->args, moment->count, moment->names);
}

/* An optimizer's state; NULL: it wraps the optimizer that has it. */
static object *kinds_state(object *optimizer)
{
    object *state = pyhost_own(optimizer, "state");

    return state && tensors_class(state) == TENSORS_DICT ? state : NULL;
}

static void kinds_optimizer(const struct pyhost_moment *moment)
{
    struct called *optimizer = kinds_called(moment->args[0]);
    object *state;
    uint64_t members;

    if (!optimizer)
        return;
    state = kinds_state(moment->args[0]);
    if (moment->is_begin) { /* its first step may run out of memory */
        if (optimizer->times == 0)
            kinds_look(moment->args[0], !state && kinds_may_search());
        return;
    }
    members = state ? tensors_count(state) : 0;
    if (!kinds_is_due(++optimizer->times) && members == optimizer->members)
        return;
    optimizer->members = members;
    kinds_look(NULL, false);
}

void kinds_at(const struct pyhost_moment *moment)
{
    if (!kinds_may_look() || !tensors_find())
        return;
    if (moment->kind == PYLOOP_FORWARD && moment->is_begin)
        kinds_module(moment);
    else if (moment->kind == PYLOOP_OPTIMIZER)
        kinds_optimizer(moment);
}

static int kinds_error(object *self, object *args, object *keywords)
{
    static bool is_busy;
    int r = make_error(self, args, keywords);

    if (r >= 0 && !is_busy && kinds_may_look() && kinds_is_due(++failures)) {
        is_busy = true;
        kinds_look(NULL, true);
        is_busy = false;
    }
    return r;
}

bool kinds_start(const struct config *config)
{
    is_wanted = config_word(config, CONFIG_KINDS) == WANTED_ON;
    return is_wanted;
}

void kinds_find(void)
{
    object *error;

    if (!is_wanted || is_found || !pyhost_has_module("torch._C"))
        return;
    error = pyhost_in_module("torch._C", "OutOfMemoryError");
    if (!error)
        error = pyhost_in_module("torch._C", "_OutOfMemoryError"); /* older ones */
    is_found = error && pyhost_watch_init(error, kinds_error, &make_error);
}

void kinds_forget(void)
{
    is_found = false;
    table_clear(&called);
    kindwalk_forget();
    tensors_forget();
}
