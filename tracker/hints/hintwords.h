/* SPDX-License-Identifier: MIT */
/*
 * hintwords.h - the words of hint files, for their reader (hintfile.h), their writer (hintwrite.h)
 * and all code that prints hints.
 *
 * Threads: no state.
 */
#ifndef KEDGE_TRACKER_HINTWORDS_H
#define KEDGE_TRACKER_HINTWORDS_H

#include "alloc/base/rule.h"
#include "tracker/hints/apicalls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* the words of `do`, from ACTION_RELEASE on */
#define HINTWORDS_ACTIONS "release", "pin", "ignore", "keep-meta", "hold", "evict", "restore"
/* the words of `mode`, from HINT_SHADOW on */
#define HINTWORDS_MODES "shadow", "trap", "live", "poison"

/* The word of `do`; "" if the action has none. */
const char *hintwords_action(enum action action);

/* True for letters, digits, '-', '_' and '.', at least one. */
bool hintwords_is_id(const char *text);

/* A call of apicalls.def and its buffers; "" = none. Number 0 is no call. */
struct hintwords_call {
    const char *name, *buffer[APICALL_BUFFERS];
};

extern const struct hintwords_call hintwords_calls[APICALL_COUNT];

/* The number of the call with that name, APICALL_NONE = unknown. */
uint32_t hintwords_find_call(const char *name);

/* The word of a mode; "?" for an invalid number. */
const char *hintwords_mode(enum hint_mode mode);

#define HINTWORDS_RANGE_MAX 48 /* bytes of "low..high" with the NUL */

/* "low..high", or one number if they are equal. Returns its length. */
int hintwords_range(const struct rule_range *range, char ret_text[static HINTWORDS_RANGE_MAX]);

/* A failed expectation of a hint, in a run or from its capture. */
struct hintwords_drift {
    struct rule_expect expect;
    struct rule_seen seen;
    const char *path; /* of the edge */
    uint32_t instance;
};

/* Writes "matched 3 allocations in SOT_CALL_0 (17), 1..2 expected"; truncated at `size`. */
void hintwords_tell_drift(const struct hintwords_drift *drift, char *ret_text, size_t size);

#endif
