/* SPDX-License-Identifier: MIT */
/*
 * submit.h - what every hooked submission does around the real call (R66, R86).
 *
 *     idle? ─ yes ─► REAL            one load, one branch
 *       └ no ─► submit_begin ─► the arguments are looked at ─► REAL, unless they touch what is released ─► submit_end
 *
 * submit_begin may find that nothing is to be looked at after all (our own call, pass-through, the driver just became
 * known); it says false then, and nothing has to be ended. Between begin and end the thread is a reader and inside kedge.
 */
#ifndef KEDGE_PRELOAD_SUBMIT_H
#define KEDGE_PRELOAD_SUBMIT_H

#include "preload/cuda_abi.h"
#include "preload/guard.h"
#include "preload/resolve.h"

#include <stdbool.h>

bool submit_begin(void);
void submit_end(void);

#endif
