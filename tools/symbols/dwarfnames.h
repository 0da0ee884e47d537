/* SPDX-License-Identifier: MIT */
/*
 * dwarfnames.h - function, file and line of an address, with the calls that were inlined there.
 *
 * From DWARF; else from the symbol table, with the distance after the name; else nothing. C++ names
 * are demangled if the C++ library is installed, which a C program must not need.
 *
 * Threads: none. Memory: vec.h; the results' texts live as long as the object.
 */
#ifndef KEDGE_TOOLS_DWARFNAMES_H
#define KEDGE_TOOLS_DWARFNAMES_H

#include <stdbool.h>

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>

struct dwarfnames;

struct dwarfnames_line {
    const char *function; /* "name", or "name+0x12" from the symbol table */
    const char *file;     /* full path as in DWARF, NULL = unknown */
    unsigned line;        /* 0 = unknown */
};

/* For one module; `module` is the caller's and outlives it. */
struct dwarfnames *dwarfnames_new(Dwfl_Module *module);
void dwarfnames_free(struct dwarfnames *names);

/* Lines of the call at an ELF address, innermost first; the caller frees the array. 0: unknown. */
size_t dwarfnames_at(
        struct dwarfnames *names, uint64_t address, struct dwarfnames_line **ret_lines);

/* The name of a function, an inlined call or a variable: for C++ the linkage name, which has more. */
const char *dwarfnames_of_die(struct dwarfnames *names, Dwarf_Die *die);

/* A symbol's name, for C++ demangled. */
const char *dwarfnames_readable(struct dwarfnames *names, const char *name);

/* The DIE with a unit's content: of a separate file (-gsplit-dwarf) if any; lines stay here. */
Dwarf_Die dwarfnames_unit(Dwarf_Die *unit);

/*
 * The scopes at an ELF address, innermost first, and the address as in the DWARF; their number, 0:
 * none. The caller frees them.
 */
int dwarfnames_scopes(struct dwarfnames *names, uint64_t address, Dwarf_Die **ret_scopes,
        Dwarf_Addr *ret_address);

#endif
