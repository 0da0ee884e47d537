/* SPDX-License-Identifier: MIT */
#include "preload/kinds/kindwalk.h"

#include "alloc/base/table.h"
#include "preload/anchors/pyhost.h"
#include "preload/kinds/kindnote.h"
#include "preload/kinds/kindroots.h"
#include "preload/kinds/kindstate.h"
#include "preload/kinds/tensors.h"

#include <stdio.h>
#include <string.h>

typedef struct pyhost_object object;

enum {
    DEEP = 64,  /* modules inside one another */
    INPUTS = 64 /* tensors of a call */
};

struct seen {
    uint64_t module;
};
static struct table visited = TABLE_OF(struct seen); /* modules of this look */

/* ---- modules -------------------------------------------------------------------------------- */

static void kindwalk_own(object *module, const char *path)
{
    object *parameters = tensors_own_dict(module, "_parameters");
    object *buffers = tensors_own_dict(module, "_buffers");
    object *key, *value;
    char name[KINDNOTE_NAME];
    intptr_t at = 0;

    while (parameters && tensors_next(parameters, &at, &key, &value)) {
        if (tensors_class(value) != TENSORS_TENSOR)
            continue;
        kindnote_join(name, path, key);
        kindnote_parameter(value, name);
    }
    at = 0;
    while (buffers && tensors_next(buffers, &at, &key, &value)) {
        if (tensors_class(value) != TENSORS_TENSOR)
            continue;
        kindnote_join(name, path, key);
        kindnote_tensor(FORMAT_DATA_BUFFER, value, name);
    }
}

/* A module and those inside it, each once. */
static void kindwalk_module(object *module, const char *path, unsigned deep)
{
    object *children, *key, *value;
    char name[KINDNOTE_NAME];
    intptr_t at = 0;

    if (table_find(&visited, (uintptr_t)module))
        return;
    if (deep == DEEP || !table_add(&visited, (uintptr_t)module)) {
        kindnote_cut();
        return;
    }
    kindwalk_own(module, path);
    children = tensors_children(module);
    while (children && tensors_next(children, &at, &key, &value)) {
        if (tensors_class(value) != TENSORS_MODULE)
            continue;
        kindnote_join(name, path, key);
        kindwalk_module(value, name, deep + 1);
    }
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void kindwalk_roots(enum tensors_class class)
{
    for (const struct kindroot *root = kindroots_next(NULL); root; root = kindroots_next(root)) {
        if (tensors_class(root->is) != class)
            continue;
        kindnote_new_root(root->number, tensors_class_name(root->is));
        if (class == TENSORS_MODULE)
            kindwalk_module(root->is, "", 0);
        else
            kindstate_all(root->is);
    }
}

void kindwalk_look(bool reads_gradients)
{
    if (!tensors_begin())
        return;
    kindnote_begin(reads_gradients);
    if (!kindroots_search())
        kindnote_cut();
    kindwalk_roots(TENSORS_MODULE);
    kindwalk_roots(TENSORS_OPTIMIZER);
    kindnote_end();
    table_clear(&visited);
    tensors_end();
}

bool kindwalk_step(object *optimizer, bool reads_gradients)
{
    uint32_t number = kindroots_number(optimizer);
    bool is_known = number && kindstate_has_parameters(optimizer) && tensors_begin();

    if (!is_known)
        return false;
    if (kindnote_begin_part(reads_gradients)) {
        kindstate_parameters(optimizer);
        kindnote_root(number);
        kindstate_all(optimizer);
        kindnote_end();
    } else {
        is_known = false;
    }
    tensors_end();
    return is_known;
}

/* ---- inputs --------------------------------------------------------------------------------- */

static void kindwalk_input(object *value, const char *name, unsigned deep, unsigned *io_left)
{
    enum tensors_class class = tensors_class(value);
    object *key, *inner;
    char below[KINDNOTE_NAME];
    intptr_t at = 0;

    if (class == TENSORS_TENSOR && *io_left > 0) {
        (*io_left)--;
        if (!tensors_is_computed(value))
            kindnote_tensor(FORMAT_DATA_INPUT, value, name);
    }
    if (deep == KINDNOTE_NESTED)
        return;
    while (class == TENSORS_DICT && *io_left > 0 && tensors_next(value, &at, &key, &inner)) {
        kindnote_join(below, name, key);
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
    char name[KINDNOTE_NAME];
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
