/* SPDX-License-Identifier: MIT */
/*
 * hintfile.h - reads the file of liveness hints. hintwrite.h writes it.
 *
 * A restricted YAML (which includes JSON), read from libyaml's event stream: no anchors, aliases,
 * tags or second documents, at most 6 levels, no duplicate key, no unknown key, every scalar a
 * string that is typed here. For any bytes, the result is a valid configuration or one error
 * `file:line:col: text`, and the program runs without hints (R53, any bytes accepted). Parts of the
 * grammar that kedge does not support yet are refused by name, never skipped.
 *
 *     kedge-hints: 1
 *     made: {by: "kedge suggest", from: [good.kcap, bad.kcap], on: 2026-11-21}
 *     predicted: {max-bytes: 10133798912, reserved-bytes: 10141827072}
 *     program: {argv: "*train.py*", rank: "*", build: {libfoo.so: 7f3c01aa}, on-mismatch: shadow}
 *     defaults: {mode: shadow, min-size: 2MiB}
 *     hints:
 *       - id: dy2st-unused-input
 *         do: release
 *         pick: {site: [c:9b1f44d0e2a7c315], size: 3538944, inside: "SOT_CALL_*", nth: 0}
 *         when: {anchor: "SOT_CALL_*", edge: exit}
 *         expect: {count: 1, bytes: "3538944..4194304"}
 *
 * `site` is a list of alternatives: c: and 16 hex digits, a native call site (site.h);
 * p:FILE:QUALNAME or p:FILE:QUALNAME:LINE, a Python one anywhere in the stack (pysite.h).
 *
 * Does not decide whether hints apply (hintfile_fits gives the facts; preload/config decides) nor
 * what they do (alloc/hints/hint.h). Uses malloc: called once, at the first allocation, and by
 * tools.
 * Threads: no state.
 */
#ifndef KEDGE_TRACKER_HINTFILE_H
#define KEDGE_TRACKER_HINTFILE_H

#include "alloc/base/rule.h"
#include "tracker/hints/hintwords.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HINTFILE_VERSION    1
#define HINTFILE_BYTES_MAX  (4u << 20)
#define HINTFILE_HINTS_MAX  16384u
#define HINTFILE_BUILDS_MAX 32u
#define HINTFILE_DEPTH_MAX  6
#define HINTFILE_TEXT_MAX   1024u /* bytes of proof, note and made texts */
#define HINTFILE_ORDER_MAX \
    (1u << 20) /* uses in `order`, and calls of `prefetch`; block numbers are smaller */
#define HINTFILE_MIN_SIZE (2u << 20) /* without defaults.min-size: one physical handle */

/* What happens after a call was stopped in live. */
enum hintfile_fallback {
    HINTFILE_FALLBACK_NO,
    HINTFILE_FALLBACK_YES, /* no further release */
};

enum hintfile_mismatch {
    HINTFILE_MISMATCH_SHADOW, /* another build: hints go to shadow */
    HINTFILE_MISMATCH_REFUSE, /* another build: hints are not used */
};

/* A module named by sites, and its build-id (or the beginning of it). */
struct hintfile_build {
    char soname[128]; /* base name of the file */
    char id[65];      /* hex, lower case */
};

/* A hint's texts for people, and memory of its rule. Any may be NULL. */
struct hintfile_words {
    char *proof;
    char *note;
    char *comment;                 /* only for writing: `# text` above the hint */
    uint64_t saves;                /* expect.saves, 0 = not stated */
    uint32_t nth_line, nth_column; /* position of pick.nth if it restricts; 0 = it does not */
    char *site[RULE_SITES_MAX];    /* of Python sites the text as written (pysite.h), else NULL */
    uint32_t *order;               /* the order of rule_evict, if this file owns it */
};

struct hintfile {
    char argv[RULE_GLOB_MAX]; /* "" = any */
    char rank[RULE_GLOB_MAX]; /* "" = any */
    struct hintfile_build build[HINTFILE_BUILDS_MAX];
    size_t build_count;
    enum hintfile_mismatch on_mismatch;

    enum hint_mode mode;       /* defaults.mode, HINT_SHADOW if not stated */
    uint64_t min_size;         /* defaults.min-size */
    uint32_t canary;           /* defaults.canary, 0 = not stated */
    uint32_t keep_content;     /* defaults.keep-content, 0 = not stated */
    enum rule_backend backend; /* defaults.backend */
    uint64_t host_budget;      /* defaults.host-budget, 0 = not stated */
    enum hintfile_fallback fallback;

    struct rule *rule;            /* with mode, min_size and evict filled in, defaults applied */
    struct hintfile_words *words; /* same index */
    size_t rule_count;

    /* predicted figures with hints of the run it was made from, 0 = not stated: maximum, peak
     * reserved */
    uint64_t predicted_max, predicted_reserved;
    char *predicted_rank; /* of that run, NULL = every rank */

    char *made_by, *made_on;
    char **made_from; /* made_from_count of them */
    size_t made_from_count;
    char *comment; /* only for writing: `# text` at the head; NULL = none */

    uint64_t hash; /* hintfile_hash of the bytes read; 0 for a file built in memory */
};

/* `text` is complete: "hints.yaml:4:7: unknown key 'sizes'". line 0 = no position. */
struct hintfile_error {
    char text[512];
    uint32_t line, column;
};

/* Reads a file. Follows links, but checks the open descriptor (R54, trusted owner): a regular file,
 * owned by the effective user or root, not writable by group or others, at most HINTFILE_BYTES_MAX.
 * 0, or -errno with *ret_error: -EPERM (R54), -EFBIG, -EINVAL (its content), -ENOMEM, or an error
 * of open. */
int hintfile_read(const char *path, struct hintfile **ret_file, struct hintfile_error *ret_error);

/* The same for bytes in memory; messages use `name`. */
int hintfile_read_bytes(const void *bytes, size_t length, const char *name,
        struct hintfile **ret_file, struct hintfile_error *ret_error);

/* NULL is allowed. Also frees the memory of `words`. */
void hintfile_free(struct hintfile *file);

/* Identity of a hint file's bytes, for receipts and the capture. Never 0. */
uint64_t hintfile_hash(const void *bytes, size_t length);

/* True if `text` matches the glob; only `*` and `?`, '/' is an ordinary byte. "" matches all.
 * Linear in text, no recursion. */
bool hintfile_glob(const char *glob, const char *text);

/* Is the file for this program? argv: the arguments joined by blanks; rank: "" without one. */
bool hintfile_fits(const struct hintfile *file, const char *argv, const char *rank);

#endif
