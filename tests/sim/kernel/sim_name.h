/* SPDX-License-Identifier: MIT */
/*
 * sim_name.h - parts of a demangled C++ name: brackets, lists, templates.
 *
 * Pure functions on text that its caller owns. Threads: any.
 */
#ifndef KEDGE_TESTS_SIM_SIM_NAME_H
#define KEDGE_TESTS_SIM_SIM_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A part of a name. */
struct text {
    const char *at;
    size_t length;
};

static inline struct text trim(struct text t)
{
    while (t.length && *t.at == ' ')
        t = (struct text){t.at + 1, t.length - 1};
    while (t.length && t.at[t.length - 1] == ' ')
        t.length--;
    return t;
}

static inline bool is_text(struct text t, const char *other)
{
    return t.length == strlen(other) && memcmp(t.at, other, t.length) == 0;
}

static inline bool begins(struct text t, const char *with)
{
    return t.length >= strlen(with) && memcmp(t.at, with, strlen(with)) == 0;
}

static inline bool ends(struct text t, const char *with)
{
    size_t length = strlen(with);

    return t.length >= length && memcmp(t.at + t.length - length, with, length) == 0;
}

/* Where `what` begins in it, or NULL. */
static inline const char *find(struct text t, const char *what)
{
    return memmem(t.at, t.length, what, strlen(what));
}

static inline bool opens(char c)
{
    return c == '<' || c == '(' || c == '[' || c == '{';
}

static inline bool closes(const char *c)
{
    return (*c == '>' && c[-1] != '-') || *c == ')' || *c == ']' || *c == '}';
}

/* Takes the next item off a list that is separated by commas outside all brackets. False: there is none. */
static inline bool next_item(struct text *list, struct text *ret_item)
{
    const char *end = list->at + list->length, *c = list->at;
    int depth = 0;

    if (list->length == 0)
        return false;
    for (; c < end && !(*c == ',' && depth == 0); c++)
        depth += opens(*c) ? 1 : c > list->at && closes(c) ? -1 : 0;
    *ret_item = trim((struct text){list->at, (size_t)(c - list->at)});
    *list = c < end ? (struct text){c + 1, (size_t)(end - c - 1)} : (struct text){end, 0};
    return true;
}

/* What stands between the bracket at `at` and its partner. */
static inline struct text inside(const char *at, const char *end)
{
    int depth = 0;

    for (const char *c = at; c < end; c++) {
        depth += opens(*c) ? 1 : c > at && closes(c) ? -1 : 0;
        if (depth == 0)
            return (struct text){at + 1, (size_t)(c - at - 1)};
    }
    return (struct text){end, 0};
}

/* The parameters of a demangled function, without their brackets. False: it is none. */
static inline bool parameter_list(const char *name, struct text *ret_list)
{
    const char *end = strrchr(name, ')'), *begin = end;
    int depth = 0;

    for (; begin && begin >= name; begin--) {
        depth += *begin == ')' ? 1 : *begin == '(' ? -1 : 0;
        if (depth == 0)
            break;
    }
    if (!begin || begin <= name)
        return false;
    *ret_list = (struct text){begin + 1, (size_t)(end - begin - 1)};
    if (is_text(*ret_list, "void"))
        ret_list->length = 0;
    return true;
}

/* The arguments of the first template called `name` in it. */
static inline bool template_list(struct text t, const char *name, struct text *ret_list)
{
    const char *found = find(t, name);
    const char *at = found ? memchr(found, '<', t.length - (size_t)(found - t.at)) : NULL;

    if (!at)
        return false;
    *ret_list = inside(at, t.at + t.length);
    return ret_list->length != 0;
}

static inline struct text nth_item(struct text list, unsigned n)
{
    struct text item = {list.at, 0};

    for (unsigned i = 0; i <= n; i++)
        if (!next_item(&list, &item))
            return (struct text){list.at, 0};
    return item;
}

static inline bool is_number(struct text t)
{
    for (size_t i = 0; i < t.length; i++)
        if (t.at[i] < '0' || t.at[i] > '9')
            return false;
    return t.length != 0;
}

#endif
