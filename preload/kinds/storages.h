/* SPDX-License-Identifier: MIT */
/*
 * storages.h - the memory behind a PyTorch tensor.
 *
 * PyTorch keeps the object of Python's that it makes of a storage when a tensor is asked for it, as long
 * as the storage is there. So the address is asked of torch._C._data_address, and the size of a function
 * that PyTorch has for compiled models (libtorch_cpu.so). Where one of them is missing, the tensor is
 * asked for its storage.
 *
 * Threads: those that hold the GIL of the main interpreter, with `__torch_function__` off. No lock of
 * ours, no malloc of ours.
 */
#ifndef KEDGE_PRELOAD_STORAGES_H
#define KEDGE_PRELOAD_STORAGES_H

#include <stdbool.h>
#include <stdint.h>

struct pyhost_object;

/* Whether PyTorch is loaded and has the names that are needed. */
bool storages_find(void);

/* Of a whole storage, wherever in it the tensor begins. */
struct storages_place {
    uint64_t address, size;
};

/* False: the tensor has no storage, or one without memory. */
bool storages_ask(struct pyhost_object *tensor, struct storages_place *ret);

/*
 * Adds `place_of` to a dict: (address, bytes) of the storage of a tensor on a device, or None. It is
 * None itself where the tensor would have to be asked for its storage. False: it could not be added.
 */
bool storages_add(struct pyhost_object *space);

#endif
