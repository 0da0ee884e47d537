/* SPDX-License-Identifier: MIT */
/*
 * symtable.h - finds the symbol of a module's symbol table that covers an address.
 *
 * libdw reads the whole table for each address that it is asked about: with hundreds of frames in
 * libraries of 100,000 symbols that is nearly all of a report's time. This module reads the table
 * once, at the first query, and sorts it. The answers are libdw's:
 *
 *     a global symbol that covers the address ─► else a local one ─► else the label before it
 *
 * Of several the one that starts last is used; for equal starts global before weak, then the
 * shorter one. A label is a symbol without a size, as in assembly language: it counts if no symbol
 * with a size ends after it, and a global one at the address itself comes before the local symbols.
 * Labels are rare, so libdw itself is asked for them.
 *
 * Threads: none. Memory: vec.h, 32 bytes for each symbol.
 */
#ifndef KEDGE_TOOLS_SYMTABLE_H
#define KEDGE_TOOLS_SYMTABLE_H

#include <stdint.h>

#include <elfutils/libdwfl.h>

struct symtable;

/* Of one module; `module` is the caller's and outlives it. */
struct symtable *symtable_new(Dwfl_Module *module);
void symtable_free(struct symtable *table);

/*
 * The symbol at an address in libdwfl's address space, as in the file (not demangled), and the
 * distance of the address from its start in bytes; NULL: none. Valid as long as the module.
 */
const char *symtable_find(struct symtable *table, GElf_Addr address, uint64_t *ret_distance);

#endif
