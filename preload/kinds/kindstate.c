/* SPDX-License-Identifier: MIT */
#include "preload/kinds/kindstate.h"

#include "preload/anchors/pyhost.h"
#include "preload/kinds/kindnote.h"
#include "preload/kinds/tensors.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct pyhost_object object;

/* Parameters that no module has, such as copies of higher precision. */
static void kindstate_group(object *group, intptr_t number)
{
    object *parameters = NULL;
    object *key, *value, *tensor;
    char name[KINDNOTE_NAME];
    intptr_t at = 0;

    while (!parameters && tensors_next(group, &at, &key, &value)) {
        const char *text = tensors_text(key);

        if (text && strcmp(text, "params") == 0 && tensors_class(value) == TENSORS_LIST)
            parameters = value;
    }
    for (at = 0; parameters && (tensor = tensors_item(parameters, TENSORS_LIST, at)); at++) {
        if (tensors_class(tensor) != TENSORS_TENSOR || kindnote_name(tensor, NULL))
            continue;
        (void)snprintf(name, sizeof name, "param_groups[%ld].params[%ld]", (long)number, (long)at);
        kindnote_parameter(tensor, name);
    }
}

/* A parameter that no module has, in PaddlePaddle's list of them. */
static void kindstate_lone(object *tensor)
{
    object *own;
    const char *text;

    if (kindnote_name(tensor, NULL))
        return;
    own = tensors_new_name(tensor);
    text = own ? tensors_text(own) : NULL;
    kindnote_parameter(tensor, text ? text : "a parameter");
    pyhost_drop(own);
}

/* The parameters of an optimizer: a list of dicts, PaddlePaddle's also of tensors. */
static object *kindstate_groups(object *optimizer)
{
    object *groups = pyhost_own(optimizer, "param_groups");

    if (!groups)
        groups = pyhost_own(optimizer, "_param_groups");
    return groups && tensors_class(groups) == TENSORS_LIST ? groups : NULL;
}

/* What an optimizer keeps for `of`, a parameter's name: `what` is the way to it. */
static void kindstate_state(object *value, const char *what, const char *of, unsigned deep)
{
    enum tensors_class class = tensors_class(value);
    object *key, *inner;
    char name[KINDNOTE_NAME];
    intptr_t at = 0;

    if (class == TENSORS_TENSOR) {
        (void)snprintf(name, sizeof name, "%s of %s", *what ? what : "state", of);
        kindnote_tensor(FORMAT_DATA_STATE, value, name);
    }
    if (deep == KINDNOTE_NESTED)
        return;
    while (class == TENSORS_DICT && tensors_next(value, &at, &key, &inner)) {
        kindnote_join(name, what, key);
        kindstate_state(inner, name, of, deep + 1);
    }
    for (; (class == TENSORS_LIST || class == TENSORS_TUPLE)
            && (inner = tensors_item(value, class, at));
            at++) {
        (void)snprintf(name, sizeof name, "%s[%ld]", what, (long)at);
        kindstate_state(inner, name, of, deep + 1);
    }
}

/* What PaddlePaddle's optimizers keep by the names of tensors; `are_copies`: of parameters, and have names. */
static void kindstate_state_by_name(object *tensors, const char *what, bool are_copies)
{
    object *key, *value;
    intptr_t at = 0;

    while (tensors_next(tensors, &at, &key, &value)) {
        const char *text = tensors_text(key);
        const char *name = text ? kindnote_name_of(text) : NULL;
        const char *of = name ? name : text ? text : "a parameter";

        kindstate_state(value, what, of, KINDNOTE_NESTED);
        if (are_copies && name && tensors_class(value) == TENSORS_TENSOR)
            kindnote_copy(value, text);
    }
}

/* Copies of higher precision first: accumulators are theirs. */
static void kindstate_accumulators(object *optimizer)
{
    object *masters = tensors_own_dict(optimizer, "_master_weights");
    object *accumulators = tensors_own_dict(optimizer, "_accumulators");
    object *key, *value;
    intptr_t at = 0;

    if (masters)
        kindstate_state_by_name(masters, "master_weights", true);
    while (accumulators && tensors_next(accumulators, &at, &key, &value)) {
        const char *text = tensors_text(key);

        if (tensors_class(value) == TENSORS_DICT)
            kindstate_state_by_name(value, text ? text : "", false);
    }
}

void kindstate_all(object *optimizer)
{
    object *groups = kindstate_groups(optimizer);
    object *states = tensors_own_dict(optimizer, "state");
    object *key, *value;
    intptr_t at = 0;

    for (; groups && (value = tensors_item(groups, TENSORS_LIST, at)); at++) {
        if (tensors_class(value) == TENSORS_DICT)
            kindstate_group(value, at);
        else if (tensors_class(value) == TENSORS_TENSOR)
            kindstate_lone(value);
    }
    at = 0;
    while (states && tensors_next(states, &at, &key, &value)) {
        const char *of = kindnote_name(key, NULL);

        if (!of && tensors_class(key) == TENSORS_OTHER)
            of = tensors_text(key);
        kindstate_state(value, "", of ? of : "a parameter", 0);
    }
    kindstate_accumulators(optimizer);
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Of a list those parameters that have names since the last look at all objects. */
static void kindstate_named(object *list)
{
    object *tensor;

    for (intptr_t i = 0; (tensor = tensors_item(list, TENSORS_LIST, i)); i++) {
        uint32_t root;
        const char *name = kindnote_name(tensor, &root);

        if (!name || tensors_class(tensor) != TENSORS_TENSOR)
            continue;
        kindnote_root(root);
        kindnote_parameter(tensor, name);
    }
}

static void kindstate_named_group(object *group)
{
    object *key, *value;
    intptr_t at = 0;

    while (tensors_next(group, &at, &key, &value))
        if (tensors_class(value) == TENSORS_LIST)
            kindstate_named(value);
}

bool kindstate_has_parameters(object *optimizer)
{
    return kindstate_groups(optimizer);
}

void kindstate_parameters(object *optimizer)
{
    object *groups = kindstate_groups(optimizer);
    object *group;

    for (intptr_t i = 0; groups && (group = tensors_item(groups, TENSORS_LIST, i)); i++)
        if (tensors_class(group) == TENSORS_DICT)
            kindstate_named_group(group);
    if (groups)
        kindstate_named(groups);
}

uint64_t kindstate_count(object *optimizer)
{
    static const char *const names[] = {"state", "_master_weights"};
    object *accumulators = tensors_own_dict(optimizer, "_accumulators");
    object *key, *value;
    uint64_t count = 0;
    intptr_t at = 0;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        object *dict = tensors_own_dict(optimizer, names[i]);

        count += dict ? tensors_count(dict) : 0;
    }
    while (accumulators && tensors_next(accumulators, &at, &key, &value))
        count += tensors_class(value) == TENSORS_DICT ? tensors_count(value) : 0;
    return count;
}
