/* SPDX-License-Identifier: MIT */
#include "tools/symbols/datanames.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tracker/format/format.h"

enum {
    DATANAMES_DEPTH = 32, /* of blocks in functions, and of members */
    /* the operator that finds thread-local memory, before DWARF 5 */
    OP_OLD_TLS = DW_OP_GNU_push_tls_address,
};

struct variable {
    uint64_t start, end; /* with FORMAT_FRAME_TLS, if it is thread-local */
    bool is_symbol;      /* after those of DWARF */
    const char *name;    /* of a symbol, NULL: of DWARF */
    Dwarf_Die die;
    const char *function; /* that the variable is in, NULL = none */
};

struct datanames {
    Dwfl_Module *module;
    struct dwarfnames *names;
    struct variable *list; /* by start; DWARF's first */
    size_t count, room;
    bool is_read;
    struct vec_texts texts;
};

struct datanames *datanames_new(Dwfl_Module *module, struct dwarfnames *names)
{
    struct datanames *data = vec_new(1, sizeof(*data));

    data->module = module;
    data->names = names;
    return data;
}

void datanames_free(struct datanames *data)
{
    if (!data)
        return;
    vec_free_texts(&data->texts);
    free(data->list);
    free(data);
}

/* ---- collecting ---- */

/* Its address: a number, one of a table, or a number and the operator for thread-local memory. */
static bool datanames_place(Dwarf_Die *die, uint64_t *ret_start)
{
    Dwarf_Attribute attribute, entry;
    Dwarf_Op *ops;
    size_t count;

    if (!dwarf_attr(die, DW_AT_location, &attribute)
            || dwarf_getlocation(&attribute, &ops, &count) != 0 || count == 0 || count > 2)
        return false;
    *ret_start = ops[0].number;
    if (count == 1 && (ops[0].atom == DW_OP_addrx || ops[0].atom == DW_OP_GNU_addr_index))
        return dwarf_getlocation_attr(&attribute, &ops[0], &entry) == 0
                && dwarf_formaddr(&entry, ret_start) == 0;
    if (count == 1)
        return ops[0].atom == DW_OP_addr;
    *ret_start |= FORMAT_FRAME_TLS;
    return (ops[0].atom == DW_OP_const8u || ops[0].atom == DW_OP_const4u)
            && (ops[1].atom == DW_OP_form_tls_address || ops[1].atom == OP_OLD_TLS);
}

static void datanames_add(struct datanames *data, Dwarf_Die *die, const char *function)
{
    struct variable variable = {.die = *die, .function = function};
    Dwarf_Die type;
    Dwarf_Attribute attribute;
    Dwarf_Word size;

    if (!datanames_place(die, &variable.start)
            || !dwarf_formref_die(dwarf_attr_integrate(die, DW_AT_type, &attribute), &type)
            || dwarf_aggregate_size(&type, &size) != 0)
        return;
    variable.end = variable.start + size;
    VEC_PUSH(data->list, data->count, data->room) = variable;
}

/* Variables of a unit, its namespaces and functions. */
static void datanames_walk(
        struct datanames *data, Dwarf_Die *parent, const char *function, unsigned depth)
{
    Dwarf_Die die;

    if (depth == DATANAMES_DEPTH || dwarf_child(parent, &die) != 0)
        return;
    do {
        switch (dwarf_tag(&die)) {
        case DW_TAG_variable:
            datanames_add(data, &die, function);
            break;
        case DW_TAG_subprogram:
            datanames_walk(data, &die, dwarfnames_of_die(data->names, &die), depth + 1);
            break;
        case DW_TAG_lexical_block:
        case DW_TAG_inlined_subroutine:
        case DW_TAG_namespace:
            datanames_walk(data, &die, function, depth + 1);
            break;
        default:
            break;
        }
    } while (dwarf_siblingof(&die, &die) == 0);
}

static void datanames_add_symbols(struct datanames *data)
{
    int count = dwfl_module_getsymtab(data->module);

    for (int i = 1; i < count; i++) {
        GElf_Sym symbol;
        GElf_Addr unused;
        const char *name =
                dwfl_module_getsym_info(data->module, i, &symbol, &unused, NULL, NULL, NULL);
        bool is_tls = name && GELF_ST_TYPE(symbol.st_info) == STT_TLS;
        struct variable variable = {.is_symbol = true, .name = name};

        if (!name || !*name || symbol.st_shndx == SHN_UNDEF || symbol.st_size == 0
                || (GELF_ST_TYPE(symbol.st_info) != STT_OBJECT && !is_tls))
            continue;
        variable.start = symbol.st_value | (is_tls ? FORMAT_FRAME_TLS : 0);
        variable.end = variable.start + symbol.st_size;
        VEC_PUSH(data->list, data->count, data->room) = variable;
    }
}

