/* SPDX-License-Identifier: MIT */
#include "preload/kinds/kinds.h"

#include "alloc/base/table.h"
#include "preload/anchors/pytoken.h"
#include "preload/driver/life.h"
#include "preload/kinds/kindroots.h"
#include "preload/kinds/kindwalk.h"
#include "preload/kinds/tensors.h"
#include "preload/kinds/titles.h"
#include "preload/python/still.h"
#include "tracker/capture/capture.h"

typedef struct pyhost_object object;

enum {
    WANTED_ON = 0, /* index in "on|off" */
    CALLED = 4096, /* modules and optimizers that are called, at one time */
    INPUTS = 4,    /* first calls of a module whose arguments are looked at */
    SEARCHES = 64  /* among all objects, before they become rare */
};

/* A module that was called outermost, or an optimizer that has stepped. */
struct called {
    uint64_t is;   /* the object, */
    object *token; /* which is still the same if it has this; a reference, NULL: it has none */
    uint64_t times;
    uint64_t members; /* of an optimizer's state, at the last look */
};

static struct table called = TABLE_OF(struct called);
static uint64_t strangers, failures;
static bool is_wanted, is_found;
static pyhost_init make_error; /* the class's own function */

/* The first time, then each time that the number has doubled. */
static bool kinds_is_due(uint64_t times)
{
    return (times & (times - 1)) == 0;
}

static bool kinds_may_look(void)
{
    return life_is_on() && *capture_path() != '\0';
}

static bool kinds_may_read_gradients(void)
{
    return pyhost_passes() == 0 && still_find() && !still_is_at_work();
}

static void kinds_look(void)
{
    kindwalk_look(kinds_may_read_gradients());
}

/* A program may make a module for each call. */
static bool kinds_may_search(void)
{
    strangers++;
    return strangers <= SEARCHES || kinds_is_due(strangers);
}

/* NULL: there is no room for more. */
static struct called *kinds_called(object *is)
{
    struct called *found = table_find(&called, (uintptr_t)is);

    if (found && pytoken_is_of(found->token, is))
        return found;
    if (found)
        pytoken_drop(found->token);
    else
        found = called.count < CALLED ? table_add(&called, (uintptr_t)is) : NULL;
    if (found)
        *found = (struct called){.is = (uintptr_t)is, .token = pytoken_keep(is)};
    return found;
}

/* An outermost module is called. A module that was not called before may be part of a new model. */
static void kinds_module(const struct pyhost_moment *moment)
{
    struct called *module = kinds_called(moment->args[0]);

    if (!module || (++module->times > INPUTS && !kinds_is_due(module->times)))
        return;
    if (module->times == 1 && kindroots_has_members(moment->args[0]) && kinds_may_search()) {
        kinds_look();
        titles_after_look(moment->args[0]);
    }
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
            kinds_look();
        return;
    }
    members = state ? tensors_count(state) : 0;
    if (!kinds_is_due(++optimizer->times) && members == optimizer->members)
        return;
    optimizer->members = members;
    if (!kindwalk_step(moment->args[0], kinds_may_read_gradients()))
        kinds_look();
}

void kinds_at(const struct pyhost_moment *moment)
{
    if (!is_wanted || !kinds_may_look() || !tensors_find())
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
        kinds_look();
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
    kindroots_forget();
    tensors_forget();
}
