/* SPDX-License-Identifier: MIT */
/*
 * ranksum.h - one capture of a job, reduced to the data for a comparison of ranks.
 *
 *     capture ─► load ─► figures · places by call site · anchors by path ─► struct ranksum
 *
 * So the captures of a thousand ranks are read one after the other. The data kept of each is
 * bounded: the sites that held most and the anchors with the highest peaks. Sites, anchors and
 * libraries are numbers of a book that all captures share.
 *
 * Compares nothing (rankjob.h). Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_RANKSUM_H
#define KEDGE_TOOLS_RANKSUM_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/load/sitebook.h"
#include "tracker/hints/hintfile.h"

#define RANKSUM_SITES   1024u      /* of a capture */
#define RANKSUM_ANCHORS 4096u      /* likewise */
#define RANKSUM_PATHS   (1u << 16) /* of all captures */

/* Numbers that the ranks of all jobs share. ranksum_book_new, ranksum_book_done. */
struct ranksum_book {
    struct sitebook sites;
    struct keytable path_keys;
    struct vec_texts paths; /* of anchors */
};

struct ranksum_book ranksum_book_new(void);
void ranksum_book_done(struct ranksum_book *book);

/* A call site: its stack in the book, and its bytes when most was live on its device. */
struct ranksum_site {
    uint32_t stack;
    uint64_t bytes;
};

/* All instances of an anchor path that are recorded from their beginning on. */
struct ranksum_anchor {
    uint32_t path; /* in the book */
    uint32_t instances;
    uint64_t peak; /* the most bytes live in the process while one was open */
    uint64_t left; /* the most bytes that one had allocated and not freed at its exit */
};

/*
 * Blocks that a hint matched: the most that lived at one time, by the program's frees and by the
 * hint's.
 */
struct ranksum_matched {
    char *id;
    enum hint_mode mode;
    uint64_t live, live_most;
    uint64_t kept, kept_most;
};

/* One capture. A figure is UINT64_MAX if events are missing; all are if it is damaged. */
struct ranksum {
    char *path, *rank, *host, *end; /* rank "": the launcher gave none */
    size_t folder_length;           /* of its path, with the slash; 0: no folder */
    uint32_t pid;
    uint64_t start_ns, last_ns; /* CLOCK_REALTIME: the start, and the last recorded moment */
    bool is_clean, is_complete; /* is_complete false: damaged */
    enum hint_mode mode;
    bool has_failed; /* it ran out of memory, and is not known to have ended with status 0 */
    uint64_t ooms;
    uint64_t peak_live, peak_with_hints, peak_held, peak_reserved;
    struct ranksum_matched *hints, all;
    size_t hint_count; /* 0: no hints */
    bool holds;        /* one of them holds blocks that the program frees */

    struct ranksum_site *sites; /* by stack */
    size_t site_count;
    struct ranksum_anchor *anchors; /* by path */
    size_t anchor_count;
    bool lacks_anchors; /* events are missing, or there are more paths than are kept */
    bool is_imported;   /* made from another tool's record (kedge import) */
    uint32_t *modules;  /* in book->sites.trace: the libraries in the stacks of its sites */
    size_t module_count;
};

/* Returns 0, or an exit code of the tool after one line on stderr. */
int ranksum_open(const char *path, struct ranksum_book *book, struct ranksum *ret_sum);
void ranksum_done(struct ranksum *sum);

/* For vec_sort: by folder, then by rank as a number, then by name. */
int ranksum_by_rank(const void *a, const void *b);

#endif
