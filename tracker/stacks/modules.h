/* SPDX-License-Identifier: MIT */
/*
 * modules.h - from an address to its loaded object.
 *
 * A sorted map of address ranges, rebuilt from dl_iterate_phdr when an unknown address appears and
 * the loader's counters show that something was loaded or unloaded since. A new map replaces the
 * old one in one store; old maps stay readable, since another thread may be searching them. The
 * interned modules (intern.h) are never changed.
 *
 * The build-id is read from the object's notes in memory, not from the file: the memory is what
 * runs. An object without one is identified by its path and a fingerprint (fingerprint.h), taken
 * once for each load of the object.
 *
 * Threads: any. Calls the loader (its lock) with no kedge lock held; never in a signal handler. No
 * malloc.
 */
#ifndef KEDGE_TRACKER_MODULES_H
#define KEDGE_TRACKER_MODULES_H

#include "tracker/stacks/intern.h"

#include <stdbool.h>
#include <stdint.h>

/* Records the modules loaded now. `self` = an address inside libkedge.so, NULL = none. 0 or
 * -ENOMEM. */
int modules_init(const void *self);

/* The interned module of an address, 0 = none. */
uint32_t modules_at(uintptr_t address);

/* Reads the loader's list again, even if its counters are unchanged. */
void modules_reload(void);

/* Rises with every map that differs from the one before; cached results of another generation are
 * stale. */
uint32_t modules_generation(void);

/* A walk went through this module. Any thread; at most one store. */
void modules_walked(uint32_t module);

/* How often a module was loaded at addresses of an unloaded one that walks had gone through: data
 * cached by address is then wrong. Counted when the loader's list is read. */
uint32_t modules_replaced(void);

/* Was a module unloaded that walks went through? Stays true. One load. */
bool modules_has_gone(void);

/* Something was loaded: reads the list if the loader's counters changed. */
void modules_came(void);

/* Number of modules without a build-id so far. */
uint32_t modules_without_build_id(void);

/* The main executable, NULL before modules_init. */
const struct intern_module *modules_main(void);

/* The kind of an object by its file name: "libcuda.so.1" is INTERN_MODULE_CUDA. */
enum intern_module_kind modules_kind_of(const char *path);

void modules_fork_child(void);

#endif