static int datanames_compare(const void *a, const void *b)
{
    const struct variable *x = a;
    const struct variable *y = b;

    return vec_order(x->is_symbol, y->is_symbol,
            vec_order(x->start, y->start, vec_order(x->end, y->end, 0)));
}

static void datanames_read(struct datanames *data)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = NULL;

    data->is_read = true;
    while ((unit = dwfl_module_nextcu(data->module, unit, &bias)) != NULL) {
        Dwarf_Die of = dwarfnames_unit(unit);

        datanames_walk(data, &of, NULL, 0);
    }
    datanames_add_symbols(data);
    VEC_SORT(data->list, data->count, datanames_compare);
}

/* ---- a member ---- */

/* Without qualifiers and other names. */
static bool datanames_plain_type(Dwarf_Die *die, Dwarf_Die *ret_type)
{
    Dwarf_Attribute attribute;
    Dwarf_Die type;

    return dwarf_formref_die(dwarf_attr_integrate(die, DW_AT_type, &attribute), &type)
            && dwarf_peel_type(&type, ret_type) == 0;
}

/* The member of a struct that contains an offset, which becomes that in the member. */
static bool datanames_member(Dwarf_Die *type, uint64_t *io_offset, Dwarf_Die *ret_member)
{
    Dwarf_Die die;

    if (dwarf_child(type, &die) != 0)
        return false;
    do {
        Dwarf_Attribute attribute;
        Dwarf_Word begin = 0;
        Dwarf_Word size;
        Dwarf_Die of;

        if ((dwarf_tag(&die) != DW_TAG_member && dwarf_tag(&die) != DW_TAG_inheritance)
                || dwarf_hasattr(&die, DW_AT_declaration) || !datanames_plain_type(&die, &of)
                || dwarf_aggregate_size(&of, &size) != 0)
            continue;
        if (dwarf_attr(&die, DW_AT_data_member_location, &attribute)
                && dwarf_formudata(&attribute, &begin) != 0)
            continue;
        if (*io_offset >= begin && *io_offset - begin < size) {
            *io_offset -= begin;
            *ret_member = die;
            return true;
        }
    } while (dwarf_siblingof(&die, &die) == 0);
    return false;
}

/* The element of an array of one dimension. */
static bool datanames_element(Dwarf_Die *type, uint64_t *io_offset, FILE *out)
{
    Dwarf_Die die, of;
    Dwarf_Word size;
    unsigned dimensions = 0;

    if (dwarf_child(type, &die) != 0)
        return false;
    do
        dimensions += dwarf_tag(&die) == DW_TAG_subrange_type;
    while (dwarf_siblingof(&die, &die) == 0);
    if (dimensions != 1 || !datanames_plain_type(type, &of) || dwarf_aggregate_size(&of, &size) != 0
            || size == 0)
        return false;
    (void)fprintf(out, "[%" PRIu64 "]", *io_offset / size);
    *io_offset %= size;
    return true;
}

static void datanames_path(Dwarf_Die *die, uint64_t offset, FILE *out)
{
    Dwarf_Die at = *die;
    Dwarf_Die type;

    for (unsigned depth = 0; depth < DATANAMES_DEPTH && datanames_plain_type(&at, &type); depth++) {
        int tag = dwarf_tag(&type);
        const char *name;

        if (tag == DW_TAG_array_type) {
            if (!datanames_element(&type, &offset, out))
                return;
            at = type;
            continue;
        }
        if ((tag != DW_TAG_structure_type && tag != DW_TAG_class_type)
                || !datanames_member(&type, &offset, &at))
            return;
        name = dwarf_tag(&at) == DW_TAG_member ? dwarf_diename(&at) : NULL;
        if (name && *name == '_')
            return;
        if (name)
            (void)fprintf(out, ".%s", name);
    }
}

/* ---- the name ---- */

/* The last one that begins at or before the offset, among DWARF's or the symbols. */
static const struct variable *datanames_find(
        const struct datanames *data, uint64_t offset, bool is_symbol)
{
    size_t low = 0;
    size_t high = data->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct variable *at = &data->list[middle];

        if (at->is_symbol < is_symbol || (at->is_symbol == is_symbol && at->start <= offset))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || data->list[low - 1].is_symbol != is_symbol || offset >= data->list[low - 1].end)
        return NULL;
    return &data->list[low - 1];
}

