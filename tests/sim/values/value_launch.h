/* SPDX-License-Identifier: MIT */
/*
 * value_launch.h - a launch as the bodies see it: its name and parameters, guarded memory, results kept aside.
 *
 *     value_load ─► computes ─► value_store          value_fail: from here on nothing is read and nothing will be written
 *
 * A body reads what was there before the kernel, whatever it has stored. It returns false, or calls value_fail, where it
 * cannot go on; the caller commits or drops. Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_VALUE_LAUNCH_H
#define KEDGE_TESTS_SIM_VALUE_LAUNCH_H

#include "tests/sim/kernel/sim_kernels.h"
#include "tests/sim/values/value_type.h"

/* Memory that was found good, so that the next element costs nothing. */
struct value_window {
    uint64_t addr, end;
};

#define VALUE_WINDOWS 8

struct value_stored {
    uint64_t addr;
    unsigned char bytes[16];
    uint8_t size;
    uint8_t add; /* the type, if it is added to what is there; 0: it takes its place */
};

struct value_launch {
    const struct sim_kernel *kernel;
    struct text name;   /* demangled */
    struct text params; /* types */
    const char *bytes;  /* of the parameters */
    struct sim_grid grid;
    int device;
    bool has_failed;
    bool has_digest; /* among what was read */
    uint64_t left;   /* elements that may still be read or written */
    struct value_window read[VALUE_WINDOWS], write[VALUE_WINDOWS];
    unsigned next_read, next_write;
    struct value_stored *stored;
    size_t stored_count, stored_room;
};

/* Writes what was stored, unless the launch has failed. True: it is written. */
bool sim_values_end(struct value_launch *l);

/* ---- parameters; zeros where the kernel has fewer, or smaller ones, and then the launch has failed ---- */

const char *value_param(struct value_launch *l, unsigned param, uint32_t offset, uint32_t size);
uint64_t value_param_u64(struct value_launch *l, unsigned param, uint32_t offset);
int64_t value_param_i64(struct value_launch *l, unsigned param);
int32_t value_param_i32(struct value_launch *l, unsigned param, uint32_t offset);
uint32_t value_param_size(const struct value_launch *l, unsigned param);
struct text value_param_type(const struct value_launch *l, unsigned param);

/* ---- memory ---- */

void value_fail(struct value_launch *l);

/*
 * False, and it has failed: as many elements as the product of these numbers are more than are left. Asked before the work
 * begins, of numbers that may be anything.
 */
#define value_affords(l, ...)                                 \
    value_affords_product(l, (const uint64_t[]){__VA_ARGS__}, \
            sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))
bool value_affords_product(struct value_launch *l, const uint64_t *factors, size_t count);

/* 1 to 16 bytes. Zeros where nobody wrote. */
void value_get(struct value_launch *l, uint64_t addr, uint32_t size, void *ret_bytes);
void value_put(struct value_launch *l, uint64_t addr, uint32_t size, const void *bytes);

struct value value_load(struct value_launch *l, uint64_t addr, enum value_type type);
void value_store(struct value_launch *l, uint64_t addr, enum value_type type, struct value value);

/* Adds to what is there when the kernel is over, in the order of the calls: an atomic addition. */
void value_add(struct value_launch *l, uint64_t addr, enum value_type type, struct value value);

/* ---- offsets of elements: PyTorch's OffsetCalculator and TensorInfo ---- */

#define VALUE_DIMS    25
#define VALUE_TENSORS 8

struct value_strides {
    unsigned dims, tensors;
    uint64_t size[VALUE_DIMS];
    int64_t stride[VALUE_DIMS][VALUE_TENSORS];
};

/* Reads a calculator for so many tensors at `offset` of a parameter. False: it is none. */
bool value_calculator(struct value_launch *l, unsigned param, uint32_t offset, unsigned tensors,
        bool is_signed, struct value_strides *ret_strides);
#define VALUE_CALCULATOR_SIZE(tensors) (304 + 100 * (tensors))

/* The offset of each tensor's element, in the unit of the strides. */
void value_offsets(const struct value_strides *s, uint64_t index, int64_t *ret_offsets);

/* TensorInfo<T, I>: strides are in elements; the last dimension runs fastest. */
struct value_tensor {
    uint64_t addr;
    enum value_type type; /* VALUE_NONE: of a type that the name does not say */
    uint32_t unit;        /* bytes of an element */
    unsigned dims;
    int64_t size[VALUE_DIMS], stride[VALUE_DIMS];
};

bool value_tensor(struct value_launch *l, unsigned param, struct value_tensor *ret_tensor);
uint64_t value_tensor_count(const struct value_tensor *t);
uint64_t value_tensor_at(const struct value_tensor *t, uint64_t index);

/* ---- bodies ---- */

typedef bool value_body(struct value_launch *l);

#define BODY(name, body) value_body value_body_##body;
#include "tests/sim/values/values.def"

#endif
