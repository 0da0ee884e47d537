/* SPDX-License-Identifier: MIT */
/*
 * sim_digest.h - what a kernel that nobody can run computes: a digest of its name and of what it reads.
 *
 *     name, numbers ─► sim_digest_add ─┐
 *     read memory ───► sim_digest_read ┴─► 64 bits ─► sim_digest_write ─► bytes of a kind
 *
 * So what a program reads back depends on each kernel on the way and on nothing else: no address is in it, and no
 * memory that nobody wrote (sim_contents.h). A block that is handed out too early changes it.
 *
 * The bytes are good for every type that they may be read as: as floats of 8 to 64 bits they are finite and small,
 * and what is known to be an integer is one of 0 to 7, for a host that takes it for a count or an index.
 *
 * Threads: under the lock; the caller has found the memory accessible.
 */
#ifndef KEDGE_TESTS_SIM_SIM_DIGEST_H
#define KEDGE_TESTS_SIM_SIM_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define SIM_DIGEST_START 0xcbf29ce484222325U

enum sim_digest_kind {
    SIM_DIGEST_FLOATS, /* of any size */
    SIM_DIGEST_BYTES,  /* 0 or 1 each: bool, char */
    SIM_DIGEST_SHORTS,
    SIM_DIGEST_INTS,
    SIM_DIGEST_LONGS,
    SIM_DIGEST_KIND_COUNT
};

uint64_t sim_digest_add(uint64_t digest, const void *bytes, size_t size);

/* Of the memory at `addr`, at most `size` bytes, some words of what one operation wrote there. */
uint64_t sim_digest_read(uint64_t digest, uint64_t addr, uint64_t size);

/* Writes all of it up to 1 MiB, a page of each 2 MiB behind, and the end; and says so to sim_contents. */
void sim_digest_write(uint64_t digest, uint64_t addr, uint64_t size, enum sim_digest_kind kind);

#endif
