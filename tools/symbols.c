/* SPDX-License-Identifier: MIT */
#include "tools/symbols.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/keytable.h"
#include "tools/vec.h"

/* Code of one compilation unit, addresses as in the DWARF. */
struct unit_range {
    Dwarf_Addr lo, hi;
    Dwarf_Off unit; /* offset of its DIE */
};

/* A captured module and the file that stands for it now. */
struct module_file {
    Dwfl *dwfl;
    Dwfl_Module *module;       /* NULL: no file, another build, or not ELF */
    struct unit_range *ranges; /* by lo; only made for files without .debug_aranges */
    size_t range_count, range_room;
    bool opened, ranged;
};

struct named_stack {
    struct symbols_line *lines;
    size_t count;
    char *site;
    bool done;
};

struct symbols {
    const struct trace *trace;
    struct module_file *modules;
    struct named_stack *stacks;
    struct keytable frames; /* (module, offset) -> index in `named` */
    struct named_frame *named;
    size_t named_count, named_room;
    char **texts; /* owned names */
    size_t text_count, text_room;
    char **trouble;
    size_t trouble_count, trouble_room;
    char *(*demangle)(const char *, char *, size_t *, int *);
};

struct named_frame {
    struct symbols_line *lines;
    size_t count, room;
};

const char *symbols_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

struct symbols *symbols_new(const struct trace *trace)
{
    struct symbols *symbols = vec_new(1, sizeof(*symbols));

    symbols->trace = trace;
    symbols->modules = vec_new(trace->module_count, sizeof(*symbols->modules));
    symbols->stacks = vec_new(trace->stack_count, sizeof(*symbols->stacks));
    /* C++ names are only readable demangled; a C tool must not need the C++ library, so it is asked for politely. */
    void *cxx = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
    if (cxx)
        *(void **)&symbols->demangle = dlsym(cxx, "__cxa_demangle");
    return symbols;
}

void symbols_free(struct symbols *symbols)
{
    if (!symbols)
        return;
    for (size_t i = 0; i < symbols->trace->module_count; i++) {
        if (symbols->modules[i].dwfl)
            dwfl_end(symbols->modules[i].dwfl);
        free(symbols->modules[i].ranges);
    }
    for (size_t i = 0; i < symbols->trace->stack_count; i++) {
        free(symbols->stacks[i].lines);
        free(symbols->stacks[i].site);
    }
    for (size_t i = 0; i < symbols->named_count; i++)
        free(symbols->named[i].lines);
    for (size_t i = 0; i < symbols->text_count; i++)
        free(symbols->texts[i]);
    for (size_t i = 0; i < symbols->trouble_count; i++)
        free(symbols->trouble[i]);
    keytable_done(&symbols->frames);
    free(symbols->modules);
    free(symbols->stacks);
    free(symbols->named);
    free(symbols->texts);
    free(symbols->trouble);
    free(symbols);
}

static const char *keep(struct symbols *symbols, char *text)
{
    VEC_PUSH(symbols->texts, symbols->text_count, symbols->text_room) = text;
    return text;
}

const char *symbols_trouble(const struct symbols *symbols, size_t index)
{
    return index < symbols->trouble_count ? symbols->trouble[index] : NULL;
}

static void add_trouble(struct symbols *symbols, const char *path, const char *what)
{
    VEC_PUSH(symbols->trouble, symbols->trouble_count, symbols->trouble_room) =
            vec_format("%s: %s", path, what);
}

static bool is_same_build(Dwfl_Module *module, const struct trace_module *captured)
{
    const unsigned char *bits;
    GElf_Addr address;

    if (captured->build_id_length == 0)
        return true; /* nothing to compare with */
    int length = dwfl_module_build_id(module, &bits, &address);
    if (length <= 0)
        return false;
    size_t common = (size_t)length < sizeof(captured->build_id) ? (size_t)length
                                                                : sizeof(captured->build_id);
    return common == captured->build_id_length && memcmp(bits, captured->build_id, common) == 0;
}

static Dwfl_Module *open_module(struct symbols *symbols, uint32_t number)
{
    static const Dwfl_Callbacks callbacks = {
            .find_elf = dwfl_build_id_find_elf,
            .find_debuginfo = dwfl_standard_find_debuginfo,
            .section_address = dwfl_offline_section_address,
    };
    struct module_file *file = &symbols->modules[number];
    const struct trace_module *captured = &symbols->trace->modules[number];

    if (file->opened)
        return file->module;
    file->opened = true;
    if (captured->path[0] != '/')
        return NULL; /* vdso, generated code */
    if (access(captured->path, R_OK) != 0) {
        add_trouble(
                symbols, captured->path, "not readable on this machine, its frames have no names");
        return NULL;
    }
    file->dwfl = dwfl_begin(&callbacks);
    if (!file->dwfl)
        return NULL;
    dwfl_report_begin(file->dwfl);
    Dwfl_Module *module = dwfl_report_offline(file->dwfl, captured->path, captured->path, -1);
    (void)dwfl_report_end(file->dwfl, NULL, NULL);
    if (!module) {
        add_trouble(symbols, captured->path, "no ELF file");
        return NULL;
    }
    if (!is_same_build(module, captured)) {
        add_trouble(symbols, captured->path, "rebuilt since the capture, its frames have no names");
        return NULL;
    }
    file->module = module;
    return module;
}

