/* SPDX-License-Identifier: MIT */
/*
 * ask.h - asks the process that writes a capture for a walk through its objects, and waits for it.
 *
 *     the capture's page ─► asked + 1, wakes the library's thread (preload/held/asked.c)
 *                        ◄─ answered, which wakes this process
 *
 * Threads: none. Memory: none that stays.
 */
#ifndef KEDGE_TOOLS_ASK_H
#define KEDGE_TOOLS_ASK_H

#include <stdint.h>

/*
 * *ret_walk: the number of the walk, which is in the capture now. Waits for `ms` at most; if the
 * answer does not come, the request is withdrawn. Returns 0, or an exit code of the tool after one
 * line on stderr with the reason.
 */
int ask_for_walk(const char *path, int ms, uint32_t *ret_walk);

#endif
