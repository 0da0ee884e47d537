/* SPDX-License-Identifier: MIT */
#include "preload/anchors/pynames.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "preload/anchors/pytoken.h"

#include <stdio.h>
#include <string.h>

typedef struct pyhost_object object;

enum {
    DEEP = 8,       /* levels of modules that are not called themselves, such as lists */
    WAYS = 1 << 16, /* with more of them all are looked for again */
    SEARCHES = 64   /* that find nothing, before they become rare */
};

/* The way to a module from one around it. */
struct way {
    uint64_t key;       /* of both */
    object *keys[DEEP]; /* references */
    unsigned depth;     /* 0: there is none, */
    object *token;      /* for the module that has this */
    char *name;         /* of meta.h */
};

static struct table ways = TABLE_OF(struct way);
static object *modules_key, *layers_key; /* PyTorch's, PaddlePaddle's */
static uint64_t failures;

static uint64_t pynames_key(const object *outer, const object *module)
{
    return ((uintptr_t)outer * UINT64_C(0x9e3779b97f4a7c15)) ^ (uintptr_t)module;
}

/* The dict of the modules in a module; NULL: there is none. */
static object *pynames_children(object *of)
{
    object *children = pyhost_own_at(of, modules_key);

    return children ? children : pyhost_own_at(of, layers_key);
}

static bool pynames_leads(const struct way *way, object *at, const object *module)
{
    for (unsigned i = 0; i < way->depth; i++) {
        object *children = pynames_children(at);

        at = children ? pyhost_in_dict(children, way->keys[i]) : NULL;
        if (!at)
            return false;
    }
    return way->depth > 0 && at == module;
}

static void pynames_drop(struct way *way)
{
    for (unsigned i = 0; i < way->depth; i++)
        pyhost_drop(way->keys[i]);
    pytoken_drop(way->token);
    if (way->name)
        meta_put(way->name, strlen(way->name) + 1);
    *way = (struct way){.key = way->key};
}

/* The way of this pair without anything in it; NULL: no memory. */
static struct way *pynames_new_way(const object *outer, const object *module)
{
    struct way *way = table_find(&ways, pynames_key(outer, module));

    if (way) {
        pynames_drop(way);
        return way;
    }
    if (ways.count == WAYS) {
        for (way = table_next(&ways, NULL); way; way = table_next(&ways, way))
            pynames_drop(way);
        table_clear(&ways);
    }
    return table_add(&ways, pynames_key(outer, module));
}

/* Looks for `module` exactly `left` levels below `outer`; the keys are borrowed. */
static bool pynames_find(object *outer, const object *module, unsigned left, object **ret_keys)
{
    object *children = pynames_children(outer);
    object *key, *child;
    intptr_t at = 0;

    while (children && pyhost_next(children, &at, &key, &child)) {
        if (left == 1 ? child != module : !pynames_find(child, module, left - 1, ret_keys + 1))
            continue;
        *ret_keys = key;
        return true;
    }
    return false;
}

/* "blocks.3"; false: it does not fit. */
static bool pynames_join(object *const *keys, unsigned count, char name[static ANCHOR_NAME_MAX + 1])
{
    size_t used = 0;

    for (unsigned i = 0; i < count; i++) {
        const char *text = pyhost_text(keys[i]);
        int length = text
                ? snprintf(name + used, ANCHOR_NAME_MAX + 1 - used, "%s%s", i ? "." : "", text)
                : -1;

        if (length < 0 || used + (size_t)length > ANCHOR_NAME_MAX)
            return false;
        used += (size_t)length;
    }
    return true;
}

static void pynames_keep(const object *outer, const object *module, object *const *keys,
        unsigned count, const char *name)
{
    struct way *way = pynames_new_way(outer, module);
    size_t size = strlen(name) + 1;
    char *copy = way ? meta_get(size) : NULL;

    if (!copy)
        return;
    memcpy(copy, name, size);
    way->name = copy;
    way->depth = count;
    for (unsigned i = 0; i < count; i++)
        way->keys[i] = pyhost_keep(keys[i]);
}

static bool pynames_search(const struct pyhost_inner *call, char name[static ANCHOR_NAME_MAX + 1])
{
    object *keys[DEEP];

    for (const struct pyhost_inner *outer = call->outer; outer; outer = outer->outer)
        for (unsigned depth = 1; depth <= DEEP; depth++) {
            if (!pynames_find(outer->module, call->module, depth, keys))
                continue;
            if (!pynames_join(keys, depth, name))
                return false;
            pynames_keep(outer->module, call->module, keys, depth, name);
            return true;
        }
    return false;
}

static bool pynames_known(const struct pyhost_inner *call, char name[static ANCHOR_NAME_MAX + 1])
{
    for (const struct pyhost_inner *outer = call->outer; outer; outer = outer->outer) {
        const struct way *way = table_find(&ways, pynames_key(outer->module, call->module));

        if (!way || !pynames_leads(way, outer->module, call->module))
            continue;
        memcpy(name, way->name, strlen(way->name) + 1);
        return true;
    }
    return false;
}

/* Keeps that a module is below none of those around it. */
static void pynames_note_failure(const struct pyhost_inner *call)
{
    struct way *way = pynames_new_way(call->outer->module, call->module);

    failures++;
    if (way)
        way->token = pytoken_keep(call->module);
}

bool pynames_below(const struct pyhost_inner *call, char name[static ANCHOR_NAME_MAX + 1])
{
    const struct way *way;

    if (!modules_key)
        modules_key = pyhost_new_key("_modules");
    if (!layers_key)
        layers_key = pyhost_new_key("_sub_layers");
    if (!call->outer || !modules_key || !layers_key)
        return false;
    if (pynames_known(call, name))
        return true;
    way = table_find(&ways, pynames_key(call->outer->module, call->module));
    if (way && way->token && pytoken_is_of(way->token, call->module))
        return false;
    if (failures > SEARCHES && (failures & (failures - 1)) != 0) {
        failures++;
        return false;
    }
    if (pynames_search(call, name))
        return true;
    pynames_note_failure(call);
    return false;
}

void pynames_forget(void)
{
    for (const struct way *way = table_next(&ways, NULL); way; way = table_next(&ways, way))
        if (way->name)
            meta_put(way->name, strlen(way->name) + 1);
    table_clear(&ways);
    modules_key = NULL;
    layers_key = NULL;
}
