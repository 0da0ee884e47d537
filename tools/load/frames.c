/* SPDX-License-Identifier: MIT */
#include "tools/load/frames.h"

#include <stdlib.h>
#include <string.h>

#include "tools/base/vec.h"
#include "tools/symbols/framekind.h"

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

static const char *frames_copy(struct frames *frames, const char *text)
{
    return text ? vec_add_text(&frames->texts, vec_text(text)) : NULL;
}

void frames_keep(struct frames *frames)
{
    for (size_t i = frames->kept_count; i < frames->count; i++) {
        struct symbols_line *line = vec_new(1, sizeof(*line));

        *line = *frames->list[i];
        line->function = frames_copy(frames, line->function);
        line->file = frames_copy(frames, line->file);
        line->module = frames_copy(frames, line->module);
        /* NOLINTNEXTLINE(bugprone-sizeof-expression): the list is one of pointers */
        VEC_PUSH(frames->kept, frames->kept_count, frames->kept_room) = line;
        frames->list[i] = line;
    }
}

void frames_json_number(struct json *json, const struct symbols_line *line)
{
    if (!json->skipped) /* the table has only the frames that the page shows */
        json_uint(json, NULL, frames_number(json->page->frames, line));
}

static void frames_json_line(struct json *json, const struct symbols_line *line)
{
    char *origin = framekind_origin(line);
    char *name = line->is_python ? NULL : framekind_short_name(line->function);
    bool is_shorter = name && *name && strcmp(name, line->function) != 0;

    json_begin(json, NULL, '[');
    json_text(json, NULL, line->function);
    json_text(json, NULL, symbols_line_file(line));
    json_uint(json, NULL, line->line);
    json_uint(json, NULL, frames_kind(line));
    json_uint(json, NULL, framekind_of(line));
    json_text(json, NULL, origin);
    json_text(json, NULL, is_shorter ? name : NULL);
    json_end(json, ']');
    free(origin);
    free(name);
}

void frames_json(struct json *json, const struct frames *frames)
{
    json_begin(json, "frames", '[');
    for (size_t i = 0; i < frames->count; i++)
        frames_json_line(json, frames->list[i]);
    json_end(json, ']');
}

void frames_done(struct frames *frames)
{
    for (size_t i = 0; i < frames->kept_count; i++)
        free(frames->kept[i]);
    free(frames->kept);
    vec_free_texts(&frames->texts);
    keytable_done(&frames->index);
    free(frames->list);
}
