/* SPDX-License-Identifier: MIT */
#include "preload/kinds/kindroots.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "preload/anchors/pyhost.h"
#include "preload/kinds/tensors.h"

#include <stdio.h>
#include <string.h>

typedef struct pyhost_object object;

enum {
    HELD = 16,              /* modules inside one another, where one of them is looked for */
    KINDROOTS_ROOTS = 4096, /* of a search */
    NUMBERS = 65536         /* of roots of all searches */
};

/* Of the last look; the objects are valid until the program goes on. */
static struct kindroot *roots;
static uint32_t root_count;

/* Numbers of roots. One at the place of one of its class that has ended gets its number. */
struct numbered {
    uint64_t key;
    uint64_t number;
};
static struct table numbers = TABLE_OF(struct numbered);

static uint64_t kindroots_key(const object *is)
{
    return (uintptr_t)is ^ (uintptr_t)tensors_class_name(is) * UINT64_C(0x9e3779b97f4a7c15);
}

/* False: there is no room. */
static bool kindroots_add(object *is)
{
    struct numbered *numbered = table_find(&numbers, kindroots_key(is));

    if (!roots)
        roots = meta_map(KINDROOTS_ROOTS * sizeof *roots);
    if (!roots || root_count == KINDROOTS_ROOTS)
        return false;
    if (!numbered && numbers.count < NUMBERS) {
        numbered = table_add(&numbers, kindroots_key(is));
        if (numbered)
            numbered->number = numbers.count;
    }
    if (numbered)
        roots[root_count++] = (struct kindroot){is, (uint32_t)numbered->number};
    return numbered;
}

uint32_t kindroots_number(const object *is)
{
    const struct numbered *numbered = table_find(&numbers, kindroots_key(is));

    return numbered ? (uint32_t)numbered->number : 0;
}

const struct kindroot *kindroots_next(const struct kindroot *before)
{
    const struct kindroot *next = before ? before + 1 : roots;

    return roots && next < roots + root_count ? next : NULL;
}

void kindroots_forget(void)
{
    root_count = 0;
    table_clear(&numbers);
}

bool kindroots_has_members(object *module)
{
    static const char *const members[] = {"_parameters", "_buffers"};
    object *children = tensors_children(module);

    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        object *dict = tensors_own_dict(module, members[i]);

        if (dict && tensors_count(dict) > 0)
            return true;
    }
    return children && tensors_count(children) > 0;
}

/* An entry of `inner`: a module that another one has. */
struct inner {
    uint64_t module;
};

/* Adds the modules that no other module of the list has, and the optimizers. False: not all. */
static bool kindroots_choose(object *list)
{
    struct table inner = TABLE_OF(struct inner);
    object *is, *key, *value;
    bool is_whole = true;

    for (intptr_t i = 0; (is = tensors_item(list, TENSORS_LIST, i)); i++) {
        object *children = tensors_class(is) == TENSORS_MODULE ? tensors_children(is) : NULL;
        intptr_t at = 0;

        while (children && tensors_next(children, &at, &key, &value))
            if (tensors_class(value) == TENSORS_MODULE && value != is
                    && !table_add(&inner, (uintptr_t)value))
                is_whole = false;
    }
    for (intptr_t i = 0; (is = tensors_item(list, TENSORS_LIST, i)); i++) {
        enum tensors_class class = tensors_class(is);
        bool is_root = class == TENSORS_OPTIMIZER
                || (class == TENSORS_MODULE && !table_find(&inner, (uintptr_t)is)
                        && kindroots_has_members(is));

        if (is_root && !kindroots_add(is))
            is_whole = false;
    }
    table_clear(&inner);
    return is_whole;
}

/* Finds a module below another one, a few levels down, and appends its dotted name. */
static bool kindroots_find(
        object *outer, const object *module, unsigned deep, char *name, size_t used, size_t size)
{
    object *children = tensors_children(outer);
    object *key, *value;
    intptr_t at = 0;

    while (children && tensors_next(children, &at, &key, &value)) {
        const char *text = tensors_text(key);
        int length = snprintf(name + used, size - used, "%s%s", used ? "." : "", text ? text : "");

        if (length < 0 || (size_t)length >= size - used || tensors_class(value) != TENSORS_MODULE)
            continue;
        if (value == module
                || (deep < HELD
                        && kindroots_find(
                                value, module, deep + 1, name, used + (size_t)length, size)))
            return true;
    }
    return false;
}

object *kindroots_whole(object *module, char *name, size_t size)
{
    for (uint32_t i = 0; i < root_count; i++)
        if (roots[i].is != module && tensors_class(roots[i].is) == TENSORS_MODULE
                && kindroots_find(roots[i].is, module, 0, name, 0, size))
            return roots[i].is;
    return NULL;
}

bool kindroots_search(void)
{
    object *list = tensors_new_objects();
    bool is_whole;

    root_count = 0;
    is_whole = list && kindroots_choose(list);
    pyhost_drop(list);
    return is_whole;
}

void kindroots_look(bool really)
{
    root_count = 0;
    if (!really || !tensors_begin())
        return;
    (void)kindroots_search();
    tensors_end();
}
