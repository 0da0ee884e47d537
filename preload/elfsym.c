/* SPDX-License-Identifier: MIT */
#include "preload/elfsym.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* What the look-up needs of an object's dynamic section. Of two hash tables the GNU one is asked. */
struct tables {
    const uint32_t *gnu_hash;
    const uint32_t *hash;
    const ElfW(Sym) * symbols;
    const uint16_t *versions; /* NULL: symbols have none */
    const char *strings;
};

enum {
    NOT_DEFAULT = 0x8000, /* of a version: there is a newer one by that name */
};

/* The loader of glibc puts addresses in their places, others leave offsets. */
static const void *at(const struct link_map *object, ElfW(Addr) value)
{
    return (const void *)(value < object->l_addr ? value + object->l_addr : value);
}

static struct tables find_tables(const struct link_map *object)
{
    struct tables tables = {.gnu_hash = NULL};

    for (const ElfW(Dyn) *entry = object->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_GNU_HASH)
            tables.gnu_hash = at(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_HASH)
            tables.hash = at(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_SYMTAB)
            tables.symbols = at(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_VERSYM)
            tables.versions = at(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_STRTAB)
            tables.strings = at(object, entry->d_un.d_ptr);
    }
    return tables;
}

static bool has_gnu_hash(const struct tables *tables)
{
    return tables->gnu_hash && tables->symbols && tables->strings;
}

/* Whether this is the symbol: the object's own, of its default version. */
static bool is_it(const struct tables *tables, uint32_t i, const char *name)
{
    return tables->symbols[i].st_shndx != SHN_UNDEF
            && !(tables->versions && (tables->versions[i] & NOT_DEFAULT))
            && strcmp(tables->strings + tables->symbols[i].st_name, name) == 0;
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;

    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* The table: buckets, first symbol, words of a filter, its shift; filter; buckets; a hash per symbol, bit 0 = the last. */
static const ElfW(Sym) * find_by_gnu_hash(const struct tables *tables, const char *name)
{
    uint32_t count = tables->gnu_hash[0];
    uint32_t first = tables->gnu_hash[1];
    const uint32_t *buckets =
            tables->gnu_hash + 4 + tables->gnu_hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = buckets + count;
    uint32_t hash = gnu_hash_of(name);

    if (count == 0)
        return NULL;
    for (uint32_t i = buckets[hash % count]; i >= first && i != 0; i++) {
        if ((chain[i - first] | 1) == (hash | 1) && is_it(tables, i, name))
            return &tables->symbols[i];
        if (chain[i - first] & 1)
            break;
    }
    return NULL;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 0;

    for (; *name; name++) {
        hash = (hash << 4) + (unsigned char)*name;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    return hash;
}

/* The table: buckets, symbols; a first symbol per bucket; the next one per symbol, 0 = none. */
static const ElfW(Sym) * find_by_hash(const struct tables *tables, const char *name)
{
    const uint32_t *buckets = tables->hash + 2;
    const uint32_t *chain = buckets + tables->hash[0];

    if (tables->hash[0] == 0)
        return NULL;
    for (uint32_t i = buckets[hash_of(name) % tables->hash[0]]; i != 0; i = chain[i])
        if (is_it(tables, i, name))
            return &tables->symbols[i];
    return NULL;
}

bool elfsym_may_have(const struct link_map *object, const char *name)
{
    struct tables tables;

    if (!object)
        return true;
    tables = find_tables(object);
    return !has_gnu_hash(&tables) || find_by_gnu_hash(&tables, name);
}

void *elfsym_function(const struct link_map *object, const char *name)
{
    struct tables tables = find_tables(object);
    const ElfW(Sym) *symbol = NULL;

    if (has_gnu_hash(&tables))
        symbol = find_by_gnu_hash(&tables, name);
    else if (tables.hash && tables.symbols && tables.strings)
        symbol = find_by_hash(&tables, name);
    if (!symbol || ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
        return NULL;
    return (void *)(object->l_addr + symbol->st_value);
}

/* The `which`-th text of that kind. */
static const char *text_of(const struct link_map *object, ElfW(Sxword) tag, unsigned which)
{
    struct tables tables = find_tables(object);

    for (const ElfW(Dyn) *entry = object->l_ld; entry && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == tag && which-- == 0)
            return tables.strings ? tables.strings + entry->d_un.d_val : NULL;
    return NULL;
}

const char *elfsym_soname(const struct link_map *object)
{
    return text_of(object, DT_SONAME, 0);
}

const char *elfsym_needed(const struct link_map *object, unsigned which)
{
    return text_of(object, DT_NEEDED, which);
}

/* What the table does not hash comes first: the null symbol, and all that is wanted. */
void elfsym_each_wanted(const struct link_map *object, void (*tell)(const char *name))
{
    struct tables tables = find_tables(object);

    if (!has_gnu_hash(&tables))
        return;
    for (uint32_t i = 1; i < tables.gnu_hash[1]; i++)
        if (tables.symbols[i].st_shndx == SHN_UNDEF)
            tell(tables.strings + tables.symbols[i].st_name);
}

bool elfsym_wants(const struct link_map *object, const char *name)
{
    struct tables tables = find_tables(object);

    if (!has_gnu_hash(&tables))
        return false;
    for (uint32_t i = 1; i < tables.gnu_hash[1]; i++)
        if (tables.symbols[i].st_shndx == SHN_UNDEF
                && strcmp(tables.strings + tables.symbols[i].st_name, name) == 0)
            return true;
    return false;
}
