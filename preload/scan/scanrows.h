/* SPDX-License-Identifier: MIT */
/*
 * scanrows.h - the rows of a scan: live blocks of one call site with the same set of roots.
 *
 * Threads: that of the scan (scanwords.h).
 */
#ifndef KEDGE_PRELOAD_SCANROWS_H
#define KEDGE_PRELOAD_SCANROWS_H

#include "preload/scan/scanwords.h"

/* Makes the rows from all hits, and frees what was made of them. */
void scanrows_make(struct scan *scan);
void scanrows_clear(struct scan *scan);

/* Writes them into the capture, as those of walk number `walk`. */
void scanrows_record(struct scan *scan, uint32_t walk);

#endif
