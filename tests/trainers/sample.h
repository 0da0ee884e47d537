/* SPDX-License-Identifier: MIT */
/*
 * sample.h - which words of a tensor the kernels touch.
 *
 * Tensors have their real sizes, but a test device keeps them in host memory and backs a page when it is touched.
 * So the kernels of the trainers work on a sample: enough to notice a wrong tenant at either end or in the middle
 * of a block, little enough that 24 GB of tensors fit in 2 GiB.
 *
 *     | 4 KiB |........ 2 MiB | 4 KiB |........ 4 MiB | 4 KiB |...... | last 4 KiB |
 *
 * A tensor of up to 8 KiB is touched whole. A larger one: the first 4 KiB of each step of 2 MiB and the 4 KiB that
 * end at its last whole word. A word that lies in two of these pages belongs to the earlier one and counts once.
 * Words are 32 bits; bytes after the last whole word are not touched.
 *
 * Items number the sample: sample_word(bytes, i) for i below sample_items(bytes) gives each sampled word once, or
 * SAMPLE_NONE for an item that falls outside of the tensor or onto an earlier page. The PTX of kernels.ptx.h walks
 * the same items, one per thread. Pure arithmetic, any thread.
 */
#ifndef KEDGE_TRAINERS_SAMPLE_H
#define KEDGE_TRAINERS_SAMPLE_H

#include <stdint.h>

enum {
    SAMPLE_WHOLE = 8192,        /* bytes: up to here every word */
    SAMPLE_PAGE_WORDS = 1024,   /* 4 KiB */
    SAMPLE_STEP_WORDS = 524288, /* 2 MiB */
};

#define SAMPLE_NONE UINT64_MAX

static inline uint64_t sample_steps(uint64_t bytes)
{
    return (bytes + (uint64_t)SAMPLE_STEP_WORDS * 4 - 1) / ((uint64_t)SAMPLE_STEP_WORDS * 4);
}

static inline uint64_t sample_items(uint64_t bytes)
{
    if (bytes <= SAMPLE_WHOLE)
        return bytes / 4;
    return (sample_steps(bytes) + 1) * SAMPLE_PAGE_WORDS;
}

static inline uint64_t sample_word(uint64_t bytes, uint64_t item)
{
    uint64_t step = item / SAMPLE_PAGE_WORDS;
    uint64_t column = item % SAMPLE_PAGE_WORDS;
    uint64_t steps = sample_steps(bytes);
    uint64_t word;

    if (bytes <= SAMPLE_WHOLE)
        return item;
    if (step < steps) {
        word = step * SAMPLE_STEP_WORDS + column;
        return word < bytes / 4 ? word : SAMPLE_NONE;
    }
    word = (bytes - SAMPLE_PAGE_WORDS * 4) / 4 + column;
    /* below the last step's page the difference is huge */
    return word - (steps - 1) * SAMPLE_STEP_WORDS >= SAMPLE_PAGE_WORDS ? word : SAMPLE_NONE;
}

#endif
