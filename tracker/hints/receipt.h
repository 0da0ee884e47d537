/* SPDX-License-Identifier: MIT */
/*
 * receipt.h - the proof that a hint file was verified, kept beside it.
 *
 * `live` needs a receipt (R87): `kedge verify` runs the program without hints, in shadow, in poison and in trap, and writes
 * FILE.receipt. It names the hint file by the hash of its bytes, so that editing the file voids it, and says where the runs were
 * and what ran (R108, evidence about one program on one kind of device). A line each, a key and its value; of one key there may be
 * several, since a run has processes and devices:
 *
 *     kedge-receipt 2
 *     hints 9b1f44d0e2a7c315
 *     program build-id:7f3c01aa92de...        and the others of ran.h: kedge, driver, device, script, command ...
 *     file 0b6d... /home/me/net/model.py      Python files of the stacks that asked for memory
 *     version 2.5.1 /opt/torch/version.py     the package that such a file belongs to
 *     build 64a1... lib/libtorch_cpu.so       libraries of such stacks
 *     shadow clean 1
 *     poison clean 1
 *     trap clean 1 2026-11-21T12:00:00Z
 *     keep-meta dy2st-unused-input            each hint that keeps meta although the file says release (R86)
 *
 * A receipt is no signature: whoever can write the hint file can write its receipt. It prevents
 * going live by mistake. The same ownership rules as for hints hold (R54). Threads: no state. Uses malloc.
 */
#ifndef KEDGE_TRACKER_RECEIPT_H
#define KEDGE_TRACKER_RECEIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A line of the receipt: this, and the id of a hint. */
#define RECEIPT_KEEP_META "keep-meta "

#define RECEIPT_VALUE_MAX 1000u /* bytes of a line's value, with its NUL */

struct receipt_line {
    const char *key, *value;
};

struct receipt {
    uint64_t hints_hash;       /* struct hintfile.hash */
    uint32_t shadow_clean;     /* runs without a late use */
    uint32_t poison_clean;     /* runs without a late use or write */
    uint32_t trap_clean;       /* runs without a violation */
    char date[32];             /* ISO 8601, informative */
    struct receipt_line *line; /* where and what, in the order of the file */
    size_t line_count;
    const char **keep_meta; /* the hints of its lines `keep-meta ID`, sorted */
    size_t keep_count;
    char *memory; /* malloc's, that all of this points into */
};

enum receipt_verdict {
    RECEIPT_GOOD, /* clean, and for these hints: what its lines say is still to be compared (ran.h) */
    RECEIPT_NONE,        /* there is no receipt */
    RECEIPT_OTHER_HINTS, /* the hint file was changed since */
    RECEIPT_OTHER_RUN,   /* something else runs, or elsewhere */
    RECEIPT_NOT_CLEAN,   /* a step is missing */
    RECEIPT_UNREADABLE,  /* damaged, too large, or fails R54 */
    RECEIPT_OLD,         /* of a kedge whose receipts said less */
    RECEIPT_VERDICT_COUNT,
};

/* The text of <hints>.receipt but for keep_meta, malloc's. 0, -ENOMEM, or -EINVAL: a value or the date is no text for a line. */
int receipt_format(const struct receipt *receipt, char **ret_text);

/* Reads <hints>.receipt and compares it with the hash of the bytes in use. *ret_found is what it says, for receipt_free; all 0
 * where it cannot be read. */
enum receipt_verdict receipt_read(
        const char *hints_path, uint64_t hints_hash, struct receipt *ret_found);
void receipt_free(struct receipt *receipt); /* {0} too */

/* Does a line say this? */
bool receipt_says(const struct receipt *receipt, const char *key, const char *value);

/* The value of the key's first line from line *io_at on, and *io_at behind it; NULL = there is none. */
const char *receipt_next(const struct receipt *receipt, const char *key, size_t *io_at);

/* Does it say keep-meta of the hint `id`? */
bool receipt_keeps_meta(const struct receipt *receipt, const char *id);

/* The verdict in words, for one line of a message: "no receipt", "hints changed since they were verified" ... */
const char *receipt_verdict_text(enum receipt_verdict verdict);

/* ---- values --------------------------------------------------------------------------------- */

/* A text as a value has it: other than printable ASCII as \xHH, cut to fit. */
void receipt_escape(const char *text, char ret_value[static RECEIPT_VALUE_MAX]);

/* Of a file's content, never 0; 0: it is no regular file, larger than 64 MiB, or cannot be read. */
uint64_t receipt_hash_file(const char *path);

/* "0123456789abcdef /a/b.py". The hash is 0 where there is none. */
void receipt_file_value(const char *path, char ret_value[static RECEIPT_VALUE_MAX]);

/* "2.5.1 /a/version.py"; false: that file states no version. */
bool receipt_version_value(const char *path, char ret_value[static RECEIPT_VALUE_MAX]);

/* "0123456789abcdef lib/libx.so", of a loaded object's identity and path. */
void receipt_build_value(uint64_t hash, const char *path, char ret_value[static RECEIPT_VALUE_MAX]);

#endif
