/* SPDX-License-Identifier: MIT */
/* covers: import_frames.c */
/* Which frames of another tool's record are the program's. */
#include "tests/check.h"

#include "tools/import/import_frames.h"

#include <string.h>

static struct import_frame make(const char *function, const char *file)
{
    return import_frames_make((struct import_text){function, strlen(function)},
            (struct import_text){file, strlen(file)}, 7);
}

TEST(native_frames_are_told_by_the_ending_of_their_file_or_by_their_name)
{
    static const struct {
        const char *function, *file;
        bool is_native;
    } rows[] = {
            {"forward", "/src/model.py", false},
            {"forward", "/src/model", false},
            {"forward", "/src.c/model", false},
            {"<module>", "<stdin>", false},
            {"forward", "model.c.py", false},
            {"forward", "c", false},
            {"forward", "a/cc", false},
            {"alloc", "pool.c", true},
            {"alloc", "/src/pool.cpp", true},
            {"alloc", "pool.py.cu", true},
            {"alloc", "lib.so", true},
            {"alloc", "", true},
            {"alloc", "??", true},
            {"at::empty", "model.py", true},
            {"f(int)", "model.py", true},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        CHECK_EQ(10 * i + make(rows[i].function, rows[i].file).is_native,
                10 * i + rows[i].is_native);
}

TEST(frames_of_the_interpreter_the_recorder_and_libc_are_left_out)
{
    static const struct {
        const char *function, *file;
        bool is_out;
    } rows[] = {
            {"PyObject_Call", "call.c", true}, {"_PyEval_EvalFrameDefault", "ceval.c", true},
            {"method_vectorcall", "/build/Objects/descrobject.c", true},
            {"cfunction_call", "/build/Python/bltin.c", true},
            {"main", "/build/Modules/main.c", true}, {"main", "/build/Module/main.c", false},
            {"torch::unwind::unwind()", "unwind.cpp", true},
            {"x::gather_with_cpp", "gather.cpp", true}, {"__libc_start_main", "libc.c", true},
            {"start_thread", "", true}, {"start_threads", "", false},
            {"at::empty", "empty.cpp", false},
            {"PyTorchModel", "model.py", false}, /* of Python: the program's */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct import_frame frame = make(rows[i].function, rows[i].file);
        CHECK_EQ(10 * i + import_frames_leave_out(&frame), 10 * i + rows[i].is_out);
    }
}
