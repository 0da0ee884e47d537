/* SPDX-License-Identifier: MIT */
/*
 * heldnames.h - names in the rows of a scan (preload/scan/scan.h).
 *
 *     "#12" ─► frame of stack 12 ─► symbols.h ─► "global 'cache[2].ptr' of libfoo.so foo.c:7"
 *     "#13 on the stack of thread 'io'" ─► "local 'buffer' in read_all io.c:40 on the stack of ..."
 *
 * A word of a frame that is no variable's, or of no known one, is "a word in read_all io.c:44".
 * Several words of one variable have one name, and are one line. Without names of its own a word has
 * its module's: "libfoo.so+0x4010". Threads: none. Memory: the capture's texts are replaced.
 */
#ifndef KEDGE_TOOLS_HELDNAMES_H
#define KEDGE_TOOLS_HELDNAMES_H

#include "tools/load/load.h"
#include "tools/symbols/symbols.h"

/* Names what has no name yet; `symbols`: of the load's trace. */
void heldnames_fill(const struct load *load, struct symbols *symbols);

#endif
