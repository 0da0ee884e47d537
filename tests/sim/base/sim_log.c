/* SPDX-License-Identifier: MIT */
#include "tests/sim/base/sim_log.h"

#include "tests/sim/base/sim_config.h"

#include "tests/sim/base/sim_core.h"
#include "tests/sim/base/sim_faults.h"

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
        sim_config_refuse("SIMCUDA_LOG", path, strerror(errno));
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

/* ---- figures ---- */

/* All of them by name; those per device are written apart. */
static const struct {
    const char *name;
    size_t offset;
} figures[] = {
/* clang-format off */
#define FIGURE(name) {#name, offsetof(struct simcuda_stats, name)}
        /* clang-format on */
        {"driver_calls", offsetof(struct simcuda_stats, calls)}, /* "calls" goes by name */
        FIGURE(cost_ns),
        FIGURE(host_ns),
        FIGURE(submitted),
        FIGURE(executed),
        FIGURE(voluntary),
        FIGURE(on_legacy),
        FIGURE(on_blocking),
        FIGURE(on_non_blocking),
        FIGURE(on_per_thread),
        FIGURE(launches),
        FIGURE(copies),
        FIGURE(copied_in_bytes),
        FIGURE(copied_out_bytes),
        FIGURE(pinned_bytes),
        FIGURE(pinned_peak),
        FIGURE(page_faults),
        FIGURE(pages_evicted),
        FIGURE(migrated_in_bytes),
        FIGURE(migrated_out_bytes),
        FIGURE(host_functions),
        FIGURE(host_refusals),
        FIGURE(event_records),
        FIGURE(context_records),
        FIGURE(stream_waits),
        FIGURE(synchronizes),
        FIGURE(maps),
        FIGURE(unmaps),
        FIGURE(remaps),
        FIGURE(aliases),
        FIGURE(alias_reuses),
        FIGURE(kernels_computed),
        FIGURE(digest_copies),
        FIGURE(captures),
        FIGURE(captures_invalidated),
        FIGURE(graph_launches),
        FIGURE(faults),
        FIGURE(peer_accesses),
        FIGURE(devices_used),
        FIGURE(births),
        FIGURE(deaths),
        FIGURE(reuses),
        FIGURE(cross_stream_reuses),
        FIGURE(merged_reuses),
        FIGURE(steps),
        FIGURE(parks),
        FIGURE(park_timeouts),
#undef FIGURE
};

static uint64_t figure(size_t i)
{
    uint64_t value;

    memcpy(&value, (const char *)&sim_stats + figures[i].offset, sizeof(value));
    return value;
}

static void put_calls(const char *name, uint64_t calls)
{
    put("# calls %s %llu\n", name, (unsigned long long)calls);
}

/* SIMCUDA_STATS: the figures as `name value`, appended at the end of each process. */
static void write_stats(void)
{
    const char *path = getenv("SIMCUDA_STATS");
    FILE *file;

    if (!path || !*path || !sim_stats.calls)
        return;
    file = strcmp(path, "-") == 0 ? stderr : fopen(path, "ae");
    if (!file) {
        sim_say("SIMCUDA_STATS=%s: %s, figures are not written", path, strerror(errno));
        return;
    }
    (void)fprintf(file, "process %d\n", (int)getpid());
    for (int i = 0; i < sim_config.devices; i++)
        (void)fprintf(file, "device_%d_peak %llu\n", i, (unsigned long long)sim_stats.peak[i]);
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        (void)fprintf(file, "%s %llu\n", figures[i].name, (unsigned long long)figure(i));
    if (file != stderr)
        (void)fclose(file);
}

/* At the end of the process: what happened on the device. */
__attribute__((destructor)) static void sim_log_close(void)
{
    const struct simcuda_stats *s = &sim_stats;

    write_stats();
    if (log_fd < 0)
        return;
    for (int i = 0; i < sim_config.devices; i++)
        put("# device %d held %llu peak %llu of %llu\n", i, (unsigned long long)s->held[i],
                (unsigned long long)s->peak[i], (unsigned long long)sim_config.memory);
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        put("# %s %llu\n", figures[i].name, (unsigned long long)figure(i));
    sim_faults_each(put_calls);
}
