/* SPDX-License-Identifier: MIT */
#include "tools/symbols/symbols.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/base/filename.h"
#include "tools/base/vec.h"
#include "tools/symbols/datanames.h"
#include "tools/symbols/pymerge.h"
#include "tools/symbols/symcache.h"
#include "tools/symbols/symfile.h"
#include "tracker/format/format.h"

/* A captured module and the source of its names. */
struct module_names {
    struct symfile file;
    struct dwarfnames *names; /* NULL: no file has them */
    struct datanames *data;   /* NULL: not asked for yet */
    bool is_opened, is_looked_up;
    bool is_cached; /* the capture contains names for it */
    uint32_t cached;
    const char *note; /* why it has none, "" if it has */
};

/* Allocated separately, since its file must not move while slots are added. */
struct module_slot {
    struct module_names *at;
};

struct named_frame {
    struct symbols_line *lines;
    size_t count, room;
};

struct named_stack {
    struct symbols_line *lines;
    size_t count;
    char *site, *pysite;
    bool done;
};

struct symbols {
    const struct trace *trace;
    struct module_slot *modules;
    struct named_stack *stacks;
    size_t module_count, module_room, stack_room;
    struct keytable frames; /* (module, offset) -> index in `named` */
    struct named_frame *named;
    size_t named_count, named_room;
    struct vec_texts texts; /* names */
    struct vec_texts trouble;
    void *slot;
    void (*slot_done)(void *data);
};

/* The trace may have more stacks and modules than last time. */
static void symbols_make_room(struct symbols *symbols)
{
    const struct trace *trace = symbols->trace;

    symbols->modules = vec_grow(symbols->modules, trace->module_count, sizeof(*symbols->modules),
            &symbols->module_room);
    for (; symbols->module_count < trace->module_count; symbols->module_count++)
        symbols->modules[symbols->module_count].at = vec_new(1, sizeof(struct module_names));
    symbols->stacks = vec_grow(
            symbols->stacks, trace->stack_count, sizeof(*symbols->stacks), &symbols->stack_room);
}

static struct module_names *module_at(struct symbols *symbols, uint32_t number)
{
    symbols_make_room(symbols);
    return symbols->modules[number].at;
}

const char *symbols_line_file(const struct symbols_line *line)
{
    return line->file ? line->file : line->module;
}

struct key symbols_line_key(const struct symbols_line *line)
{
    struct key function = keytable_text(line->function);
    struct key file = keytable_text(symbols_line_file(line));

    /* two texts in one key: the second one's hash is rotated, so that swapped texts differ */
    return (struct key){function.a ^ (file.a << 32 | file.a >> 32),
            function.b ^ (file.b << 32 | file.b >> 32),
            function.c << 48 ^ file.c << 32 ^ line->line};
}

struct symbols *symbols_new(const struct trace *trace)
{
    struct symbols *symbols = vec_new(1, sizeof(*symbols));

    symbols->trace = trace;
    symbols_make_room(symbols);
    return symbols;
}

void symbols_free(struct symbols *symbols)
{
    if (!symbols)
        return;
    if (symbols->slot)
        symbols->slot_done(symbols->slot);
    for (size_t i = 0; i < symbols->module_count; i++) {
        datanames_free(symbols->modules[i].at->data);
        dwarfnames_free(symbols->modules[i].at->names);
        symfile_close(&symbols->modules[i].at->file);
        free(symbols->modules[i].at);
    }
    for (size_t i = 0; i < symbols->stack_room; i++) {
        free(symbols->stacks[i].lines);
        free(symbols->stacks[i].site);
        free(symbols->stacks[i].pysite);
    }
    for (size_t i = 0; i < symbols->named_count; i++)
        free(symbols->named[i].lines);
    vec_free_texts(&symbols->texts);
    vec_free_texts(&symbols->trouble);
    keytable_done(&symbols->frames);
    free(symbols->modules);
    free(symbols->stacks);
    free(symbols->named);
    free(symbols);
}

size_t symbols_stack_count(const struct symbols *symbols)
{
    return symbols->trace->stack_count;
}

void **symbols_slot(struct symbols *symbols, void (*done)(void *data))
{
    symbols->slot_done = done;
    return &symbols->slot;
}

const char *symbols_trouble(const struct symbols *symbols, size_t index)
{
    return index < symbols->trouble.count ? symbols->trouble.at[index] : NULL;
}

/* The same library may have been loaded more than once: one line. */
static void add_trouble(struct symbols *symbols, const char *line)
{
    (void)vec_add_once(&symbols->trouble, vec_text(line));
}

/* Uses the names that the capture contains. */
static void symbols_look_up(struct symbols *symbols, uint32_t number)
{
    struct module_names *module = module_at(symbols, number);

    if (module->is_looked_up || !symbols->trace->names)
        return;
    module->is_looked_up = true;
    module->is_cached = symcache_has_module(symbols->trace->names, &symbols->trace->modules[number],
            &module->cached, &module->note);
    if (module->is_cached && *module->note)
        add_trouble(symbols, module->note);
}

static struct dwarfnames *open_module(struct symbols *symbols, uint32_t number)
{
    struct module_names *module = module_at(symbols, number);

    if (module->is_opened)
        return module->names;
    module->is_opened = true;
    symfile_open(&symbols->trace->modules[number], symbols->trace->modules_packed, &module->file);
    if (symbols->trace->modules_packed && bundle_modules_why(symbols->trace->modules_packed))
        add_trouble(symbols, bundle_modules_why(symbols->trace->modules_packed));
    if (module->file.why)
        add_trouble(symbols, module->file.why);
    if (module->file.module)
        module->names = dwarfnames_new(module->file.module);
    return module->names;
}

