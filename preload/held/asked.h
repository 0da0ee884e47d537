/* SPDX-License-Identifier: MIT */
/*
 * asked.h - a thread of ours answers what tools ask of the running process: `kedge held PID`.
 *
 *     the capture is made ─► the thread waits for a futex in it ─► held_asked ─► the answer there
 *
 * It answers while the program's threads are in C code for long, since it waits for nothing but the
 * interpreter's lock. It begins with the capture, thus after the first request for device memory:
 * the driver has threads of its own by then. It blocks signals, uses no CPU while nobody asks, and is
 * not in the child of a fork. KEDGE_HELD without `ask`, as by default (R28): there is none.
 *
 * Threads: asked_start in the constructor.
 */
#ifndef KEDGE_PRELOAD_ASKED_H
#define KEDGE_PRELOAD_ASKED_H

#include "tracker/format/format.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Walks now and returns the result. `may_go_on` is told what it does; false: nobody waits for it any
 * more. *ret_walk: the number of the walk, 0 = none.
 */
typedef enum format_ask_result (*asked_answer)(
        bool (*may_go_on)(enum format_ask_state), uint32_t *ret_walk);

void asked_start(asked_answer answer);

#endif
