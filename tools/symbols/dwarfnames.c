/* SPDX-License-Identifier: MIT */
#include "tools/symbols/dwarfnames.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tools/symbols/symtable.h"

/* Code of one compilation unit, with addresses as in the DWARF. */
struct unit_range {
    Dwarf_Addr lo, hi;
    Dwarf_Off unit; /* offset of its DIE */
};

struct dwarfnames {
    Dwfl_Module *module;
    struct symtable *symbols;
    struct unit_range *ranges; /* by lo; only for files without .debug_aranges */
    size_t range_count, range_room;
    bool ranged;
    struct vec_texts texts;
    char *(*demangle)(const char *, char *, size_t *, int *);
};

struct lines {
    struct dwarfnames_line *line;
    size_t count, room;
};

struct dwarfnames *dwarfnames_new(Dwfl_Module *module)
{
    struct dwarfnames *names = vec_new(1, sizeof(*names));
    void *cxx = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);

    names->module = module;
    names->symbols = symtable_new(module);
    if (cxx)
        *(void **)&names->demangle = dlsym(cxx, "__cxa_demangle");
    return names;
}

void dwarfnames_free(struct dwarfnames *names)
{
    if (!names)
        return;
    vec_free_texts(&names->texts);
    symtable_free(names->symbols);
    free(names->ranges);
    free(names);
}

const char *dwarfnames_readable(struct dwarfnames *names, const char *name)
{
    int status = -1;
    char *plain = NULL;

    if (names->demangle && strncmp(name, "_Z", 2) == 0)
        plain = names->demangle(name, NULL, NULL, &status);
    if (plain && status == 0)
        return vec_add_text(&names->texts, plain);
    free(plain);
    return vec_add_text(&names->texts, vec_text(name));
}

const char *dwarfnames_of_die(struct dwarfnames *names, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *name = NULL;

    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute)
            || dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
        name = dwarf_formstring(&attribute);
    if (!name)
        name = dwarf_diename(die);
    return name ? dwarfnames_readable(names, name) : NULL;
}

/* The offline address of a frame in libdwfl's own address space. */
static Dwarf_Addr place(Dwfl_Module *module, uint64_t offset)
{
    GElf_Addr bias = 0;

    (void)dwfl_module_getelf(module, &bias);
    return offset + bias;
}

/* Place of an inlined call: DW_AT_call_file and DW_AT_call_line. */
static void call_place(
        struct dwarfnames *names, Dwarf_Die *cu, Dwarf_Die *call, struct dwarfnames_line *line)
{
    Dwarf_Attribute attribute;
    Dwarf_Files *files;
    Dwarf_Word value;

    line->file = NULL;
    line->line = 0;
    if (dwarf_formudata(dwarf_attr(call, DW_AT_call_line, &attribute), &value) == 0)
        line->line = (unsigned)value;
    if (dwarf_formudata(dwarf_attr(call, DW_AT_call_file, &attribute), &value) == 0
            && dwarf_getsrcfiles(cu, &files, NULL) == 0) {
        const char *name = dwarf_filesrc(files, value, NULL, NULL);
        if (name)
            line->file = vec_add_text(&names->texts, vec_text(name));
    }
}

Dwarf_Die dwarfnames_unit(Dwarf_Die *unit)
{
    uint8_t type = 0;
    Dwarf_Die split = {0};

    if (dwarf_cu_info(unit->cu, NULL, &type, NULL, &split, NULL, NULL, NULL) == 0
            && type == DW_UT_skeleton && split.addr)
        return split;
    return *unit;
}

/* The innermost scope at an address, then those around it; their number. The caller frees them. */
static int find_scopes(Dwarf_Die *cu, Dwarf_Addr address, Dwarf_Die **ret_scopes)
{
    Dwarf_Die *at = NULL;
    Dwarf_Die *around = NULL;
    int count = dwarf_getscopes(cu, address, &at);

    if (count <= 0)
        return 0;
    /* The scopes around the innermost one in the tree: inlined calls with their callers. */
    count = dwarf_getscopes_die(&at[0], &around);
    free(at);
    if (count <= 0)
        return 0;
    *ret_scopes = around;
    return count;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct unit_range *x = a;
    const struct unit_range *y = b;

    return vec_order(x->lo, y->lo, vec_order(x->hi, y->hi, 0));
}

/*
 * The unit of an address is normally read from .debug_aranges. clang does not write that section,
 * and this libdw has no other way, so the ranges are collected from the units themselves, once per
 * file.
 */
