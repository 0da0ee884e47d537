/* SPDX-License-Identifier: MIT */
#include "tools/symbols/stackfold.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tools/symbols/framekind.h"

#define STACKFOLD_NAMES 4 /* most names of whose the other frames are */

/* The worst kind that is kept. */
static enum framekind stackfold_limit(const struct symbols_line *lines, size_t count)
{
    enum framekind best = FRAMEKIND_NONE;

    for (size_t i = 0; i < count; i++) {
        enum framekind kind = framekind_of(&lines[i]);
        if (kind < best)
            best = kind;
    }
    if (best <= FRAMEKIND_PROGRAM_NATIVE)
        return FRAMEKIND_PROGRAM_NATIVE;
    return best < FRAMEKIND_LIBRARY ? best : FRAMEKIND_NONE;
}

/* "+ 12 frames of torch, libc": as many frames, of these. */
static char *stackfold_text(const struct vec_texts *names, size_t count)
{
    char *text = vec_format("+ %zu frame%s", count, count == 1 ? "" : "s");

    for (size_t i = 0; i < names->count; i++) {
        const char *name = i < STACKFOLD_NAMES ? names->at[i] : "...";
        char *longer = vec_format("%s%s%s", text, i == 0 ? " of " : ", ", name);
        free(text);
        text = longer;
        if (i == STACKFOLD_NAMES)
            break;
    }
    return text;
}

struct stackfold stackfold_of(struct symbols *symbols, uint32_t stack, bool all)
{
    size_t count;
    const struct symbols_line *lines = symbols_stack(symbols, stack, &count);
    enum framekind limit = all ? FRAMEKIND_NONE : stackfold_limit(lines, count);
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): the list is one of pointers */
    struct stackfold fold = {.kept = vec_new(count + 1, sizeof(*fold.kept))};
    struct vec_texts names = {0};

    for (size_t i = 0; i < count; i++) {
        if (framekind_of(&lines[i]) <= limit) {
            fold.kept[fold.count++] = &lines[i];
            continue;
        }
        char *name = framekind_origin(&lines[i]);
        if (*name)
            (void)vec_add_once(&names, name);
        else
            free(name);
    }
    if (fold.count < count)
        fold.others = stackfold_text(&names, count - fold.count);
    vec_free_texts(&names);
    return fold;
}

void stackfold_done(struct stackfold *fold)
{
    free((void *)fold->kept);
    free(fold->others);
}
