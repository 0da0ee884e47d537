/* SPDX-License-Identifier: MIT */
/*
 * elfsym.h - which symbols and libraries a loaded object has and wants, asked without the loader.
 *
 * A dlsym that finds nothing makes a message for dlerror, which it gets from malloc. kedge looks for every entry of every
 * driver version, and must not allocate in a process that has switched it off (R43).
 *
 * Reads the object's own tables. Any thread, no lock, no memory. The object must stay loaded meanwhile.
 */
#ifndef KEDGE_PRELOAD_ELFSYM_H
#define KEDGE_PRELOAD_ELFSYM_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False only if it certainly has no such symbol: an object without a GNU hash table may have any. */
bool elfsym_may_have(const struct link_map *object, const char *name);

/*
 * Where this function of the object is that others may call by name, in its default version. NULL: there is none, or only the
 * loader can tell (an indirect function, or no hash table at all). Not a variable of that name.
 */
void *elfsym_function(const struct link_map *object, const char *name);

/* What the GNU table is searched with. */
struct elfsym_name {
    const char *text;
    uint32_t hash; /* of it */
};

uint32_t elfsym_hash(const char *name);

/* Whether others find that symbol in the object; where the variable is, NULL if it is no variable. */
bool elfsym_has(const struct link_map *object, const struct elfsym_name *name, void **ret_variable);

/* Tells each of `count` names that is a variable of the object. */
void elfsym_each_variable(const struct link_map *object, const struct elfsym_name *names,
        unsigned count, void (*tell)(unsigned which));

/* Tells each function of the object that others may call by name; none without a GNU hash table. */
void elfsym_each_function(
        const struct link_map *object, void (*tell)(const char *name, const void *function));

/* How the object was bound, calls aside (DT_RELA); which symbol a row of it names, and how large that is. */
size_t elfsym_relocations(const struct link_map *object, const ElfW(Rela) * *ret_first);
const char *elfsym_name_of(const struct link_map *object, const ElfW(Rela) * relocation);
size_t elfsym_size_of(const struct link_map *object, const ElfW(Rela) * relocation);

/* The name that the object goes by for others (DT_SONAME), and the `which`-th library that it needs (DT_NEEDED); NULL: none. */
const char *elfsym_soname(const struct link_map *object);
const char *elfsym_needed(const struct link_map *object, unsigned which);

/* Whether the object wants this symbol from others; false for an object without a GNU hash table. */
bool elfsym_wants(const struct link_map *object, const char *name);

/* Tells each symbol that the object wants from others; nothing of an object without a GNU hash table. */
void elfsym_each_wanted(const struct link_map *object, void (*tell)(const char *name));

#endif
