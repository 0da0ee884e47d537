/* SPDX-License-Identifier: MIT */
#include "preload/kinds/kindwalk.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "preload/anchors/pyhost.h"
#include "preload/base/guard.h"
#include "preload/driver/session.h"
#include "preload/kinds/kindroots.h"
#include "preload/kinds/tensors.h"
#include "tracker/capture/capture.h"

#include <stdio.h>
#include <string.h>

typedef struct pyhost_object object;

enum {
    NAME = 256,      /* bytes of a name; longer ones are cut */
    NAMES = 8 << 20, /* bytes of the names of parameters in one look */
    DEEP = 64,       /* modules inside one another */
    NESTED = 3,      /* containers inside one another, of an optimizer's state or arguments */
    INPUTS = 64      /* tensors of a call */
};

/* ---- a look --------------------------------------------------------------------------------- */

struct named {
    uint64_t tensor; /* the object */
    uint32_t at;     /* of its name */
    uint32_t root;
};

static struct walk {
    struct table modules;    /* that were visited, by address */
    struct table parameters; /* struct named */
    char *names;
    uint32_t used; /* bytes of them */
    uint32_t root;
    uint64_t storages;
    uint32_t flags; /* FORMAT_DATA_* */
    bool reads_gradients;
} walk;

struct seen {
    uint64_t module;
};

static void kindwalk_put(
        enum format_data kind, uint32_t root, uint64_t address, uint64_t size, const char *name)
{
    int r;

    guard_push();
    r = capture_data(kind, root, address, size, name, strlen(name));
    if (r > 0)
        walk.flags |= FORMAT_DATA_CUT;
    session_report(r < 0 ? r : 0);
    guard_pop();
}

static void kindwalk_tensor(enum format_data kind, uint32_t root, object *tensor, const char *name)
{
    struct storages_place storages[TENSORS_PARTS];
    unsigned count = tensors_storages(tensor, storages);

    for (unsigned i = 0; i < count; i++)
        kindwalk_put(kind, root, storages[i].address, storages[i].size, name);
    walk.storages += count;
}

static void kindwalk_remember(object *tensor, const char *name)
{
    size_t length = strlen(name) + 1;
    struct named *named;

    if (table_find(&walk.parameters, (uintptr_t)tensor))
        return;
    named = walk.names && walk.used + length <= NAMES
            ? table_add(&walk.parameters, (uintptr_t)tensor)
            : NULL;
    if (!named) {
        walk.flags |= FORMAT_DATA_CUT;
        return;
    }
    named->at = walk.used;
    named->root = walk.root;
    memcpy(walk.names + walk.used, name, length);
    walk.used += (uint32_t)length;
}

static void kindwalk_parameter(object *tensor, const char *name)
{
    object *gradient = walk.reads_gradients ? tensors_new_grad(tensor) : NULL;

    kindwalk_remember(tensor, name);
    kindwalk_tensor(FORMAT_DATA_PARAMETER, walk.root, tensor, name);
    if (gradient && tensors_class(gradient) == TENSORS_TENSOR)
        kindwalk_tensor(FORMAT_DATA_GRADIENT, walk.root, gradient, name);
    pyhost_drop(gradient);
}

/* "outer.key"; a key that is no text is left out. */
static void kindwalk_join(char name[static NAME], const char *outer, object *key)
{
    const char *text = tensors_text(key);

    (void)snprintf(name, NAME, "%s%s%s", outer, *outer && text ? "." : "", text ? text : "");
}

/* ---- modules -------------------------------------------------------------------------------- */

static void kindwalk_own(object *module, const char *path)
{
    object *parameters = tensors_own_dict(module, "_parameters");
    object *buffers = tensors_own_dict(module, "_buffers");
    object *key, *value;
    char name[NAME];
    intptr_t at = 0;

    while (parameters && tensors_next(parameters, &at, &key, &value)) {
        if (tensors_class(value) != TENSORS_TENSOR)
            continue;
        kindwalk_join(name, path, key);
        kindwalk_parameter(value, name);
    }
    at = 0;
    while (buffers && tensors_next(buffers, &at, &key, &value)) {
        if (tensors_class(value) != TENSORS_TENSOR)
            continue;
        kindwalk_join(name, path, key);
        kindwalk_tensor(FORMAT_DATA_BUFFER, walk.root, value, name);
    }
}

