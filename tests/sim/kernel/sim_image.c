/* SPDX-License-Identifier: MIT */
#include "tests/sim/kernel/sim_image.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    char *name;
    struct sim_param *params;
    unsigned params_count;
    const struct sim_kernel *kernel; /* NULL: not asked for yet */
};

struct sim_image {
    struct entry *entries;
    unsigned count;
    const void *wrapper; /* not read yet; NULL: nothing is left to read */
    bool has_any_name;   /* it could not be read */
};

void sim_image_add(struct sim_image *image, const char *name, size_t length,
        const struct sim_param *params, unsigned count)
{
    struct entry *entry;

    if (!sim_config.any_kernel && !sim_kernels_find(name, length))
        return;
    /* The room doubles: at each power of 2 it is full. */
    if ((image->count & (image->count - 1)) == 0)
        image->entries = sim_grow(
                image->entries, (image->count ? image->count * 2 : 1) * sizeof(struct entry));
    entry = &image->entries[image->count++];
    *entry = (struct entry){.name = sim_new(length + 1), .params_count = count};
    memcpy(entry->name, name, length);
    if (count) {
        entry->params = sim_new(count * sizeof(*params));
        memcpy(entry->params, params, count * sizeof(*params));
    }
}

/* ---- opening ---- */

static bool is_text(const void *data)
{
    for (const unsigned char *c = data; c < (const unsigned char *)data + 4; c++)
        if (*c != '\n' && *c != '\t' && *c != '\r' && (*c < ' ' || *c > '~'))
            return false;
    return true;
}

static int read_data(struct sim_image *image, const void *data)
{
    if (memcmp(data, "\177ELF", 4) == 0)
        return sim_cubin_read(image, data, SIZE_MAX) ? 0 : CUDA_ERROR_INVALID_IMAGE;
    if (sim_fatbin_is(data))
        return sim_fatbin_read(image, data) ? 0 : CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (!is_text(data))
        return CUDA_ERROR_INVALID_IMAGE;
    return sim_ptx_read(image, data) ? 0 : CUDA_ERROR_INVALID_PTX;
}

int sim_image_open(const void *data, struct sim_image **ret_image)
{
    struct sim_image *image;
    int r = 0;

    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    image = sim_new(sizeof(*image));
    if (sim_fatbin_is_wrapper(data))
        image->wrapper = data;
    else
        r = read_data(image, data);
    if (r) {
        sim_image_close(image);
        return r;
    }
    *ret_image = image;
    return 0;
}

void sim_image_close(struct sim_image *image)
{
    for (unsigned i = 0; i < image->count; i++) {
        free(image->entries[i].name);
        free(image->entries[i].params);
    }
    free(image->entries);
    free(image);
}

/* ---- questions ---- */

static void read_wrapper(struct sim_image *image)
{
    const void *data = image->wrapper ? sim_fatbin_unwrap(image->wrapper) : NULL;

    if (image->wrapper && !(data && sim_fatbin_read(image, data)))
        image->has_any_name = sim_config.any_kernel;
    image->wrapper = NULL;
}

static const struct sim_kernel *kernel_of(struct entry *entry)
{
    if (!entry->kernel)
        entry->kernel = sim_kernels_find(entry->name, strlen(entry->name));
    if (!entry->kernel)
        entry->kernel = sim_other_kernel(entry->name, entry->params, entry->params_count, true);
    return entry->kernel;
}

const struct sim_kernel *sim_image_kernel(struct sim_image *image, const char *name)
{
    read_wrapper(image);
    for (unsigned i = 0; i < image->count; i++)
        if (strcmp(image->entries[i].name, name) == 0)
            return kernel_of(&image->entries[i]);
    return image->has_any_name ? sim_other_kernel(name, NULL, 0, false) : NULL;
}

unsigned sim_image_count(struct sim_image *image)
{
    read_wrapper(image);
    return image->count;
}

const struct sim_kernel *sim_image_at(struct sim_image *image, unsigned index)
{
    return kernel_of(&image->entries[index]);
}
