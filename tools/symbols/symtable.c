/* SPDX-License-Identifier: MIT */
#include "tools/symbols/symtable.h"

#include <stdbool.h>
#include <stdlib.h>

#include "tools/base/vec.h"

#define NONE UINT32_MAX

/* Preferred ones come first. */
enum binding {
    GLOBAL,
    WEAK,
    LOCAL,
    OTHER,
};

struct symbol {
    GElf_Addr start, end;
    uint32_t around; /* the last one before it that ends after it, NONE: no other does */
    uint32_t number; /* in the module's table */
    enum binding binding;
};

/* By start; for equal starts the preferred one comes last. */
struct symbols_of {
    struct symbol *at;
    size_t count, room;
};

struct symtable {
    Dwfl_Module *module;
    bool is_read;
    struct symbols_of globals, locals;
    struct symbols_of labels; /* symbols without a size */
};

struct symtable *symtable_new(Dwfl_Module *module)
{
    struct symtable *table = vec_new(1, sizeof(*table));

    table->module = module;
    return table;
}

void symtable_free(struct symtable *table)
{
    if (!table)
        return;
    free(table->globals.at);
    free(table->locals.at);
    free(table->labels.at);
    free(table);
}

static enum binding binding_of(const GElf_Sym *symbol)
{
    switch (GELF_ST_BIND(symbol->st_info)) {
    case STB_GLOBAL:
        return GLOBAL;
    case STB_WEAK:
        return WEAK;
    case STB_LOCAL:
        return LOCAL;
    default:
        return OTHER;
    }
}

static bool is_place(const char *name, const GElf_Sym *symbol)
{
    int type = GELF_ST_TYPE(symbol->st_info);

    return name && *name && symbol->st_shndx != SHN_UNDEF && type != STT_SECTION && type != STT_FILE
            && type != STT_TLS;
}

static int symtable_compare(const void *left, const void *right)
{
    const struct symbol *a = left;
    const struct symbol *b = right;

    int order = vec_order(b->end, a->end, vec_order(b->number, a->number, 0));

    return vec_order(a->start, b->start, vec_order(b->binding, a->binding, order));
}

static void sort(struct symbols_of *of)
{
    VEC_SORT(of->at, of->count, symtable_compare);
    for (uint32_t i = 0; i < of->count; i++) {
        uint32_t around = i == 0 ? NONE : i - 1;

        while (around != NONE && of->at[around].end <= of->at[i].end)
            around = of->at[around].around;
        of->at[i].around = around;
    }
}

static void read_table(struct symtable *table)
{
    int count = dwfl_module_getsymtab(table->module);
    int first_global = dwfl_module_getsymtab_first_global(table->module);

    table->is_read = true;
    for (int i = 1; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr start;
        const char *name =
                dwfl_module_getsym_info(table->module, i, &symbol, &start, NULL, NULL, NULL);

        if (!is_place(name, &symbol))
            continue;
        struct symbols_of *of = symbol.st_size == 0 ? &table->labels
                : i < first_global                  ? &table->locals
                                                    : &table->globals;
        VEC_PUSH(of->at, of->count, of->room) = (struct symbol){.start = start,
                .end = symbol.st_size > UINT64_MAX - start ? UINT64_MAX : start + symbol.st_size,
                .number = (uint32_t)i,
                .binding = binding_of(&symbol)};
    }
    sort(&table->globals);
    sort(&table->locals);
    sort(&table->labels);
}

/* The last one that starts at or before an address, NONE: all start after it. */
static uint32_t last_before(const struct symbols_of *of, GElf_Addr address)
{
    uint32_t low = 0;
    uint32_t high = (uint32_t)of->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (of->at[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? NONE : low - 1;
}

/* The symbol that covers an address; without one, no symbol before it ends after *ret_end. */
static const struct symbol *covering(
        const struct symbols_of *of, GElf_Addr address, GElf_Addr *ret_end)
{
    *ret_end = 0;
    for (uint32_t i = last_before(of, address); i != NONE; i = of->at[i].around) {
        *ret_end = of->at[i].end;
        if (address < of->at[i].end)
            return &of->at[i];
    }
    return NULL;
}

/* libdw knows the section of each label, and which one is global. */
static const char *find_label(struct symtable *table, GElf_Addr address, uint64_t *ret_distance)
{
    GElf_Sym symbol;
    GElf_Off distance;
    const char *name =
            dwfl_module_addrinfo(table->module, address, &distance, &symbol, NULL, NULL, NULL);

    *ret_distance = distance;
    return name && *name ? name : NULL;
}

const char *symtable_find(struct symtable *table, GElf_Addr address, uint64_t *ret_distance)
{
    GElf_Addr global_end;
    GElf_Addr local_end = 0;
    GElf_Addr label = 0;
    GElf_Sym symbol;

    if (!table->is_read)
        read_table(table);
    uint32_t labels = last_before(&table->labels, address);
    if (labels != NONE)
        label = table->labels.at[labels].start;
    const struct symbol *found = covering(&table->globals, address, &global_end);
    if (!found && label != address)
        found = covering(&table->locals, address, &local_end);
    if (found) {
        *ret_distance = address - found->start;
        return dwfl_module_getsym_info(
                table->module, (int)found->number, &symbol, &label, NULL, NULL, NULL);
    }
    if (labels == NONE || label < global_end || label < local_end)
        return NULL;
    return find_label(table, address, ret_distance);
}
