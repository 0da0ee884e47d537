/* SPDX-License-Identifier: MIT */
#include "tests/trainers/paddle_log.h"

#include "tests/trainers/trainer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define ALIGNMENT 256u
#define ALLOCATOR "auto_growth_best_fit_allocator.cc"

struct paddle_log {
    FILE *out;
    uint64_t allocs;
};

struct paddle_log *paddle_log_open(const char *path)
{
    struct paddle_log *log = path ? calloc(1, sizeof *log) : NULL;

    if (!path)
        return NULL;
    if (log)
        log->out = fopen(path, "we");
    if (!log || !log->out)
        trainer_fail(1, "cannot write the log");
    return log;
}

void paddle_log_close(struct paddle_log *log)
{
    if (!log)
        return;
    if (fclose(log->out) != 0)
        trainer_fail(1, "cannot write the log");
    free(log);
}

/* "I0721 08:12:01.215407  4711 file.cc:106] " and the message. */
__attribute__((format(printf, 5, 6))) static void put_line(const struct paddle_log *log, int thread,
        const char *file, int line, const char *format, ...)
{
    struct timeval now;
    struct tm date;
    va_list args;

    (void)gettimeofday(&now, NULL);
    (void)gmtime_r(&now.tv_sec, &date);
    (void)fprintf(log->out, "I%02d%02d %02d:%02d:%02d.%06ld %5d %s:%d] ", date.tm_mon + 1,
            date.tm_mday, date.tm_hour, date.tm_min, date.tm_sec, (long)now.tv_usec, thread, file,
            line);
    va_start(args, format);
    (void)vfprintf(log->out, format, args);
    va_end(args);
    (void)fputc('\n', log->out);
}

/* What is no memory of the device, and begins like it. */
static void put_noise(const struct paddle_log *log, const void *ptr)
{
    int other = (int)gettid() + 1;

    put_line(log, other, "api.cc", 22906,
            "cast kernel: {\"input\":[\n   backend: GPU,  layout: NCHW,  dtype: float32\n],\n"
            "\"output\":[\n   backend: GPU,  layout: NCHW,  dtype: Undefined\n]}");
    put_line(log, other, "stats.h", 128, "Alloc 4096 bytes, ptr = %p", ptr);
    (void)fprintf(log->out, "Free 4096 bytes, ptr = %p\n\n", ptr);
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void paddle_log_alloc(struct paddle_log *log, uint64_t bytes, const void *ptr)
{
    int thread = (int)gettid();

    if (!log)
        return;
    if (log->allocs++ % 16 == 0)
        put_noise(log, ptr);
    put_line(log, thread, ALLOCATOR, 106,
            "Allocate %" PRIu64 " bytes, aligned to %" PRIu64 ", extra size 0", bytes,
            aligned(bytes));
    put_line(log, thread, ALLOCATOR, 166,
            "Not found and reallocate %" PRIu64 "(%p), and remaining 0", aligned(bytes), ptr);
    put_line(log, thread, ALLOCATOR, 178, "Alloc %" PRIu64 " bytes, ptr = %p", aligned(bytes), ptr);
}

void paddle_log_free(struct paddle_log *log, uint64_t bytes, const void *ptr)
{
    int thread = (int)gettid();

    if (!log)
        return;
    put_line(log, thread, ALLOCATOR, 187, "Free %" PRIu64 " bytes, ptr = %p", aligned(bytes), ptr);
    put_line(log, thread, ALLOCATOR, 234, "Free chunk with size %" PRIu64, aligned(bytes));
}

void paddle_log_say(struct paddle_log *log, const char *word, const char *name)
{
    if (log)
        (void)fprintf(log->out, "%s %s\n", word, name);
}
