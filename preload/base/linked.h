/* SPDX-License-Identifier: MIT */
/*
 * linked.h - which function of a name a loaded library is linked with, read from its own tables.
 *
 * The loader answers dlsym for libraries that were opened with dlopen. A library that was loaded as a dependency has no list to
 * search, and dlsym on its link map crashes (R97). So the list is made here as the loader would make it: the object that an
 * address lies in, the libraries it needs, those that they need, and so on (DT_NEEDED, by file name or DT_SONAME, the first
 * one loaded).
 *
 * Our own object is passed over: a library that is linked with kedge's exports means what stands behind them. Only the program's
 * own namespace is searched. An indirect function (STT_GNU_IFUNC) is not found, nor is what stands behind the first 512 objects of a
 * list: then the answer is NULL, as for a function that is not there.
 *
 * Threads: any. Takes the lock of the loader's list (dl_iterate_phdr), which is free while a constructor runs, and no lock of ours.
 * No malloc. The answer holds as long as the object that it was asked for is loaded.
 */
#ifndef KEDGE_PRELOAD_LINKED_H
#define KEDGE_PRELOAD_LINKED_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* The name of a file without its folder. */
static inline const char *linked_base(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* What is known of the object that an address lies in. */
struct linked {
    void *own;   /* the function that it has itself, or is linked with; NULL: none */
    void *users; /* the same of the libraries that need it, if it has none; NULL: none */
    bool calls;  /* it has the name among those that it wants from others: it calls no pointer */
    bool is_program;
    bool is_earlier; /* it stands before us in the global scope: another preload, which has already been asked */
};

/* The function `name` for a call from `caller`; all of it is NULL or false if that lies in no object. */
struct linked linked_for(const void *caller, const char *name);

/* The function of the first object whose file's name begins with `base`; NULL: there is none that has it. */
void *linked_in(const char *base, const char *name);

/*
 * Under the lock of the loader's list (in a callback of dl_iterate_phdr): the loader's record of an object, NULL if it is in
 * another namespace; whether it is libkedge.so; and the variable `name` of the object itself or of what it is linked with, NULL if
 * a function or nothing comes first.
 */
const struct link_map *linked_record(const struct dl_phdr_info *info);
bool linked_is_us(const struct link_map *object);
void *linked_variable(const struct link_map *object, const char *name);

/* The object's segment of that type (PT_...) that an address lies in; NULL: none. */
const Elf64_Phdr *linked_segment(const struct dl_phdr_info *info, unsigned type, uintptr_t at);

/* The path of the object that has the name and stands before us in the global scope, "" = the program; NULL: there is none. */
const char *linked_before_us(const char *name);

/* Whether there is code at an address. */
bool linked_is_code(const void *address);

/* Whether the object that an address lies in has a file name that begins with `base`. */
bool linked_is_in(const void *address, const char *base);

#endif
