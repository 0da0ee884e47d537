/* SPDX-License-Identifier: MIT */
#include "tests/sim/driver/sim_reads.h"

#include "tests/sim/base/sim_core.h"
#include "tests/sim/driver/sim_python.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES_MOST  64 /* larger ones are tensors that a program looks at, and no decision */
#define LINES_MOST  10000
#define FRAMES_MOST 64

void sim_reads_brought(uint64_t bytes)
{
    if (bytes <= BYTES_MOST)
        sim_self()->has_read_digest = true;
}

/* The operator that asks how large its result is, "-": none of those that are known. */
static const char *operator_of_stack(void)
{
    static const char *const names[] = {
            "nonzero", "masked_select", "unique_dim", "unique", "repeat_interleave", "bincount"};
    void *frames[FRAMES_MOST];
    int count = backtrace(frames, FRAMES_MOST);

    for (int i = 0; i < count; i++) {
        Dl_info found;
        if (!dladdr(frames[i], &found) || !found.dli_sname || !strstr(found.dli_sname, "native"))
            continue;
        for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
            if (strstr(found.dli_sname, names[n]))
                return names[n];
    }
    return "-";
}

static int open_lines(const char *folder)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%d.reads", folder, (int)getpid());
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Its frames are large: a thread with a small stack enters it only where reads are wanted. */
__attribute__((noinline)) static void write_line(const char *folder)
{
    static atomic_uint lines;
    char *text = NULL;
    size_t length = 0;
    FILE *line;
    int fd;

    if (atomic_fetch_add(&lines, 1) >= LINES_MOST)
        return;
    line = open_memstream(&text, &length);
    if (!line)
        return;
    (void)fputs(operator_of_stack(), line);
    sim_python_put(line);
    (void)fputc('\n', line);
    (void)fclose(line);
    fd = open_lines(folder);
    if (fd < 0 || write(fd, text, length) != (ssize_t)length)
        sim_say("SIMCUDA_PEAKS: %s", strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    free(text);
}

void sim_reads_note(void)
{
    const char *folder;

    if (!sim_self()->has_read_digest)
        return;
    sim_self()->has_read_digest = false;
    folder = getenv("SIMCUDA_PEAKS");
    if (folder && *folder)
        write_line(folder);
}
