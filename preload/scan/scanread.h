/* SPDX-License-Identifier: MIT */
/*
 * scanread.h - reads the memory of a running program, of which any part may go at any moment.
 *
 * All is read by process_vm_readv: the kernel copies, and says so where nothing is mapped. Where the
 * system refuses the call, nothing is read at all (scanread_works).
 *
 *     objects   loaded files: their writable segments, code and thread-local memory (dl_iterate_phdr)
 *     maps      private memory without a file that can be written (/proc/self/maps): there is malloc's
 *     chunk     a word that is the address of a block of glibc's malloc, by the block's head and by that
 *               of the next one, which must agree; other allocators' blocks are not known
 *
 * Threads: any, no kedge lock held. Takes the lock of the loader's list for a copy of it; one file of
 * /proc at a time. No malloc: the memory is the caller's.
 */
#ifndef KEDGE_PRELOAD_SCANREAD_H
#define KEDGE_PRELOAD_SCANREAD_H

#include "tracker/stacks/intern.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCANREAD_MAPS_MAX    8192u
#define SCANREAD_OBJECTS_MAX 8192u
#define SCANREAD_PAGE        4096u
#define SCANREAD_PAGES       1024u /* that are kept: most blocks are beside others */

/* A segment of a file that was loaded. */
struct scanread_object {
    uint64_t low, high;
    uint64_t bias;
    uint32_t module; /* number of intern.h */
    enum intern_module_kind kind;
    bool is_code;
};

/* The thread-local memory of a file. */
struct scanread_tls {
    uint64_t bytes;
    uint64_t place;  /* where its first content is, to find the file */
    uint64_t number; /* the loader's */
    uint64_t here;   /* this thread's, 0 = none yet */
    uint32_t module;
    enum intern_module_kind kind;
};

struct scanread_map {
    uint64_t low, high;
};

struct scanread_page {
    uint64_t number; /* address / SCANREAD_PAGE */
    bool is_there;
    uint64_t word[SCANREAD_PAGE / sizeof(uint64_t)];
};

struct scanread {
    struct scanread_page page[SCANREAD_PAGES];           /* by number */
    struct scanread_object object[SCANREAD_OBJECTS_MAX]; /* by address */
    struct scanread_tls tls[SCANREAD_OBJECTS_MAX];
    uint32_t objects, tlses;
    struct scanread_map map[SCANREAD_MAPS_MAX]; /* by address */
    uint32_t maps;
    uint64_t tls_bytes; /* that a thread has before its own data, as far as this thread shows it */
    bool has_malloc;    /* the program's malloc is glibc's */
    bool is_cut;        /* there are more objects or maps */
};

bool scanread_works(void);

/* Where this thread's own data begin, behind its static thread-local memory. */
uint64_t scanread_own_data(void);

/* How many of the bytes from `from` on could be read. */
size_t scanread_some(void *to, uint64_t from, size_t bytes);

/* The word at `from`, 0 if it cannot be read. */
uint64_t scanread_word(uint64_t from);

/* The words of a page, as they were when it was first asked for lately; NULL: it cannot be read. */
const uint64_t *scanread_page(struct scanread *read, uint64_t number);

/* Fills *ret_read, which is zero. */
void scanread_begin(struct scanread *ret_read);

/* The map that contains an address; NULL: none. */
const struct scanread_map *scanread_map_of(const struct scanread *read, uint64_t address);

/* The object whose code contains an address; NULL: none. */
const struct scanread_object *scanread_code_of(const struct scanread *read, uint64_t address);

/* Whether a word is the address behind a call. */
bool scanread_is_return(const struct scanread *read, uint64_t word);

/*
 * The block of malloc whose memory begins at `word`, or 8 bytes before it, where C++ counts the
 * elements of an array: its address and size. False: there is none.
 */
bool scanread_chunk(
        struct scanread *read, uint64_t word, uint64_t *ret_address, uint64_t *ret_size);

/* The content of a file of /proc, cut at `room` - 1 bytes, with a NUL; its length. */
size_t scanread_file(const char *path, char *to, size_t room);

#endif
