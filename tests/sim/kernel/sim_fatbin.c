/* SPDX-License-Identifier: MIT */
/*
 * A fat binary: 16 bytes of header (magic, u16 version, u16 size of the header, u64 bytes behind it), then entries, each
 * a header with its code behind it. nvcc's host code has a wrapper of it: magic, version, pointer to the fat binary,
 * pointer to more of them in programs that were linked for the device (version 2).
 */
#include "tests/sim/kernel/sim_image.h"

#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define MAGIC_FATBIN  0xba55ed50U
#define MAGIC_WRAPPER 0x466243b1U
#define FLAG_LZ4      0x2000U
#define FLAG_ZSTD     0x8000U
#define ARCH          80U                 /* of this device, as cuDeviceGetAttribute says */
#define CODE_MOST     ((uint64_t)1 << 30) /* of one entry */

enum entry_kind {
    ENTRY_PTX = 1,
    ENTRY_CUBIN = 2
};

struct fatbin {
    uint32_t magic;
    uint16_t version, header_size;
    uint64_t size;
};

struct entry {
    uint16_t kind, version;
    uint32_t header_size;
    uint64_t padded_size;
    uint32_t packed_size; /* without padding, if it is compressed */
    uint32_t options;
    uint16_t minor, major; /* of the code's format */
    uint32_t arch;         /* 80 for sm_80 */
    uint32_t name, name_size;
    uint64_t flags;
    uint64_t reserved;
    uint64_t size; /* that it has unpacked; 0: it is not compressed */
};

struct wrapper {
    uint32_t magic, version;
    const void *data;
    const void *const *more;
};

static bool begins_with(const void *data, uint32_t magic)
{
    return memcmp(data, &magic, sizeof(magic)) == 0;
}

bool sim_fatbin_is(const void *data)
{
    return begins_with(data, MAGIC_FATBIN);
}

bool sim_fatbin_is_wrapper(const void *data)
{
    return begins_with(data, MAGIC_WRAPPER);
}

const void *sim_fatbin_unwrap(const void *wrapper)
{
    const struct wrapper *w = wrapper;

    if (w->version == 2 && w->more && *w->more)
        return *w->more;
    return w->data;
}

/* ---- entries ---- */

/* The entry at `at`, or NULL behind the last one. */
static const struct entry *entry_at(const unsigned char *at, const unsigned char *end)
{
    const struct entry *entry = (const struct entry *)(const void *)at;

    if ((size_t)(end - at) < sizeof(*entry) || entry->header_size < sizeof(*entry)
            || entry->header_size > (size_t)(end - at)
            || entry->padded_size > (size_t)(end - at) - entry->header_size)
        return NULL;
    return entry;
}

static const unsigned char *behind(const struct entry *entry)
{
    return (const unsigned char *)entry + entry->header_size + entry->padded_size;
}

/* The higher, the better for this device; 0: not at all. */
static unsigned fitness(const struct entry *entry)
{
    if (entry->kind == ENTRY_PTX)
        return 1000;
    if (entry->kind != ENTRY_CUBIN)
        return 0;
    return entry->arch <= ARCH && entry->arch / 10 == ARCH / 10 ? 2000 + entry->arch
                                                                : 999 - entry->arch % 900;
}

/* Its code, to be freed, with a NUL behind it; NULL if it cannot be had. */
static char *unpack(const struct entry *entry, size_t *ret_size)
{
    const char *code = (const char *)entry + entry->header_size;
    bool is_packed = (entry->flags & (FLAG_LZ4 | FLAG_ZSTD)) != 0;
    uint64_t size = is_packed ? entry->size : entry->padded_size;
    char *unpacked;
    bool is_good = true;

    if (size > CODE_MOST || (is_packed && entry->packed_size > entry->padded_size))
        return NULL;
    unpacked = sim_new((size_t)size + 1);
    if (entry->flags & FLAG_ZSTD)
        is_good = ZSTD_decompress(unpacked, (size_t)size, code, entry->packed_size) == size;
    else if (entry->flags & FLAG_LZ4)
        is_good = LZ4_decompress_safe(code, unpacked, (int)entry->packed_size, (int)size)
                == (int)size;
    else
        memcpy(unpacked, code, (size_t)size);
    if (!is_good) {
        free(unpacked);
        return NULL;
    }
    *ret_size = (size_t)size;
    return unpacked;
}

static bool read_entry(struct sim_image *image, const struct entry *entry)
{
    size_t size = 0;
    char *code = unpack(entry, &size);
    bool is_read = code
            && (entry->kind == ENTRY_PTX
                            ? sim_ptx_read(image, code)
                            : sim_cubin_read(image, (const unsigned char *)code, size));

    free(code);
    return is_read;
}

bool sim_fatbin_read(struct sim_image *image, const void *data)
{
    const struct fatbin *header = data;
    const unsigned char *first, *end;
    unsigned best = 0;
    bool is_read = false;

    if (!sim_fatbin_is(data) || header->header_size < sizeof(*header))
        return false;
    first = (const unsigned char *)data + header->header_size;
    end = first + header->size;
    for (const struct entry *e = entry_at(first, end); e; e = entry_at(behind(e), end))
        best = fitness(e) > best ? fitness(e) : best;
    for (const struct entry *e = entry_at(first, end); e && best; e = entry_at(behind(e), end))
        if (fitness(e) == best)
            is_read |= read_entry(image, e);
    return is_read;
}
