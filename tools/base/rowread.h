/* SPDX-License-Identifier: MIT */
/*
 * rowread.h - reads text files of comma-separated rows, and reports every error with its place.
 *
 * The traces of other tools come as such files. A reader of one format gets row after row and takes
 * its fields from the left; it reports errors with rowread_fault, which makes one line
 * `file:line:column: what`.
 *
 *     rowread_all ─► row(): rowread_uint · rowread_uint · rowread_is_end ─► 0, or rowread_fault
 *
 * Knows no quoting: none of the formats has it. Line ends may be CR LF, empty rows are ignored.
 * Threads: none.
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
    const char *at;    /* the rest of the row */
    const char *field; /* the field that was read last, or failed */
    char *error;       /* of ROWREAD_ERROR_MAX bytes */
    bool is_cut;       /* the last row, without a line end */
    /* called for a row with an error, in `error`: 0 skips the row; NULL: reading ends with it */
    int (*odd)(void *context, struct rowread *reader);
};

/*
 * Calls row() for each row until it, or odd(), returns nonzero. Returns that, or -EINVAL for a row
 * with a NUL byte, or -errno of reading; `error` is filled if it is not 0. `line` is that of the
 * last row that was read.
 */
int rowread_all(struct rowread *reader, FILE *in, int (*row)(void *context, struct rowread *reader),
        void *context);

/* The next field as a number without a sign, in base 10 or 16 (0x or not). False: it is none. */
bool rowread_uint(struct rowread *reader, unsigned base, uint64_t *ret);
/* The next field unchanged, inside the row. False: there is no field. */
bool rowread_text(struct rowread *reader, const char **ret_text, size_t *ret_length);
/* The row has no further field. */
bool rowread_is_end(struct rowread *reader);

/* -EINVAL; the place is the field that was read last. */
int rowread_fault(const struct rowread *reader, const char *what);

#endif
