/* SPDX-License-Identifier: MIT */
/*
 * receipt.h - the proof that a hint file was verified, kept beside it.
 *
 * `live` needs a receipt (R87): `kedge verify` runs the program in shadow, in poison and in trap, and writes FILE.receipt. It
 * names the hint file by the hash of its bytes and the program by its build-id, so that editing the file or rebuilding
 * the program voids it. Six lines of text, and one for each hint that keeps meta although the file says release (R86):
 *
 *     kedge-receipt 1
 *     hints 9b1f44d0e2a7c315
 *     program build-id:7f3c01aa92de...
 *     shadow clean 1
 *     poison clean 1
 *     trap clean 1 2026-11-21T12:00:00Z
 *     keep-meta dy2st-unused-input
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

struct receipt {
    uint64_t hints_hash;   /* struct hintfile.hash */
    char program[96];      /* where_program() of the run, read_capture.program in a tool */
    uint32_t shadow_clean; /* runs without a late use */
    uint32_t poison_clean; /* runs without a late use or write */
    uint32_t trap_clean;   /* runs without a violation */
    char date[32];         /* ISO 8601, informative */
    /* of receipt_check: the hints of its lines `keep-meta ID`, sorted, in one piece of malloc's; NULL = none */
    const char **keep_meta;
    size_t keep_count;
};

enum receipt_verdict {
    RECEIPT_GOOD,          /* live may act */
    RECEIPT_NONE,          /* there is no receipt */
    RECEIPT_OTHER_HINTS,   /* the hint file was changed since */
    RECEIPT_OTHER_PROGRAM, /* it was written for another program or build */
    RECEIPT_NOT_CLEAN,     /* a step is missing */
    RECEIPT_UNREADABLE,    /* damaged, too large, or fails R54 */
    RECEIPT_VERDICT_COUNT,
};

#define RECEIPT_TEXT_MAX 512

/* The text of <hints>.receipt but for keep_meta. 0, or -EINVAL: the program or the date is no word. */
int receipt_format(const struct receipt *receipt, char ret_text[static RECEIPT_TEXT_MAX]);

/* Compares <hints>.receipt with the hash of the bytes in use and the program. *ret_found (may be NULL) is what it says, all 0
 * where it cannot be read. */
enum receipt_verdict receipt_check(const char *hints_path, uint64_t hints_hash, const char *program,
        struct receipt *ret_found);

/* Does it say keep-meta of the hint `id`? */
bool receipt_keeps_meta(const struct receipt *receipt, const char *id);

/* The verdict in words, for one line of a message: "no receipt", "hints changed since they were verified" ... */
const char *receipt_verdict_text(enum receipt_verdict verdict);

#endif
