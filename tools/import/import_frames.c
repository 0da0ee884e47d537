/* SPDX-License-Identifier: MIT */
#include "tools/import/import_frames.h"

#include <string.h>

#include "tools/base/cmdexit.h"

static bool begins(struct import_text text, const char *with)
{
    size_t length = strlen(with);

    return text.length >= length && memcmp(text.at, with, length) == 0;
}

static bool holds(struct import_text text, const char *part)
{
    return text.length > 0 && memmem(text.at, text.length, part, strlen(part)) != NULL;
}

static bool is_text(struct import_text text, const char *whole)
{
    return text.length == strlen(whole) && begins(text, whole);
}

/* What follows the last dot of a file's name, "" without one. */
static struct import_text ending_of(struct import_text file)
{
    for (size_t i = file.length; i > 0 && file.at[i - 1] != '/'; i--)
        if (file.at[i - 1] == '.')
            return (struct import_text){file.at + i, file.length - i};
    return (struct import_text){"", 0};
}

/* Files of Python need not end in .py ("<stdin>", a script in bin), so native ones are told by their endings. */
static bool is_native_file(struct import_text file)
{
    static const char *const endings[] = {"c", "cc", "cpp", "cxx", "cu", "cuh", "h", "hh", "hpp",
            "inc", "inl", "tcc", "o", "s", "S", "asm", "so", "rs", "f", "f90", "pyx"};
    struct import_text ending = ending_of(file);

    for (size_t i = 0; i < CMD_COUNT(endings); i++)
        if (is_text(ending, endings[i]))
            return true;
    return file.length == 0;
}

struct import_frame import_frames_make(
        struct import_text function, struct import_text file, uint64_t line)
{
    struct import_frame frame = {.function = function, .file = file};

    if (is_text(file, "??"))
        frame.file.length = 0;
    frame.line = line <= INT32_MAX ? (uint32_t)line : 0;
    frame.is_native = is_native_file(frame.file) || holds(function, "::") || holds(function, "(");
    return frame;
}

static bool is_recorder(struct import_text function)
{
    return begins(function, "torch::unwind::") || begins(function, "torch::CapturedTraceback::")
            || holds(function, "::gather_with_cpp") || holds(function, "::gather()");
}

static bool is_interpreter(const struct import_frame *frame)
{
    static const char *const folders[] = {"/Python/", "/Objects/", "/Modules/"};

    if (begins(frame->function, "Py") || begins(frame->function, "_Py"))
        return true;
    for (size_t i = 0; i < CMD_COUNT(folders); i++)
        if (holds(frame->file, folders[i]))
            return true;
    return false;
}

/* Where threads begin. */
static bool is_libc(struct import_text function)
{
    return begins(function, "__libc_") || begins(function, "pthread_")
            || is_text(function, "_start") || is_text(function, "__clone")
            || is_text(function, "clone3") || is_text(function, "clone")
            || is_text(function, "start_thread");
}

bool import_frames_leave_out(const struct import_frame *frame)
{
    return frame->is_native
            && (is_recorder(frame->function) || is_interpreter(frame) || is_libc(frame->function));
}
