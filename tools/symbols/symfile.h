/* SPDX-License-Identifier: MIT */
/*
 * symfile.h - the files on this machine that have the names of a captured module.
 *
 * A file in a bundle, if it was packed with its modules. Else the module's own file if it is still
 * the build that ran; else a file with the captured build-id among separate debug files
 * (FOLDER/.build-id/ab/cdef..., also .debug) or in debuginfod's cache. libdw then finds the debug
 * file: by build-id in the same folders, by .gnu_debuglink, in debuginfod's cache. The network is
 * never used, whatever DEBUGINFOD_URLS says.
 *
 * A file of another build is refused: a wrong name is worse than none. Without a build-id the
 * file's content is compared (tracker/reader/readbuild.h). Threads: none, it changes the
 * environment for a moment. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_SYMFILE_H
#define KEDGE_TOOLS_SYMFILE_H

#include <elfutils/libdwfl.h>

#include "tools/symbols/bundle.h"
#include "tools/trace/trace.h"

/* Folders of separate debug files, in libdw's form; a test sets others. */
extern char *symfile_folders;

/* An opened module. */
struct symfile {
    Dwfl *dwfl;
    Dwfl_Module *module; /* NULL: no file has its names */
    char *why;           /* a line about missing names or lines; NULL = nothing is missing */
    struct bundle_modules *packed;
    char *packed_debug; /* name of the separate debug file in `packed`, NULL = not looked for */
};

/* Always fills *ret_file, which must not move afterwards. `packed`: NULL = none. */
void symfile_open(const struct trace_module *captured, struct bundle_modules *packed,
        struct symfile *ret_file);
void symfile_close(struct symfile *file);

/* The file with the names, and another with the DWARF; NULL = none. Valid until symfile_close. */
void symfile_paths(const struct symfile *file, const char **ret_main, const char **ret_debug);

/*
 * Names of a module's files in a bundle: .build-id/AB/CDEF.. as debuggers look for them, without a
 * build-id identity/0123456789abcdef-NAME; its separate debug file has .debug appended. The caller
 * frees it. NULL: nothing identifies the build.
 */
char *symfile_packed_name(const struct trace_module *captured, bool is_debug);

#endif
