/* SPDX-License-Identifier: MIT */
#include "preload/base/linked.h"

#include "preload/base/elfsym.h"

#include "alloc/base/meta.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    LIST_MAX = 510, /* fills a page, together with the count */
};

/* Objects in the order of the search, each once. Not on the stack, which may be small. */
struct list {
    const struct link_map *object[LIST_MAX];
    unsigned count;
};

bool linked_is_us(const struct link_map *object)
{
    return object->l_ld == _DYNAMIC; /* the linker gives each object its own _DYNAMIC */
}

/* Whether a library that needs `name` (DT_NEEDED) means this object. */
static bool is_called(const struct link_map *object, const char *name)
{
    const char *soname;

    if (strcmp(strchr(name, '/') ? object->l_name : linked_base(object->l_name), name) == 0)
        return true;
    soname = elfsym_soname(object);
    return soname && strcmp(soname, name) == 0;
}

static void linked_add(struct list *list, const struct link_map *object)
{
    if (!object || linked_is_us(object) || list->count == LIST_MAX)
        return;
    for (unsigned i = 0; i < list->count; i++)
        if (list->object[i] == object)
            return;
    list->object[list->count++] = object;
}

static const struct link_map *called(const char *name)
{
    const struct link_map *object = _r_debug.r_map;

    while (object && !is_called(object, name))
        object = object->l_next;
    return object;
}

/* A list that begins with this object; NULL: no memory. */
static struct list *list_of(const struct link_map *object)
{
    struct list *list = meta_get(sizeof *list);

    if (list)
        linked_add(list, object);
    return list;
}

/* ---- downwards: the libraries an object is linked with -------------------------------------- */

static void add_needed(struct list *list, const struct link_map *object)
{
    const char *name;

    for (unsigned i = 0; (name = elfsym_needed(object, i)); i++)
        linked_add(list, called(name));
}

static void *find_from(const struct link_map *object, const char *name)
{
    struct list *list = list_of(object);
    void *found = NULL;

    for (unsigned i = 0; list && i < list->count && !found; i++) {
        found = elfsym_function(list->object[i], name);
        if (!found)
            add_needed(list, list->object[i]);
    }
    meta_put(list, sizeof *list);
    return found;
}

void *linked_variable(const struct link_map *object, const char *name)
{
    struct elfsym_name wanted = {name, elfsym_hash(name)};
    struct list *list = list_of(object);
    void *variable = NULL;

    for (unsigned i = 0; list && i < list->count; i++) {
        if (elfsym_has(list->object[i], &wanted, &variable))
            break;
        add_needed(list, list->object[i]);
    }
    meta_put(list, sizeof *list);
    return variable;
}

/* ---- upwards: the objects that need a library ----------------------------------------------- */

static bool needs(const struct link_map *user, const struct link_map *object)
{
    const char *name;

    for (unsigned i = 0; (name = elfsym_needed(user, i)); i++)
        if (is_called(object, name))
            return true;
    return false;
}

static void *find_in_users(const struct link_map *object, const char *name)
{
    struct list *list = list_of(object);
    void *found = NULL;

    for (unsigned i = 0; list && i < list->count; i++)
        for (const struct link_map *user = _r_debug.r_map; user; user = user->l_next)
            if (needs(user, list->object[i]))
                linked_add(list, user);
    for (unsigned i = 1; list && i < list->count && !found; i++)
        found = find_from(list->object[i], name);
    meta_put(list, sizeof *list);
    return found;
}

/* ---- called under the lock of the loader's list --------------------------------------------- */

const Elf64_Phdr *linked_segment(const struct dl_phdr_info *info, unsigned type, uintptr_t at)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const Elf64_Phdr *segment = &info->dlpi_phdr[i];

        if (segment->p_type == type && at - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
            return segment;
    }
    return NULL;
}

static bool linked_holds(const struct dl_phdr_info *info, const void *address)
{
    return linked_segment(info, PT_LOAD, (uintptr_t)address) != NULL;
}

const struct link_map *linked_record(const struct dl_phdr_info *info)
{
    const struct link_map *object = _r_debug.r_map;
    uintptr_t dynamic = 0;

    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    while (object && (uintptr_t)object->l_ld != dynamic)
        object = object->l_next;
    return object;
}

/* The program itself comes first in the list, but is no preload. */
static bool is_before_us(const struct link_map *object)
{
    const struct link_map *earlier = _r_debug.r_map->l_next;

    while (earlier && !linked_is_us(earlier) && earlier != object)
        earlier = earlier->l_next;
    return earlier == object && !linked_is_us(object);
}

struct question {
    const void *caller;
    const char *name;
    struct linked answer;
};

static int linked_answer(struct dl_phdr_info *info, size_t size, void *data)
{
    struct question *question = data;
    const struct link_map *object;

    (void)size;
    if (!linked_holds(info, question->caller))
        return 0;
    object = linked_record(info);
    if (!object)
        return 1;
    question->answer.calls = elfsym_wants(object, question->name);
    question->answer.is_program = object == _r_debug.r_map;
    question->answer.is_earlier = is_before_us(object);
    question->answer.own = find_from(object, question->name);
    if (!question->answer.own)
        question->answer.users = find_in_users(object, question->name);
    return 1;
}

struct linked linked_for(const void *caller, const char *name)
{
    struct question question = {caller, name, {.own = NULL}};

    (void)dl_iterate_phdr(linked_answer, &question);
    return question.answer;
}

struct search {
    const char *base;
    const char *name;
    const void *address;
    void *found;
};

static bool linked_begins(const char *path, const char *base)
{
    return path && strncmp(linked_base(path), base, strlen(base)) == 0;
}

static int look_in(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    const struct link_map *object;

    (void)size;
    if (!linked_begins(info->dlpi_name, search->base))
        return 0;
    object = linked_record(info);
    search->found = object ? elfsym_function(object, search->name) : NULL;
    return search->found ? 1 : 0;
}

void *linked_in(const char *base, const char *name)
{
    struct search search = {.base = base, .name = name};

    (void)dl_iterate_phdr(look_in, &search);
    return search.found;
}

static int linked_look_at(struct dl_phdr_info *info, size_t size, void *data)
{
    const struct search *search = data;

    (void)size;
    return linked_holds(info, search->address) ? 1 + linked_begins(info->dlpi_name, search->base)
                                               : 0;
}

bool linked_is_in(const void *address, const char *base)
{
    struct search search = {.base = base, .address = address};

    return dl_iterate_phdr(linked_look_at, &search) == 2;
}

static int look_for_code(struct dl_phdr_info *info, size_t size, void *data)
{
    const struct search *search = data;
    const ElfW(Phdr) *segment = linked_segment(info, PT_LOAD, (uintptr_t)search->address);

    (void)size;
    if (!segment)
        return 0;
    return segment->p_flags & PF_X ? 1 : 2;
}

bool linked_is_code(const void *address)
{
    struct search search = {.address = address};

    return dl_iterate_phdr(look_for_code, &search) == 1;
}

static int look_before_us(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *search = data;
    struct elfsym_name wanted = {search->name, elfsym_hash(search->name)};
    const struct link_map *object = linked_record(info);
    void *variable;

    (void)size;
    if (!object || linked_is_us(object))
        return 1;
    if (elfsym_has(object, &wanted, &variable))
        search->base = info->dlpi_name;
    return search->base != NULL;
}

const char *linked_before_us(const char *name)
{
    struct search search = {.name = name};

    (void)dl_iterate_phdr(look_before_us, &search);
    return search.base;
}
