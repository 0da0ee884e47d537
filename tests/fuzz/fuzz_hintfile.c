/* SPDX-License-Identifier: MIT */
/* Any bytes as a hint file: rules or one error with words (R53). What was read can be written, and reads the same. */
#include "tracker/hints/hintwrite.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length);

static bool is_same_evict(const struct rule_evict *a, const struct rule_evict *b)
{
    return a->cap == b->cap && a->cap_percent == b->cap_percent && a->less_other == b->less_other
            && a->warmup_percent == b->warmup_percent && a->prefetch == b->prefetch
            && a->host_budget == b->host_budget && a->policy == b->policy && a->victim == b->victim
            && a->backing == b->backing && a->cyclic == b->cyclic && a->clean == b->clean
            && a->order_count == b->order_count
            && (a->order_count == 0
                    || memcmp(a->order, b->order, a->order_count * sizeof *a->order) == 0);
}

static bool is_same(const struct hintfile *a, const struct hintfile *b)
{
    if (a->rule_count != b->rule_count || a->mode != b->mode || a->min_size != b->min_size)
        return false;
    for (size_t i = 0; i < a->rule_count; i++) {
        const struct rule *left = &a->rule[i];
        const struct rule *right = &b->rule[i];

        if (strcmp(left->id, right->id) != 0 || left->mode != right->mode
                || left->pick.size_lo != right->pick.size_lo
                || left->pick.size_hi != right->pick.size_hi
                || left->pick.nth_lo != right->pick.nth_lo
                || left->pick.nth_hi != right->pick.nth_hi
                || left->pick.site_count != right->pick.site_count
                || left->pick.python != right->pick.python
                || memcmp(left->pick.site, right->pick.site, sizeof left->pick.site) != 0
                || left->pick.device != right->pick.device || left->when.kind != right->when.kind
                || strlen(left->pick.inside) < strlen(right->pick.inside)
                || left->action != right->action || left->of != right->of
                || !is_same_evict(&left->evict, &right->evict))
            return false;
    }
    return true;
}

static void write_and_read(const struct hintfile *file)
{
    struct hintfile *again = NULL;
    struct hintfile_error error;
    char *text = NULL;
    size_t length = 0;

    if (hintwrite_text(file, &text, &length) < 0)
        __builtin_trap(); /* what the grammar has read, it can say */
    if (hintfile_read_bytes(text, length, "again", &again, &error) < 0 || !is_same(file, again))
        __builtin_trap();
    hintfile_free(again);
    free(text);
}

int LLVMFuzzerTestOneInput(const unsigned char *input, size_t length)
{
    struct hintfile *file = NULL;
    struct hintfile_error error;

    if (hintfile_read_bytes(input, length, "fuzz", &file, &error) == 0)
        write_and_read(file);
    else if (error.text[0] == '\0')
        __builtin_trap();
    hintfile_free(file);
    return 0;
}
