/* SPDX-License-Identifier: MIT */
/*
 * pager.h - output that is longer than the screen goes through a pager.
 *
 *     pager_begin ─► stdout has a large buffer: nothing is shown yet, and colours and widths are still the terminal's
 *     pager_end   ─► fits the screen: shown as it is · longer: $PAGER, else `less -FRX`, waited for
 *
 * Only where standard output is a terminal that can be moved on (TERM is not "dumb"), and the pager is not "" or "cat". A pager that
 * cannot be started leaves the output as it is. The exit status of kedge is never the pager's: whoever leaves it early has seen enough.
 * Output beyond PAGER_BYTES goes to the terminal as it comes.
 *
 * Threads: none. There is one standard output: calls do not nest.
 */
#ifndef KEDGE_TOOLS_PAGER_H
#define KEDGE_TOOLS_PAGER_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/base/args.h"

#define PAGER_BYTES ((size_t)64 << 20) /* of address space; as much memory as there is output */

/* Of each command whose reports go through a pager; its offset is the command's business. */
extern const struct args_option pager_option;

/* Before anything is printed. */
void pager_begin(void);

/* Is output held back? Then a line about progress may be shown meanwhile. */
bool pager_is_on(void);

/* After everything is printed, in any case; nothing without pager_begin. */
void pager_end(void);

/* How many lines of a terminal with so many columns a text takes; escape sequences take no room. */
size_t pager_lines(const char *text, size_t length, unsigned columns);

#endif
