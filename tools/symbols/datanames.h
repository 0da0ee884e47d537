/* SPDX-License-Identifier: MIT */
/*
 * datanames.h - the variable at an address of a module, with the member or element there.
 *
 *     DWARF: "state.buffers[2].big", "cache in lookup" of a static in a function, with file and line
 *     else the symbol table: "state+0x48"
 *
 * A word of a frame is a local variable or argument, if DWARF tells its place by the frame's.
 *
 * A path ends at members whose names begin with an underscore, which are a library's own:
 * "std::vector" has one word for its users. All variables of a module are collected when it is first
 * asked for. Threads: none. Memory: vec.h; texts live as long as the object.
 */
#ifndef KEDGE_TOOLS_DATANAMES_H
#define KEDGE_TOOLS_DATANAMES_H

#include "tools/symbols/dwarfnames.h"

struct datanames;

/* For the module of `names`, which outlives it. */
struct datanames *datanames_new(Dwfl_Module *module, struct dwarfnames *names);
void datanames_free(struct datanames *data);

/* The variable at the offset of a frame with a FORMAT_FRAME_KIND (format.h). */
bool datanames_at(struct datanames *data, uint64_t offset, struct dwarfnames_line *ret_line);

#endif
