/* SPDX-License-Identifier: MIT */
/*
 * pytoken.h - whether the module or optimizer at an address is still the same, without keeping it.
 *
 * Its token is what only it has and what keeps nothing alive: a module's set of names of
 * non-persistent buffers, the name of a PyTorch optimizer's profile, the list of names of a
 * PaddlePaddle optimizer's state. As long as we keep a token, no other
 * object gets it. What had it has ended once all references to it are ours.
 *
 * Threads: those that hold the GIL of the main interpreter. Memory: meta.h.
 */
#ifndef KEDGE_PRELOAD_PYTOKEN_H
#define KEDGE_PRELOAD_PYTOKEN_H

#include <stdbool.h>

struct pyhost_object;

/* A reference to the token; NULL: it has none. */
struct pyhost_object *pytoken_keep(struct pyhost_object *of);
void pytoken_drop(struct pyhost_object *token); /* NULL: no effect */

/* Whether this is the token of an object, NULL: it has none. */
bool pytoken_is_of(const struct pyhost_object *token, struct pyhost_object *of);

/* Whether what had a kept token has ended. */
bool pytoken_has_ended(const struct pyhost_object *token);

/* The interpreter has ended. */
void pytoken_forget(void);

#endif
