/* SPDX-License-Identifier: MIT */
/*
 * linked.h - the function of a name that a loaded library is linked with, read from its own tables.
 *
 * The loader answers dlsym for libraries that were opened with dlopen. A library that was loaded as
 * a dependency has no list to search, and dlsym on its link map crashes (R97, no raw link maps). So
 * this module makes the list as the loader would: the object that contains an address, the
 * libraries it needs, the libraries those need, and so on (DT_NEEDED, by file name or DT_SONAME,
 * the first one loaded).
 *
 * libkedge.so is skipped: a library that is linked with kedge's exports means the functions behind
 * them. Only the program's own namespace is searched. An indirect function (STT_GNU_IFUNC) and
 * objects after the first 512 of a list are not found: the answer is NULL, as for a function that
 * does not exist.
 *
 * Threads: any. Takes the lock of the loader's list (dl_iterate_phdr), which is free while a
 * constructor runs, and no lock of ours. No malloc. The answer holds as long as the object that it
 * was asked for is loaded.
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

/* Facts about the object that contains an address. */
struct linked {
    void *own; /* the function that the object has itself or is linked with; NULL: none */
    /* the function of the libraries that need the object, if `own` is NULL; NULL: none */
    void *users;
    /*
     * the object needs the name from others, so it calls the function by name and not through a
     * pointer
     */
    bool calls;
    bool is_program;
    /* the object is before kedge in the global scope: another preload, which was asked already */
    bool is_earlier;
};

/*
 * The function `name` for a call from `caller`; all NULL or false if no object contains that
 * address.
 */
struct linked linked_for(const void *caller, const char *name);

/*
 * The function in the first object that has it and whose file name begins with `base`; NULL: none.
 */
void *linked_in(const char *base, const char *name);

/*
 * Three questions under the lock of the loader's list (in a callback of dl_iterate_phdr): the
 * loader's record of an object, NULL if the object is in another namespace; whether it is
 * libkedge.so; and the variable `name` of the object or of the libraries it is linked with, NULL if
 * a function of that name comes first or the name does not exist.
 */
const struct link_map *linked_record(const struct dl_phdr_info *info);
bool linked_is_us(const struct link_map *object);
void *linked_variable(const struct link_map *object, const char *name);

/* The object's segment of that type (PT_...) that contains an address; NULL: none. */
const Elf64_Phdr *linked_segment(const struct dl_phdr_info *info, unsigned type, uintptr_t at);

/*
 * The path of the object that has the name and is before kedge in the global scope, "" = the
 * program; NULL: none.
 */
const char *linked_before_us(const char *name);

/* Whether there is code at an address. */
bool linked_is_code(const void *address);

/* Whether the object that contains an address has a file name that begins with `base`. */
bool linked_is_in(const void *address, const char *base);

#endif
