/* SPDX-License-Identifier: MIT */
/*
 * symbols.h - names for frames, offline.
 *
 * A capture holds frames as (module, ELF address). The names come from the files on this machine: function, file and line with
 * inlined calls from DWARF (libdw, which also finds separate debug files), else the symbol table, else the module's name and
 * the address. A file whose build-id differs from the captured one is not asked at all: a wrong name is worse than none.
 *
 *     frame ─► cache ─► module's file ─ same build-id? ─► DWARF scopes ─► symbol + offset ─► module+0x1234
 *
 * Nothing is ever symbolised inside the watched program. Threads: none. Memory: grow.h; results live as long as the
 * symbols object. Modules are opened when they are first asked for.
 */
#ifndef KEDGE_TOOLS_SYMBOLS_H
#define KEDGE_TOOLS_SYMBOLS_H

#include "tools/trace.h"

struct symbols;

/* One line of a stack. A machine frame yields several where calls were inlined, innermost first. */
struct symbols_line {
    const char *function; /* never NULL: "name", "name+0x12" or "module+0x1234" */
    const char *file;     /* full path as DWARF has it, NULL = not known */
    unsigned line;        /* 0 = not known */
    const char *module;   /* path of the module, "" = none */
    bool is_ours;         /* a frame of the program or its libraries, not of CUDA, kedge or libc */
};

struct symbols *symbols_new(const struct trace *trace);
void symbols_free(struct symbols *symbols);

/* All lines of a stack, innermost first. Valid until symbols_free. */
const struct symbols_line *symbols_stack(
        struct symbols *symbols, uint32_t stack, size_t *ret_count);

/* "function file:line" of the innermost line that is the program's; "(no stack)" without one. Valid until symbols_free. */
const char *symbols_site(struct symbols *symbols, uint32_t stack);

/* The path of the library (or program) that asked: the module of the innermost line that is the program's; "" unknown. */
const char *symbols_owner(struct symbols *symbols, uint32_t stack);

/* Modules whose file on this machine is another build, or missing: NULL at the end of the list. For notices. */
const char *symbols_trouble(const struct symbols *symbols, size_t index);

/* The last part of a path. */
const char *symbols_base_name(const char *path);

#endif
