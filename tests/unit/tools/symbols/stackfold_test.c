/* SPDX-License-Identifier: MIT */
/* covers: stackfold.c framekind.c */
#include "tests/check.h"

#include <stdio.h>

#include "tests/unit/tools/story.h"
#include "tools/symbols/stackfold.h"

#define PACKAGES "/e/lib/python3.12/site-packages"

static const struct trace_pyframe attend = {"Block.attend", "/home/me/gpt.py", 28, false, false, 0};
static const struct trace_pyframe train = {"step", "/home/me/train.py", 60, true, false, 0};
static const struct trace_pyframe linear = {
        "Linear.forward", PACKAGES "/torch/nn/linear.py", 125, false, false, 0};
static const struct trace_pyframe thread = {
        "run", "/usr/lib/python3.12/threading.py", 982, false, false, 0};

enum {
    LIBC,
    TORCH,
    CUDART,
    INTERPRETER,
    PROGRAM,
    NOWHERE
};

static const struct {
    const char *path;
    bool is_program;
} modules[] = {[LIBC] = {"/usr/lib/libc.so.6", false},
        [TORCH] = {PACKAGES "/torch/lib/libtorch_cuda.so", true},
        [CUDART] = {"/usr/lib/libcudart.so.12", false},
        [INTERPRETER] = {"/usr/bin/python3.12", true},
        [PROGRAM] = {"/home/me/trainer", true}};

/* What is kept of a stack with these native frames and Python, and what is said of the others. */
static const char *folded(const unsigned *native, uint32_t count,
        const struct trace_pyframe *python, uint32_t pycount, bool all)
{
    static char text[512];
    struct trace_frame frames[8];
    struct trace *trace = trace_new();
    size_t used = 0;

    for (size_t i = 0; i < sizeof(modules) / sizeof(*modules); i++) {
        struct trace_module module = {.path = (char *)(uintptr_t)modules[i].path,
                .identity = i + 1,
                .is_program = modules[i].is_program};
        (void)trace_add_module(trace, &module);
    }
    for (uint32_t i = 0; i < count; i++)
        frames[i] =
                (struct trace_frame){native[i] == NOWHERE ? TRACE_NONE : native[i], 0x10 * (i + 1)};
    uint32_t stack = trace_add_stack(trace, frames, count, false);
    if (pycount)
        trace_set_python(trace, stack, python, pycount, false);
    struct symbols *symbols = symbols_new(trace);
    struct stackfold fold = stackfold_of(symbols, stack, all);
    text[0] = '\0';
    for (size_t i = 0; i < fold.count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\n", fold.kept[i]->function);
    (void)snprintf(text + used, sizeof(text) - used, "%s", fold.others ? fold.others : "");
    stackfold_done(&fold);
    symbols_free(symbols);
    trace_free(trace);
    return text;
}

TEST(own_frames_are_kept_and_the_others_are_counted)
{
    static const unsigned native[] = {CUDART, TORCH, TORCH, LIBC};
    const struct trace_pyframe python[] = {linear, attend, thread, train};

    CHECK_STR_EQ(folded(native, 4, python, 4, false),
            "Block.attend\nstep\n+ 6 frames of libcudart, torch, libc, python");
}

TEST(the_frames_of_a_program_without_python_are_its_own)
{
    static const unsigned native[] = {CUDART, PROGRAM, PROGRAM, LIBC};

    CHECK_STR_EQ(folded(native, 4, NULL, 0, false),
            "trainer+0x20\ntrainer+0x30\n+ 2 frames of libcudart, libc");
    CHECK_STR_EQ(folded(native + 1, 2, NULL, 0, false), "trainer+0x10\ntrainer+0x20\n");
}

TEST(a_stack_without_own_frames_keeps_the_best_that_it_has)
{
    static const unsigned native[] = {CUDART, TORCH, INTERPRETER, NOWHERE};
    static const unsigned bare[] = {CUDART, LIBC};
    const struct trace_pyframe python[] = {linear};

    CHECK_STR_EQ(
            folded(native, 3, python, 1, false), "Linear.forward\n+ 2 frames of libcudart, torch");
    CHECK_STR_EQ(folded(bare, 2, NULL, 0, false), "libcudart.so.12+0x10\nlibc.so.6+0x20\n");
    CHECK_STR_EQ(folded(bare, 0, NULL, 0, false), "");
}

TEST(every_frame_is_kept_where_all_are_asked_for)
{
    static const unsigned native[] = {CUDART, TORCH};
    const struct trace_pyframe python[] = {attend};

    CHECK_STR_EQ(folded(native, 2, python, 1, true),
            "libcudart.so.12+0x10\nlibtorch_cuda.so+0x20\nBlock.attend\n");
}
