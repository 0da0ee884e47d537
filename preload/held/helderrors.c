/* SPDX-License-Identifier: MIT */
#include "preload/held/helderrors.h"

#include "preload/anchors/pyhost.h"
#include "preload/held/heldwalk.h"
#include "preload/request/oom.h"

#include <stddef.h>
#include <string.h>

typedef struct pyhost_object object;

/* The classes' own functions. */
static pyhost_init make_torch, make_accelerator, make_cupy, make_memory;
static helderrors_made when_made;
static uint64_t failures; /* counted by oom.c at the last error */

static int helderrors_tell(object *error)
{
    int device = -1;

    failures = oom_count(&device);
    return when_made(error, device);
}

/* Whether a request of the device has failed since the last error. */
static bool helderrors_is_of_device(void)
{
    int device;

    return oom_count(&device) != failures;
}

static int helderrors_torch(object *self, object *args, object *keywords)
{
    int r = make_torch(self, args, keywords);

    return r < 0 || !heldwalk_may() ? r : helderrors_tell(self);
}

/* Of any error of CUDA's; without PyTorch's cache also of a failed cudaMalloc. */
static int helderrors_accelerator(object *self, object *args, object *keywords)
{
    int r = make_accelerator(self, args, keywords);

    return r < 0 || !heldwalk_may() || !helderrors_is_of_device() ? r : helderrors_tell(self);
}

static int helderrors_cupy(object *self, object *args, object *keywords)
{
    int r = make_cupy(self, args, keywords);

    return r < 0 || !heldwalk_may() ? r : helderrors_tell(self);
}

/*
 * Of PaddlePaddle, whose error is Python's own class. The interpreter makes its own without a call
 * of this; others come without a request of the device that failed.
 */
static int helderrors_memory(object *self, object *args, object *keywords)
{
    int r = make_memory(self, args, keywords);

    return r < 0 || !heldwalk_may() || !helderrors_is_of_device() ? r : helderrors_tell(self);
}

static const struct framework {
    const char *module, *errors_in; /* what has to be there; the module of the errors */
    struct error {
        const char *name, *older; /* what it was called */
        pyhost_init ours, *theirs;
    } errors[2];
} frameworks[] = {
        {"torch._C", "torch._C",
                {{"OutOfMemoryError", "_OutOfMemoryError", helderrors_torch, &make_torch},
                        {"AcceleratorError", NULL, helderrors_accelerator, /* not in 2.5 */
                                &make_accelerator}}},
        {"cupy.cuda.memory", "cupy.cuda.memory",
                {{"OutOfMemoryError", NULL, helderrors_cupy, &make_cupy}}},
        {"paddle.optimizer", "builtins", {{"MemoryError", NULL, helderrors_memory, &make_memory}}},
};
enum {
    FRAMEWORKS = sizeof frameworks / sizeof *frameworks,
    ERRORS = sizeof frameworks->errors / sizeof *frameworks->errors,
};
static bool is_watched[FRAMEWORKS];

static object *helderrors_type(const struct framework *framework, size_t at)
{
    const struct error *error = &framework->errors[at];
    const char *module = framework->errors_in;
    object *type = error->name ? pyhost_in_module(module, error->name) : NULL;

    return type || !error->older ? type : pyhost_in_module(module, error->older);
}

static bool helderrors_watch(const struct framework *framework, bool (*begin)(void))
{
    if (!pyhost_has_module(framework->module) || !helderrors_type(framework, 0) || !begin())
        return false;
    for (size_t i = 0; when_made && i < ERRORS; i++) {
        const struct error *error = &framework->errors[i];
        object *type = helderrors_type(framework, i);

        if (type)
            (void)pyhost_watch_init(type, error->ours, error->theirs);
    }
    return true;
}

void helderrors_find(bool (*begin)(void), helderrors_made made)
{
    when_made = made;
    for (size_t i = 0; i < FRAMEWORKS; i++)
        is_watched[i] = is_watched[i] || helderrors_watch(&frameworks[i], begin);
}

void helderrors_forget(void)
{
    memset(is_watched, 0, sizeof is_watched);
}
