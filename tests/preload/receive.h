/* SPDX-License-Identifier: MIT */
/* receive.h - the receipt that `kedge verify` would write after such a run: what the capture says of itself. */
#ifndef KEDGE_TESTS_PRELOAD_RECEIVE_H
#define KEDGE_TESTS_PRELOAD_RECEIVE_H

#include "tests/check.h"
#include "tracker/reader/read.h"
#include "tracker/stacks/ran.h"

#include <string.h>

/* malloc's. */
static inline char *receive_text(
        const struct read_capture *capture, uint64_t hints_hash, uint32_t trap_clean)
{
    struct receipt_line lines[RAN_FACTS_MAX];
    struct receipt receipt = {.hints_hash = hints_hash,
            .shadow_clean = 1,
            .poison_clean = 1,
            .trap_clean = trap_clean,
            .date = "2026-11-21T00:00:00Z",
            .line = lines};
    size_t length = strlen(RAN_SETTING);
    char *text = NULL;

    for (size_t i = 0; i < capture->setting_count; i++)
        if (strncmp(capture->setting[i].name, RAN_SETTING, length) == 0) {
            REQUIRE(receipt.line_count < RAN_FACTS_MAX);
            lines[receipt.line_count++] = (struct receipt_line){
                    capture->setting[i].name + length, capture->setting[i].value};
        }
    REQUIRE(receipt_format(&receipt, &text) == 0);
    return text;
}

#endif
