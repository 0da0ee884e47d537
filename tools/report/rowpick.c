/* SPDX-License-Identifier: MIT */
#include "tools/report/rowpick.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/args.h"
#include "tools/base/filename.h"
#include "tools/base/vec.h"

enum answer {
    NOT_ASKED,
    HAS_IT,
    HAS_IT_NOT,
};

struct rowpick_filter {
    const char *text;
    struct symbols *symbols;
    unsigned char *stacks; /* enum answer of each stack */
};

const struct rowpick_field *rowpick_find(const struct rowpick_fields *fields, const char *name)
{
    size_t found = args_find(ARGS_NAMES(fields->at, name, fields->count), name);

    return found < fields->count ? &fields->at[found] : NULL;
}

/* ---- sorted ---- */

struct ranked {
    long double value; /* can hold any uint64_t */
    size_t before;
};

static int rowpick_largest_first(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;

    if (a->value < b->value || a->value > b->value)
        return a->value > b->value ? -1 : 1;
    return (a->before > b->before) - (a->before < b->before);
}

static long double rowpick_value_of(const char *row, const struct rowpick_field *field)
{
    uint64_t number;
    double real;

    if (field->is_real) {
        memcpy(&real, row + field->offset, sizeof(real));
        return real;
    }
    memcpy(&number, row + field->offset, sizeof(number));
    return number;
}

void rowpick_sort(void *rows, size_t count, size_t size, const struct rowpick_field *field)
{
    struct ranked *ranked;
    char *sorted;

    if (!field || count < 2)
        return;
    ranked = vec_new(count, sizeof(*ranked));
    sorted = vec_new(count, size);
    for (size_t i = 0; i < count; i++)
        ranked[i] = (struct ranked){rowpick_value_of((const char *)rows + i * size, field), i};
    VEC_SORT(ranked, count, rowpick_largest_first);
    for (size_t i = 0; i < count; i++)
        memcpy(sorted + i * size, (const char *)rows + ranked[i].before * size, size);
    memcpy(rows, sorted, count * size);
    free(sorted);
    free(ranked);
}

/* ---- filtered ---- */

struct rowpick_filter *rowpick_new(const char *text, struct symbols *symbols, size_t stack_count)
{
    struct rowpick_filter *filter = vec_new(1, sizeof(*filter));

    *filter = (struct rowpick_filter){
            .text = text, .symbols = symbols, .stacks = vec_new(stack_count + 1, 1)};
    return filter;
}

void rowpick_done(struct rowpick_filter *filter)
{
    if (filter)
        free(filter->stacks);
    free(filter);
}

bool rowpick_has_text(const struct rowpick_filter *filter, const char *text)
{
    return !filter || (text && strcasestr(text, filter->text));
}

static bool line_has(const struct rowpick_filter *filter, const struct symbols_line *line)
{
    char *title;
    bool has;

    if (rowpick_has_text(filter, line->file) || rowpick_has_text(filter, line->module))
        return true;
    title = line->file ? vec_format("%s %s:%u", line->function, filename_of(line->file), line->line)
                       : vec_text(line->function);
    has = rowpick_has_text(filter, title);
    free(title);
    return has;
}

static bool rowpick_look(const struct rowpick_filter *filter, uint32_t stack)
{
    size_t count;
    const struct symbols_line *lines = symbols_stack(filter->symbols, stack, &count);

    for (size_t i = 0; i < count; i++)
        if (line_has(filter, &lines[i]))
            return true;
    return count == 0 && rowpick_has_text(filter, "(no stack)");
}

bool rowpick_has_stack(struct rowpick_filter *filter, uint32_t stack)
{
    if (!filter)
        return true;
    if (filter->stacks[stack] == NOT_ASKED)
        filter->stacks[stack] = rowpick_look(filter, stack) ? HAS_IT : HAS_IT_NOT;
    return filter->stacks[stack] == HAS_IT;
}
