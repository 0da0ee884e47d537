/* SPDX-License-Identifier: MIT */
#include "preload/base/elfsym.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * The parts of an object's dynamic section that the look-up reads. If there are two hash tables,
 * the GNU one is used.
 */
struct tables {
    const uint32_t *gnu_hash;
    const uint32_t *hash;
    const ElfW(Sym) * symbols;
    const uint16_t *versions; /* NULL: symbols have no versions */
    const char *strings;
    const ElfW(Rela) * relocations;
    size_t relocations_bytes;
};

enum {
    NOT_DEFAULT = 0x8000, /* version bit: a newer version of this name exists */
};

/* glibc's loader writes addresses here, other loaders leave offsets. */
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
        else if (entry->d_tag == DT_RELA)
            tables.relocations = at(object, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_RELASZ)
            tables.relocations_bytes = entry->d_un.d_val;
    }
    return tables;
}

static bool has_gnu_hash(const struct tables *tables)
{
    return tables->gnu_hash && tables->symbols && tables->strings;
}

/* True for a symbol that the object defines, in its default version. */
static bool is_it(const struct tables *tables, uint32_t i, const char *name)
{
    return tables->symbols[i].st_shndx != SHN_UNDEF
            && !(tables->versions && (tables->versions[i] & NOT_DEFAULT))
            && strcmp(tables->strings + tables->symbols[i].st_name, name) == 0;
}

