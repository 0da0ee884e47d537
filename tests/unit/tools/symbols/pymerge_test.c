/* SPDX-License-Identifier: MIT */
/* covers: pymerge.c */
#include "tests/check.h"
#include "tools/base/vec.h"
#include "tools/symbols/pymerge.h"

#include <stdlib.h>
#include <string.h>

#define EXE "/usr/bin/python3.11"
#define LIB "/opt/libtorch.so"

static char told[512];

/* "a b c": functions of the result in order, Python ones in brackets. */
static const char *merged(const struct symbols_line *lines, size_t count,
        const struct trace_pyframe *frames, uint32_t pycount, bool ambient)
{
    struct trace_stack stack = {.pycount = pycount, .ambient = ambient};
    struct symbols_line *copy = vec_new(count + 1, sizeof *copy);
    size_t merged_count = 0;
    struct symbols_line *out;

    memcpy(copy, lines, count * sizeof *copy);
    out = pymerge(copy, count, &stack, frames, &merged_count);
    told[0] = '\0';
    for (size_t i = 0; i < merged_count; i++) {
        size_t used = strlen(told);

        (void)snprintf(told + used, sizeof told - used, "%s%s%s%s", i ? " " : "",
                out[i].is_python ? "[" : "", out[i].function, out[i].is_python ? "]" : "");
        CHECK_EQ(out[i].is_ambient, out[i].is_python && ambient);
    }
    free(out);
    return told;
}

static const struct trace_pyframe nested[] = {
        {.function = "forward", .file = "a.py", .line = 3},
        {.function = "step", .file = "a.py", .line = 4, .is_entry = true},
        {.function = "train", .file = "a.py", .line = 5},
        {.function = "main", .file = "a.py", .line = 6, .is_entry = true},
};

static const struct symbols_line native[] = {
        {.function = "alloc", .module = LIB},
        {.function = "PyObject_Call+0x1", .module = EXE},
        {.function = "_PyEval_EvalFrameDefault+0x12", .module = EXE},
        {.function = "PyObject_Vectorcall+0x2", .module = EXE},
        {.function = "backward_engine", .module = LIB},
        {.function = "_PyEval_EvalFrameDefault+0x44", .module = EXE},
        {.function = "Py_RunMain", .module = EXE},
        {.function = "start", .module = "/bin/app"},
};

TEST(functions_stand_where_the_loop_that_ran_them_stands)
{
    CHECK_STR_EQ(merged(native, 8, nested, 4, false),
            "alloc [forward] [step] backward_engine [train] [main] start");
}

/* kedge's module stands around the framework's functions, as the one that C called, too. */
TEST(functions_of_kedges_own_module_are_left_out)
{
    static const struct trace_pyframe wrapped[] = {
            {.function = "forward", .file = "a.py", .line = 3},
            {.function = "around.<locals>.wrapper",
                    .file = "/k/python/_kedge_torch.py",
                    .is_entry = true},
            {.function = "wrapper", .file = "/k/python/_kedge_torch.py", .line = 5},
            {.function = "main", .file = "a.py", .line = 6, .is_entry = true},
    };

    CHECK_STR_EQ(
            merged(native, 8, wrapped, 4, false), "alloc [forward] backward_engine [main] start");
    CHECK_STR_EQ(merged(native, 1, wrapped, 4, true), "alloc [forward] [main]");
}

TEST(frames_that_no_loop_is_left_for_come_last)
{
    /* the native stack was cut */
    CHECK_STR_EQ(merged(native, 4, nested, 4, false), "alloc [forward] [step] [train] [main]");
}

TEST(loops_without_frames_left_are_left_out)
{
    CHECK_STR_EQ(
            merged(native, 8, nested, 2, false), "alloc [forward] [step] backward_engine start");
}

TEST(an_interpreter_without_names_is_known_by_its_file)
{
    static const struct symbols_line nameless[] = {
            {.function = "alloc", .module = LIB},
            {.function = "libpython3.11.so.1.0+0x123", .module = "/usr/lib/libpython3.11.so.1.0"},
            {.function = "libpython3.11.so.1.0+0x456", .module = "/usr/lib/libpython3.11.so.1.0"},
            {.function = "start", .module = "/bin/app"},
    };

    CHECK_STR_EQ(
            merged(nameless, 4, nested, 4, false), "alloc [forward] [step] [train] [main] start");
}

TEST(a_program_with_the_interpreter_inside_keeps_its_own_functions)
{
    static const struct symbols_line embedding[] = {
            {.function = "alloc", .module = "/bin/app"},
            {.function = "_PyEval_EvalFrameDefault", .module = "/bin/app"},
            {.function = "PyRun_String", .module = "/bin/app"},
            {.function = "main", .module = "/bin/app"},
    };

    CHECK_STR_EQ(merged(embedding, 4, nested, 2, false), "alloc [forward] [step] main");
}

TEST(another_threads_frames_come_last_and_replace_nothing)
{
    CHECK_STR_EQ(merged(native, 3, nested, 2, true),
            "alloc PyObject_Call+0x1 _PyEval_EvalFrameDefault+0x12 [forward] [step]");
}

TEST(no_native_frames_are_needed)
{
    CHECK_STR_EQ(merged(native, 0, nested, 4, false), "[forward] [step] [train] [main]");
}

TEST(native_frames_that_another_tool_named_keep_their_place)
{
    static const struct trace_pyframe mixed[] = {
            {.function = "at::empty(int)", .file = "", .is_native = true},
            {.function = "forward", .file = "a.py", .line = 3},
            {.function = "ffi_call", .file = "ffi.c", .line = 9, .is_native = true},
            {.function = "main", .file = "a.py", .line = 6},
    };

    CHECK_STR_EQ(merged(native, 0, mixed, 4, false), "at::empty(int) [forward] ffi_call [main]");
}
