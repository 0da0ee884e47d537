/* SPDX-License-Identifier: MIT */
/*
 * frames.h - the table of frames in a page's JSON (struct json_page), whose stacks are lists of
 * frame numbers.
 *
 * Threads: none. Memory: vec.h.
 */
#ifndef KEDGE_TOOLS_FRAMES_H
#define KEDGE_TOOLS_FRAMES_H

#include "tools/base/keytable.h"
#include "tools/base/render.h"
#include "tools/base/vec.h"
#include "tools/symbols/symbols.h"

struct frames {
    struct keytable index;
    const struct symbols_line **list; /* owned by the symbols object, but for the first ones: */
    size_t count, room;
    struct symbols_line **kept;
    size_t kept_count, kept_room;
    struct vec_texts texts; /* of those */
};

/* The number of a line of a stack: equal lines are one frame. */
uint32_t frames_number(struct frames *frames, const struct symbols_line *line);

/* Copies all lines, so that their symbols object may go. */
void frames_keep(struct frames *frames);

/* Adds the line's frame number to the open list. */
void frames_json_number(struct json *json, const struct symbols_line *line);

/*
 * "frames": [function, file (the library if unknown), line, enum frames_kind, enum framekind, whose
 * code it is (framekind_origin), a native function's short name (null: as it is)] of each. The page
 * folds stacks by the last three, as stackfold.h does.
 */
void frames_json(struct json *json, const struct frames *frames);
void frames_done(struct frames *frames);

enum frames_kind {
    FRAMES_NATIVE,
    FRAMES_PYTHON,
    FRAMES_BELOW,   /* CUDA's, kedge's, the C library's */
    FRAMES_AMBIENT, /* Python of another thread */
};

#endif
