/* SPDX-License-Identifier: MIT */
/*
 * symcache.h - names of frames as text, so that a capture can be read without the program's files.
 *
 *     kedge-symbols<TAB>1
 *     m<TAB>BUILD-ID or -<TAB>IDENTITY<TAB>PATH<TAB>NOTE      a module; what follows is its
 *     f<TAB>OFFSET                                            a frame; a call at this ELF address
 *     l<TAB>FUNCTION<TAB>FILE<TAB>LINE                        a line of it, innermost first
 *
 * Numbers are hexadecimal but LINE; in texts, \\t \\n \\r and \\\\ stand for tab, line feed,
 * carriage return and backslash. NOTE: why its frames have no names, "" if they have. Frames
 * without lines had no names on the machine that wrote the text.
 *
 * Read from any bytes: a fault is one line with its number. Threads: none. Memory: vec.h, bounded
 * by the text's length.
 */
#ifndef KEDGE_TOOLS_SYMCACHE_H
#define KEDGE_TOOLS_SYMCACHE_H

#include <stdio.h>

#include "tools/symbols/dwarfnames.h"
#include "tools/trace/trace.h"

struct symcache;

/* NULL: the text does not have this form, as *ret_why tells the user; the caller frees it. */
struct symcache *symcache_read(const char *text, size_t length, char **ret_why);
void symcache_free(struct symcache *cache);

/* Whether it contains this build of the module. *ret_note: why it has no names, "" if it has. */
bool symcache_has_module(const struct symcache *cache, const struct trace_module *module,
        uint32_t *ret_number, const char **ret_note);

/* The lines of a frame of module `number`; false: unknown. Texts live as long as the cache. */
bool symcache_find(const struct symcache *cache, uint32_t number, uint64_t offset,
        const struct dwarfnames_line **ret_lines, size_t *ret_count);

/* Writes what symcache_read reads, in this order. */
void symcache_write_head(FILE *out);
void symcache_write_module(FILE *out, const struct trace_module *module, const char *note);
void symcache_write_frame(FILE *out, uint64_t offset);
void symcache_write_line(FILE *out, const struct dwarfnames_line *line);

#endif
