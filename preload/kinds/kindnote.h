/* SPDX-License-Identifier: MIT */
/*
 * kindnote.h - what a look at a framework's objects writes, and the names of parameters in it.
 *
 *     kindnote_begin ─► kindnote_new_root ─► kindnote_parameter, kindnote_tensor ─► kindnote_end
 *     kindnote_begin_part ─► kindnote_root ─► the same, by the names of the look before ─► kindnote_end
 *
 * Threads: those that hold the GIL of the main interpreter, between tensors_begin and tensors_end.
 * Memory: meta.h. Where there is no room for a name or a record, the look is marked as cut.
 */
#ifndef KEDGE_PRELOAD_KINDNOTE_H
#define KEDGE_PRELOAD_KINDNOTE_H

#include "tracker/format/format.h"

#include <stdbool.h>
#include <stdint.h>

struct pyhost_object;

enum {
    KINDNOTE_NAME = 256, /* bytes of a name; longer ones are cut */
    KINDNOTE_NESTED = 3, /* containers inside one another, of an optimizer's state or arguments */
};

/* A look at everything, which forgets all names. */
void kindnote_begin(bool reads_gradients);

/* A look at a part, which keeps the names. False: there are none, a look at everything is due. */
bool kindnote_begin_part(bool reads_gradients);

void kindnote_end(void);

/* Something was not looked at. */
void kindnote_cut(void);

/* Whose the following tensors are (kindroots.h); a new one is written with its class. */
void kindnote_root(uint32_t number);
void kindnote_new_root(uint32_t number, const char *class);

/* The storages of a tensor, as far as it has some in device memory. */
void kindnote_tensor(enum format_data kind, struct pyhost_object *tensor, const char *name);

/* A parameter, and its gradient unless gradients are not read. Its first name is remembered. */
void kindnote_parameter(struct pyhost_object *tensor, const char *name);

/* The name of a parameter of this look, and its root if `ret_root` is not NULL; NULL: it has none. */
const char *kindnote_name(struct pyhost_object *tensor, uint32_t *ret_root);

/* The same of the tensor that has this name itself (tensors_new_name). */
const char *kindnote_name_of(const char *own);

/* This tensor is a copy of the one with the name `own`: by its own name it has the same one. */
void kindnote_copy(struct pyhost_object *tensor, const char *own);

/* "outer.key"; a key that is no text is left out. */
void kindnote_join(char name[static KINDNOTE_NAME], const char *outer, struct pyhost_object *key);

#endif
