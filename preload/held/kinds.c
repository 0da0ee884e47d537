/* SPDX-License-Identifier: MIT */
#include "preload/held/kinds.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "preload/driver/life.h"
#include "preload/held/kindwalk.h"
#include "preload/held/still.h"
#include "preload/held/tensors.h"
#include "tracker/capture/capture.h"
#include "tracker/where/anchor.h"

#include <string.h>

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
    char *name;       /* of a module inside another one, of meta.h; NULL: it is outermost */
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

static void kinds_drop_name(struct called *module)
{
    if (module->name)
        meta_put(module->name, strlen(module->name) + 1);
    module->name = NULL;
}

static void kinds_set_name(struct called *module, object *is)
{
    char name[ANCHOR_NAME_MAX + 1];

    kinds_drop_name(module);
    if (!kindwalk_name(is, name, sizeof name))
        return;
    module->name = meta_get(strlen(name) + 1);
    if (module->name)
        memcpy(module->name, name, strlen(name) + 1);
}

/* Whether a call is one of the same object as before. */
static bool kinds_is_same(const struct called *found, object *is)
{
    object *token = tensors_new_token(is);

    pyhost_drop(token); /* its owner keeps a reference */
    return token == found->token;
}

/* NULL: there is no room for more. */
static struct called *kinds_called(object *is)
{
    struct called *found = table_find(&called, (uintptr_t)is);

    if (found && kinds_is_same(found, is))
        return found;
    if (found) {
        pyhost_drop(found->token);
        kinds_drop_name(found);
    } else {
        found = called.count < CALLED ? table_add(&called, (uintptr_t)is) : NULL;
    }
    if (found)
        *found = (struct called){.is = (uintptr_t)is, .token = tensors_new_token(is)};
    return found;
}

/* An outermost module is called. A module that was not called before may be part of a new model. */
static void kinds_module(const struct pyhost_moment *moment)
{
    struct called *module = kinds_called(moment->args[0]);

    if (!module || (++module->times > INPUTS && !kinds_is_due(module->times)))
        return;
    if (module->times == 1 && kindwalk_has_members(moment->args[0]) && kinds_may_search()) {
        kinds_look();
        kinds_set_name(module, moment->args[0]);
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

const char *kinds_name(object *module)
{
    const struct called *found = table_find(&called, (uintptr_t)module);

    return found && kinds_is_same(found, module) ? found->name : NULL;
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
    kindwalk_forget();
    tensors_forget();
}
