/* SPDX-License-Identifier: MIT */
/*
 * elfsym.h - symbols and libraries that a loaded object defines and needs, read without the loader.
 *
 * A dlsym that finds nothing makes a message for dlerror, which it gets from malloc. kedge looks
 * for every entry of every driver version, and must not allocate in a process that has switched it
 * off (R43, switched off).
 *
 * Reads the object's own tables. Any thread, no lock, no memory. The object must stay loaded
 * meanwhile.
 */
#ifndef KEDGE_PRELOAD_ELFSYM_H
#define KEDGE_PRELOAD_ELFSYM_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * False only if it certainly has no such symbol: an object without a GNU hash table may have any.
 */
bool elfsym_may_have(const struct link_map *object, const char *name);

/*
 * The address of a function that the object exports under this name, in its default version. NULL:
 * it exports none, or only the loader can resolve it (an indirect function, or no hash table at
 * all). Never a variable of that name.
 */
void *elfsym_function(const struct link_map *object, const char *name);

/* A name with its hash, to search the GNU table. */
struct elfsym_name {
    const char *text;
    uint32_t hash; /* of `text` */
};

uint32_t elfsym_hash(const char *name);

/*
 * Whether the object exports that symbol. *ret_variable: the variable's address, NULL if the symbol
 * is no variable.
 */
bool elfsym_has(const struct link_map *object, const struct elfsym_name *name, void **ret_variable);

/* Calls `tell` for each of `count` names that is a variable of the object. */
void elfsym_each_variable(const struct link_map *object, const struct elfsym_name *names,
        unsigned count, void (*tell)(unsigned which));

/* Calls `tell` for each function that the object exports; none without a GNU hash table. */
void elfsym_each_function(
        const struct link_map *object, void (*tell)(const char *name, const void *function));

/*
 * The object's relocations but those for calls (DT_RELA): their number. Below: the symbol that one
 * names, and its size.
 */
size_t elfsym_relocations(const struct link_map *object, const ElfW(Rela) * *ret_first);
const char *elfsym_name_of(const struct link_map *object, const ElfW(Rela) * relocation);
size_t elfsym_size_of(const struct link_map *object, const ElfW(Rela) * relocation);

/*
 * The name that the object goes by for others (DT_SONAME), and the `which`-th library that it needs
 * (DT_NEEDED); NULL: none.
 */
const char *elfsym_soname(const struct link_map *object);
const char *elfsym_needed(const struct link_map *object, unsigned which);

/* Whether the object needs this symbol from other objects; false without a GNU hash table. */
bool elfsym_wants(const struct link_map *object, const char *name);

/*
 * Calls `tell` for each symbol that the object needs from other objects; none without a GNU hash
 * table.
 */
void elfsym_each_wanted(const struct link_map *object, void (*tell)(const char *name));

#endif
