/* SPDX-License-Identifier: MIT */
/*
 * paddlestorages.h - the memory behind a PaddlePaddle tensor, its gradient and its name.
 *
 * Descriptors of PaddlePaddle's class in C++ are called (`data_ptr`, `shape`, `element_size`,
 * `place`, `grad`, `name`), which neither wait nor call. A tensor does not say how large the memory
 * is that it lies in, so of tensors that share memory each has its own part alone.
 *
 * Threads: those that hold the GIL of the main interpreter. No lock of ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_PADDLESTORAGES_H
#define KEDGE_PRELOAD_PADDLESTORAGES_H

#include "preload/kinds/storages.h"

/* Whether PaddlePaddle is loaded and has the names that are needed. */
bool paddlestorages_find(void);

/* The tensor's address and size in bytes. False: it is not in device memory, or has none. */
bool paddlestorages_ask(struct pyhost_object *tensor, struct storages_place *ret);

/* NULL: there is none. No backward pass may run. */
struct pyhost_object *paddlestorages_new_grad(struct pyhost_object *tensor);

/* "linear_0.w_0", by which an optimizer knows its parameters: a new text. NULL: it has none. */
struct pyhost_object *paddlestorages_new_name(struct pyhost_object *tensor);

/* Whether an operation computed it, of which gradients are wanted. */
bool paddlestorages_is_computed(struct pyhost_object *tensor);

#endif
