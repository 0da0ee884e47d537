/* SPDX-License-Identifier: MIT */
#include "preload/anchors/pyparts.h"

#include "preload/anchors/pyhost.h"

#include <stdbool.h>
#include <stddef.h>

/* ---- classes -------------------------------------------------------------------------------- */

/* Whether the class's function `name` is watched now. */
static bool pyparts_watch_method(struct pyhost_object *type, const char *name,
        enum pyloop_kind kind, enum pyhost_framework framework)
{
    struct pyhost_object *function = pyhost_in_class(type, name);

    return function && pyhost_watch_function(function, kind, framework);
}

/*
 * PyTorch wraps a class's step in a function that is marked `hooked`, and calls the step from
 * there.
 */
static void pyparts_watch_step(struct pyhost_object *type, enum pyhost_framework framework)
{
    struct pyhost_object *step = pyhost_in_class(type, "step");
    struct pyhost_object *own =
            step && pyhost_own(step, "hooked") ? pyhost_own(step, "__wrapped__") : NULL;

    if (step)
        (void)pyhost_watch_function(own ? own : step, PYLOOP_OPTIMIZER, framework);
}

enum {
    CLASSES_DEEP = 16
};

/* `of` is called for a class and each class derived from it. */
static void pyparts_walk(struct pyhost_object *type, enum pyhost_framework framework,
        void (*of)(struct pyhost_object *, enum pyhost_framework))
{
    struct {
        struct pyhost_object *list; /* NULL: the first call */
        size_t at;
    } stack[CLASSES_DEEP] = {{pyhost_new_subclasses(type), 0}};
    unsigned depth = 1;

    of(type, framework);
    while (depth > 0) {
        struct pyhost_object *list = stack[depth - 1].list;
        struct pyhost_object *derived;

        if (!list || stack[depth - 1].at >= pyhost_list_size(list)) {
            pyhost_drop(list);
            depth--;
            continue;
        }
        derived = pyhost_list_at(list, stack[depth - 1].at++);
        of(derived, framework);
        if (depth < CLASSES_DEEP) {
            stack[depth].list = pyhost_new_subclasses(derived);
            stack[depth++].at = 0;
        }
    }
}

static void pyparts_watch_next(struct pyhost_object *type, enum pyhost_framework framework)
{
    (void)pyparts_watch_method(type, "__next__", PYLOOP_DATA, framework);
}

/* `minimize` steps, too, except where it builds part of a static graph, which pyhost.c ignores. */
static void pyparts_watch_paddle_step(struct pyhost_object *type, enum pyhost_framework framework)
{
    pyparts_watch_step(type, framework);
    (void)pyparts_watch_method(type, "minimize", PYLOOP_OPTIMIZER, framework);
}

/* ---- single objects ------------------------------------------------------------------------- */

static bool pyparts_watch_engine(struct pyhost_object *variable)
{
    struct pyhost_object *engine = pyhost_in_class(variable, "_execution_engine");

    return engine && pyhost_watch_engine(engine, "run_backward");
}

static bool pyparts_watch_backward(struct pyhost_object *function)
{
    return pyhost_watch_function(function, PYLOOP_BACKWARD, PYHOST_PADDLE);
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* What is watched: a method of a class, else what one of the two functions finds. */
static struct part {
    enum pyhost_framework framework;
    enum pyloop_kind kind;     /* of the method */
    const char *module, *name; /* of a class or a function */
    const char *method;
    bool (*watch)(struct pyhost_object *object);
    /* for the class and each class derived from it */
    void (*of)(struct pyhost_object *type, enum pyhost_framework framework);
    bool is_found;
} parts[] = {
        {PYHOST_TORCH, PYLOOP_FORWARD, "torch.nn.modules.module", "Module", .method = "_call_impl"},
        {PYHOST_TORCH, PYLOOP_NONE, "torch.autograd", "Variable", .watch = pyparts_watch_engine},
        {PYHOST_TORCH, PYLOOP_NONE, "torch", "is_grad_enabled", .watch = pyhost_ask_grad},
        {PYHOST_TORCH, PYLOOP_NONE, "torch.optim.optimizer", "Optimizer", .of = pyparts_watch_step},
        {PYHOST_TORCH, PYLOOP_SCALER, "torch.amp.grad_scaler", "GradScaler",
                .method = "_maybe_opt_step"},
        /* the scaler was CUDA's own up to PyTorch 2.2 */
        {PYHOST_TORCH, PYLOOP_SCALER, "torch.cuda.amp.grad_scaler", "GradScaler",
                .method = "_maybe_opt_step"},
        {PYHOST_TORCH, PYLOOP_DATA, "torch.utils.data.dataloader", "_BaseDataLoaderIter",
                .method = "__next__"},
        {PYHOST_PADDLE, PYLOOP_FORWARD, "paddle.nn", "Layer", .method = "__call__"},
        {PYHOST_PADDLE, PYLOOP_FORWARD, "paddle.jit.dy2static.program_translator", "StaticFunction",
                .method = "__call__"},
        {PYHOST_PADDLE, PYLOOP_NONE, "paddle.base.framework", "global_var",
                .watch = pyhost_ask_tracer},
        {PYHOST_PADDLE, PYLOOP_BACKWARD, "paddle", "Tensor", .method = "backward"},
        {PYHOST_PADDLE, PYLOOP_NONE, "paddle.autograd", "backward",
                .watch = pyparts_watch_backward},
        {PYHOST_PADDLE, PYLOOP_NONE, "paddle.optimizer", "Optimizer",
                .of = pyparts_watch_paddle_step},
        {PYHOST_PADDLE, PYLOOP_NONE, "paddle.io.dataloader.dataloader_iter", "_DataLoaderIterBase",
                .of = pyparts_watch_next},
};

static bool pyparts_look_for(const struct part *part)
{
    struct pyhost_object *found = pyhost_in_module(part->module, part->name);

    if (!found)
        return false;
    if (part->method)
        return pyparts_watch_method(found, part->method, part->kind, part->framework);
    if (part->watch)
        return part->watch(found);
    pyparts_walk(found, part->framework, part->of);
    return true;
}

void pyparts_look(void)
{
    static const char *const modules[] = {[PYHOST_TORCH] = "torch", [PYHOST_PADDLE] = "paddle"};
    bool is_there[2];

    for (size_t i = 0; i < 2; i++)
        is_there[i] = pyhost_has_module(modules[i]);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!parts[i].is_found && is_there[parts[i].framework])
            parts[i].is_found = pyparts_look_for(&parts[i]);
}

void pyparts_look_for_classes(void)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].of)
            (void)pyparts_look_for(&parts[i]);
}

void pyparts_forget(void)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        parts[i].is_found = false;
}
