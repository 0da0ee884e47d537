/* SPDX-License-Identifier: MIT */
/*
 * planned.h - the plan of this run (KEDGE_POOL=plan=FILE): found, read, given to the pool, and what came of it told.
 *
 * Whatever is wrong with the file is one line, and the run goes on without a plan. A plan of another program needs no
 * line: it is not followed, since no four requests of the program stand in it.
 * planned_start is called once, before the first request. Uses malloc (planfile.h). Rules: R53 R54.
 */
#ifndef KEDGE_PRELOAD_PLANNED_H
#define KEDGE_PRELOAD_PLANNED_H

#include "alloc/pool.h"
#include "preload/config.h"

/* `pool` NULL: nothing is served, so nothing is planned. `quantum`: the pool's. */
void planned_start(const struct config *config, struct pool *pool, uint64_t quantum);

/* Tells the capture how the plan is followed; one load and a branch without one. 0 or -errno of the capture. */
int planned_tell(struct pool *pool);

#endif
