/* SPDX-License-Identifier: MIT */
/*
 * sim_image.h - what a program hands the driver as device code: which kernels are in it, with which parameters.
 *
 *     PTX text ────────────────────────────────┐
 *     cubin (ELF) ─────────────────────────────┼─► entries: a name, parameters with offset and size
 *     fat binary ─► an entry for this device ──┤
 *     nvcc's wrapper ─► its fat binary, later ─┘
 *
 * No code is looked at. A cubin says of each kernel's parameters where they lie (.nv.info.<kernel>), PTX declares them.
 * Of a fat binary the code for this device counts, as with the driver; where there is none, PTX, then any other code:
 * a test device runs none of it. Compressed entries are LZ4 (CUDA 12 and before) or zstd (13).
 *
 * nvcc's wrapper lies in the program's own data, so its fat binary is read when the first kernel is asked for: a
 * framework registers hundreds of them and uses a few. Everything else is read at once, because the caller may free it.
 * A fat binary behind a wrapper that cannot be read has whatever name is asked for, with parameters unknown.
 *
 * Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_IMAGE_H
#define KEDGE_TESTS_SIM_SIM_IMAGE_H

#include "tests/sim/kernel/sim_kernels.h"

struct sim_image;

/* Returns 0 or a CUresult. The image is closed by sim_image_close; its kernels live on. */
int sim_image_open(const void *data, struct sim_image **ret_image);
void sim_image_close(struct sim_image *image);

/* NULL: it has none of that name. */
const struct sim_kernel *sim_image_kernel(struct sim_image *image, const char *name);

/* The kernels one by one, in the order of the binary. */
unsigned sim_image_count(struct sim_image *image);
const struct sim_kernel *sim_image_at(struct sim_image *image, unsigned index);

/* ---- for the readers of the forms ---- */

/* Adds a kernel; `name` need not end in NUL. The parameters are copied. */
void sim_image_add(struct sim_image *image, const char *name, size_t length,
        const struct sim_param *params, unsigned count);

/* sim_ptx.c: a text that ends in NUL. False: it is no PTX. */
bool sim_ptx_read(struct sim_image *image, const char *text);

/* sim_cubin.c: an ELF file for the device. `size`: what is there at most, SIZE_MAX if nobody knows. */
bool sim_cubin_read(struct sim_image *image, const unsigned char *data, size_t size);

/* sim_fatbin.c: whether the words begin a fat binary or nvcc's wrapper of one, and reading of the first. */
bool sim_fatbin_is(const void *data);
bool sim_fatbin_is_wrapper(const void *data);
const void *sim_fatbin_unwrap(const void *wrapper);
bool sim_fatbin_read(struct sim_image *image, const void *data);

#endif
