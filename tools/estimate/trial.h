/* SPDX-License-Identifier: MIT */
/*
 * trial.h - one run of a program on the simulated device, and what it held of each device.
 *
 *     launch (run/spawn.h) + SIMCUDA_* ─► the program ─┬─► SIMCUDA_PEAKS: peak of each device, a process
 *                                                      │   and what it read that was not computed
 *                                                      └─► captures: who held it
 *
 * kedge serves nothing here (mode track): the program keeps its own allocator, and the peak is that
 * of the bytes that the device gave away. The device may have more memory than the program is told
 * of, since a program that dies of memory does not tell how much it needs.
 *
 * Files lie in a folder of the trial's own, which trial_done removes. Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_TRIAL_H
#define KEDGE_TOOLS_TRIAL_H

#include "tools/estimate/devices.h"
#include "tools/estimate/reads.h"
#include "tools/load/captures.h"

#define TRIAL_DEVICES 16 /* that the simulated device may have */

enum trial_allocator {
    TRIAL_AS_STATED, /* PyTorch's own, or what the environment says */
    TRIAL_EXPANDABLE,
    TRIAL_ASYNC,
};

struct trial_request {
    const char *who;
    const struct device *device;
    enum trial_allocator allocator;
    unsigned devices;    /* of each process */
    uint64_t memory;     /* bytes that a device has; the program is told the device's own size */
    uint64_t steps;      /* interrupt the program after so many; 0: it runs to its end */
    const char *capture; /* KEDGE_CAPTURE's value; NULL: in the trial's folder */
    char *const *words;
};

/* A process that used a device. */
struct trial_process {
    uint32_t pid;
    char rank[32];                /* "" = none */
    uint64_t peak[TRIAL_DEVICES]; /* bytes */
};

struct trial {
    int status; /* in waitpid's form */
    bool was_stopped;
    struct trial_process *processes;
    size_t count, room;
    struct captures captures;
    struct reads reads; /* values that were not computed */
    char *folder;
};

/* Runs it: 0, or an exit code after one line on stderr. trial_done frees *ret in both cases. */
int trial_run(const struct trial_request *request, struct trial *ret);
void trial_done(struct trial *trial);

/* What a device gave to all processes that used it, each with a context of its own. */
struct trial_use {
    unsigned device;
    unsigned processes;
    uint64_t bytes; /* their peaks, which need not be at one time */
};

/* The device that gave most. */
struct trial_use trial_most(const struct trial *trial);

#endif
