/* SPDX-License-Identifier: MIT */
#include "tests/sim/memory/sim_digest.h"

#include "tests/sim/memory/sim_contents.h"

#include <string.h>

#define SAMPLES 16                  /* words of a piece that go into a digest */
#define WHOLE   ((uint64_t)1 << 20) /* so much of a range is written in full */
#define STEP    ((uint64_t)2 << 20)
#define PAGE    ((uint64_t)4096)

/* FNV-1a; which one does not matter. */
uint64_t sim_digest_add(uint64_t digest, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        digest = (digest ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3U;
    return digest;
}

uint64_t sim_digest_read(uint64_t digest, uint64_t addr, uint64_t size)
{
    uint64_t known = sim_contents_known(addr, size);
    uint64_t step = known / SAMPLES & ~(uint64_t)3;

    for (uint64_t at = 0; at < known; at += step ? step : 4)
        digest = sim_digest_add(digest, (const void *)(uintptr_t)(addr + at),
                (size_t)(known - at < 4 ? known - at : 4));
    return sim_digest_add(digest, &known, sizeof(known));
}

static uint32_t mix(uint64_t digest, uint64_t index)
{
    uint64_t x = digest + index * 0x9e3779b97f4a7c15U;

    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93U;
    return (uint32_t)(x >> 32);
}

/*
 * Half a float, for whatever size of float. 0x3f begins a float of 16 bits (either kind) as well as one of 32 or 64
 * that is finite and near 1; a second byte below 0x78 is none of the infinities and NaNs that floats of 8 bits have.
 */
static uint16_t half(uint32_t random)
{
    return (uint16_t)(0x3f00U | (random & 0xff) % 0x78);
}

/* The word at offset 4 * index. */
static uint32_t word_of(uint64_t digest, uint64_t index, enum sim_digest_kind kind)
{
    uint32_t random = mix(digest, index);

    switch (kind) {
    case SIM_DIGEST_BYTES:
        return random & 0x01010101U;
    case SIM_DIGEST_SHORTS:
        return random & 0x00070007U;
    case SIM_DIGEST_INTS:
        return random & 7;
    case SIM_DIGEST_LONGS:
        return index % 2 ? 0 : random & 7;
    default:
        return (uint32_t)half(random >> 16) << 16 | half(random);
    }
}

static void write_part(
        uint64_t digest, uint64_t addr, uint64_t from, uint64_t to, enum sim_digest_kind kind)
{
    for (uint64_t at = from; at < to; at += 4) {
        uint32_t word = word_of(digest, at / 4, kind);

        memcpy((void *)(uintptr_t)(addr + at), &word, (size_t)(to - at < 4 ? to - at : 4));
    }
    sim_contents_write_digest(addr + from, to - from);
}

void sim_digest_write(uint64_t digest, uint64_t addr, uint64_t size, enum sim_digest_kind kind)
{
    uint64_t last = size > PAGE ? (size - PAGE) & ~(uint64_t)3 : 0;

    if (size <= WHOLE + PAGE) {
        write_part(digest, addr, 0, size, kind);
        return;
    }
    sim_contents_forget(addr, size);
    write_part(digest, addr, 0, WHOLE, kind);
    for (uint64_t at = STEP; at + PAGE <= last; at += STEP)
        write_part(digest, addr, at, at + PAGE, kind);
    write_part(digest, addr, last, size, kind);
}
