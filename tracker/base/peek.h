/* SPDX-License-Identifier: MIT */
/*
 * peek.h - memory of the program that may not be there.
 *
 * The kernel says whether a page can be read, by a system call that every C program needs: rt_sigprocmask with an operation that
 * there is none of reads the set and changes nothing (EFAULT, else EINVAL). Not process_vm_readv, which containers and kernels
 * refuse; nor a pipe, whose descriptors belong to the program (R99, no descriptor of ours).
 *
 * Threads: any. What another thread of the program unmaps in between is a fault, as it would be in the call that names it.
 */
#ifndef KEDGE_TRACKER_PEEK_H
#define KEDGE_TRACKER_PEEK_H

#include <stdbool.h>
#include <stddef.h>

/* Copies `bytes` from `from`; false, and nothing is copied: some of it cannot be read. */
bool peek_copy(void *to, const void *from, size_t bytes);

#endif
