/* SPDX-License-Identifier: MIT */
/*
 * receipt.h - the proof that a hint file was verified, kept beside it.
 *
 * `live` needs a receipt (R87): `kedge verify` runs the program without hints, in shadow,
 * in poison and in trap, and writes FILE.receipt. It names the hint file by the hash of its bytes,
 * so that editing the file voids it, and records the environment and the program of the runs (R108,
 * evidence about one program on one kind of device). Each line is a key and its value; a key may
 * occur several times, since a run has several processes and devices:
 *
 *     kedge-receipt 2
 *     hints 9b1f44d0e2a7c315
 *     program build-id:7f3c01aa92de...        and other lines of ran.h: kedge, driver ...
 *     file 0b6d... /home/me/net/model.py      Python files of the stacks that allocated
 *     version 2.5.1 /opt/torch/version.py     the package of such a file
 *     build 64a1... lib/libtorch_cpu.so       libraries of such stacks
 *     shadow clean 1
 *     poison clean 1
 *     trap clean 1 2026-11-21T12:00:00Z
 *     keep-meta dy2st-unused-input            a hint that keeps meta, but says release (R86)
 *
 * A receipt is no signature: anyone who can write the hint file can write its receipt. It prevents
 * going live by mistake. The same ownership rules as for hints hold (R54, trusted owner).
 * Threads: no state. Uses malloc.
 */
#ifndef KEDGE_TRACKER_RECEIPT_H
#define KEDGE_TRACKER_RECEIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prefix of a receipt line, followed by the id of a hint. */
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
    struct receipt_line *line; /* environment and program, in file order */
    size_t line_count;
    const char **keep_meta; /* the hints of its `keep-meta ID` lines, sorted */
    size_t keep_count;
    char *memory; /* malloc'ed; the other pointers point into it */
};

enum receipt_verdict {
    RECEIPT_GOOD, /* clean, and for these hints: its lines still have to be compared (ran.h) */
    RECEIPT_NONE, /* no receipt */
    RECEIPT_OTHER_HINTS, /* the hint file has changed since */
    RECEIPT_OTHER_RUN,   /* another program or environment */
    RECEIPT_NOT_CLEAN,   /* a step is missing */
    RECEIPT_UNREADABLE,  /* damaged, too large, or fails R54 */
    RECEIPT_OLD,         /* made by an older kedge, with less in it */
    RECEIPT_VERDICT_COUNT,
};

/* The text of <hints>.receipt without keep_meta, malloc'ed. 0, -ENOMEM, or -EINVAL: a value or the
 * date does not fit on a line. */
int receipt_format(const struct receipt *receipt, char **ret_text);

/* Reads <hints>.receipt and compares it with the hash of the bytes in use. *ret_found is its
 * content, for receipt_free; all 0 if it cannot be read. */
enum receipt_verdict receipt_read(
        const char *hints_path, uint64_t hints_hash, struct receipt *ret_found);
void receipt_free(struct receipt *receipt); /* also {0} */

/* Is there a line with this key and value? */
bool receipt_says(const struct receipt *receipt, const char *key, const char *value);

/* The value of the key's first line from line *io_at on; moves *io_at past it; NULL = none. */
const char *receipt_next(const struct receipt *receipt, const char *key, size_t *io_at);

/* Is there a keep-meta line for the hint `id`? */
bool receipt_keeps_meta(const struct receipt *receipt, const char *id);

/* The verdict in words, for a message: "no receipt", "hints changed since they were verified"
 * ... */
const char *receipt_verdict_text(enum receipt_verdict verdict);

/* ---- values --------------------------------------------------------------------------------- */

/* Encodes a text as a value: bytes other than printable ASCII as \xHH, truncated to fit. */
void receipt_escape(const char *text, char ret_value[static RECEIPT_VALUE_MAX]);

/* Hash of a file's content, never 0; 0: not a regular file, larger than 64 MiB, or unreadable. */
uint64_t receipt_hash_file(const char *path);

/* "0123456789abcdef /a/b.py". The hash is 0 if the file has none. */
void receipt_file_value(const char *path, char ret_value[static RECEIPT_VALUE_MAX]);

/* "2.5.1 /a/version.py"; false: the file states no version. */
bool receipt_version_value(const char *path, char ret_value[static RECEIPT_VALUE_MAX]);

/* "0123456789abcdef lib/libx.so", from a loaded object's identity and path. */
void receipt_build_value(uint64_t hash, const char *path, char ret_value[static RECEIPT_VALUE_MAX]);

#endif