/* A module and those inside it, each once. */
static void kindwalk_module(object *module, const char *path, unsigned deep)
{
    object *children, *key, *value;
    char name[NAME];
    intptr_t at = 0;

    if (table_find(&walk.modules, (uintptr_t)module))
        return;
    if (deep == DEEP || !table_add(&walk.modules, (uintptr_t)module)) {
        walk.flags |= FORMAT_DATA_CUT;
        return;
    }
    kindwalk_own(module, path);
    children = tensors_own_dict(module, "_modules");
    while (children && tensors_next(children, &at, &key, &value)) {
        if (tensors_class(value) != TENSORS_MODULE)
            continue;
        kindwalk_join(name, path, key);
        kindwalk_module(value, name, deep + 1);
    }
}

/* ---- optimizers ----------------------------------------------------------------------------- */

/* Parameters that no module has, such as copies of higher precision. */
static void kindwalk_group(object *group, intptr_t number)
{
    object *parameters = NULL;
    object *key, *value, *tensor;
    char name[NAME];
    intptr_t at = 0;

    while (!parameters && tensors_next(group, &at, &key, &value)) {
        const char *text = tensors_text(key);

        if (text && strcmp(text, "params") == 0 && tensors_class(value) == TENSORS_LIST)
            parameters = value;
    }
    for (at = 0; parameters && (tensor = tensors_item(parameters, TENSORS_LIST, at)); at++) {
        if (tensors_class(tensor) != TENSORS_TENSOR
                || table_find(&walk.parameters, (uintptr_t)tensor))
            continue;
        (void)snprintf(name, sizeof name, "param_groups[%ld].params[%ld]", (long)number, (long)at);
        kindwalk_parameter(tensor, name);
    }
}

/* What an optimizer keeps for `of`, a parameter's name: `what` is the way to it. */
static void kindwalk_state(object *value, const char *what, const char *of, unsigned deep)
{
    enum tensors_class class = tensors_class(value);
    object *key, *inner;
    char name[NAME];
    intptr_t at = 0;

    if (class == TENSORS_TENSOR) {
        (void)snprintf(name, sizeof name, "%s of %s", *what ? what : "state", of);
        kindwalk_tensor(FORMAT_DATA_STATE, walk.root, value, name);
    }
    if (deep == NESTED)
        return;
    while (class == TENSORS_DICT && tensors_next(value, &at, &key, &inner)) {
        kindwalk_join(name, what, key);
        kindwalk_state(inner, name, of, deep + 1);
    }
    for (; (class == TENSORS_LIST || class == TENSORS_TUPLE)
            && (inner = tensors_item(value, class, at));
            at++) {
        (void)snprintf(name, sizeof name, "%s[%ld]", what, (long)at);
        kindwalk_state(inner, name, of, deep + 1);
    }
}

