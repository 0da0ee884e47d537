/* SPDX-License-Identifier: MIT */
/*
 * symfile.h - the files on this machine that have the names of a captured module.
 *
 * The module's own file if it is still the build that ran; else a file with the captured build-id among separate debug
 * files (FOLDER/.build-id/ab/cdef..., also .debug) or in debuginfod's cache. libdw then finds what belongs to it: by build-id
 * in the same folders, by .gnu_debuglink, in debuginfod's cache. The network is never asked, whatever DEBUGINFOD_URLS says.
 *
 * A file of another build is refused: a wrong name is worse than none. Without a build-id the file's content is compared
 * (tracker/readbuild.h). Threads: none, it changes the environment for a moment. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SYMFILE_H
#define KEDGE_TOOLS_SYMFILE_H

#include <elfutils/libdwfl.h>

#include "tools/trace.h"

#define SYMFILE_FOLDERS ":.debug:/usr/lib/debug" /* as libdw has them */

/* An opened module. */
struct symfile {
    Dwfl *dwfl;
    Dwfl_Module *module; /* NULL: no file has its names */
    char *why;           /* then: a line that says so, NULL if there is nothing to say */
    char *folders;
};

/* Always fills *ret_file. `folders` as SYMFILE_FOLDERS; copied. */
void symfile_open(
        const struct trace_module *captured, const char *folders, struct symfile *ret_file);
void symfile_close(struct symfile *file);

/* The file that names come from, and the one with the DWARF if that is another (NULL). Valid until symfile_close. */
const char *symfile_main_path(const struct symfile *file);
const char *symfile_debug_path(const struct symfile *file);

#endif
