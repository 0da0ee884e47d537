/* SPDX-License-Identifier: MIT */
#include "preload/kinds/kinds.h"

#include "alloc/base/table.h"
#include "preload/anchors/pytoken.h"
#include "preload/driver/life.h"
#include "preload/kinds/kindroots.h"
#include "preload/kinds/kindstate.h"
#include "preload/kinds/kindwalk.h"
#include "preload/kinds/tensors.h"
#include "preload/kinds/titles.h"
#include "preload/python/still.h"
#include "preload/request/oom.h"
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
static pyhost_init make_error, make_memory_error; /* the classes' own functions */
static bool is_memory_found;
static uint64_t refused; /* requests, counted by oom.c at the last MemoryError */

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
    return (pyhost_passes() == 0 || !pyhost_has_module("torch._C")) && pyhost_paddle_passes() == 0
            && still_find() && !still_is_at_work();
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

static void kinds_optimizer(const struct pyhost_moment *moment)
{
    struct called *optimizer = kinds_called(moment->args[0]);
    uint64_t members;

    if (!optimizer)
        return;
    if (moment->is_begin) { /* its first step may run out of memory */
        if (optimizer->times == 0)
            kinds_look();
        return;
    }
    members = kindstate_count(moment->args[0]);
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

static void kinds_failed(void)
{
    static bool is_busy;

    if (is_busy || !kinds_may_look() || !kinds_is_due(++failures))
        return;
    is_busy = true;
    kinds_look();
    is_busy = false;
}

static int kinds_error(object *self, object *args, object *keywords)
{
    int r = make_error(self, args, keywords);

    if (r >= 0)
        kinds_failed();
    return r;
}

/* PaddlePaddle's error is Python's own class: others come without a request that has failed. */
static int kinds_memory_error(object *self, object *args, object *keywords)
{
    int r = make_memory_error(self, args, keywords);
    int device;
    uint64_t count = oom_count(&device);

    if (r >= 0 && count != refused)
        kinds_failed();
    refused = count;
    return r;
}

bool kinds_start(const struct config *config)
{
    is_wanted = config_word(config, CONFIG_KINDS) == WANTED_ON;
    return is_wanted;
}

static void kinds_find_paddle(void)
{
    object *error;

    if (!is_wanted || is_memory_found || !pyhost_has_module("paddle.optimizer"))
        return;
    error = pyhost_in_module("builtins", "MemoryError");
    is_memory_found = error && pyhost_watch_init(error, kinds_memory_error, &make_memory_error);
}

void kinds_find(void)
{
    object *error;

    kinds_find_paddle();
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
    is_memory_found = false;
    table_clear(&called);
    kindroots_forget();
    tensors_forget();
}
