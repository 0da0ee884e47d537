/* SPDX-License-Identifier: MIT */
/*
 * paddle_log.h - what Paddle's allocator says at GLOG_v=10, written by a trainer that has no Paddle.
 *
 * The words are those of auto_growth_best_fit_allocator.cc (Paddle 3), behind the prefix of glog: sizes are rounded up to 256, each
 * block has a chunk of its own, and a chunk that is free goes back (FLAGS_free_idle_chunk). In between stands what such logs have
 * besides: other files' lines, of another thread as well, and messages of several lines.
 *
 * Threads: one.
 */
#ifndef KEDGE_TRAINERS_PADDLE_LOG_H
#define KEDGE_TRAINERS_PADDLE_LOG_H

#include <stdint.h>

struct paddle_log;

/* NULL where `path` is NULL; ends the program where the file cannot be made. The functions below do nothing with NULL. */
struct paddle_log *paddle_log_open(const char *path);
void paddle_log_close(struct paddle_log *log);

void paddle_log_alloc(struct paddle_log *log, uint64_t bytes, const void *ptr);
void paddle_log_free(struct paddle_log *log, uint64_t bytes, const void *ptr);

/* A line of the program's own, without a prefix: "START SOT_CALL_0". */
void paddle_log_say(struct paddle_log *log, const char *word, const char *name);

#endif
