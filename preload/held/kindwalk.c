/* SPDX-License-Identifier: MIT */
#include "preload/held/kindwalk.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "preload/anchors/pyhost.h"
#include "preload/base/guard.h"
#include "preload/driver/session.h"
#include "preload/held/tensors.h"
#include "tracker/capture/capture.h"

#include <stdio.h>
#include <string.h>

typedef struct pyhost_object object;

enum {
    NAME = 256,            /* bytes of a name; longer ones are cut */
    NAMES = 8 << 20,       /* bytes of the names of parameters in one look */
    DEEP = 64,             /* modules inside one another */
    NESTED = 3,            /* containers inside one another, of an optimizer's state or arguments */
    INPUTS = 64,           /* tensors of a call */
    HELD = 16,             /* modules inside one another, where one of them is looked for */
    KINDWALK_ROOTS = 4096, /* of a look */
    NUMBERS = 65536        /* of roots of all looks */
};

/* ---- roots ---------------------------------------------------------------------------------- */

/* Of the last look; the objects are valid until the program goes on. */
static struct root {
    object *is;
    uint32_t number;
} * roots;
static uint32_t root_count;

/* Numbers of roots. One at the place of one of its class that has ended gets its number. */
struct numbered {
    uint64_t key;
    uint64_t number;
};
static struct table numbers = TABLE_OF(struct numbered);

static uint64_t kindwalk_key(const object *is)
{
    return (uintptr_t)is ^ (uintptr_t)tensors_class_name(is) * UINT64_C(0x9e3779b97f4a7c15);
}

/* False: there is no room. */
static bool kindwalk_add_root(object *is)
{
    struct numbered *numbered = table_find(&numbers, kindwalk_key(is));

    if (!roots)
        roots = meta_map(KINDWALK_ROOTS * sizeof *roots);
    if (!roots || root_count == KINDWALK_ROOTS)
        return false;
    if (!numbered && numbers.count < NUMBERS) {
        numbered = table_add(&numbers, kindwalk_key(is));
        if (numbered)
            numbered->number = numbers.count;
    }
    if (numbered)
        roots[root_count++] = (struct root){is, (uint32_t)numbered->number};
    return numbered;
}

void kindwalk_forget(void)
{
    root_count = 0;
    table_clear(&numbers);
}

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

/* The dict under this name in an object's own dict; NULL: there is none. */
static object *kindwalk_dict(object *of, const char *name)
{
    object *found = pyhost_own(of, name);

    return found && tensors_class(found) == TENSORS_DICT ? found : NULL;
}

/* ---- modules -------------------------------------------------------------------------------- */

static void kindwalk_own(object *module, const char *path)
{
    object *parameters = kindwalk_dict(module, "_parameters");
    object *buffers = kindwalk_dict(module, "_buffers");
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
    children = kindwalk_dict(module, "_modules");
    while (children && tensors_next(children, &at, &key, &value)) {
        if (tensors_class(value) != TENSORS_MODULE)
            continue;
        kindwalk_join(name, path, key);
        kindwalk_module(value, name, deep + 1);
    }
}

bool kindwalk_has_members(object *module)
{
    static const char *const members[] = {"_parameters", "_buffers", "_modules"};
    object *key, *value;

    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        object *dict = kindwalk_dict(module, members[i]);
        intptr_t at = 0;

        if (dict && tensors_next(dict, &at, &key, &value))
            return true;
    }
    return false;
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
    object *states = kindwalk_dict(optimizer, "state");
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

/* Adds the modules that no other module of the list has, and the optimizers. */
static void kindwalk_choose(object *list)
{
    struct table inner = TABLE_OF(struct seen);
    object *is, *key, *value;

    for (intptr_t i = 0; (is = tensors_item(list, TENSORS_LIST, i)); i++) {
        object *children =
                tensors_class(is) == TENSORS_MODULE ? kindwalk_dict(is, "_modules") : NULL;
        intptr_t at = 0;

        while (children && tensors_next(children, &at, &key, &value))
            if (tensors_class(value) == TENSORS_MODULE && value != is
                    && !table_add(&inner, (uintptr_t)value))
                walk.flags |= FORMAT_DATA_CUT;
    }
    for (intptr_t i = 0; (is = tensors_item(list, TENSORS_LIST, i)); i++) {
        enum tensors_class class = tensors_class(is);
        bool is_root = class == TENSORS_OPTIMIZER
                || (class == TENSORS_MODULE && !table_find(&inner, (uintptr_t)is)
                        && kindwalk_has_members(is));

        if (is_root && !kindwalk_add_root(is))
            walk.flags |= FORMAT_DATA_CUT;
    }
    table_clear(&inner);
}

/* Finds a module below another one, a few levels down, and appends its dotted name. */
static bool kindwalk_find(
        object *outer, const object *module, unsigned deep, char *name, size_t used, size_t size)
{
    object *children = kindwalk_dict(outer, "_modules");
    object *key, *value;
    intptr_t at = 0;

    while (children && tensors_next(children, &at, &key, &value)) {
        const char *text = tensors_text(key);
        int length = snprintf(name + used, size - used, "%s%s", used ? "." : "", text ? text : "");

        if (length < 0 || (size_t)length >= size - used || tensors_class(value) != TENSORS_MODULE)
            continue;
        if (value == module
                || (deep < HELD
                        && kindwalk_find(
                                value, module, deep + 1, name, used + (size_t)length, size)))
            return true;
    }
    return false;
}

object *kindwalk_whole(object *module, char *name, size_t size)
{
    for (uint32_t i = 0; i < root_count; i++)
        if (roots[i].is != module && tensors_class(roots[i].is) == TENSORS_MODULE
                && kindwalk_find(roots[i].is, module, 0, name, 0, size))
            return roots[i].is;
    return NULL;
}

static void kindwalk_search(void)
{
    object *list = tensors_new_objects();

    if (list)
        kindwalk_choose(list);
    else
        walk.flags |= FORMAT_DATA_CUT;
    pyhost_drop(list);
}

void kindwalk_find_roots(bool really)
{
    root_count = 0;
    if (!really || !tensors_begin())
        return;
    kindwalk_search();
    tensors_end();
}

static void kindwalk_roots(enum tensors_class class)
{
    for (uint32_t i = 0; i < root_count; i++) {
        if (tensors_class(roots[i].is) != class)
            continue;
        walk.root = roots[i].number;
        kindwalk_put(FORMAT_DATA_ROOT, walk.root, 0, 0, tensors_class_name(roots[i].is));
        if (class == TENSORS_MODULE)
            kindwalk_module(roots[i].is, "", 0);
        else
            kindwalk_optimizer(roots[i].is);
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
    root_count = 0;
    kindwalk_search();
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
    const struct numbered *numbered = table_find(&numbers, kindwalk_key(optimizer));
    object *groups = pyhost_own(optimizer, "param_groups");
    object *group;

    if (!numbered || !walk.names || !groups || !tensors_begin())
        return false;
    walk.flags = FORMAT_DATA_PART | (reads_gradients ? 0 : FORMAT_DATA_BUSY);
    walk.reads_gradients = reads_gradients;
    walk.storages = 0;
    for (intptr_t i = 0; tensors_class(groups) == TENSORS_LIST
            && (group = tensors_item(groups, TENSORS_LIST, i));
            i++)
        if (tensors_class(group) == TENSORS_DICT)
            kindwalk_named_group(group);
    walk.root = (uint32_t)numbered->number;
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
