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
    struct pyhost_object *function = type ? pyhost_in_class(type, name) : NULL;

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

/* ---- PyTorch -------------------------------------------------------------------------------- */

static bool pyparts_torch_module(void)
{
    return pyparts_watch_method(pyhost_in_module("torch.nn.modules.module", "Module"), "_call_impl",
            PYLOOP_FORWARD, PYHOST_TORCH);
}

static bool pyparts_torch_grad(void)
{
    struct pyhost_object *function = pyhost_in_module("torch", "is_grad_enabled");

    return function && pyhost_ask_grad(function);
}

static bool pyparts_torch_engine(void)
{
    struct pyhost_object *variable = pyhost_in_module("torch.autograd", "Variable");
    struct pyhost_object *engine = variable ? pyhost_in_class(variable, "_execution_engine") : NULL;

    return engine && pyhost_watch_engine(engine, "run_backward");
}

static struct pyhost_object *pyparts_torch_optimizer(void)
{
    return pyhost_in_module("torch.optim.optimizer", "Optimizer");
}

static bool pyparts_torch_optimizers(void)
{
    struct pyhost_object *optimizer = pyparts_torch_optimizer();

    if (optimizer)
        pyparts_walk(optimizer, PYHOST_TORCH, pyparts_watch_step);
    return optimizer;
}

/* The scaler was CUDA's own up to PyTorch 2.2. */
static bool pyparts_torch_scaler(void)
{
    struct pyhost_object *scaler = pyhost_in_module("torch.amp.grad_scaler", "GradScaler");

    if (!scaler)
        scaler = pyhost_in_module("torch.cuda.amp.grad_scaler", "GradScaler");
    return pyparts_watch_method(scaler, "_maybe_opt_step", PYLOOP_SCALER, PYHOST_TORCH);
}

static bool pyparts_torch_loader(void)
{
    return pyparts_watch_method(
            pyhost_in_module("torch.utils.data.dataloader", "_BaseDataLoaderIter"), "__next__",
            PYLOOP_DATA, PYHOST_TORCH);
}

/* ---- PaddlePaddle --------------------------------------------------------------------------- */

static bool pyparts_paddle_layer(void)
{
    return pyparts_watch_method(
            pyhost_in_module("paddle.nn", "Layer"), "__call__", PYLOOP_FORWARD, PYHOST_PADDLE);
}

static bool pyparts_paddle_compiled(void)
{
    return pyparts_watch_method(
            pyhost_in_module("paddle.jit.dy2static.program_translator", "StaticFunction"),
            "__call__", PYLOOP_FORWARD, PYHOST_PADDLE);
}

static bool pyparts_paddle_grad(void)
{
    struct pyhost_object *state = pyhost_in_module("paddle.base.framework", "global_var");

    if (state)
        pyhost_ask_tracer(state);
    return state;
}

static bool pyparts_paddle_tensor(void)
{
    return pyparts_watch_method(
            pyhost_in_module("paddle", "Tensor"), "backward", PYLOOP_BACKWARD, PYHOST_PADDLE);
}

static bool pyparts_paddle_backward(void)
{
    struct pyhost_object *function = pyhost_in_module("paddle.autograd", "backward");

    return function && pyhost_watch_function(function, PYLOOP_BACKWARD, PYHOST_PADDLE);
}

static struct pyhost_object *pyparts_paddle_optimizer(void)
{
    return pyhost_in_module("paddle.optimizer", "Optimizer");
}

/* `minimize` steps, too, except where it builds part of a static graph, which pyhost.c ignores. */
static void pyparts_watch_paddle_step(struct pyhost_object *type, enum pyhost_framework framework)
{
    pyparts_watch_step(type, framework);
    (void)pyparts_watch_method(type, "minimize", PYLOOP_OPTIMIZER, framework);
}

static bool pyparts_paddle_optimizers(void)
{
    struct pyhost_object *optimizer = pyparts_paddle_optimizer();

    if (optimizer)
        pyparts_walk(optimizer, PYHOST_PADDLE, pyparts_watch_paddle_step);
    return optimizer;
}

static bool pyparts_paddle_loaders(void)
{
    struct pyhost_object *base =
            pyhost_in_module("paddle.io.dataloader.dataloader_iter", "_DataLoaderIterBase");

    if (base)
        pyparts_walk(base, PYHOST_PADDLE, pyparts_watch_next);
    return base;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static struct part {
    bool (*look)(void);
    enum pyhost_framework framework;
    bool is_found;
} parts[] = {
        {pyparts_torch_module, PYHOST_TORCH, false},
        {pyparts_torch_engine, PYHOST_TORCH, false},
        {pyparts_torch_grad, PYHOST_TORCH, false},
        {pyparts_torch_optimizers, PYHOST_TORCH, false},
        {pyparts_torch_scaler, PYHOST_TORCH, false},
        {pyparts_torch_loader, PYHOST_TORCH, false},
        {pyparts_paddle_layer, PYHOST_PADDLE, false},
        {pyparts_paddle_compiled, PYHOST_PADDLE, false},
        {pyparts_paddle_grad, PYHOST_PADDLE, false},
        {pyparts_paddle_tensor, PYHOST_PADDLE, false},
        {pyparts_paddle_backward, PYHOST_PADDLE, false},
        {pyparts_paddle_optimizers, PYHOST_PADDLE, false},
        {pyparts_paddle_loaders, PYHOST_PADDLE, false},
};

void pyparts_look(void)
{
    static const char *const modules[] = {[PYHOST_TORCH] = "torch", [PYHOST_PADDLE] = "paddle"};
    bool is_there[2];

    for (size_t i = 0; i < 2; i++)
        is_there[i] = pyhost_has_module(modules[i]);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!parts[i].is_found && is_there[parts[i].framework])
            parts[i].is_found = parts[i].look();
}

void pyparts_look_for_classes(void)
{
    (void)pyparts_torch_optimizers();
    (void)pyparts_paddle_optimizers();
    (void)pyparts_paddle_loaders();
}

void pyparts_forget(void)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        parts[i].is_found = false;
}
