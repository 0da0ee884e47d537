/* SPDX-License-Identifier: MIT */
#include "tracker/stacks/fingerprint.h"

#include "tracker/base/site.h"

#include <string.h>

#define PAGE_BYTES   FINGERPRINT_READ_MAX
#define WHOLE_BYTES  (64u << 10)     /* a segment up to this size is read whole, */
#define SAMPLE_PAGES 16u             /* a larger one at this many places */
#define TABLE_BYTES  UINT64_C(16384) /* of the table of functions */
#define DYNAMIC_MAX  1024u           /* entries that are examined */

bool fingerprint_is_loaded(const ElfW(Phdr) * segment, unsigned count, const ElfW(Phdr) * wanted)
{
    for (unsigned i = 0; i < count; i++, segment++)
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R)
                && wanted->p_vaddr >= segment->p_vaddr && wanted->p_memsz <= segment->p_filesz
                && wanted->p_vaddr - segment->p_vaddr <= segment->p_filesz - wanted->p_memsz)
            return true;
    return false;
}

static bool has_text_relocations(
        const struct fingerprint_source *source, const ElfW(Phdr) * dynamic)
{
    uint64_t entries = dynamic->p_memsz / sizeof(ElfW(Dyn));

    for (uint64_t i = 0; i < entries && i < DYNAMIC_MAX; i++) {
        ElfW(Dyn) entry;

        if (!source->read(source->data, dynamic->p_vaddr + i * sizeof entry, &entry, sizeof entry))
            return false;
        if (entry.d_tag == DT_NULL)
            return false;
        if (entry.d_tag == DT_TEXTREL
                || (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL)))
            return true;
    }
    return false;
}

static uint64_t hash_page(
        const struct fingerprint_source *source, uint64_t address, size_t bytes, uint64_t seed)
{
    unsigned char page[PAGE_BYTES];

    if (!source->read(source->data, address, page, bytes))
        return site_hash(NULL, 0, seed);
    return site_hash(page, bytes, seed);
}

static uint64_t hash_pages(
        const struct fingerprint_source *source, uint64_t address, uint64_t bytes, uint64_t seed)
{
    for (uint64_t at = 0; at < bytes; at += PAGE_BYTES)
        seed = hash_page(source, address + at,
                bytes - at < PAGE_BYTES ? (size_t)(bytes - at) : PAGE_BYTES, seed);
    return seed;
}

static uint64_t hash_segment(
        const struct fingerprint_source *source, uint64_t address, uint64_t bytes, uint64_t seed)
{
    uint64_t last = bytes - PAGE_BYTES;

    seed ^= bytes;
    if (bytes <= WHOLE_BYTES)
        return hash_pages(source, address, bytes, seed);
    for (uint64_t i = 0; i < SAMPLE_PAGES; i++)
        seed = hash_page(source, address + last / (SAMPLE_PAGES - 1) * i, PAGE_BYTES, seed);
    return seed;
}

uint64_t fingerprint_take(const struct fingerprint_source *source)
{
    uint64_t hash = 0;

    for (unsigned i = 0; i < source->count; i++)
        if (source->segment[i].p_type == PT_DYNAMIC
                && has_text_relocations(source, &source->segment[i]))
            return 0;
    for (unsigned i = 0; i < source->count; i++) {
        const ElfW(Phdr) *segment = &source->segment[i];
        uint64_t table = segment->p_memsz < TABLE_BYTES ? segment->p_memsz : TABLE_BYTES;

        if (segment->p_type == PT_LOAD && (segment->p_flags & (PF_R | PF_W)) == PF_R
                && segment->p_filesz == segment->p_memsz && segment->p_filesz > 0)
            hash = hash_segment(source, segment->p_vaddr, segment->p_filesz, hash);
        if (segment->p_type == PT_GNU_EH_FRAME
                && fingerprint_is_loaded(source->segment, source->count, segment))
            hash = hash_pages(source, segment->p_vaddr, table, hash);
    }
    return hash;
}

uint64_t fingerprint_identity(const char *path, uint64_t fingerprint)
{
    return site_hash(path, strlen(path), fingerprint);
}
