/* SPDX-License-Identifier: MIT */
#include "tracker/base/site.h"

#include <string.h>

static uint64_t site_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 32;
    return x;
}

uint64_t site_hash(const void *bytes, size_t length, uint64_t seed)
{
    const unsigned char *at = bytes;
    uint64_t hash = site_mix(seed ^ UINT64_C(0x6b65646765000001) ^ (uint64_t)length);

    while (length >= 8) {
        uint64_t word;

        memcpy(&word, at, 8);
        hash = site_mix(hash ^ word) + UINT64_C(0x9e3779b97f4a7c15);
        at += 8;
        length -= 8;
    }
    if (length > 0) {
        uint64_t word = 0;

        memcpy(&word, at, length);
        hash = site_mix(hash ^ word);
    }
    return site_mix(hash);
}

uint64_t site_frame(uint64_t module_hash, uint64_t offset)
{
    return site_mix(site_mix(module_hash + UINT64_C(0x9e3779b97f4a7c15)) ^ offset);
}

uint64_t site_combine(const uint64_t *frame_hashes, unsigned count)
{
    uint64_t site = 0;

    if (count > SITE_FRAMES)
        count = SITE_FRAMES;
    if (count == 0)
        return 0;
    for (unsigned i = 0; i < count; i++)
        site = site_mix(site + UINT64_C(0x9e3779b97f4a7c15)) ^ frame_hashes[i];
    site = site_mix(site);
    return site ? site : 1; /* 0 means unknown */
}
