/* SPDX-License-Identifier: MIT */
/*
 * symbols.h - names for frames, offline.
 *
 * A capture holds frames as (module, ELF address). Names come with the capture if it is a bundle
 * (symcache.h), else from the files that it brought along or from those on this machine: function,
 * file and line with inlined calls from DWARF, else the symbol table (dwarfnames.h), else the
 * module's name and the address. A file of another build than the captured one is not used at all:
 * a wrong name is worse than none (symfile.h).
 *
 *     frame ─► cache ─► bundle's names ─► files of this build ─► DWARF ─► symbol+0x12 ─► module+0x12
 *
 * Nothing is ever symbolised inside the watched program. Threads: none. Memory: vec.h; results live
 * as long as the symbols object. Modules are opened when they are first asked for. Stacks and
 * modules may be added to the trace meanwhile.
 */
#ifndef KEDGE_TOOLS_SYMBOLS_H
#define KEDGE_TOOLS_SYMBOLS_H

#include "tools/base/keytable.h"
#include "tools/trace/trace.h"

struct dwarfnames_line;
struct symfile;
struct symbols;

/* One line of a stack. A machine frame has several if calls were inlined, innermost first. */
struct symbols_line {
    const char *function; /* never NULL: "name", "name+0x12" or "module+0x1234" */
    const char *file;     /* full path as in DWARF, NULL = unknown */
    unsigned line;        /* 0 = unknown */
    const char *module;   /* path of the module, "" = none */
    bool is_python;       /* a Python function; `module` is "" */
    bool is_ambient;      /* Python, of the thread that was waiting, not of this one */
    bool is_ours;         /* a frame of the program or its libraries, not of CUDA, kedge or libc */
};

/* The source file of a line, else its module; "" = neither is known. */
const char *symbols_line_file(const struct symbols_line *line);

/* Equal for lines of one function, file and number. */
struct key symbols_line_key(const struct symbols_line *line);

struct symbols *symbols_new(const struct trace *trace);
void symbols_free(struct symbols *symbols);

/* All lines of a stack, innermost first, Python's too (pymerge.h). Valid until symbols_free. */
const struct symbols_line *symbols_stack(
        struct symbols *symbols, uint32_t stack, size_t *ret_count);

/*
 * "function file:line" of the innermost native line of the program, else as symbols_pysite; "(no
 * stack)" without one. Valid until symbols_free.
 */
const char *symbols_site(struct symbols *symbols, uint32_t stack);

/* "function file:line" of the innermost Python line, NULL: none. Valid until symbols_free. */
const char *symbols_pysite(struct symbols *symbols, uint32_t stack);

/* Path of the library or program that allocated, by the program's innermost line; "" unknown. */
const char *symbols_owner(struct symbols *symbols, uint32_t stack);

/* Notices of modules whose file here is missing or another build; NULL at the end of the list. */
const char *symbols_trouble(const struct symbols *symbols, size_t index);

/* The number of stacks, which may grow with the trace. */
size_t symbols_stack_count(const struct symbols *symbols);

/*
 * The address of data that live as long as the symbols, at first NULL; `done` frees it at the end.
 * There is one (title.c).
 */
void **symbols_slot(struct symbols *symbols, void (*done)(void *data));

/* For bundles: names of a frame (the caller frees them), why a module has no names, its files. */
size_t symbols_names(struct symbols *symbols, const struct trace_frame *frame,
        struct dwarfnames_line **ret_lines);
const char *symbols_module_trouble(struct symbols *symbols, uint32_t number);
const struct symfile *symbols_file(struct symbols *symbols, uint32_t number);

#endif
