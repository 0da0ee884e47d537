/* SPDX-License-Identifier: MIT */
/*
 * rmmlog.h - the allocation log of RMM (RMM_LOG_FILE, logging_resource_adaptor).
 *
 *     Thread,Time,Action,Pointer,Size,Stream
 *     4021,10:21:05.118223,allocate,0x7f2c40000000,4096,0x2
 *     4021,10:21:05.120117,free,0x7f2c40000000,4096,0x2
 *
 * Action is allocate, free or "allocate failure" (passed over and counted). Pointer and stream are hexadecimal, with 0x or
 * not. Threads and times do not matter: rows are in the order of the calls.
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_RMMLOG_H
#define KEDGE_TOOLS_RMMLOG_H

#include <stdio.h>

#include "tools/rowread.h"
#include "tools/workload.h"

#define RMMLOG_HEAD "Thread,Time,Action,Pointer,Size,Stream"

/* 0, or -errno and one line in `error`. workload_done in both cases. */
int rmmlog_read(FILE *in, const char *name, struct workload *ret, char error[ROWREAD_ERROR_MAX]);

#endif
