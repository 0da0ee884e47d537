/* SPDX-License-Identifier: MIT */
#include "preload/caller/variables.h"

#include "preload/base/elfsym.h"
#include "preload/base/guard.h"
#include "preload/base/linked.h"
#include "preload/driver/resolve.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    NAMES_MAX = 1024,
};

/* State of an export's name. */
struct name {
    uintptr_t ours;
    atomic_bool is_variable; /* some object has a variable of the name */
    atomic_bool is_next_a_variable;
    _Atomic(uintptr_t) next; /* the next definition after kedge in the global scope, 0 = none */
};

atomic_bool variables_may_come;

/* Only the constructor writes both, except for the atomics. */
static struct elfsym_name exports[NAMES_MAX];
static struct name names[NAMES_MAX];
static unsigned name_count;
static uintptr_t lowest, highest; /* of our exports */
static atomic_bool any_variable;
static atomic_bool is_child;
static _Atomic(uint64_t) seen_loads, seen_closes, seen_objects, seen_skip;

static void add_name(const char *text, const void *function)
{
    uintptr_t address = (uintptr_t)function;

    if (name_count == NAMES_MAX)
        return;
    exports[name_count] = (struct elfsym_name){text, elfsym_hash(text)};
    names[name_count++].ours = address;
    if (lowest == 0 || address < lowest)
        lowest = address;
    if (address > highest)
        highest = address;
}

/* ---- objects with such variables ------------------------------------------------------------ */

struct look {
    uint64_t loads, closes, objects;
    uint64_t skip; /* objects that earlier looks have seen, which come first */
    bool is_changed;
};

static void note_variable(unsigned which)
{
    atomic_store(&names[which].is_variable, true);
    atomic_store(&any_variable, true);
}

static int variables_look_at(struct dl_phdr_info *info, size_t size, void *data)
{
    struct look *look = data;
    const struct link_map *object;

    (void)size;
    if (look->objects == 0) {
        look->loads = info->dlpi_adds;
        look->closes = info->dlpi_subs;
        look->is_changed = look->loads != atomic_load(&seen_loads)
                || look->closes != atomic_load(&seen_closes);
        if (look->closes == atomic_load(&seen_closes))
            look->skip = atomic_load(&seen_objects);
    }
    if (!look->is_changed)
        return 1;
    if (look->objects++ < look->skip)
        return 0;
    object = linked_record(info);
    if (object && !linked_is_us(object))
        elfsym_each_variable(object, exports, name_count, note_variable);
    return 0;
}

/* ---- bindings without kedge ------------------------------------------------------------------ */

/* Not under the lock of the loader's list: a look-up takes the loader's other lock first. */
static void ask_what_is_next(unsigned which)
{
    struct name *name = &names[which];
    void *next;

    guard_push();
    next = resolve_next(exports[which].text);
    /* as in resolve.c, the message is the thread's own */
    if (!next)
        (void)dlerror(); /* NOLINT(concurrency-mt-unsafe) */
    guard_pop();
    atomic_store(&name->is_next_a_variable, next && !linked_is_code(next));
    atomic_store(&name->next, (uintptr_t)next);
}

/* The variable that the object would have been bound to without kedge; 0: a function. */
static uintptr_t variable_for(const struct link_map *object, const struct name *name)
{
    uintptr_t next = atomic_load(&name->next);

    if (next != 0)
        return atomic_load(&name->is_next_a_variable) ? next : 0;
    return (uintptr_t)linked_variable(object, exports[name - names].text);
}

static const struct name *variables_name_of(const char *text)
{
    uint32_t hash = elfsym_hash(text);

    for (unsigned i = 0; i < name_count; i++)
        if (exports[i].hash == hash && strcmp(exports[i].text, text) == 0)
            return atomic_load(&names[i].is_variable) ? &names[i] : NULL;
    return NULL;
}

bool variables_stands_next(const char *name)
{
    const void *next;

    if (!atomic_load_explicit(&any_variable, memory_order_relaxed) || !variables_name_of(name)
            || linked_before_us(name))
        return false;
    next = resolve_next(name);
    return next && !linked_is_code(next);
}

/* ---- the slots ----------------------------------------------------------------------------- */

