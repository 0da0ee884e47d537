/* SPDX-License-Identifier: MIT */
#include "tools/import/import_frames.h"

#include <string.h>

#include "tools/base/cmdexit.h"

static bool import_frames_begins(struct import_text text, const char *with)
{
    size_t length = strlen(with);

    return text.length >= length && memcmp(text.at, with, length) == 0;
}

static bool import_frames_holds(struct import_text text, const char *part)
{
    return text.length > 0 && memmem(text.at, text.length, part, strlen(part)) != NULL;
}

static bool import_frames_is_text(struct import_text text, const char *whole)
{
    return text.length == strlen(whole) && import_frames_begins(text, whole);
}

/* The text after the last dot of a file's name, "" without one. */
static struct import_text ending_of(struct import_text file)
{
    for (size_t i = file.length; i > 0 && file.at[i - 1] != '/'; i--)
        if (file.at[i - 1] == '.')
            return (struct import_text){file.at + i, file.length - i};
    return (struct import_text){"", 0};
}

/* Native files are known by their endings: Python's may have none ("<stdin>", a script in bin). */
static bool is_native_file(struct import_text file)
{
    static const char *const endings[] = {"c", "cc", "cpp", "cxx", "cu", "cuh", "h", "hh", "hpp",
            "inc", "inl", "tcc", "o", "s", "S", "asm", "so", "rs", "f", "f90", "pyx"};
    struct import_text ending = ending_of(file);

    for (size_t i = 0; i < CMD_COUNT(endings); i++)
        if (import_frames_is_text(ending, endings[i]))
            return true;
    return file.length == 0;
}

struct import_frame import_frames_make(
        struct import_text function, struct import_text file, uint64_t line)
{
    struct import_frame frame = {.function = function, .file = file};

    if (import_frames_is_text(file, "??"))
        frame.file.length = 0;
    frame.line = line <= INT32_MAX ? (uint32_t)line : 0;
    frame.is_native = is_native_file(frame.file) || import_frames_holds(function, "::")
            || import_frames_holds(function, "(");
    return frame;
}

static bool is_recorder(struct import_text function)
{
    return import_frames_begins(function, "torch::unwind::")
            || import_frames_begins(function, "torch::CapturedTraceback::")
            || import_frames_holds(function, "::gather_with_cpp")
            || import_frames_holds(function, "::gather()");
}

static bool import_frames_is_interpreter(const struct import_frame *frame)
{
    static const char *const folders[] = {"/Python/", "/Objects/", "/Modules/"};

    if (import_frames_begins(frame->function, "Py") || import_frames_begins(frame->function, "_Py"))
        return true;
    for (size_t i = 0; i < CMD_COUNT(folders); i++)
        if (import_frames_holds(frame->file, folders[i]))
            return true;
    return false;
}

/* Frames in which threads begin. */
static bool is_libc(struct import_text function)
{
    return import_frames_begins(function, "__libc_") || import_frames_begins(function, "pthread_")
            || import_frames_is_text(function, "_start")
            || import_frames_is_text(function, "__clone")
            || import_frames_is_text(function, "clone3") || import_frames_is_text(function, "clone")
            || import_frames_is_text(function, "start_thread");
}

bool import_frames_leave_out(const struct import_frame *frame)
{
    return frame->is_native
            && (is_recorder(frame->function) || import_frames_is_interpreter(frame)
                    || is_libc(frame->function));
}
