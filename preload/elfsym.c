/* SPDX-License-Identifier: MIT */
#include "preload/elfsym.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What the look-up needs of an object's dynamic section. */
struct tables {
    const uint32_t *hash;
    const ElfW(Sym) * symbols;
    const char *strings;
};

/* The loader of glibc puts addresses in their places, others leave offsets. */
static const void *at(const struct link_map *object, ElfW(Addr) value)
{
    /* NOLINTNEXTLINE(performance-no-int-to-ptr) */
    return (const void *)(value < object->l_addr ? value + object->l_addr : value);
}

static bool find_tables(const struct link_map *object, struct tables *ret_tables)
{
    struct tables tables = {NULL, NULL, NULL};

    for (const ElfW(Dyn) *entry = object->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_GNU_HASH)
            tables.hash = at(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_SYMTAB)
            tables.symbols = at(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_STRTAB)
            tables.strings = at(object, entry->d_un.d_ptr);
    }
    *ret_tables = tables;
    return tables.hash && tables.symbols && tables.strings;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;

    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* The table: buckets, first symbol, words of a filter, its shift; filter; buckets; a hash per symbol, bit 0 = the last. */
bool elfsym_may_have(const struct link_map *object, const char *name)
{
    struct tables tables;
    const uint32_t *buckets, *chain;
    uint32_t count, first, hash = hash_of(name);

    if (!object || !find_tables(object, &tables))
        return true;
    count = tables.hash[0];
    first = tables.hash[1];
    buckets = tables.hash + 4 + tables.hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    chain = buckets + count;
    if (count == 0)
        return false;
    for (uint32_t i = buckets[hash % count]; i >= first && i != 0; i++) {
        const ElfW(Sym) *symbol = &tables.symbols[i];

        if ((chain[i - first] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF
                && strcmp(tables.strings + symbol->st_name, name) == 0)
            return true;
        if (chain[i - first] & 1)
            break;
    }
    return false;
}
