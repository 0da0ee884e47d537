/* SPDX-License-Identifier: MIT */
/*
 * modules.h - which loaded object an address lies in.
 *
 * A sorted map of address ranges, rebuilt from dl_iterate_phdr when an unknown address turns up and the loader says that
 * something was loaded or unloaded since. A new map replaces the old one in one store; old maps stay readable, since
 * another thread may be looking. The interned modules (intern.h) are never changed.
 *
 * The build-id is read from the object's notes in memory, not from the file: it is what runs. An object without one is known by
 * its path and a fingerprint (fingerprint.h), taken once for each time that the object is loaded.
 *
 * Threads: any. Asks the loader (its lock) with no lock of ours held; never in a signal handler. No malloc.
 */
#ifndef KEDGE_TRACKER_MODULES_H
#define KEDGE_TRACKER_MODULES_H

#include "tracker/stacks/intern.h"

#include <stdbool.h>
#include <stdint.h>

/* Notes what is loaded now. `self` = an address inside libkedge.so, NULL = none is ours. 0 or -ENOMEM. */
int modules_init(const void *self);

/* The interned module of an address, 0 = none. */
uint32_t modules_at(uintptr_t address);

/* Reads the loader's list again, whether or not it says that it changed. */
void modules_reload(void);

/* Rises with every map that differs from the one before; memos of another generation are stale. */
uint32_t modules_generation(void);

/* A walk went through this module. Any thread, a store at most. */
void modules_walked(uint32_t module);

/*
 * How often a module took the addresses of another one that walks had gone through: what is remembered by address is
 * wrong then. Counted when the loader's list is read.
 */
uint32_t modules_replaced(void);

/* Has a module gone that walks went through? Never false again. One load. */
bool modules_has_gone(void);

/* Something was loaded: reads the list if it says that it changed. */
void modules_came(void);

/* Modules without a build-id seen so far. */
uint32_t modules_without_build_id(void);

/* The main executable, NULL before modules_init. */
const struct intern_module *modules_main(void);

/* What a file name says about an object: "libcuda.so.1" is INTERN_MODULE_CUDA. */
enum intern_module_kind modules_kind_of(const char *path);

void modules_fork_child(void);

#endif