/* "state.big in lookup": the variable, the member at `distance`, the function if it is not in its name. */
static void datanames_by_dwarf(struct datanames *data, Dwarf_Die *die, uint64_t distance,
        const char *function, struct dwarfnames_line *ret_line)
{
    const char *name = dwarfnames_of_die(data->names, die);
    const char *file = dwarf_decl_file(die);
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    int line = 0;

    if (!out)
        vec_out_of_memory();
    (void)fputs(name ? name : "(no name)", out);
    datanames_path(die, distance, out);
    if (function && !(name && strstr(name, "::")))
        (void)fprintf(out, " in %s", function);
    (void)fclose(out);
    (void)dwarf_decl_line(die, &line);
    *ret_line = (struct dwarfnames_line){.function = vec_add_text(&data->texts, text),
            .file = file ? vec_add_text(&data->texts, vec_text(file)) : NULL,
            .line = (unsigned)line};
}

/* ---- locals ---- */

/* How far the base of a function's variables is from the end of its frame. */
static bool datanames_base(Dwarf_Die *function, Dwarf_Addr address, int64_t *ret_distance)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;

    if (!dwarf_attr_integrate(function, DW_AT_frame_base, &attribute)
            || dwarf_getlocation_addr(&attribute, address, &ops, &count, 1) < 1 || count != 1)
        return false;
    /* rbp is two words before the end in a function that keeps it */
    *ret_distance = ops[0].atom == DW_OP_call_frame_cfa ? 0 : -16;
    return ops[0].atom == DW_OP_call_frame_cfa || ops[0].atom == DW_OP_reg6;
}

/* The variable of a scope whose place contains the word `at` bytes from the base. */
static bool datanames_in_scope(Dwarf_Die *scope, Dwarf_Addr address, int64_t at, Dwarf_Die *ret_die,
        uint64_t *ret_distance)
{
    Dwarf_Die die;

    if (dwarf_child(scope, &die) != 0)
        return false;
    do {
        int tag = dwarf_tag(&die);
        Dwarf_Attribute attribute;
        Dwarf_Op *ops;
        Dwarf_Word size;
        Dwarf_Die type;
        size_t count;

        if ((tag != DW_TAG_variable && tag != DW_TAG_formal_parameter)
                || !dwarf_attr_integrate(&die, DW_AT_location, &attribute)
                || dwarf_getlocation_addr(&attribute, address, &ops, &count, 1) < 1 || count != 1
                || ops[0].atom != DW_OP_fbreg || !datanames_plain_type(&die, &type)
                || dwarf_aggregate_size(&type, &size) != 0)
            continue;
        int64_t distance = at - (int64_t)ops[0].number;
        if (distance >= 0 && (uint64_t)distance < size) {
            *ret_die = die;
            *ret_distance = (uint64_t)distance;
            return true;
        }
    } while (dwarf_siblingof(&die, &die) == 0);
    return false;
}

static bool datanames_local(
        struct datanames *data, uint64_t offset, struct dwarfnames_line *ret_line)
{
    uint64_t words = offset >> FORMAT_FRAME_WORD_SHIFT & FORMAT_FRAME_WORDS_MAX;
    Dwarf_Die *scopes = NULL;
    Dwarf_Die *function = NULL;
    Dwarf_Addr address;
    int64_t base;
    bool is_found = false;
    int count = dwarfnames_scopes(data->names,
            offset & ((UINT64_C(1) << FORMAT_FRAME_WORD_SHIFT) - 1), &scopes, &address);

    for (int i = 0; i < count && !function; i++)
        if (dwarf_tag(&scopes[i]) == DW_TAG_subprogram)
            function = &scopes[i];
    if (words && function && datanames_base(function, address, &base))
        for (Dwarf_Die *scope = scopes; !is_found && scope <= function; scope++) {
            Dwarf_Die die;
            uint64_t distance;

            is_found = datanames_in_scope(
                    scope, address, -(int64_t)(words * 8) - base, &die, &distance);
            if (is_found)
                datanames_by_dwarf(
                        data, &die, distance, dwarfnames_of_die(data->names, function), ret_line);
        }
    free(scopes);
    return is_found;
}

bool datanames_at(struct datanames *data, uint64_t offset, struct dwarfnames_line *ret_line)
{
    const struct variable *found;
    const char *name;

    if ((offset & FORMAT_FRAME_KIND) == FORMAT_FRAME_STACK)
        return datanames_local(data, offset, ret_line);
    offset &= ~FORMAT_FRAME_DATA;
    if (!data->is_read)
        datanames_read(data);
    found = datanames_find(data, offset, false);
    if (found) {
        Dwarf_Die die = found->die;

        datanames_by_dwarf(data, &die, offset - found->start, found->function, ret_line);
        return true;
    }
    found = datanames_find(data, offset, true);
    if (!found)
        return false;
    name = dwarfnames_readable(data->names, found->name);
    if (offset > found->start)
        name = vec_add_text(&data->texts, vec_format("%s+0x%" PRIx64, name, offset - found->start));
    *ret_line = (struct dwarfnames_line){.function = name};
    return true;
}
