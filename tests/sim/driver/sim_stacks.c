/* SPDX-License-Identifier: MIT */
#include "tests/sim/driver/sim_stacks.h"

#include "tests/sim/base/sim_config.h"

#include "tests/sim/base/sim_core.h"
#include "tests/sim/driver/sim_python.h"

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

/* The objects that the calls of a stack lie in. */
struct homes {
    const uintptr_t *calls;
    int count;
    const char *path[FRAMES_MAX]; /* "" is the program; NULL: none */
    uintptr_t base[FRAMES_MAX];
};

static int take_home(struct dl_phdr_info *object, size_t size, void *data)
{
    struct homes *homes = data;

    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        for (int n = 0; part->p_type == PT_LOAD && n < homes->count; n++) {
            if (homes->calls[n] - object->dlpi_addr - part->p_vaddr < part->p_memsz) {
                homes->path[n] = object->dlpi_name;
                homes->base[n] = object->dlpi_addr;
            }
        }
    }
    return 0;
}

static void put_frames(FILE *line, void *const *frames, int count)
{
    uintptr_t calls[FRAMES_MAX];
    struct homes homes = {.calls = calls, .count = count};

    for (int i = 0; i < count; i++)
        calls[i] = (uintptr_t)frames[i] - 1; /* it may belong to the next function already */
    (void)dl_iterate_phdr(take_home, &homes);
    for (int i = 0; i < count; i++) {
        const char *path = homes.path[i];
        if (path)
            (void)fprintf(line, "\t%s+0x%lx%s", *path ? path : program_path,
                    (unsigned long)(calls[i] - homes.base[i]),
                    sim_python_is_loop(calls[i]) ? "*" : "");
        else
            (void)fprintf(line, "\t?+0x%lx", (unsigned long)calls[i]);
    }
}

/* Its frame is large: a thread with a small stack enters it only where stacks are wanted. */
__attribute__((noinline)) static void write_stack(const char *where, uint64_t addr, uint64_t bytes)
{
    void *frames[FRAMES_MAX];
    char *text = NULL;
    size_t length = 0;
    FILE *line;
    int count;

    count = backtrace(frames, FRAMES_MAX);
    line = open_memstream(&text, &length);
    if (!line)
        return;
    (void)fprintf(line, "%s\t%d\t0x%llx\t%llu\t%d", where, (int)gettid(), (unsigned long long)addr,
            (unsigned long long)bytes, count);
    put_frames(line, frames, count);
    sim_python_put(line);
    (void)fputc('\n', line);
    (void)fclose(line);
    /* what is lost to a full disk is missing in the comparison */
    if (write(stacks_fd, text, length) != (ssize_t)length)
        sim_say("SIMCUDA_STACKS: %s", strerror(errno));
    free(text);
}

void sim_stacks_born(const char *where, uint64_t addr, uint64_t bytes)
{
    if (stacks_fd >= 0)
        write_stack(where, addr, bytes);
}
