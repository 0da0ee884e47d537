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

#include <stdbool.h>

struct link_map;

/* False only if it certainly has no such symbol: an object without a GNU hash table may have any. */
bool elfsym_may_have(const struct link_map *object, const char *name);

/*
 * Where this function of the object is that others may call by name, in its default version. NULL: there is none, or only the
 * loader can tell (an indirect function, or no hash table at all).
 */
void *elfsym_function(const struct link_map *object, const char *name);

/* The name that the object goes by for others (DT_SONAME), and the `which`-th library that it needs (DT_NEEDED); NULL: none. */
const char *elfsym_soname(const struct link_map *object);
const char *elfsym_needed(const struct link_map *object, unsigned which);

/* Whether the object wants this symbol from others; false for an object without a GNU hash table. */
bool elfsym_wants(const struct link_map *object, const char *name);

/* Tells each symbol that the object wants from others; nothing of an object without a GNU hash table. */
void elfsym_each_wanted(const struct link_map *object, void (*tell)(const char *name));

#endif
