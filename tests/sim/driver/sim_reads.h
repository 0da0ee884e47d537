/* SPDX-License-Identifier: MIT */
/*
 * sim_reads.h - where a program reads small results that the device did not compute.
 *
 * A program may decide by such a number, and how large a tensor is may depend on it: then what the
 * program allocates is not what it would be on a device. With SIMCUDA_PEAKS=folder each such read of
 * up to 64 bytes is a line in folder/PID.reads:
 *
 *     function python [function file line]...       (separated by tabs)
 *
 * function  the operator of PyTorch whose result has a size that it reads: nonzero_cuda ...; "-": a
 *           read of the program's own, as .item()
 * python    as in sim_stacks.h
 *
 * Of a process at most 10000 lines are written. Threads: any; not under the lock of sim_core.h, since the interpreter may be
 * waited for.
 */
#ifndef KEDGE_TESTS_SIM_SIM_READS_H
#define KEDGE_TESTS_SIM_SIM_READS_H

#include <stdint.h>

/* A copy of `bytes` to the host brings what was not computed: under the lock. */
void sim_reads_brought(uint64_t bytes);

/* At the end of a call of this thread, without the lock: writes the line. */
void sim_reads_note(void);

#endif