static void set_slot(const struct dl_phdr_info *info, uintptr_t slot, uintptr_t value)
{
    uintptr_t page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)(slot & ~(page_size - 1));
    /* whether the slot is in the part of the object that is read-only after binding */
    bool protects = linked_segment(info, PT_GNU_RELRO, slot) != NULL;

    if (protects && mprotect(page, page_size, PROT_READ | PROT_WRITE) != 0)
        return;
    __atomic_store_n((uintptr_t *)slot, value, __ATOMIC_RELEASE);
    if (protects)
        (void)mprotect(page, page_size, PROT_READ);
}

static bool is_zero(const char *bytes, size_t size)
{
    return size == 0 || (*bytes == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/*
 * The loader has copied nothing from kedge (unsize.c), and the variable has not been written since.
 */
static void copy_variable(const struct link_map *object, const ElfW(Rela) * relocation)
{
    char *copy = (char *)(object->l_addr + relocation->r_offset);
    size_t size = elfsym_size_of(object, relocation);
    const struct name *name = variables_name_of(elfsym_name_of(object, relocation));

    if (name && atomic_load(&name->is_next_a_variable) && is_zero(copy, size))
        memcpy(copy, (const void *)atomic_load(&name->next), size);
}

static void bind_slot(const struct dl_phdr_info *info, const struct link_map *object,
        const ElfW(Rela) * relocation)
{
    uintptr_t slot = object->l_addr + relocation->r_offset;
    uintptr_t addend = (uintptr_t)relocation->r_addend;
    uintptr_t value = __atomic_load_n((uintptr_t *)slot, __ATOMIC_RELAXED) - addend;
    const struct name *name;
    uintptr_t variable;

    if (value < lowest || value > highest)
        return;
    name = variables_name_of(elfsym_name_of(object, relocation));
    if (!name || name->ours != value)
        return;
    variable = variable_for(object, name);
    if (variable != 0)
        set_slot(info, slot, variable + addend);
}

static int bind_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct look *bind = data;
    const struct link_map *object;
    const ElfW(Rela) * relocations;
    size_t count;

    (void)size;
    if (info->dlpi_subs != bind->closes)
        bind->skip = 0;
    if (bind->objects++ < bind->skip)
        return 0;
    object = linked_record(info);
    if (!object || linked_is_us(object))
        return 0;
    count = elfsym_relocations(object, &relocations);
    for (size_t i = 0; i < count; i++) {
        const ElfW(Rela) *relocation = &relocations[i];
        unsigned type = ELF64_R_TYPE(relocation->r_info);

        if (type == R_X86_64_GLOB_DAT || type == R_X86_64_64)
            bind_slot(info, object, relocation);
        else if (type == R_X86_64_COPY)
            copy_variable(object, relocation);
    }
    return 0;
}

/* ---- when objects are bound ----------------------------------------------------------------- */

/*
 * Without a change the newest objects are bound once more if such variables exist: another thread
 * may have been loading them, so that they were listed but not yet bound at the last look.
 */
void variables_look(void)
{
    struct look look = {.objects = 0};
    struct look bind;

    if (guard_depth() > 0 || atomic_load_explicit(&is_child, memory_order_relaxed))
        return;
    (void)dl_iterate_phdr(variables_look_at, &look);
    if (!look.is_changed)
        look.skip = atomic_load(&seen_skip);
    else if (atomic_load(&any_variable))
        for (unsigned i = 0; i < name_count; i++)
            if (atomic_load(&names[i].is_variable))
                ask_what_is_next(i);
    bind = (struct look){.skip = look.skip, .closes = look.closes};
    if (atomic_load(&any_variable))
        (void)dl_iterate_phdr(bind_object, &bind);
    if (!look.is_changed)
        return;
    atomic_store(&seen_skip, look.skip);
    atomic_store(&seen_objects, look.objects);
    atomic_store(&seen_closes, look.closes);
    atomic_store(&seen_loads, look.loads);
}

void variables_fork_child(void)
{
    atomic_store(&is_child, true);
}

__attribute__((constructor)) static void variables_begin(void)
{
    const struct link_map *us = _r_debug.r_map;

    while (us && !linked_is_us(us))
        us = us->l_next;
    if (!us)
        return;
    elfsym_each_function(us, add_name);
    variables_look();
}
