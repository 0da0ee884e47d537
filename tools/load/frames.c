/* SPDX-License-Identifier: MIT */
#include "tools/load/frames.h"

#include <stdlib.h>

#include "tools/base/vec.h"

static enum frames_kind frames_kind(const struct symbols_line *line)
{
    if (line->is_python)
        return line->is_ambient ? FRAMES_AMBIENT : FRAMES_PYTHON;
    return line->is_ours ? FRAMES_NATIVE : FRAMES_BELOW;
}

uint32_t frames_number(struct frames *frames, const struct symbols_line *line)
{
    struct key key = symbols_line_key(line);

    key.c ^= (uint64_t)frames_kind(line) << 60;
    uint32_t at = keytable_number(&frames->index, key);
    if (at == frames->count) {
        /* NOLINTNEXTLINE(bugprone-sizeof-expression): the list is one of pointers */
        VEC_PUSH(frames->list, frames->count, frames->room) = line;
    }
    return at;
}

void frames_json_number(struct json *json, const struct symbols_line *line)
{
    if (!json->skipped) /* the table has only the frames that the page shows */
        json_uint(json, NULL, frames_number(json->page->frames, line));
}

void frames_json(struct json *json, const struct frames *frames)
{
    json_begin(json, "frames", '[');
    for (size_t i = 0; i < frames->count; i++) {
        const struct symbols_line *line = frames->list[i];

        json_begin(json, NULL, '[');
        json_text(json, NULL, line->function);
        json_text(json, NULL, symbols_line_file(line));
        json_uint(json, NULL, line->line);
        json_uint(json, NULL, frames_kind(line));
        json_end(json, ']');
    }
    json_end(json, ']');
}

void frames_done(struct frames *frames)
{
    keytable_done(&frames->index);
    free(frames->list);
}
