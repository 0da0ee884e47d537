/* SPDX-License-Identifier: MIT */
/*
 * common.h - what the stand-ins share.
 *
 * A stand-in has the soname and the function names of a library that carries NVIDIA's own runtime
 * and so cannot run on the simulated device. Small matrix products are computed, nothing else is. It touches memory as the library
 * would: what a function reads is read and what it writes is written, with their extents, by a
 * kernel of the simulated device on the caller's stream. So streams, fences and the witness see a
 * real use, and what is written depends on what was read.
 *
 * names/ lists what published wheels ask for; for a name without a body refused.c has a function that
 * refuses.
 */
#ifndef KEDGE_TESTS_SIM_STANDINS_COMMON_H
#define KEDGE_TESTS_SIM_STANDINS_COMMON_H

#include "../values/value_product.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Before each function that the library offers. Names and types are the library's own. */
#define EXPORT __attribute__((visibility("default")))

/* A function that the library offers and that returns a status: its declaration and the head of its body. */
#define BODY(name, ...)           \
    EXPORT int name(__VA_ARGS__); \
    EXPORT int name(__VA_ARGS__)

/* Once in each library: the status that a function without a body returns. */
#define REFUSED_IS(status)                          \
    long standin_refused(const char *name);         \
    long standin_refused(const char *name)          \
    {                                               \
        standin_note(name, "has no body; refused"); \
        return (status);                            \
    }

/* A function that succeeds and does nothing, whatever its arguments. */
#define NOTHING(name)      \
    EXPORT int name(void); \
    EXPORT int name(void)  \
    {                      \
        return 0;          \
    }

/* Memory of the device that a function reads. */
struct operand {
    const void *at;
    uint64_t bytes;
};

/* Says something about a function of this library on stderr, each text of a name once. */
void standin_note(const char *name, const char *what);

/* Makes ready what a launch needs in the calling thread's context, so that none is late (in a capture). */
void standin_begin(void);

/*
 * Writes `bytes` at `out` on `stream`: a digest of `seed` and of what the `count` operands hold.
 * Operands of no bytes are left out. With `adds`, what `out` holds is read as well. Returns 0, or
 * the driver's error.
 */
int standin_compute(void *stream, uint64_t seed, void *out, uint64_t bytes, bool adds,
        const struct operand *operands, unsigned count);

/*
 * Writes each of `outs` from what all of `reads` hold: a call of the library with several results.
 * A matrix that is changed in place stands in both lists. Returns 0, or the driver's error.
 */
int standin_write(void *stream, const char *name, const struct operand *outs, unsigned out_count,
        const struct operand *reads, unsigned read_count);

/* Operands and their number, written where a call stands. */
#define LIST(...)                          \
    (const struct operand[]){__VA_ARGS__}, \
            sizeof((const struct operand[]){__VA_ARGS__}) / sizeof(struct operand)

/* Sets `count` integers at `at` on `stream`: states of 0, pivots of 1. Returns 0, or the driver's error. */
int standin_set(void *stream, int *at, int value, uint64_t count);

/* Memory of the device that the library allocates for itself; NULL when there is none. */
void *standin_device_new(size_t bytes);
void standin_device_delete(void *at);

/* Whether a product is small enough to be computed, and computes it on `stream`. Returns 0, or the driver's error. */
bool standin_multiplies(const struct value_product *product);
int standin_product(void *stream, struct value_product *product);

/* Copies within the device on `stream`. Returns 0, or the driver's error. */
int standin_copy(void *stream, void *to, const void *from, uint64_t bytes);

/* A seed of a name and of numbers that say what is computed. */
uint64_t standin_seed(const char *name, const int64_t *numbers, unsigned count);

/* Bytes from the first to behind the last element of `columns` columns of `rows` elements. */
uint64_t standin_extent(int64_t rows, int64_t columns, int64_t leading, uint64_t element);

/* New zeroed memory for a handle; NULL when there is none. */
void *standin_new(size_t bytes);

#endif
