/* SPDX-License-Identifier: MIT */
/*
 * elfsym.h - whether a loaded object has a symbol, asked without the loader.
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

#endif
