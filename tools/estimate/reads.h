/* SPDX-License-Identifier: MIT */
/*
 * reads.h - where a program has read values that the simulated device did not compute.
 *
 *     PID.reads (tests/sim/driver/sim_reads.h) ─► lines of the program, each with its operator
 *
 * An operator that asks how large its result is (nonzero, unique ...) makes a tensor of an invented
 * size: what is allocated behind that is not known. Any other read may steer a decision.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_READS_H
#define KEDGE_TOOLS_READS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reads_place {
    char *operator_name; /* "nonzero"; "-": a read of the program's own */
    char *place;         /* "route moe.py:31"; of the program's own line, if there is one */
    uint64_t count;
};

struct reads {
    struct reads_place *places; /* sizes first, then by count */
    size_t count, room;
    uint64_t sizes; /* reads of sizes */
    uint64_t others;
};

/* Adds a process's file; nothing if there is none. */
void reads_add(struct reads *reads, const char *path);
void reads_sort(struct reads *reads);
void reads_done(struct reads *reads);

/* Whether the size of a tensor was read. */
bool reads_is_size(const struct reads_place *place);

#endif
