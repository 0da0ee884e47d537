/* SPDX-License-Identifier: MIT */
#include "tests/sim/sim_stacks.h"

#include "tests/sim/sim_config.h"

#include "tests/sim/sim_core.h"
#include "tests/sim/sim_python.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FRAMES_MAX 256

static int stacks_fd = -1;          /* fixed by sim_stacks_open */
static char program_path[PATH_MAX]; /* the loader has no name for it */

void sim_stacks_open(void)
{
    const char *path = getenv("SIMCUDA_STACKS");
    char file[PATH_MAX];
    ssize_t length;

    if (!path || !*path)
        return;
    length = readlink("/proc/self/exe", program_path, sizeof(program_path) - 1);
    program_path[length > 0 ? length : 0] = '\0';
    (void)snprintf(file, sizeof(file), "%s.%d", path, (int)getpid());
    stacks_fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (stacks_fd < 0)
        sim_config_refuse("SIMCUDA_STACKS", file, strerror(errno));
}

static void put_frame(FILE *line, void *address)
{
    uintptr_t call = (uintptr_t)address - 1; /* it may belong to the next function already */
    struct dl_find_object found;
    const char *path;

    if (_dl_find_object((char *)address - 1, &found) != 0) {
        (void)fprintf(line, "\t?+0x%lx", (unsigned long)call);
        return;
    }
    path = found.dlfo_link_map->l_name;
    (void)fprintf(line, "\t%s+0x%lx%s", path && *path ? path : program_path,
            (unsigned long)(call - found.dlfo_link_map->l_addr),
            sim_python_is_loop(call) ? "*" : "");
}

void sim_stacks_born(const char *where, uint64_t addr, uint64_t bytes)
{
    void *frames[FRAMES_MAX];
    char *text = NULL;
    size_t length = 0;
    FILE *line;
    int count;

    if (stacks_fd < 0)
        return;
    count = backtrace(frames, FRAMES_MAX);
    line = open_memstream(&text, &length);
    if (!line)
        return;
    (void)fprintf(line, "%s\t%d\t0x%llx\t%llu\t%d", where, (int)gettid(), (unsigned long long)addr,
            (unsigned long long)bytes, count);
    for (int i = 0; i < count; i++)
        put_frame(line, frames[i]);
    sim_python_put(line);
    (void)fputc('\n', line);
    (void)fclose(line);
    /* what is lost to a full disk is missing in the comparison */
    if (write(stacks_fd, text, length) != (ssize_t)length)
        sim_say("SIMCUDA_STACKS: %s", strerror(errno));
    free(text);
}
