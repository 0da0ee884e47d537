/* SPDX-License-Identifier: MIT */
#include "tools/symbols/pymerge.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/filename.h"
#include "tools/base/vec.h"

struct merging {
    struct symbols_line *out;
    size_t count, room;
    const struct trace_pyframe *frames;
    uint32_t next, total;
    bool ambient;
};

static bool pymerge_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static bool is_loop(const struct symbols_line *line)
{
    return pymerge_begins(line->function, "_PyEval_EvalFrameDefault");
}

/* Whether the file is an interpreter, or the function has the name of one of its functions. */
static bool pymerge_is_interpreter(const struct symbols_line *line)
{
    const char *file = filename_of(line->module);

    return pymerge_begins(file, "python3") || pymerge_begins(file, "libpython3")
            || pymerge_begins(line->function, "Py") || pymerge_begins(line->function, "_Py");
}

/* The library of a native function that another tool named is unknown. */
static void push_frame(struct merging *merging, const struct trace_pyframe *frame)
{
    bool is_python = !frame->is_native;

    /* in captures of kedge 0.1: kedge's functions around the framework's */
    if (is_python && pymerge_begins(filename_of(frame->file), "_kedge_"))
        return;
    VEC_PUSH(merging->out, merging->count, merging->room) =
            (struct symbols_line){.function = *frame->function ? frame->function : "?",
                    .file = *frame->file ? frame->file
                            : is_python  ? "?"
                                         : NULL,
                    .line = frame->line,
                    .module = "",
                    .is_python = is_python,
                    .is_ambient = is_python && merging->ambient,
                    .is_ours = true};
}

/* What one call of the loop runs: the innermost functions left, up to the one that C called. */
static void place_call(struct merging *merging)
{
    bool is_last = false;

    while (merging->next < merging->total && !is_last) {
        is_last = merging->frames[merging->next].is_entry;
        push_frame(merging, &merging->frames[merging->next++]);
    }
}

static void place_rest(struct merging *merging)
{
    while (merging->next < merging->total)
        push_frame(merging, &merging->frames[merging->next++]);
}

static bool has_loop(const struct symbols_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_loop(&lines[i]))
            return true;
    return false;
}

struct symbols_line *pymerge(struct symbols_line *lines, size_t count,
        const struct trace_stack *stack, const struct trace_pyframe *frames, size_t *ret_count)
{
    struct merging merging = {.frames = frames, .total = stack->pycount, .ambient = stack->ambient};
    bool loops = has_loop(lines, count);

    for (size_t i = 0; i < count; i++) {
        if (!stack->ambient && is_loop(&lines[i]))
            place_call(&merging);
        else if (!stack->ambient && pymerge_is_interpreter(&lines[i])) {
            if (!loops)
                place_rest(&merging);
        } else
            VEC_PUSH(merging.out, merging.count, merging.room) = lines[i];
    }
    place_rest(&merging);
    free(lines);
    *ret_count = merging.count;
    return merging.out;
}
