/* SPDX-License-Identifier: MIT */
#include "tests/sim/standins/audit_names.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    OBJECTS_MOST = 2048, /* a Python process with PyTorch has about 200 */
    NAMES_MOST = 3,      /* that a line names */
};

static struct object {
    const struct link_map *map;
    bool is_ours, is_checked;
} objects[OBJECTS_MOST];

/* The parts of an object's dynamic section. */
struct dynamic {
    const char *strings;
    const ElfW(Sym) * symbols;
    const ElfW(Versym) * versions;
    const ElfW(Verneed) * needs;
    const uint32_t *hash; /* DT_GNU_HASH */
    const char *soname;
};

void audit_names_add(const struct link_map *map, bool is_ours)
{
    for (size_t i = 0; i < OBJECTS_MOST; i++) {
        if (objects[i].map)
            continue;
        objects[i] = (struct object){map, is_ours, false};
        return;
    }
}

void audit_names_drop(const struct link_map *map)
{
    for (size_t i = 0; i < OBJECTS_MOST; i++)
        if (objects[i].map == map)
            objects[i] = (struct object){0};
}

/* glibc adds the base to the addresses of most sections, but not of the vDSO's and its like. */
static const void *address_of(const struct link_map *map, const ElfW(Dyn) * entry)
{
    ElfW(Addr) value = entry->d_un.d_ptr;

    return (const void *)(value < map->l_addr ? value + map->l_addr : value);
}

static struct dynamic dynamic_of(const struct link_map *map)
{
    struct dynamic dynamic = {0};
    ElfW(Xword) soname = 0;

    for (const ElfW(Dyn) *entry = map->l_ld; entry && entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_STRTAB:
            dynamic.strings = address_of(map, entry);
            break;
        case DT_SYMTAB:
            dynamic.symbols = address_of(map, entry);
            break;
        case DT_VERSYM:
            dynamic.versions = address_of(map, entry);
            break;
        case DT_VERNEED:
            dynamic.needs = address_of(map, entry);
            break;
        case DT_GNU_HASH:
            dynamic.hash = address_of(map, entry);
            break;
        case DT_SONAME:
            soname = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
    if (dynamic.strings && soname)
        dynamic.soname = dynamic.strings + soname;
    return dynamic;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;

    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* Whether the object defines the name. DT_GNU_HASH: buckets, then a chain of hashes for each. */
static bool has_name(const struct dynamic *dynamic, const char *name)
{
    uint32_t buckets = dynamic->hash[0], first = dynamic->hash[1], words = dynamic->hash[2];
    const uint32_t *bucket = dynamic->hash + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t wanted = hash_of(name);
    uint32_t at = buckets ? bucket[wanted % buckets] : 0;

    if (at < first)
        return false;
    for (;; at++) {
        uint32_t hash = chain[at - first];
        if ((hash | 1) == (wanted | 1)
                && strcmp(dynamic->strings + dynamic->symbols[at].st_name, name) == 0)
            return true;
        if (hash & 1)
            return false;
    }
}

/* The first symbol that DT_GNU_HASH covers: those before it are what the object asks others for. */
static uint32_t asked_count(const struct dynamic *dynamic)
{
    return dynamic->hash[1];
}

/* The stand-in of this soname, NULL. */
static const struct link_map *standin_of(const char *soname, struct dynamic *ret_dynamic)
{
    for (size_t i = 0; i < OBJECTS_MOST; i++) {
        if (!objects[i].map || !objects[i].is_ours)
            continue;
        *ret_dynamic = dynamic_of(objects[i].map);
        if (ret_dynamic->soname && strcmp(ret_dynamic->soname, soname) == 0)
            return objects[i].map;
    }
    return NULL;
}

static bool is_asked_of(const ElfW(Verneed) * need, ElfW(Versym) version)
{
    const ElfW(Vernaux) *aux = (const void *)((const char *)need + need->vn_aux);

    for (unsigned i = 0; i < need->vn_cnt; i++) {
        if ((aux->vna_other & 0x7fff) == (version & 0x7fff))
            return true;
        aux = (const void *)((const char *)aux + aux->vna_next);
    }
    return false;
}

/* One library and one stand-in that it asks. */
static void check_need(
        const struct link_map *map, const struct dynamic *dynamic, const ElfW(Verneed) * need)
{
    const char *soname = dynamic->strings + need->vn_file;
    char line[1024] = "";
    struct dynamic standin;
    unsigned missing = 0;
    size_t used = 0;

    if (!standin_of(soname, &standin) || !standin.hash || !standin.symbols)
        return;
    for (uint32_t i = 1; i < asked_count(dynamic); i++) {
        const char *name = dynamic->strings + dynamic->symbols[i].st_name;

        if (dynamic->symbols[i].st_shndx != SHN_UNDEF
                || ELF64_ST_BIND(dynamic->symbols[i].st_info) == STB_WEAK
                || !is_asked_of(need, dynamic->versions[i]) || has_name(&standin, name))
            continue;
        if (missing++ < NAMES_MOST && used + strlen(name) + 2 < sizeof(line))
            used += (size_t)snprintf(
                    line + used, sizeof(line) - used, "%s%s", missing > 1 ? ", " : "", name);
    }
    if (!missing)
        return;
    (void)dprintf(STDERR_FILENO,
            "simulated device: %s asks %s for %u name%s that its stand-in does not have: %s%s\n",
            map->l_name, soname, missing, missing == 1 ? "" : "s", line,
            missing > NAMES_MOST ? ", ..." : "");
}

static void check_object(const struct link_map *map)
{
    struct dynamic dynamic = dynamic_of(map);
    const ElfW(Verneed) *need = dynamic.needs;

    if (!need || !dynamic.hash || !dynamic.symbols || !dynamic.strings || !dynamic.versions)
        return;
    for (;; need = (const void *)((const char *)need + need->vn_next)) {
        check_need(map, &dynamic, need);
        if (!need->vn_next)
            return;
    }
}

void audit_names_check(void)
{
    for (size_t i = 0; i < OBJECTS_MOST; i++) {
        if (!objects[i].map || objects[i].is_checked)
            continue;
        objects[i].is_checked = true;
        if (!objects[i].is_ours)
            check_object(objects[i].map);
    }
}
