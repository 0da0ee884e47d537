/* SPDX-License-Identifier: MIT */
#include "tests/trainers/kernels_host.h"

#include "tests/trainers/sample.h"

#include <string.h>
#include <sys/mman.h>

void *host_tensor_new(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
            -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, bytes, MADV_NOHUGEPAGE); /* a huge page would back 2 MiB for 4 KiB */
    return p;
}

void host_tensor_free(void *tensor, size_t bytes)
{
    if (tensor)
        (void)munmap(tensor, bytes);
}

static uint32_t word_get(const void *base, uint64_t word)
{
    uint32_t v;

    memcpy(&v, (const char *)base + word * 4, sizeof(v));
    return v;
}

static void word_set(void *base, uint64_t word, uint32_t v)
{
    memcpy((char *)base + word * 4, &v, sizeof(v));
}

static uint32_t hash32(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    x *= 0x846ca68bU;
    x ^= x >> 16;
    return x;
}

void host_fill(void *dst, uint64_t bytes, uint32_t seed)
{
    uint64_t items = sample_items(bytes);

    for (uint64_t i = 0; i < items; i++) {
        uint64_t w = sample_word(bytes, i);

        if (w != SAMPLE_NONE)
            word_set(dst, w, hash32((uint32_t)w * 2654435761U + seed));
    }
}

void host_mix(void *dst, const void *src, uint64_t bytes)
{
    uint64_t items = sample_items(bytes);

    for (uint64_t i = 0; i < items; i++) {
        uint64_t w = sample_word(bytes, i);

        if (w != SAMPLE_NONE)
            word_set(dst, w, word_get(dst, w) * 1664525U + word_get(src, w) + 1013904223U);
    }
}

void host_sum(uint64_t *sum, const void *src, uint64_t bytes)
{
    uint64_t items = sample_items(bytes);

    for (uint64_t i = 0; i < items; i++) {
        uint64_t w = sample_word(bytes, i);

        if (w != SAMPLE_NONE)
            *sum += (uint64_t)word_get(src, w) * (w + 1);
    }
}

void host_copy_strided(
        void *dst, const void *src, uint64_t rows, uint64_t row_bytes, uint64_t src_stride)
{
    uint64_t bytes = rows * row_bytes;
    uint64_t items = sample_items(bytes);

    for (uint64_t i = 0; i < items; i++) {
        uint64_t w = sample_word(bytes, i);
        uint64_t row = w * 4 / row_bytes;

        if (w != SAMPLE_NONE)
            word_set(dst, w, word_get(src, (row * src_stride + w * 4 % row_bytes) / 4));
    }
}
