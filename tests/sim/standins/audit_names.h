/* SPDX-License-Identifier: MIT */
/*
 * audit_names.h - names that a program's libraries ask a stand-in for, and that it does not have.
 *
 * The loader itself says so only of the first one, and where a library is bound lazily only at the
 * call. Here all are told once its objects are mapped, before any is bound: a line for each library.
 *
 * Known is a name that a library asks for with a version node (NVIDIA's have their soname as that,
 * but cuDNN and NCCL have none: of those the loader tells).
 *
 * Threads: the loader holds its lock around each call of an auditor. Memory: none but its own.
 */
#ifndef KEDGE_TESTS_SIM_AUDIT_NAMES_H
#define KEDGE_TESTS_SIM_AUDIT_NAMES_H

#include <link.h>
#include <stdbool.h>

/* An object that was mapped; `is_ours`: a stand-in. */
void audit_names_add(const struct link_map *map, bool is_ours);

/* An object that goes. */
void audit_names_drop(const struct link_map *map);

/* All objects of a call are mapped: tells what is missing. */
void audit_names_check(void);

#endif