static void kindwalk_optimizer(object *optimizer)
{
    object *groups = pyhost_own(optimizer, "param_groups");
    object *states = tensors_own_dict(optimizer, "state");
    object *key, *value;
    intptr_t at = 0;

    if (groups && tensors_class(groups) == TENSORS_LIST)
        for (; (value = tensors_item(groups, TENSORS_LIST, at)); at++)
            if (tensors_class(value) == TENSORS_DICT)
                kindwalk_group(value, at);
    at = 0;
    while (states && tensors_next(states, &at, &key, &value)) {
        const struct named *named = table_find(&walk.parameters, (uintptr_t)key);
        const char *text = named                      ? walk.names + named->at
                : tensors_class(key) == TENSORS_OTHER ? tensors_text(key)
                                                      : NULL;

        kindwalk_state(value, "", text ? text : "a parameter", 0);
    }
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void kindwalk_roots(enum tensors_class class)
{
    for (const struct kindroot *root = kindroots_next(NULL); root; root = kindroots_next(root)) {
        if (tensors_class(root->is) != class)
            continue;
        walk.root = root->number;
        kindwalk_put(FORMAT_DATA_ROOT, walk.root, 0, 0, tensors_class_name(root->is));
        if (class == TENSORS_MODULE)
            kindwalk_module(root->is, "", 0);
        else
            kindwalk_optimizer(root->is);
    }
}

static void kindwalk_forget_names(void)
{
    table_clear(&walk.parameters);
    if (walk.names)
        meta_unmap(walk.names, NAMES);
    walk.names = NULL;
}

void kindwalk_look(bool reads_gradients)
{
    if (!tensors_begin())
        return;
    kindwalk_forget_names();
    walk = (struct walk){
            .modules = TABLE_OF(struct seen),
            .parameters = TABLE_OF(struct named),
            .names = meta_map(NAMES),
            .flags = reads_gradients ? 0 : FORMAT_DATA_BUSY,
            .reads_gradients = reads_gradients,
    };
    if (!kindroots_search())
        walk.flags |= FORMAT_DATA_CUT;
    kindwalk_roots(TENSORS_MODULE);
    kindwalk_roots(TENSORS_OPTIMIZER);
    guard_push();
    session_report(capture_data_end(walk.storages, walk.flags));
    guard_pop();
    table_clear(&walk.modules);
    tensors_end();
}

/* Parameters that have names since the last look at all objects. */
static void kindwalk_named_group(object *group)
{
    object *key, *value, *tensor;
    intptr_t at = 0;

    while (tensors_next(group, &at, &key, &value)) {
        for (intptr_t i = 0; tensors_class(value) == TENSORS_LIST
                && (tensor = tensors_item(value, TENSORS_LIST, i));
                i++) {
            const struct named *named = table_find(&walk.parameters, (uintptr_t)tensor);

            if (!named || tensors_class(tensor) != TENSORS_TENSOR)
                continue;
            walk.root = named->root;
            kindwalk_parameter(tensor, walk.names + named->at);
        }
    }
}

bool kindwalk_step(object *optimizer, bool reads_gradients)
{
    uint32_t number = kindroots_number(optimizer);
    object *groups = pyhost_own(optimizer, "param_groups");
    object *group;

    if (!number || !walk.names || !groups || !tensors_begin())
        return false;
    walk.flags = FORMAT_DATA_PART | (reads_gradients ? 0 : FORMAT_DATA_BUSY);
    walk.reads_gradients = reads_gradients;
    walk.storages = 0;
    for (intptr_t i = 0; tensors_class(groups) == TENSORS_LIST
            && (group = tensors_item(groups, TENSORS_LIST, i));
            i++)
        if (tensors_class(group) == TENSORS_DICT)
            kindwalk_named_group(group);
    walk.root = number;
    kindwalk_optimizer(optimizer);
    guard_push();
    session_report(capture_data_end(walk.storages, walk.flags));
    guard_pop();
    tensors_end();
    return true;
}

/* ---- inputs --------------------------------------------------------------------------------- */

static void kindwalk_input(object *value, const char *name, unsigned deep, unsigned *io_left)
{
    enum tensors_class class = tensors_class(value);
    object *key, *inner;
    char below[NAME];
    intptr_t at = 0;

    if (class == TENSORS_TENSOR && *io_left > 0) {
        (*io_left)--;
        if (!tensors_is_computed(value))
            kindwalk_tensor(FORMAT_DATA_INPUT, 0, value, name);
    }
    if (deep == NESTED)
        return;
    while (class == TENSORS_DICT && *io_left > 0 && tensors_next(value, &at, &key, &inner)) {
        kindwalk_join(below, name, key);
        kindwalk_input(inner, below, deep + 1, io_left);
    }
    for (; (class == TENSORS_LIST || class == TENSORS_TUPLE) && *io_left > 0
            && (inner = tensors_item(value, class, at));
            at++) {
        (void)snprintf(below, sizeof below, "%s[%ld]", name, (long)at);
        kindwalk_input(inner, below, deep + 1, io_left);
    }
}

void kindwalk_inputs(object *const *args, uint64_t count, object *names)
{
    char name[NAME];
    unsigned left = INPUTS;
    object *key;

    if (!tensors_begin())
        return;
    for (uint64_t i = 1; i < count; i++) {
        (void)snprintf(name, sizeof name, "%s[%llu]", tensors_class_name(args[0]),
                (unsigned long long)i - 1);
        kindwalk_input(args[i], name, 0, &left);
    }
    for (intptr_t i = 0; names && (key = tensors_item(names, TENSORS_TUPLE, i)); i++) {
        const char *text = tensors_text(key);

        kindwalk_input(args[count + (uint64_t)i], text ? text : "", 0, &left);
    }
    tensors_end();
}
