/* SPDX-License-Identifier: MIT */
/*
 * kindroots.h - where a look at a framework's objects begins: its models and its optimizers.
 *
 * A *root* is an optimizer, or a module with members that no other live module has. Roots are found
 * among all objects that the collector knows, which takes 10 to 30 ns for each of them. No reference
 * to them is kept: they are valid until the program goes on. Each has a number; one at the place of
 * one of its class that has ended gets its number.
 *
 * Threads: those that hold the GIL of the main interpreter. Memory: meta.h.
 */
#ifndef KEDGE_PRELOAD_KINDROOTS_H
#define KEDGE_PRELOAD_KINDROOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pyhost_object;

struct kindroot {
    struct pyhost_object *is;
    uint32_t number; /* from 1 */
};

/* Finds the roots of now, between tensors_begin and tensors_end. False: not all are found. */
bool kindroots_search(void);

/* The same, outside of these. `really` false: there are none, a search would take too long. */
void kindroots_look(bool really);

/* The roots of the last search; NULL is before the first one and behind the last one. */
const struct kindroot *kindroots_next(const struct kindroot *before);

/* The number of an optimizer or module that a search has met as a root; 0: none has. */
uint32_t kindroots_number(const struct pyhost_object *is);

/*
 * Right after a search: the first root that has a module, which gets its dotted name in `name`, of
 * `size` bytes. NULL: it is in no root, or is one.
 */
struct pyhost_object *kindroots_whole(struct pyhost_object *module, char *name, size_t size);

/* Whether a module has parameters, buffers or modules: else it needs no search. */
bool kindroots_has_members(struct pyhost_object *module);

/* The interpreter has ended. */
void kindroots_forget(void);

#endif
