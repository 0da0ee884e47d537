/* SPDX-License-Identifier: MIT */
/*
 * sim_contents.h - which bytes of device memory carry something that an operation wrote.
 *
 * A kernel that is not in kernels.def writes a digest of what it reads (sim_digest.h). The digest must be the same
 * with every allocator and in every mode of the library under test, so it may not depend on memory that nobody wrote:
 * what stands there is what a former tenant left. This is the book of it: pieces of addresses that do not overlap,
 * each written by one operation.
 *
 *     write ─► one piece     copy within the device ─► the pieces of its source     birth of a block ─► no piece
 *
 * Content that a copy puts into pinned memory and another one fetches from there, the same bytes of the same size, is what it was:
 * the pieces come back with it. The host may have written there in between without a call, so the bytes are summed up.
 *
 * A reader keeps to the piece that its address is in: behind the end of a piece may stand what another tensor of the
 * same block left there, when the program has an allocator of its own.
 *
 * Reads memory for these sums only, and writes none. Device addresses only, others are ignored. Threads: under the lock.
 */
#ifndef KEDGE_TESTS_SIM_SIM_CONTENTS_H
#define KEDGE_TESTS_SIM_SIM_CONTENTS_H

#include <stdbool.h>
#include <stdint.h>

/* Somebody wrote all of [addr, addr + size). */
void sim_contents_write(uint64_t addr, uint64_t size);

/* The same, and what was written is a digest, or was computed from one. */
void sim_contents_write_digest(uint64_t addr, uint64_t size);

/* What one operation wrote at an address and around it. */
struct sim_piece {
    uint64_t addr, end;
    bool is_digest;
    bool is_open; /* more was written behind it, nobody knows how much */
};

/* The piece at an address is the beginning of something. */
void sim_contents_open(uint64_t addr);

/* False: nobody wrote there, or what stands there may be a former tenant's, behind the beginning of something. */
bool sim_contents_piece(uint64_t addr, struct sim_piece *ret_piece);

/* What was written there is a value no more: a kernel that nobody knows may have written it again. */
void sim_contents_doubt(uint64_t addr);

/* Whether a digest went into any of it, or nobody wrote some of it. */
bool sim_contents_has_digest(uint64_t addr, uint64_t size);

/* Nobody wrote any of it. */
void sim_contents_forget(uint64_t addr, uint64_t size);

/* What is known of `src` is known of `dst`; the two do not overlap. A source on the host counts as written. */
void sim_contents_copy(uint64_t dst, uint64_t src, uint64_t size);

/* What is known of `src` is remembered for the host's memory to which it was copied. */
void sim_contents_keep(uint64_t host, uint64_t src, uint64_t size);

/* `dst` was copied from there: what was remembered, if these are the bytes, or else all of it is written. */
void sim_contents_fetch(uint64_t dst, uint64_t host, uint64_t size);

/* How many bytes from `addr` on one operation wrote, at most `most`; 0: nobody wrote there. */
uint64_t sim_contents_known(uint64_t addr, uint64_t most);

#endif
