/* SPDX-License-Identifier: MIT */
/*
 * planfile.h - the plan of a step: where each of its allocations is to stand. Written by `kedge plan`, read by the run.
 *
 *     kedge-plan 1
 *     device 0
 *     entrance stream
 *     streams one
 *     quantum 512
 *     area 8192
 *     live 6656
 *     blocks 3
 *     # size offset until site
 *     4096 0 2 9b1f44d0e2a7c315
 *     2560 4096 - 0
 *     4096 0 3 0
 *
 * One line per allocation of the step, in its order; they count from 0. `size` is what a block takes (a multiple of the
 * quantum), `offset` its place in the area. `until` says how long it is used: up to the allocation of this number, before
 * which it is freed. A number beyond the last block's means the next step: with 3 blocks, 4 is block 1 of it. `-` is a
 * block that stays. `site` is the place in the program (site.h), 0 = not known. `live` is the most that is live at once.
 * `#` starts a comment, at the beginning of a line or after a blank; empty lines are nothing.
 *
 * `streams one`: all blocks are of one stream, and what others ask for does not count. `streams all`: the order is that of all
 * requests. A place is free for the next block only where both are of one stream, or the device is past the first.
 *
 * The lifetimes are there so that a plan can be checked without the program: the reader refuses one in which two blocks
 * that are live at once share a byte, in the step or between a step and the next. A run that follows the plan takes
 * nothing on trust: a place whose block has not been freed, or is not passed, is not taken (alloc/plan.h).
 *
 * Does not decide when a plan applies. Uses malloc: called once, at the start, and by tools. Threads: no state.
 */
#ifndef KEDGE_TRACKER_PLANFILE_H
#define KEDGE_TRACKER_PLANFILE_H

#include "alloc/types.h"

#define PLANFILE_VERSION    1
#define PLANFILE_BLOCKS_MAX (1u << 20)
#define PLANFILE_BYTES_MAX  (128u << 20)
#define PLANFILE_AREA_MAX   (UINT64_C(1) << 46)

struct planfile {
    int device;
    enum entrance entrance;
    bool all_streams;
    uint64_t quantum; /* a power of two; sizes, offsets and the area are multiples of it */
    uint64_t area;    /* bytes */
    uint64_t live;    /* the most that is live at once, in bytes; not above the area */
    struct planned *block;
    uint32_t count; /* not 0 */
};

/* `text` is complete: "step.plan:9:6: offset and size reach beyond the area". line 0 = no place in the file. */
struct planfile_error {
    char text[512];
    uint32_t line, column;
};

/*
 * Reads a file that only its owner can have written (R54), at most PLANFILE_BYTES_MAX. 0, or -errno with *ret_error:
 * -EPERM (R54), -EFBIG, -EINVAL (its content), -ENOMEM, or what open said.
 */
int planfile_read(const char *path, struct planfile **ret_file, struct planfile_error *ret_error);

/* The same for bytes in memory; `name` stands in messages. */
int planfile_read_bytes(const void *bytes, size_t length, const char *name,
        struct planfile **ret_file, struct planfile_error *ret_error);

/* NULL is fine. */
void planfile_free(struct planfile *file);

/*
 * The text of a plan; reading it gives the same plan. `note` becomes comment lines below the first, NULL = none; bytes
 * below a blank in it are written as blanks, line ends apart. *ret_text is malloc'd and NUL-terminated; to be stored
 * with mode 0644, else the run refuses it. 0, -ENOMEM, or -EINVAL with *ret_error: a plan that the reader would refuse.
 */
int planfile_write(const struct planfile *file, const char *note, char **ret_text,
        size_t *ret_length, struct planfile_error *ret_error);

/* Everything that the reader checks, for a plan in memory: 0, -EINVAL with *ret_error (block numbers instead of lines),
 * -ENOMEM. */
int planfile_check(const struct planfile *file, struct planfile_error *ret_error);

#endif
