/* SPDX-License-Identifier: MIT */
/*
 * pager.h - shows output that is longer than the screen in a pager.
 *
 *     pager_begin ─► stdout has a large buffer: nothing is shown yet, but colours stay on
 *     pager_end   ─► fits the screen: shown as it is · longer: $PAGER, else `less -FRX`, waited for
 *
 * Only if standard output is a terminal with cursor movement (TERM is not "dumb"), and the pager is
 * not "" or "cat". If a pager cannot be started, the output is shown without it. The exit status of
 * kedge is never the pager's, since a user may leave it early. Output beyond PAGER_BYTES goes to
 * the terminal directly.
 *
 * Threads: none. There is one standard output: calls do not nest.
 */
#ifndef KEDGE_TOOLS_PAGER_H
#define KEDGE_TOOLS_PAGER_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/base/args.h"

#define PAGER_BYTES ((size_t)64 << 20) /* of address space; memory is used as output is written */

/* For each command whose reports go through a pager, which sets its offset. */
extern const struct args_option pager_option;

/* Before anything is printed. */
void pager_begin(void);

/* Whether output is held back; then a line about progress may be shown meanwhile. */
bool pager_is_on(void);

/* After everything is printed, in any case; no effect without pager_begin. */
void pager_end(void);

/*
 * The number of lines that a text takes on a terminal with so many columns; escape sequences take
 * no room.
 */
size_t pager_lines(const char *text, size_t length, unsigned columns);

#endif
