/* SPDX-License-Identifier: MIT */
/*
 * sidecar.h - the hint file of this run: found, read, judged, and turned into rules that may act.
 *
 *     KEDGE_HINTS ─► hintfile_read ─► this program? ─► same builds? ─► mode ─► receipt? ─► struct hints
 *                       │ error           │ no             │ no          │        └ live without one: shadow, one line
 *                       └ one line        └ silence        └ shadow      └ KEDGE_HINTS_MODE replaces the file's
 *
 * Refused, with one line, is also `live` where the driver cannot tell the layout of a kernel's parameters (R86).
 * A file that is not for this program is passed over in silence: child processes inherit the variable.
 * Called once, when life starts. Uses malloc (hintfile.h). Rules: R53 R54 R86 R87.
 */
#ifndef KEDGE_PRELOAD_SIDECAR_H
#define KEDGE_PRELOAD_SIDECAR_H

#include "alloc/hint.h"
#include "tracker/config.h"

#include <stdbool.h>

struct sidecar {
    struct hints *hints; /* NULL = none */
    bool acts;           /* a rule is in trap or live */
    bool lives;          /* a rule is in live */
};

/* Always leaves *ret_sidecar valid. Tells the capture what is in force. */
void sidecar_load(const struct config *config, bool serves, struct sidecar *ret_sidecar);

#endif
