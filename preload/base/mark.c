/* SPDX-License-Identifier: MIT */
#include "preload/base/mark.h"

#include "tracker/base/config.h"
#include "tracker/base/runmark.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct runmark *mark; /* fixed by the constructor; NULL = no mark file */
static pid_t mark_process;
static atomic_bool has_ended;

/*
 * In another PID namespace the path may lead to any file, so the target of the link is checked
 * before it is opened.
 */
static bool mark_is_mark(const char *path, const char *run)
{
    char wanted[80], found[80];
    int length = snprintf(wanted, sizeof wanted, "/memfd:" RUNMARK_NAME "%.*s (deleted)",
            (int)strcspn(run, "+"), run);
    ssize_t n = readlink(path, found, sizeof found);

    return length > 0 && (size_t)length < sizeof wanted && n == length
            && memcmp(found, wanted, (size_t)n) == 0;
}

static _Atomic uint32_t *mark_slot_of(uint32_t process)
{
    for (uint32_t i = 0; i < RUNMARK_PROBES; i++) {
        _Atomic uint32_t *slot = &mark->process[(process + i) % RUNMARK_SLOTS];

        if (atomic_load_explicit(slot, memory_order_relaxed) == process)
            return slot;
    }
    return NULL;
}

/* A process that execs another program with the library preloaded is counted once. */
static void note_loaded(void)
{
    uint32_t process = (uint32_t)mark_process;
    bool is_noted = mark_slot_of(process) != NULL;

    if (is_noted)
        return;
    for (uint32_t i = 0; i < RUNMARK_PROBES && !is_noted; i++) {
        _Atomic uint32_t *slot = &mark->process[(process + i) % RUNMARK_SLOTS];
        uint32_t old = atomic_load_explicit(slot, memory_order_relaxed);

        is_noted = (old == 0 || old == RUNMARK_GONE)
                && atomic_compare_exchange_strong(slot, &old, process);
    }
    if (!is_noted)
        (void)atomic_fetch_add_explicit(&mark->lost, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&mark->loaded, 1, memory_order_relaxed);
}

void mark_loaded(void)
{
    const char *path = config_env(environ, RUNMARK_VARIABLE);
    const char *run = config_env(environ, CONFIG_RUN);
    const char *preload = config_env(environ, "LD_PRELOAD");
    void *at;
    int fd;

    mark_process = getpid();
    /*
     * NVTX loads libkedge.so even into a program that lost LD_PRELOAD; kedge sees none of that
     * program's calls.
     */
    if (!path || !run || !preload || !strstr(preload, "libkedge") || !mark_is_mark(path, run))
        return;
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    at = mmap(NULL, sizeof *mark, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (at == MAP_FAILED)
        return;
    mark = at;
    note_loaded();
}

void mark_ended(void)
{
    _Atomic uint32_t *slot;

    if (!mark || getpid() != mark_process || atomic_exchange(&has_ended, true))
        return;
    slot = mark_slot_of((uint32_t)mark_process);
    if (slot)
        atomic_store_explicit(slot, RUNMARK_GONE, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&mark->ended, 1, memory_order_relaxed);
}

void mark_driver(bool is_apart)
{
    if (mark)
        (void)atomic_fetch_add_explicit(
                is_apart ? &mark->apart : &mark->driven, 1, memory_order_relaxed);
}

void mark_init(int result)
{
    if (mark && result == 0)
        (void)atomic_fetch_add_explicit(&mark->inited, 1, memory_order_relaxed);
    else if (mark)
        atomic_store_explicit(&mark->refused, (uint32_t)result, memory_order_relaxed);
}

void mark_started(void)
{
    if (mark)
        (void)atomic_fetch_add_explicit(&mark->started, 1, memory_order_relaxed);
}
