/* SPDX-License-Identifier: MIT */
#include "tools/compare/compare_groups.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"

struct key compare_groups_key(const struct trace *trace, enum compare_groups_by by,
        const struct trace_block *block, uint64_t python)
{
    bool is_ambient = trace->stacks[block->stack].ambient;

    if (by == COMPARE_GROUPS_SITE || !python)
        return (struct key){block->site, 0, 0};
    return (struct key){python, 1, is_ambient ? block->site : 0};
}

static struct group *compare_groups_group_of(
        struct compare_groups *groups, const struct trace_block *block)
{
    struct key key = compare_groups_key(
            groups->trace, groups->by, block, trace_python(groups->trace, block->stack));
    uint32_t at = keytable_number(&groups->index, key);

    if (at == groups->count)
        VEC_PUSH(groups->rows, groups->count, groups->room) = (struct group){
                .site = symbols_site(groups->symbols, block->stack), .stack = block->stack};
    return &groups->rows[at];
}

static void compare_groups_add_stack(
        struct compare_groups *groups, struct group *group, const struct trace_block *block)
{
    struct key key = {
            trace_python(groups->trace, block->stack), (uint64_t)(group - groups->rows), 0};
    uint32_t *at = keytable_at(&groups->stack_index, key, (uint32_t)group->stack_count);
    if (*at == group->stack_count)
        VEC_PUSH(group->stacks, group->stack_count, group->stack_room) =
                (struct model_live){.stack = block->stack};
    group->stacks[*at].count++;
    group->stacks[*at].bytes += block->size;
}

void compare_groups_add(struct compare_groups *groups, uint32_t number)
{
    const struct trace_block *block = &groups->trace->blocks[number];
    struct group *group = compare_groups_group_of(groups, block);

    group->count++;
    group->bytes += block->size;
    VEC_PUSH(group->sizes, group->size_count, group->size_room) = block->size;
    VEC_PUSH(group->anchors, group->anchor_count, group->anchor_room) = block->anchor;
    compare_groups_add_stack(groups, group, block);
}

static int compare_groups(const void *a, const void *b)
{
    const struct group *x = a;
    const struct group *y = b;

    int r = strcmp(x->site, y->site);

    return vec_order(y->bytes, x->bytes, r ? r : vec_order(x->stack, y->stack, 0));
}

/* Sorts the numbers and removes duplicates; returns the new count. */
static size_t make_distinct(uint64_t *numbers, size_t count)
{
    size_t n = 0;

    VEC_SORT(numbers, count, vec_by_number);
    for (size_t i = 0; i < count; i++) {
        if (n == 0 || numbers[n - 1] != numbers[i])
            numbers[n++] = numbers[i];
    }
    return n;
}

void compare_groups_finish(struct compare_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        struct group *group = &groups->rows[i];
        group->size_count = make_distinct(group->sizes, group->size_count);
        group->anchor_count = make_distinct(group->anchors, group->anchor_count);
        VEC_SORT(group->stacks, group->stack_count, model_by_bytes);
    }
    VEC_SORT(groups->rows, groups->count, compare_groups);
    char **titles = title_rows(groups->symbols, TITLE_STACKS(groups->rows), groups->count);
    for (size_t i = 0; i < groups->count; i++)
        groups->rows[i].title = titles[i];
    free((void *)titles);
}

void compare_groups_done(struct compare_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        free(groups->rows[i].title);
        free(groups->rows[i].sizes);
        free(groups->rows[i].anchors);
        free(groups->rows[i].stacks);
    }
    free(groups->rows);
    keytable_done(&groups->index);
    keytable_done(&groups->stack_index);
}