static void collect_ranges(struct dwarfnames *names)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = NULL;

    names->ranged = true;
    while ((unit = dwfl_module_nextcu(names->module, unit, &bias)) != NULL) {
        Dwarf_Addr base;
        Dwarf_Addr lo;
        Dwarf_Addr hi;
        ptrdiff_t at = 0;
        while ((at = dwarf_ranges(unit, at, &base, &lo, &hi)) > 0)
            VEC_PUSH(names->ranges, names->range_count, names->range_room) =
                    (struct unit_range){lo, hi, dwarf_dieoffset(unit)};
    }
    VEC_SORT(names->ranges, names->range_count, compare_ranges);
}

/* The unit of an address (as in the DWARF); false if none contains it. */
static bool find_in_ranges(struct dwarfnames *names, Dwarf_Addr address, Dwarf_Die *ret_unit)
{
    Dwarf_Addr bias;
    Dwarf *dwarf = dwfl_module_getdwarf(names->module, &bias);
    size_t lo = 0;
    size_t hi;

    if (!dwarf)
        return false;
    if (!names->ranged)
        collect_ranges(names);
    hi = names->range_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (names->ranges[mid].lo <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    /* ranges of a file do not overlap: only the last that begins there or before can contain it */
    if (lo == 0 || address >= names->ranges[lo - 1].hi)
        return false;
    return dwarf_offdie(dwarf, names->ranges[lo - 1].unit, ret_unit) != NULL;
}

/* The unit that contains an address of the module, and the address as in the DWARF. */
static bool find_unit(
        struct dwarfnames *names, uint64_t offset, Dwarf_Die *ret_unit, Dwarf_Addr *ret_address)
{
    Dwarf_Addr address = place(names->module, offset);
    Dwarf_Addr bias = 0;
    const Dwarf_Die *unit = dwfl_module_addrdie(names->module, address, &bias);

    if (unit) {
        *ret_unit = *unit;
        *ret_address = address - bias;
        return true;
    }
    if (!dwfl_module_getdwarf(names->module, &bias))
        return false;
    *ret_address = address - bias;
    return find_in_ranges(names, *ret_address, ret_unit);
}

int dwarfnames_scopes(
        struct dwarfnames *names, uint64_t address, Dwarf_Die **ret_scopes, Dwarf_Addr *ret_address)
{
    Dwarf_Die unit;

    if (!find_unit(names, address, &unit, ret_address))
        return 0;
    unit = dwarfnames_unit(&unit);
    return find_scopes(&unit, *ret_address, ret_scopes);
}

/* Lines from DWARF; false if it has no function there. *line may have a place even so. */
static bool name_by_dwarf(struct dwarfnames *names, uint64_t offset, struct dwarfnames_line *line,
        struct lines *lines)
{
    Dwarf_Die unit;
    Dwarf_Addr address;
    Dwarf_Die *scopes = NULL;
    struct dwarfnames_line at;

    if (!find_unit(names, offset, &unit, &address))
        return false;
    Dwarf_Line *source = dwarf_getsrc_die(&unit, address);
    if (source) {
        int number = 0;
        const char *name = dwarf_linesrc(source, NULL, NULL);
        if (name)
            line->file = vec_add_text(&names->texts, vec_text(name));
        if (dwarf_lineno(source, &number) == 0)
            line->line = (unsigned)number;
    }
    at = *line;
    unit = dwarfnames_unit(&unit);
    int count = find_scopes(&unit, address, &scopes);
    bool named = false;
    for (int i = 0; i < count; i++) {
        int tag = dwarf_tag(&scopes[i]);
        if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine)
            continue;
        const char *name = dwarfnames_of_die(names, &scopes[i]);
        at.function = name ? name : "(no name)";
        VEC_PUSH(lines->line, lines->count, lines->room) = at;
        named = true;
        if (tag == DW_TAG_subprogram)
            break;
        call_place(names, &unit, &scopes[i], &at);
    }
    free(scopes);
    return named;
}

static void name_by_symbol(
        struct dwarfnames *names, uint64_t offset, struct dwarfnames_line line, struct lines *lines)
{
    uint64_t distance;
    const char *name = symtable_find(names->symbols, place(names->module, offset), &distance);

    if (!name)
        return;
    line.function = vec_add_text(
            &names->texts, vec_format("%s+0x%" PRIx64, dwarfnames_readable(names, name), distance));
    VEC_PUSH(lines->line, lines->count, lines->room) = line;
}

size_t dwarfnames_at(struct dwarfnames *names, uint64_t address, struct dwarfnames_line **ret_lines)
{
    struct dwarfnames_line line = {0};
    struct lines lines = {0};

    if (!name_by_dwarf(names, address, &line, &lines))
        name_by_symbol(names, address, line, &lines);
    *ret_lines = lines.line;
    return lines.count;
}
