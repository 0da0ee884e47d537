/* SPDX-License-Identifier: MIT */
/*
 * sim_stacks.h - who asked for each allocation: SIMCUDA_STACKS=file, a line per allocation in file.PID.
 *
 *     where tid address size native frame... python [function file line]...       (separated by tabs)
 *
 * where     program: told by the witness, so above an allocator under test; driver: a call of the driver that
 *           allocated (cuMemAlloc and kin, cuMemCreate with its handle for an address)
 * native    how many frames follow, innermost first: module+0xoffset, the return address less one as an address of
 *           the ELF file; ?+0xaddress for code in no module; a * behind it: in the interpreter's loop
 * python    how many Python frames follow, innermost first (sim_python.h)
 *
 * By glibc's backtrace(), the loader's own tables and the interpreter's own interface, and by nothing of the library
 * under test, so that its stacks can be compared. Numbers are decimal, addresses hexadecimal. A line is written
 * at once, before the caller gets its address, so lines of one address are in the order of its tenants.
 *
 * Threads: any. Not under the lock of sim_core.h, since the interpreter may be waited for.
 */
#ifndef KEDGE_TESTS_SIM_SIM_STACKS_H
#define KEDGE_TESTS_SIM_SIM_STACKS_H

#include <stdint.h>

/* Reads SIMCUDA_STACKS. Inside the once of sim_core.c. */
void sim_stacks_open(void);

/* `where` as above. Nothing without SIMCUDA_STACKS. */
void sim_stacks_born(const char *where, uint64_t addr, uint64_t bytes);

#endif
