/* SPDX-License-Identifier: MIT */
#include "tests/sim/sim_log.h"

#include "tests/sim/sim_core.h"
#include "tests/sim/sim_faults.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int log_fd = -1;
static uint64_t log_number;

void sim_log_open(void)
{
    const char *path = getenv("SIMCUDA_LOG");

    if (!path || !*path)
        return;
    if (strcmp(path, "-") == 0) {
        log_fd = STDERR_FILENO;
        return;
    }
    log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log_fd < 0)
        sim_say("SIMCUDA_LOG=%s: %s, calls are not logged", path, strerror(errno));
}

bool sim_log_is_open(void)
{
    return log_fd >= 0;
}

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    int length = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (length > 0 && write(log_fd, line, (size_t)length) < 0)
        log_fd = -1; /* a full disk ends the log, not the program */
}

void sim_log_call(const char *name, uint64_t thread, int result, const char *detail)
{
    if (log_fd < 0)
        return;
    put("%llu t%llu %s%s = %d\n", (unsigned long long)++log_number, (unsigned long long)thread,
            name, detail, result);
}

static void put_calls(const char *name, uint64_t calls)
{
    put("# calls %s %llu\n", name, (unsigned long long)calls);
}

static void put_figure(const char *name, uint64_t value)
{
    put("# %s %llu\n", name, (unsigned long long)value);
}

/* At the end of the process: what happened on the device. */
__attribute__((destructor)) static void sim_log_close(void)
{
    const struct simcuda_stats *s = &sim_stats;

    if (log_fd < 0)
        return;
    for (int i = 0; i < sim_config.devices; i++)
        put("# device %d held %llu peak %llu of %llu\n", i, (unsigned long long)s->held[i],
                (unsigned long long)s->peak[i], (unsigned long long)sim_config.memory);
    put_figure("cost_ns", s->cost_ns);
    put_figure("submitted", s->submitted);
    put_figure("executed", s->executed);
    put_figure("voluntary", s->voluntary);
    put_figure("launches", s->launches);
    put_figure("copies", s->copies);
    put_figure("host_functions", s->host_functions);
    put_figure("event_records", s->event_records);
    put_figure("context_records", s->context_records);
    put_figure("stream_waits", s->stream_waits);
    put_figure("synchronizes", s->synchronizes);
    put_figure("maps", s->maps);
    put_figure("unmaps", s->unmaps);
    put_figure("remaps", s->remaps);
    put_figure("captures", s->captures);
    put_figure("captures_invalidated", s->captures_invalidated);
    put_figure("graph_launches", s->graph_launches);
    put_figure("faults", s->faults);
    put_figure("births", s->births);
    put_figure("deaths", s->deaths);
    put_figure("reuses", s->reuses);
    put_figure("cross_stream_reuses", s->cross_stream_reuses);
    put_figure("steps", s->steps);
    put_figure("parks", s->parks);
    put_figure("park_timeouts", s->park_timeouts);
    sim_faults_each(put_calls);
}
