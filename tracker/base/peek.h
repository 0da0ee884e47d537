/* SPDX-License-Identifier: MIT */
/*
 * peek.h - reads memory of the program that may not be mapped.
 *
 * The kernel reports whether a page is readable, by a system call that every C program needs:
 * rt_sigprocmask with an invalid operation reads the set and changes nothing (EFAULT, else EINVAL).
 * Not process_vm_readv, which containers and kernels refuse; nor a pipe, whose descriptors belong
 * to the program (R99, no descriptor of ours).
 *
 * Threads: any. If another thread of the program unmaps the memory in between, the read faults, as
 * it would in the call that names it.
 */
#ifndef KEDGE_TRACKER_PEEK_H
#define KEDGE_TRACKER_PEEK_H

#include <stdbool.h>
#include <stddef.h>

/* Copies `bytes` from `from`; false: some of it is unreadable, and nothing is copied. */
bool peek_copy(void *to, const void *from, size_t bytes);

#endif