/* The variable that a frame of a scan stands for, else its function; `names`: of its module. */
static size_t symbols_variable(struct symbols *symbols, const struct trace_frame *frame,
        struct dwarfnames *names, struct dwarfnames_line **ret_lines)
{
    struct module_names *module = module_at(symbols, frame->module);
    struct dwarfnames_line line;

    if (!module->data)
        module->data = datanames_new(module->file.module, names);
    if (!datanames_at(module->data, frame->offset, &line))
        return (frame->offset & FORMAT_FRAME_KIND) == FORMAT_FRAME_STACK ? dwarfnames_at(names,
                       frame->offset & ((UINT64_C(1) << FORMAT_FRAME_WORD_SHIFT) - 1), ret_lines)
                                                                         : 0;
    *ret_lines = vec_new(1, sizeof(line));
    **ret_lines = line;
    return 1;
}

size_t symbols_names(struct symbols *symbols, const struct trace_frame *frame,
        struct dwarfnames_line **ret_lines)
{
    const struct dwarfnames_line *cached;
    struct dwarfnames *names;
    size_t count;

    *ret_lines = NULL;
    if (frame->module == TRACE_NONE)
        return 0;
    symbols_look_up(symbols, frame->module);
    const struct module_names *module = module_at(symbols, frame->module);
    if (module->is_cached
            && symcache_find(
                    symbols->trace->names, module->cached, frame->offset, &cached, &count)) {
        *ret_lines = vec_new(count + 1, sizeof(*cached));
        if (count)
            memcpy(*ret_lines, cached, count * sizeof(*cached));
        return count;
    }
    names = open_module(symbols, frame->module);
    if (names && frame->offset & FORMAT_FRAME_KIND)
        return symbols_variable(symbols, frame, names, ret_lines);
    return names ? dwarfnames_at(names, frame->offset, ret_lines) : 0;
}

const char *symbols_module_trouble(struct symbols *symbols, uint32_t number)
{
    const struct module_names *module = module_at(symbols, number);

    (void)open_module(symbols, number);
    symbols_look_up(symbols, number);
    if (module->is_cached)
        return module->note;
    return module->file.why ? module->file.why : "";
}

const struct symfile *symbols_file(struct symbols *symbols, uint32_t number)
{
    (void)open_module(symbols, number);
    return &module_at(symbols, number)->file;
}

static const struct named_frame *name_frame(struct symbols *symbols, const struct trace_frame *at)
{
    uint32_t index = keytable_number(&symbols->frames, (struct key){at->module, at->offset, 0});
    struct named_frame frame = {0};

    if (index != symbols->named_count)
        return &symbols->named[index];

    const struct trace_module *captured =
            at->module == TRACE_NONE ? NULL : &symbols->trace->modules[at->module];
    struct symbols_line line = {
            .module = captured ? captured->path : "", .is_ours = !captured || captured->is_program};
    struct dwarfnames_line *known;
    size_t count = symbols_names(symbols, at, &known);
    for (size_t i = 0; i < count; i++) {
        line.function = known[i].function;
        line.file = known[i].file;
        line.line = known[i].line;
        VEC_PUSH(frame.lines, frame.count, frame.room) = line;
    }
    free(known);
    if (count == 0) {
        const char *module = captured && *captured->path ? filename_of(captured->path) : "?";
        line.function =
                vec_add_text(&symbols->texts, vec_format("%s+0x%" PRIx64, module, at->offset));
        VEC_PUSH(frame.lines, frame.count, frame.room) = line;
    }
    VEC_PUSH(symbols->named, symbols->named_count, symbols->named_room) = frame;
    return &symbols->named[index];
}

static struct named_stack *symbols_name_stack(struct symbols *symbols, uint32_t number)
{
    symbols_make_room(symbols);
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
    if (stack->pycount > 0)
        named->lines = pymerge(named->lines, named->count, stack,
                symbols->trace->pyframes + stack->pyfirst, &named->count);
    return named;
}

const struct symbols_line *symbols_stack(struct symbols *symbols, uint32_t stack, size_t *ret_count)
{
    const struct named_stack *named = symbols_name_stack(symbols, stack);

    *ret_count = named->count;
    return named->lines;
}

static const struct symbols_line *symbols_innermost(struct symbols *symbols, uint32_t stack)
{
    size_t count;
    const struct symbols_line *lines = symbols_stack(symbols, stack, &count);

    for (size_t i = 0; i < count; i++) {
        if (lines[i].is_ours && !lines[i].is_python)
            return &lines[i];
    }
    return count ? &lines[0] : NULL;
}

const char *symbols_site(struct symbols *symbols, uint32_t stack)
{
    struct named_stack *named = symbols_name_stack(symbols, stack);

    if (named->site)
        return named->site;
    const struct symbols_line *line = symbols_innermost(symbols, stack);
    if (!line)
        named->site = vec_text("(no stack)");
    else if (line->file)
        named->site = vec_format("%s %s:%u", line->function, filename_of(line->file), line->line);
    else
        named->site = vec_format("%s %s", line->function, filename_of(line->module));
    return named->site;
}

const char *symbols_pysite(struct symbols *symbols, uint32_t stack)
{
    struct named_stack *named = symbols_name_stack(symbols, stack);

    for (size_t i = 0; i < named->count && !named->pysite; i++)
        if (named->lines[i].is_python)
            named->pysite = vec_format("%s %s:%u", named->lines[i].function,
                    filename_of(named->lines[i].file), named->lines[i].line);
    return named->pysite;
}

const char *symbols_owner(struct symbols *symbols, uint32_t stack)
{
    const struct symbols_line *line = symbols_innermost(symbols, stack);

    return line ? line->module : "";
}
