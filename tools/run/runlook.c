/* SPDX-License-Identifier: MIT */
#include "tools/run/runlook.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/run/spawn.h"
#include "tracker/base/runmark.h"

void runlook_begin(struct runlook *look, const char *run, char **ret_path)
{
    char *name = vec_format(RUNMARK_NAME "%s", run);
    void *at = MAP_FAILED;

    *look = (struct runlook){.fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    *ret_path = NULL;
    free(name);
    /* The file must not end within a page that a process stores to. */
    if (look->fd >= 0 && ftruncate(look->fd, sizeof(*look->mark)) == 0
            && fcntl(look->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        at = mmap(NULL, sizeof(*look->mark), PROT_READ | PROT_WRITE, MAP_SHARED, look->fd, 0);
    if (at == MAP_FAILED) {
        runlook_close(look);
        return;
    }
    look->mark = at;
    *ret_path = vec_format("/proc/%d/fd/%d", getpid(), look->fd);
}

void runlook_close(struct runlook *look)
{
    if (look->fd >= 0)
        (void)close(look->fd);
    look->fd = -1;
}

void runlook_done(struct runlook *look)
{
    runlook_close(look);
    if (look->mark)
        (void)munmap(look->mark, sizeof(*look->mark));
    look->mark = NULL;
}

static uint32_t runlook_get(const _Atomic uint32_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

/* The name of a code of cuInit, "" if unknown. Source: cuda.h, enum cudaError_enum. */
static const char *runlook_code(uint32_t code)
{
    static const struct {
        uint32_t code;
        const char *text;
    } known[] = {
            {2, ": the device is out of memory"},
            {34, ": the driver is the stub that programs are linked with"},
            {46, ": the device is not available"},
            {100, ": there is no CUDA device"},
            {101, ": there is no such device"},
            {802, ": the system is not ready yet"},
            {803, ": the driver and its library do not match"},
            {804, ": compatibility mode is not supported on this device"},
            {999, ": unknown error"},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].code == code)
            return known[i].text;
    return "";
}

/* libkedge.so was in processes that loaded no driver which it serves. */
static char *why_undriven(const struct runmark *mark, int signal)
{
    uint32_t loaded = runlook_get(&mark->loaded), ended = runlook_get(&mark->ended);
    const char *es = loaded == 1 ? "" : "es";

    if (signal)
        return vec_format(
                "no process with libkedge.so in it loaded CUDA before signal %d ended the program",
                signal);
    if (ended < loaded && !runlook_get(&mark->lost))
        return vec_format(
                "%" PRIu32 " of %" PRIu32
                " process%s with libkedge.so became another program without it (LD_PRELOAD "
                "cleared or replaced: env -i, a wrapper), or was killed; none loaded CUDA",
                loaded - ended, loaded, es);
    return vec_format(
            "no process with libkedge.so in it loaded CUDA (%" PRIu32
            " had it); one that was started with LD_PRELOAD cleared or replaced (env -i, sudo, a "
            "container) is not seen",
            loaded);
}

/* From the processes' notes; NULL = they do not show a reason. */
static char *why_by_mark(const struct runmark *mark, int signal)
{
    uint32_t refused = runlook_get(&mark->refused);

    if (runlook_get(&mark->started))
        return vec_text(
                "kedge was at work in a process, and no file of it is there: what it wrote on "
                "standard error says why");
    if (refused && !runlook_get(&mark->inited))
        return vec_format("the driver answered cuInit with error %" PRIu32 "%s", refused,
                runlook_code(refused));
    if (runlook_get(&mark->apart))
        return vec_text(
                "CUDA's driver was loaded in a namespace of its own (dlmopen), where kedge does "
                "not see its calls");
    if (runlook_get(&mark->driven))
        return vec_format(
                "CUDA's driver was loaded and %s, and no call followed that kedge records",
                runlook_get(&mark->inited) ? "initialised" : "not initialised");
    return runlook_get(&mark->loaded) ? why_undriven(mark, signal) : NULL;
}

char *runlook_why(const struct runlook *look, const char *program, const char *run, int signal)
{
    bool is_kedge = spawn_is_kedge(program);
    int pid = is_kedge ? 0 : spawn_still_runs(run);
    char *why = NULL;

    if (is_kedge)
        why = vec_text("the program is kedge: the run that it began has the capture");
    else if (pid)
        why = vec_format("process %d of this run still runs, and has not used CUDA yet", pid);
    if (!why && look->mark)
        why = why_by_mark(look->mark, signal);
    if (!why)
        why = spawn_why_without(program);
    if (!why)
        why = vec_format("%s",
                look->mark
                        ? "no process said that libkedge.so was in it (a container, or a program "
                          "that LD_PRELOAD does not reach)"
                        : "no process used CUDA, or libkedge.so was not in it (sudo, a container "
                          "or another LD_PRELOAD leave it out)");
    return why;
}
