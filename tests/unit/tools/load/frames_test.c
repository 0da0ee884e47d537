/* SPDX-License-Identifier: MIT */
/* covers: frames.c */
#include "tests/check.h"

#include "tools/load/frames.h"

/* Whatever a line of a stack shows tells it from others: the function, its file (the library where none is known), the line, and
 * whose it is. */
TEST(lines_that_look_different_are_different_frames)
{
    static const struct symbols_line lines[] = {
            {.function = "f", .file = "a.py", .line = 3, .is_python = true},
            {.function = "g", .file = "a.py", .line = 3, .is_python = true},
            {.function = "f", .file = "b.py", .line = 3, .is_python = true},
            {.function = "f", .file = "a.py", .line = 4, .is_python = true},
            {.function = "f", .file = "a.py", .line = 3, .is_python = true, .is_ambient = true},
            {.function = "f", .file = "a.py", .line = 3, .is_ours = true},
            {.function = "f", .file = "a.py", .line = 3},
            {.function = "f", .module = "a.so", .line = 3},
            {.function = "f", .module = "b.so", .line = 3},
            {.function = "a.py", .file = "f", .line = 3, .is_python = true},
    };
    const size_t count = sizeof lines / sizeof *lines;
    struct frames frames = {0};

    for (uint32_t i = 0; i < count; i++)
        CHECK_EQ(frames_number(&frames, &lines[i]), i);
    for (uint32_t i = 0; i < count; i++) {
        struct symbols_line again = lines[i];

        CHECK_EQ(frames_number(&frames, &again), i);
    }
    CHECK_EQ(frames.count, count);
    frames_done(&frames);
}
