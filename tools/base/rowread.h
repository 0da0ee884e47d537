/* SPDX-License-Identifier: MIT */
/*
 * rowread.h - text files of rows with commas, read so that every fault has a place.
 *
 * The traces of other tools come as such files. A reader of one format gets row after row and takes its fields from the left;
 * what it does not like it says with rowread_fault, which gives one line `file:line:column: what`.
 *
 *     rowread_all ─► row(): rowread_uint · rowread_uint · rowread_is_end ─► 0, or rowread_fault
 *
 * Knows no quoting: none of the formats has it. Line ends may be CR LF, empty rows are passed over. Threads: none.
 */
#ifndef KEDGE_TOOLS_ROWREAD_H
#define KEDGE_TOOLS_ROWREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ROWREAD_ERROR_MAX 256

struct rowread {
    const char *name;
    size_t line;       /* 1 is the first */
    const char *text;  /* the row, without its end */
    const char *at;    /* what is not taken yet */
    const char *field; /* the field that was taken last, or was to be */
    char *error;       /* of ROWREAD_ERROR_MAX bytes */
    bool is_cut;       /* the last row, which has no end of its own */
    /* Asked about a row that has a fault, with `error` filled: 0 passes it over. NULL: the fault is the answer. */
    int (*odd)(void *context, struct rowread *reader);
};

/*
 * Calls row() for each row until it, or odd(), returns something else than 0. Returns that, or -EINVAL for a row with a NUL byte, or
 * -errno of reading; `error` is filled if it is not 0. `line` is that of the last row that was read.
 */
int rowread_all(struct rowread *reader, FILE *in, int (*row)(void *context, struct rowread *reader),
        void *context);

/* The next field as a number in base 10 or 16 (0x or not), without a sign. False: it is none, or there is no field. */
bool rowread_uint(struct rowread *reader, unsigned base, uint64_t *ret);
/* The next field as it is; it stays in the row. False: there is no field. */
bool rowread_text(struct rowread *reader, const char **ret_text, size_t *ret_length);
/* Nothing is left. */
bool rowread_is_end(struct rowread *reader);

/* -EINVAL; the place is the field that was taken last. */
int rowread_fault(const struct rowread *reader, const char *what);

#endif
