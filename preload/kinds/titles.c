/* SPDX-License-Identifier: MIT */
#include "preload/kinds/titles.h"

#include "alloc/base/meta.h"
#include "alloc/base/table.h"
#include "preload/anchors/pyhost.h"
#include "preload/anchors/pytoken.h"
#include "preload/kinds/kindroots.h"
#include "preload/kinds/tensors.h"
#include "tracker/where/anchor.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct pyhost_object object;

enum {
    TITLES = 4096, /* modules with names, at one time */
    SEARCHES = 64  /* among all objects, before they become rare */
};

struct title {
    uint64_t is;     /* the module, which is still the same if it has this token, */
    object *token;   /* a reference; NULL: it has none */
    char *name;      /* of meta.h; "" for the first model */
    char *class;     /* of meta.h, of a model; NULL: it is a part of one */
    uint32_t number; /* of its class; 0: the first model, which is number 1 as well */
    bool is_whole;   /* it has parameters, buffers or modules */
};

static struct table titles = TABLE_OF(struct title);
static bool has_first; /* a model has the name "" */
static uint64_t searches;

static char *titles_copy(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = meta_get(size);

    return copy ? memcpy(copy, text, size) : NULL;
}

static void titles_put(char *text)
{
    if (text)
        meta_put(text, strlen(text) + 1);
}

static void titles_drop(struct title *title)
{
    has_first &= !title->class || title->number > 0;
    pytoken_drop(title->token);
    titles_put(title->name);
    titles_put(title->class);
    *title = (struct title){.is = title->is};
}

static struct title *titles_find(object *module)
{
    struct title *found = table_find(&titles, (uintptr_t)module);

    return found && pytoken_is_of(found->token, module) ? found : NULL;
}

static bool titles_has_ended(const struct title *title)
{
    return title->token && pytoken_has_ended(title->token);
}

static void titles_drop_ended(void)
{
    for (struct title *at = table_next(&titles, NULL); at;) {
        bool is_over = titles_has_ended(at);

        if (is_over)
            titles_drop(at);
        at = is_over ? table_remove(&titles, at) : table_next(&titles, at);
    }
}

/* A record without a name; NULL: there is no room. */
static struct title *titles_add(object *module)
{
    struct title *title = table_find(&titles, (uintptr_t)module);

    if (title)
        titles_drop(title);
    else
        title = titles.count < TITLES ? table_add(&titles, (uintptr_t)module) : NULL;
    if (title)
        title->token = pytoken_keep(module);
    return title;
}

/* ---- models --------------------------------------------------------------------------------- */

/* Whether a model of this class has the number; the first one has 1. */
static bool titles_is_taken(const char *class, uint32_t number)
{
    for (const struct title *at = table_next(&titles, NULL); at; at = table_next(&titles, at))
        if (at->class && strcmp(at->class, class) == 0 && (at->number ? at->number : 1) == number)
            return true;
    return false;
}

/* Names a model: "", "Net", "Net#2". */
static void titles_name_model(struct title *title, object *model)
{
    const char *class = tensors_class_name(model);
    char name[ANCHOR_NAME_MAX + 1];
    uint32_t number = 1;

    title->is_whole = kindroots_has_members(model);
    while (titles_is_taken(class, number))
        number++;
    if (title->is_whole && !has_first && number == 1) {
        has_first = true;
        name[0] = '\0';
        number = 0;
    } else if (number == 1) {
        (void)snprintf(name, sizeof name, "%s", class);
    } else {
        (void)snprintf(name, sizeof name, "%s#%u", class, number);
    }
    title->number = number;
    title->class = titles_copy(class);
    title->name = titles_copy(name);
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* Models were just looked for. */
static const char *titles_make(object *module)
{
    char inner[ANCHOR_NAME_MAX + 1], name[2 * ANCHOR_NAME_MAX + 2];
    object *whole = kindroots_whole(module, inner, sizeof inner);
    const struct title *of = whole ? titles_find(whole) : NULL;
    struct title *title;

    titles_drop_ended();
    if (whole && !of) {
        title = titles_add(whole);
        if (title)
            titles_name_model(title, whole);
    }
    of = whole ? titles_find(whole) : NULL;
    if (of && of->name)
        (void)snprintf(name, sizeof name, "%s%s%s", of->name, *of->name ? "." : "", inner);
    title = titles_add(module);
    if (!title)
        return NULL;
    if (of)
        title->name = titles_copy(name);
    else
        titles_name_model(title, module);
    return title->name;
}

/* What a program makes for each call, as a loss without members, has the name of the last one. */
static struct title *titles_last_of_class(object *module)
{
    const char *class = tensors_class_name(module);

    if (kindroots_has_members(module))
        return NULL;
    for (struct title *at = table_next(&titles, NULL); at; at = table_next(&titles, at))
        if (at->class && !at->is_whole && strcmp(at->class, class) == 0 && titles_has_ended(at))
            return at;
    return NULL;
}

static const char *titles_take_over(object *module, struct title *last)
{
    struct title taken = *last;
    struct title *title;

    pytoken_drop(taken.token);
    (void)table_remove(&titles, last);
    title = titles_add(module);
    taken.is = (uintptr_t)module;
    taken.token = title ? title->token : NULL;
    if (!title) {
        titles_drop(&taken);
        return NULL;
    }
    *title = taken;
    return title->name;
}

static bool titles_may_search(void)
{
    searches++;
    return searches <= SEARCHES || (searches & (searches - 1)) == 0;
}

const char *titles_name(object *module)
{
    const struct title *found;
    struct title *last;

    if (!tensors_find())
        return NULL;
    found = titles_find(module);
    if (found)
        return found->name;
    last = titles_last_of_class(module);
    if (last)
        return titles_take_over(module, last);
    kindroots_look(titles_may_search());
    return titles_make(module);
}

void titles_after_look(object *module)
{
    if (!titles_find(module))
        (void)titles_make(module);
}

void titles_forget(void)
{
    for (struct title *at = table_next(&titles, NULL); at; at = table_next(&titles, at)) {
        titles_put(at->name);
        titles_put(at->class);
    }
    table_clear(&titles);
    has_first = false;
}
