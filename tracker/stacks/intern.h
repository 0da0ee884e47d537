/* SPDX-License-Identifier: MIT */
/*
 * intern.h - strings, modules and stacks as small numbers, kept for the life of the process.
 *
 * A native stack is one u32: the leaf of a tree whose nodes are (parent, module, offset). Two
 * stacks share their common outer part. Strings (names of anchors and their paths) are interned
 * once, so that a path is a pointer that stays valid and a number in the capture.
 *
 *     ips ─► module + offset ─► node(parent, frame) ─► leaf (u32)
 *
 * Numbers are dense and start at 1 (0 = none), and a parent's number is always smaller than its
 * child's: the capture copies entries [written, count) in order, and a reader needs no second pass.
 *
 * A lookup takes no lock; adding takes one lock for a few lines of memory work. Bounded: beyond
 * INTERN_*_MAX nothing is added, the call returns 0 and a counter rises. Memory: meta.h, never
 * freed. Any thread.
 */
#ifndef KEDGE_TRACKER_INTERN_H
#define KEDGE_TRACKER_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INTERN_STRING_BYTES_MAX 4096u        /* longest string, without the NUL */
#define INTERN_STRINGS_MAX      (1u << 20)   /* distinct strings */
#define INTERN_ARENA_MAX        (256u << 20) /* bytes of all strings */
#define INTERN_NODES_MAX        (1u << 22)   /* distinct (parent, frame) pairs */
#define INTERN_MODULES_MAX      (1u << 14)   /* loaded objects seen, reloads included */
#define INTERN_BUILD_ID_MAX     32u          /* bytes of a build-id that are kept */

/* Classes of modules; only the program's are part of a site (where.h strips the others). */
enum intern_module_kind {
    INTERN_MODULE_PROGRAM, /* part of a site */
    INTERN_MODULE_KEDGE,
    INTERN_MODULE_CUDA, /* libcuda, libcudart */
    INTERN_MODULE_LIBC, /* libc, ld.so, libpthread, vdso */
};

/* A loaded object. Immutable once it has a number. */
struct intern_module {
    uint64_t base; /* lowest mapped address */
    uint64_t end;  /* first address after it */
    uint64_t bias; /* load address minus link address: ELF address = ip - bias */
    uint64_t hash; /* of the build-id; without one, of path and fingerprint */
    uint32_t path; /* string number; the main program's is its /proc/self/exe */
    uint8_t build_id[INTERN_BUILD_ID_MAX];
    uint8_t build_id_bytes; /* 0 = none */
    bool is_main;           /* the program itself */
    enum intern_module_kind kind;
};

/* One frame of a stack. module 0 = code outside loaded objects (generated code); offset is then the
 * address itself. */
struct intern_frame {
    uint32_t module;
    uint64_t offset; /* ELF address of the call: return address - 1 - bias */
};

/* Numbers given so far; entries up to them are complete and immutable. */
struct intern_counts {
    uint32_t strings;
    uint32_t modules;
    uint32_t nodes;
    uint64_t refused; /* additions that a bound refused */
};

/* The number of `text` (`length` bytes, no NUL needed; longer ones are cut). 0 = a bound was hit.
 * No malloc. */
uint32_t intern_string(const char *text, size_t length);

/* The text of a number from intern_string, NUL-terminated, valid for the process's life; "" for
 * 0. */
const char *intern_text(uint32_t string);

/* The number of a text that intern_text returned (only such pointers; "" gives 0). */
uint32_t intern_number(const char *text);

/* Adds a module; equal base, end, path and hash return the earlier number. 0 = a bound was hit. */
uint32_t intern_module(const struct intern_module *module);

/* The leaf of a stack, frames innermost first. 0 = no frames, or a bound was hit. */
uint32_t intern_stack(const struct intern_frame *frames, unsigned count);

/* Entries by number, for the capture. NULL, or false, for an unused number. */
const struct intern_module *intern_module_at(uint32_t module);
bool intern_node_at(uint32_t node, uint32_t *ret_parent, struct intern_frame *ret_frame);

/* Frames of a leaf, innermost first; returns the number written. */
unsigned intern_frames(uint32_t leaf, struct intern_frame *ret_frames, unsigned max);

void intern_counts(struct intern_counts *ret_counts);

/* In the child of a fork: resets the lock, entries stay. */
void intern_fork_child(void);

#endif