uint32_t elfsym_hash(const char *name)
{
    uint32_t hash = 5381;

    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/*
 * Each symbol sets two bits of the filter, which rules out most names that the table does not have.
 */
static bool passes_filter(const struct tables *tables, uint32_t hash)
{
    const ElfW(Addr) *filter = (const ElfW(Addr) *)(tables->gnu_hash + 4);
    uint32_t bits = 8 * sizeof *filter;
    ElfW(Addr) word = filter[hash / bits % tables->gnu_hash[2]];

    return word >> hash % bits & word >> (hash >> tables->gnu_hash[3]) % bits & 1;
}

/*
 * Layout: buckets, first symbol, filter words, filter shift; filter; buckets; a hash per symbol,
 * bit 0 = last of its chain.
 */
static const uint32_t *gnu_buckets(const struct tables *tables)
{
    return tables->gnu_hash + 4 + tables->gnu_hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
}

static const ElfW(Sym)
        * find_by_gnu_hash(const struct tables *tables, const char *name, uint32_t hash)
{
    uint32_t count = tables->gnu_hash[0];
    uint32_t first = tables->gnu_hash[1];
    const uint32_t *buckets = gnu_buckets(tables);
    const uint32_t *chain = buckets + count;

    if (count == 0 || !passes_filter(tables, hash))
        return NULL;
    for (uint32_t i = buckets[hash % count]; i >= first && i != 0; i++) {
        if ((chain[i - first] | 1) == (hash | 1) && is_it(tables, i, name))
            return &tables->symbols[i];
        if (chain[i - first] & 1)
            break;
    }
    return NULL;
}

static uint32_t elfsym_hash_of(const char *name)
{
    uint32_t hash = 0;

    for (; *name; name++) {
        hash = (hash << 4) + (unsigned char)*name;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    return hash;
}

/* Layout: buckets, symbols; a first symbol per bucket; the next symbol per symbol, 0 = none. */
static const ElfW(Sym) * find_by_hash(const struct tables *tables, const char *name)
{
    const uint32_t *buckets = tables->hash + 2;
    const uint32_t *chain = buckets + tables->hash[0];

    if (tables->hash[0] == 0)
        return NULL;
    for (uint32_t i = buckets[elfsym_hash_of(name) % tables->hash[0]]; i != 0; i = chain[i])
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
    return !has_gnu_hash(&tables) || find_by_gnu_hash(&tables, name, elfsym_hash(name));
}

static const ElfW(Sym) * find(const struct tables *tables, const struct elfsym_name *name)
{
    if (has_gnu_hash(tables))
        return find_by_gnu_hash(tables, name->text, name->hash);
    if (tables->hash && tables->symbols && tables->strings)
        return find_by_hash(tables, name->text);
    return NULL;
}

static bool is_variable(const ElfW(Sym) * symbol)
{
    return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT
            || ELF64_ST_TYPE(symbol->st_info) == STT_COMMON;
}

void *elfsym_function(const struct link_map *object, const char *name)
{
    struct tables tables = find_tables(object);
    const ElfW(Sym) *symbol = find(&tables, &(struct elfsym_name){name, elfsym_hash(name)});
    unsigned type = symbol ? ELF64_ST_TYPE(symbol->st_info) : STT_GNU_IFUNC;

    return type == STT_FUNC || type == STT_NOTYPE ? (void *)(object->l_addr + symbol->st_value)
                                                  : NULL;
}

bool elfsym_has(const struct link_map *object, const struct elfsym_name *name, void **ret_variable)
{
    struct tables tables = find_tables(object);
    const ElfW(Sym) *symbol = find(&tables, name);

    *ret_variable =
            symbol && is_variable(symbol) ? (void *)(object->l_addr + symbol->st_value) : NULL;
    return symbol != NULL;
}

void elfsym_each_variable(const struct link_map *object, const struct elfsym_name *names,
        unsigned count, void (*tell)(unsigned which))
{
    struct tables tables = find_tables(object);

    for (unsigned i = 0; i < count; i++) {
        const ElfW(Sym) *symbol = find(&tables, &names[i]);

        if (symbol && is_variable(symbol))
            tell(i);
    }
}

/* Number of symbols in the GNU table: the last bucket's chain ends with the last symbol. */
static uint32_t count_symbols(const struct tables *tables)
{
    const uint32_t *buckets = gnu_buckets(tables);
    const uint32_t *chain = buckets + tables->gnu_hash[0];
    uint32_t last = 0;

    for (uint32_t i = 0; i < tables->gnu_hash[0]; i++)
        if (buckets[i] > last)
            last = buckets[i];
    while (last != 0 && !(chain[last - tables->gnu_hash[1]] & 1))
        last++;
    return last == 0 ? 0 : last + 1;
}

void elfsym_each_function(
        const struct link_map *object, void (*tell)(const char *name, const void *function))
{
    struct tables tables = find_tables(object);
    uint32_t count = has_gnu_hash(&tables) ? count_symbols(&tables) : 0;

    for (uint32_t i = count ? tables.gnu_hash[1] : 0; i < count; i++)
        if (ELF64_ST_TYPE(tables.symbols[i].st_info) == STT_FUNC)
            tell(tables.strings + tables.symbols[i].st_name,
                    (const void *)(object->l_addr + tables.symbols[i].st_value));
}

size_t elfsym_relocations(const struct link_map *object, const ElfW(Rela) * *ret_first)
{
    struct tables tables = find_tables(object);

    *ret_first = tables.relocations;
    return tables.relocations ? tables.relocations_bytes / sizeof **ret_first : 0;
}

const char *elfsym_name_of(const struct link_map *object, const ElfW(Rela) * relocation)
{
    struct tables tables = find_tables(object);

    if (!tables.strings || !tables.symbols)
        return "";
    return tables.strings + tables.symbols[ELF64_R_SYM(relocation->r_info)].st_name;
}

size_t elfsym_size_of(const struct link_map *object, const ElfW(Rela) * relocation)
{
    struct tables tables = find_tables(object);

    return tables.symbols ? tables.symbols[ELF64_R_SYM(relocation->r_info)].st_size : 0;
}

/* The `which`-th string of dynamic entries with this tag. */
static const char *elfsym_text_of(const struct link_map *object, ElfW(Sxword) tag, unsigned which)
{
    struct tables tables = find_tables(object);

    for (const ElfW(Dyn) *entry = object->l_ld; entry && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == tag && which-- == 0)
            return tables.strings ? tables.strings + entry->d_un.d_val : NULL;
    return NULL;
}

const char *elfsym_soname(const struct link_map *object)
{
    return elfsym_text_of(object, DT_SONAME, 0);
}

const char *elfsym_needed(const struct link_map *object, unsigned which)
{
    return elfsym_text_of(object, DT_NEEDED, which);
}

/* Symbols that the table does not hash come first: the null symbol, and all undefined ones. */
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
