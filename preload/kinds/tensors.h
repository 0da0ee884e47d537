/* SPDX-License-Identifier: MIT */
/*
 * tensors.h - what is asked of a framework's objects: classes, members, storages, gradients.
 *
 * PyTorch's (storages.h) and PaddlePaddle's (paddlestorages.h), of one that is loaded or both.
 * Only functions of C are called: descriptors of the frameworks' and Python's own classes, past
 * properties, `__getattr__` and `__torch_function__`, of modes, too. The collector is off meanwhile,
 * so no finalizer of the program runs.
 *
 * Threads: those that hold the GIL of the main interpreter. No lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_TENSORS_H
#define KEDGE_PRELOAD_TENSORS_H

#include "preload/kinds/storages.h"

#include <stdbool.h>
#include <stdint.h>

struct pyhost_object;

/* Whether one of the frameworks is loaded and has all names that are needed. */
bool tensors_find(void);

/* The interpreter has ended. */
void tensors_forget(void);

/*
 * Around questions about tensors. False: nothing may be asked, and there is nothing to end. Dicts
 * may be asked without.
 */
bool tensors_begin(void);
void tensors_end(void);

enum tensors_class {
    TENSORS_OTHER,
    TENSORS_TENSOR,
    TENSORS_MODULE,
    TENSORS_OPTIMIZER,
    TENSORS_DICT, /* these three: of a builtin class or one derived from it */
    TENSORS_LIST,
    TENSORS_TUPLE,
};
enum tensors_class tensors_class(const struct pyhost_object *which);

const char *tensors_class_name(const struct pyhost_object *which);

enum {
    TENSORS_PARTS = 8 /* of a tensor that wraps others; further ones are not told */
};

/*
 * The storages of a tensor in device memory; of one that has no storage itself (a DTensor) those of
 * the tensors inside. Returns their number.
 */
unsigned tensors_storages(
        struct pyhost_object *tensor, struct storages_place to[static TENSORS_PARTS]);

/* NULL: there is none. No backward pass may run. */
struct pyhost_object *tensors_new_grad(struct pyhost_object *tensor);

/* The name by which PaddlePaddle's optimizers know it: a new text. NULL: it has none. */
struct pyhost_object *tensors_new_name(struct pyhost_object *tensor);

/* Whether autograd computed it. */
bool tensors_is_computed(struct pyhost_object *tensor);

/* The dict under this name in an object's own dict, borrowed; NULL: there is none. */
struct pyhost_object *tensors_own_dict(struct pyhost_object *owner, const char *name);

/* The dict of the modules in a module, borrowed; NULL: there is none. */
struct pyhost_object *tensors_children(struct pyhost_object *module);

/* Pairs of a dict. */
uint64_t tensors_count(struct pyhost_object *dict);

/* The next pair of a dict; *io_at is 0 at first. */
bool tensors_next(struct pyhost_object *dict, intptr_t *io_at, struct pyhost_object **ret_key,
        struct pyhost_object **ret_value);

/* An item of a list or tuple, borrowed; NULL behind the last one. */
struct pyhost_object *tensors_item(
        struct pyhost_object *list, enum tensors_class class, intptr_t at);

/* A text, valid as long as the object; NULL: it is none. */
const char *tensors_text(struct pyhost_object *which);

/* All objects of the program that the collector knows, as a list. */
struct pyhost_object *tensors_new_objects(void);

#endif