static const char *readable(struct symbols *symbols, const char *name)
{
    int status = -1;
    char *plain = NULL;

    if (symbols->demangle && strncmp(name, "_Z", 2) == 0)
        plain = symbols->demangle(name, NULL, NULL, &status);
    if (plain && status == 0)
        return keep(symbols, plain);
    free(plain);
    return keep(symbols, vec_text(name));
}

/* The name of a function or inlined call: the linkage name says more for C++. */
static const char *die_name(struct symbols *symbols, Dwarf_Die *die)
{
    Dwarf_Attribute attribute;
    const char *name = NULL;

    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute)
            || dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
        name = dwarf_formstring(&attribute);
    if (!name)
        name = dwarf_diename(die);
    return name ? readable(symbols, name) : NULL;
}

/* The offline address of a frame in libdwfl's own address space. */
static Dwarf_Addr place(Dwfl_Module *module, uint64_t offset)
{
    GElf_Addr bias = 0;

    (void)dwfl_module_getelf(module, &bias);
    return offset + bias;
}

static void push_line(struct named_frame *frame, struct symbols_line line)
{
    VEC_PUSH(frame->lines, frame->count, frame->room) = line;
}

/* Where an inlined call was written: DW_AT_call_file and DW_AT_call_line. */
static void call_place(
        struct symbols *symbols, Dwarf_Die *cu, Dwarf_Die *call, struct symbols_line *line)
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
            line->file = keep(symbols, vec_text(name));
    }
}

/* The innermost scope at an address and all around it; returns how many, *ret_scopes is the caller's to free. */
static int find_scopes(Dwarf_Die *cu, Dwarf_Addr address, Dwarf_Die **ret_scopes)
{
    Dwarf_Die *at = NULL;
    Dwarf_Die *around = NULL;
    int count = dwarf_getscopes(cu, address, &at);

    if (count <= 0)
        return 0;
    /* The scopes around the innermost one as they are in the tree: inlined calls with their callers. */
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

    if (x->lo != y->lo)
        return x->lo < y->lo ? -1 : 1;
    return (x->hi > y->hi) - (x->hi < y->hi);
}

/*
 * Which unit an address lies in is normally read from .debug_aranges. clang does not write that section, and this libdw knows
 * no other way, so the ranges are then collected from the units themselves, once per file.
 */
static void collect_ranges(struct module_file *file)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = NULL;

    file->ranged = true;
    while ((unit = dwfl_module_nextcu(file->module, unit, &bias)) != NULL) {
        Dwarf_Addr base;
        Dwarf_Addr lo;
        Dwarf_Addr hi;
        ptrdiff_t at = 0;
        while ((at = dwarf_ranges(unit, at, &base, &lo, &hi)) > 0)
            VEC_PUSH(file->ranges, file->range_count, file->range_room) =
                    (struct unit_range){lo, hi, dwarf_dieoffset(unit)};
    }
    if (file->range_count)
        qsort(file->ranges, file->range_count, sizeof(*file->ranges), compare_ranges);
}

/* The unit of an address (as in the DWARF), false if none has it. */
static bool find_in_ranges(struct module_file *file, Dwarf_Addr address, Dwarf_Die *ret_unit)
{
    Dwarf_Addr bias;
    Dwarf *dwarf = dwfl_module_getdwarf(file->module, &bias);
    size_t lo = 0;
    size_t hi;

    if (!dwarf)
        return false;
    if (!file->ranged)
        collect_ranges(file);
    hi = file->range_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (file->ranges[mid].lo <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    /* Ranges of one file do not overlap: only the last that begins at or before the address can hold it. */
    if (lo == 0 || address >= file->ranges[lo - 1].hi)
        return false;
    return dwarf_offdie(dwarf, file->ranges[lo - 1].unit, ret_unit) != NULL;
}

/* The unit that an address of the module lies in, and the address as in the DWARF. */
static bool find_unit(
        struct module_file *file, uint64_t offset, Dwarf_Die *ret_unit, Dwarf_Addr *ret_address)
{
    Dwarf_Addr address = place(file->module, offset);
    Dwarf_Addr bias = 0;
    const Dwarf_Die *unit = dwfl_module_addrdie(file->module, address, &bias);

    if (unit) {
        *ret_unit = *unit;
        *ret_address = address - bias;
        return true;
    }
    if (!dwfl_module_getdwarf(file->module, &bias))
        return false;
    *ret_address = address - bias;
    return find_in_ranges(file, *ret_address, ret_unit);
}

/* Lines from DWARF; false if there is none for this address. */
static bool name_by_dwarf(struct symbols *symbols, struct module_file *file, uint64_t offset,
        struct symbols_line line, struct named_frame *frame)
{
    Dwarf_Die unit;
    Dwarf_Addr address;
    Dwarf_Die *scopes = NULL;

    if (!find_unit(file, offset, &unit, &address))
        return false;
    Dwarf_Line *source = dwarf_getsrc_die(&unit, address);
    if (source) {
        int number = 0;
        const char *name = dwarf_linesrc(source, NULL, NULL);
        if (name)
            line.file = keep(symbols, vec_text(name));
        if (dwarf_lineno(source, &number) == 0)
            line.line = (unsigned)number;
    }
    int count = find_scopes(&unit, address, &scopes);
    bool named = false;
    for (int i = 0; i < count; i++) {
        int tag = dwarf_tag(&scopes[i]);
        if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine)
            continue;
        const char *name = die_name(symbols, &scopes[i]);
        line.function = name ? name : "(no name)";
        push_line(frame, line);
        named = true;
        if (tag == DW_TAG_subprogram)
            break;
        call_place(symbols, &unit, &scopes[i], &line);
    }
    free(scopes);
    return named;
}

