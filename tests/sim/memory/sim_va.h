/* SPDX-License-Identifier: MIT */
/*
 * sim_va.h - device addresses: one large piece of address space in which nothing is mapped.
 *
 *     reserved (PROT_NONE) ─back─► anonymous pages ─drop─► reserved
 *                          ─map──► a memfd's pages ─drop─► reserved
 *
 * Whatever is not backed really faults. Pages are taken from the host when they are touched and
 * given back when they are dropped. A freed range of the same size is handed out again first, as
 * drivers do, so that stale addresses are found out.
 *
 * Does not know what stands at an address (sim_ledger.h) nor count bytes (sim_device.h).
 * Threads: under the lock. The system calls are made directly: to a sanitizer the device's memory
 * is not the program's.
 */
#ifndef KEDGE_TESTS_SIM_SIM_VA_H
#define KEDGE_TESTS_SIM_SIM_VA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `size` bytes of addresses (a multiple of 2 MiB) aligned to `align`; 0 when there are none. */
uint64_t sim_va_take(uint64_t size, uint64_t align);

/* The same at the address `wanted`; 0 if that is not free. */
uint64_t sim_va_take_at(uint64_t wanted, uint64_t size);
void sim_va_give(uint64_t addr, uint64_t size);

/* Whether this is a device address at all. */
bool sim_va_has(uint64_t addr);

/* Fresh zeroed pages, readable and writable. 0 or -errno. */
int sim_va_back(uint64_t addr, uint64_t size);

/* Pages of `fd`, without access. 0 or -errno. */
int sim_va_map(uint64_t addr, uint64_t size, int fd, uint64_t offset);

/*
 * A file that stays open under a number. The program may close the number and open something else there, so it is used and closed
 * only while it is of that file.
 */
struct sim_file {
    int fd; /* -1: none */
    uint64_t device, inode;
};
struct sim_file sim_file_of(int fd);
bool sim_file_is_there(const struct sim_file *file);
void sim_file_close(const struct sim_file *file);

/* PROT_* of mmap. 0 or -errno. */
int sim_va_protect(uint64_t addr, uint64_t size, int protection);

/* No pages any more: an access faults. */
void sim_va_drop(uint64_t addr, uint64_t size);

/* The content is zero again and backed pages go back to the host; access stays as it is. */
void sim_va_forget(uint64_t addr, uint64_t size);

#endif