static bool name_by_symbol(struct symbols *symbols, Dwfl_Module *module, uint64_t offset,
        struct symbols_line line, struct named_frame *frame)
{
    GElf_Off distance;
    GElf_Sym symbol;
    const char *name = dwfl_module_addrinfo(
            module, place(module, offset), &distance, &symbol, NULL, NULL, NULL);

    if (!name || !*name)
        return false;
    line.function =
            keep(symbols, vec_format("%s+0x%" PRIx64, readable(symbols, name), (uint64_t)distance));
    push_line(frame, line);
    return true;
}

static bool is_ours(const struct trace_module *module)
{
    return !module || module->is_program;
}

static const struct named_frame *name_frame(struct symbols *symbols, const struct trace_frame *at)
{
    uint32_t next = (uint32_t)symbols->named_count;
    uint32_t index = *keytable_at(&symbols->frames, (struct key){at->module, at->offset, 0}, next);
    struct named_frame frame = {0};

    if (index != next)
        return &symbols->named[index];

    const struct trace_module *captured =
            at->module == TRACE_NONE ? NULL : &symbols->trace->modules[at->module];
    struct symbols_line line = {
            .module = captured ? captured->path : "", .is_ours = is_ours(captured)};
    Dwfl_Module *module = captured ? open_module(symbols, at->module) : NULL;
    if (!module
            || (!name_by_dwarf(symbols, &symbols->modules[at->module], at->offset, line, &frame)
                    && !name_by_symbol(symbols, module, at->offset, line, &frame))) {
        line.function = keep(symbols,
                vec_format("%s+0x%" PRIx64,
                        captured && *captured->path ? symbols_base_name(captured->path) : "?",
                        at->offset));
        push_line(&frame, line);
    }
    VEC_PUSH(symbols->named, symbols->named_count, symbols->named_room) = frame;
    return &symbols->named[index];
}

static struct named_stack *name_stack(struct symbols *symbols, uint32_t number)
{
    struct named_stack *named = &symbols->stacks[number];
    const struct trace_stack *stack = &symbols->trace->stacks[number];
    size_t room = 0;

    if (named->done)
        return named;
    named->done = true;
    for (uint32_t i = 0; i < stack->count; i++) {
        const struct named_frame *frame =
                name_frame(symbols, &symbols->trace->frames[stack->first + i]);
        for (size_t k = 0; k < frame->count; k++)
            VEC_PUSH(named->lines, named->count, room) = frame->lines[k];
    }
    return named;
}

const struct symbols_line *symbols_stack(struct symbols *symbols, uint32_t stack, size_t *ret_count)
{
    const struct named_stack *named = name_stack(symbols, stack);

    *ret_count = named->count;
    return named->lines;
}

static const struct symbols_line *innermost(struct symbols *symbols, uint32_t stack)
{
    size_t count;
    const struct symbols_line *lines = symbols_stack(symbols, stack, &count);

    for (size_t i = 0; i < count; i++) {
        if (lines[i].is_ours)
            return &lines[i];
    }
    return count ? &lines[0] : NULL;
}

const char *symbols_site(struct symbols *symbols, uint32_t stack)
{
    struct named_stack *named = name_stack(symbols, stack);

    if (named->site)
        return named->site;
    const struct symbols_line *line = innermost(symbols, stack);
    if (!line)
        named->site = vec_text("(no stack)");
    else if (line->file)
        named->site =
                vec_format("%s %s:%u", line->function, symbols_base_name(line->file), line->line);
    else
        named->site = vec_format("%s %s", line->function, symbols_base_name(line->module));
    return named->site;
}

const char *symbols_owner(struct symbols *symbols, uint32_t stack)
{
    const struct symbols_line *line = innermost(symbols, stack);

    return line ? line->module : "";
}
